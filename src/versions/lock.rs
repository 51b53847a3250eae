//! Who may write a store, and what kind of store it is: the files `LOCK` and `FORMAT`.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    os::{
        fd::AsFd,
        unix::{
            ffi::OsStrExt,
            fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt},
        },
    },
    path::Path,
};

use super::{StoreError, error::failed, frame::FORMAT};
use crate::{host, types::Timestamp};

type Result<T> = std::result::Result<T, StoreError>;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What the `FORMAT` file says.
pub(super) struct Identity {
    pub id: String,
    /// The store was made on another file system than it is on now.
    pub moved: bool,
}

/// Makes the store's directories, open to their owner alone. A directory that holds something else is left as it is.
pub(super) fn make_dirs(store: &Path) -> Result<()> {
    let make =
        |path: &Path| std::fs::DirBuilder::new().mode(0o700).recursive(true).create(path).map_err(|e| failed(path, e));
    make(store)?;
    if !store.join("FORMAT").exists() {
        let mut entries = std::fs::read_dir(store).map_err(|e| failed(store, e))?;
        // What a first start that was cut off has made, in any part.
        let ours = ["LOCK", "FORMAT.new", "log", "aside", "tmp", "quarantine", ".gitignore"];
        let foreign = entries.find_map(|entry| entry.ok().filter(|e| !ours.iter().any(|name| e.file_name() == *name)));
        if let Some(foreign) = foreign {
            let reason = format!(
                "this is not a wardfs store (it holds {:?} and no FORMAT file); choose another --store",
                foreign.file_name()
            );
            return Err(StoreError::Format { path: store.to_owned(), reason });
        }
    }
    let mode = std::fs::metadata(store).map_err(|e| failed(store, e))?.permissions().mode();
    if mode & 0o077 != 0 {
        std::fs::set_permissions(store, std::fs::Permissions::from_mode(0o700)).map_err(|e| failed(store, e))?;
    }
    ["log", "aside", "tmp", "quarantine"].iter().try_for_each(|part| make(&store.join(part)))
}

/// Takes the lock of a store for the life of the file returned. True with it if another start of the machine held it last.
pub(super) fn take(store: &Path) -> Result<(File, bool)> {
    let path = store.join("LOCK");
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(|e| failed(&path, e))?;
    match host::lock_file(file.as_fd()) {
        Ok(()) => {
            let mut text = String::new();
            file.read_to_string(&mut text).map_err(|e| failed(&path, e))?;
            let other_boot = text.lines().nth(1).is_some_and(|last| last != boot());
            announce(&file, Path::new("")).map_err(|e| failed(&path, e))?;
            Ok((file, other_boot))
        }
        Err(host::Errno::AGAIN | host::Errno::ACCESS) => {
            let mut text = String::new();
            file.read_to_string(&mut text).map_err(|e| failed(&path, e))?;
            let mut lines = text.lines();
            let pid = lines.next().and_then(|pid| pid.parse().ok()).unwrap_or(0);
            let admin = lines.nth(1).unwrap_or_default().to_owned();
            Err(StoreError::Locked { path: store.to_owned(), pid, admin })
        }
        Err(error) => Err(failed(&path, error.into())),
    }
}

/// The number of this start of the machine; empty without /proc.
fn boot() -> String {
    std::fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned()
}

/// Writes who holds the lock, in which boot, and where its admin socket is: a line each, in one write.
pub(super) fn announce(file: &File, admin_socket: &Path) -> std::io::Result<()> {
    let head = format!("{}\n{}\n", std::process::id(), boot());
    let text = [head.as_bytes(), admin_socket.as_os_str().as_bytes(), b"\n"].concat();
    file.write_all_at(&text, 0)?;
    file.set_len(text.len() as u64)
}

/// Reads the store's identity, or gives it one.
pub(super) fn format(store: &Path) -> Result<Identity> {
    let path = store.join("FORMAT");
    let bad = |reason: String| StoreError::Format { path: store.to_owned(), reason };
    let here = place(store)?;
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            let version = field("wardfs-store")
                .ok_or_else(|| bad("this is not a wardfs store; choose another --store".into()))?;
            if version != FORMAT.to_string() {
                return Err(bad(format!(
                    "its format is {version}, this wardfs reads {FORMAT}; use the wardfs that wrote it, or another --store"
                )));
            }
            if let Some(feature) = field("features").and_then(|features| features.split_whitespace().next()) {
                return Err(bad(format!("it needs `{feature}`, which this wardfs does not have; use a later one")));
            }
            let id = field("id").ok_or_else(|| bad("its FORMAT file has no id".into()))?.to_owned();
            Ok(Identity { id, moved: field("file-system").is_some_and(|place| place != here) })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if store.join("log").read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
                return Err(bad("it has a log and no FORMAT file; restore the file, or choose another --store".into()));
            }
            let id: String = random::<16>(&path)?.iter().map(|byte| format!("{byte:02x}")).collect();
            let created = Timestamp::now().rfc3339();
            let text =
                format!("wardfs-store: {FORMAT}\nid: {id}\nfeatures: \nfile-system: {here}\ncreated: {created}\n");
            let new = store.join("FORMAT.new");
            let write = || -> std::io::Result<()> {
                let mut file = File::create(&new)?;
                file.write_all(text.as_bytes())?;
                file.sync_all()?;
                std::fs::rename(&new, &path)?;
                File::open(store)?.sync_all()
            };
            write().map_err(|e| failed(&path, e))?;
            Ok(Identity { id, moved: false })
        }
        Err(error) => Err(failed(&path, error)),
    }
}

/// The file system that a path is on: device number and id.
fn place(store: &Path) -> Result<String> {
    let dir = File::open(store).map_err(|e| failed(store, e))?;
    let dev = dir.metadata().map_err(|e| failed(store, e))?.dev();
    let id = rustix::fs::fstatvfs(&dir).map_err(|e| failed(store, e.into()))?.f_fsid;
    Ok(format!("{dev:x} {id:x}"))
}

/// Random bytes.
pub(super) fn random<const N: usize>(path: &Path) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).map_err(|e| failed(path, e.into()))?;
    Ok(bytes)
}
