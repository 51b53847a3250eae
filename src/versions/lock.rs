//! Who may write a store, and what kind of store it is: the files `LOCK` and `FORMAT`.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Seek, Write},
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    path::Path,
};

use rustix::fs::FlockOperation;

use super::{StoreError, error::failed, log::FORMAT};

type Result<T> = std::result::Result<T, StoreError>;

/// Takes the lock of a store for the life of the file returned.
pub(super) fn take(store: &Path) -> Result<File> {
    let path = store.join("LOCK");
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(|e| failed(&path, e))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {
            announce(&file, Path::new("")).map_err(|e| failed(&path, e))?;
            Ok(file)
        }
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut text = String::new();
            file.read_to_string(&mut text).map_err(|e| failed(&path, e))?;
            let mut lines = text.lines();
            let pid = lines.next().and_then(|pid| pid.parse().ok()).unwrap_or(0);
            let admin = lines.next().unwrap_or_default().to_owned();
            Err(StoreError::Locked { path: store.to_owned(), pid, admin })
        }
        Err(error) => Err(failed(&path, error.into())),
    }
}

/// Writes who holds the lock, and where its admin socket is.
pub(super) fn announce(mut file: &File, admin_socket: &Path) -> std::io::Result<()> {
    let text = [format!("{}\n", std::process::id()).as_bytes(), admin_socket.as_os_str().as_bytes(), b"\n"].concat();
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(&text)
}

/// Reads the store's identity, or gives it one.
pub(super) fn format(store: &Path) -> Result<String> {
    let path = store.join("FORMAT");
    let bad = |reason: String| StoreError::Format { path: store.to_owned(), reason };
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
            field("id").map(str::to_owned).ok_or_else(|| bad("its FORMAT file has no id".into()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if store.join("log").read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
                return Err(bad("it has a log and no FORMAT file; restore the file, or choose another --store".into()));
            }
            let mut id = [0; 16];
            rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty())
                .map_err(|e| failed(&path, e.into()))?;
            let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
            let text = format!("wardfs-store: {FORMAT}\nid: {id}\n");
            let new = store.join("FORMAT.new");
            let write = || -> std::io::Result<()> {
                let mut file = File::create(&new)?;
                file.write_all(text.as_bytes())?;
                file.sync_all()?;
                std::fs::rename(&new, &path)?;
                File::open(store)?.sync_all()
            };
            write().map_err(|e| failed(&path, e))?;
            Ok(id)
        }
        Err(error) => Err(failed(&path, error)),
    }
}
