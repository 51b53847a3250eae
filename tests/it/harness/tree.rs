//! A tree as it is seen at one moment, to be compared with another.

use std::{
    collections::BTreeMap,
    fmt,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

/// Whether times of last change are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Times {
    /// No.
    Ignore,
    /// Of everything but directories.
    Compare,
}

/// Everything below a directory, and the directory itself, by path.
#[derive(Clone, PartialEq, Eq)]
pub struct Tree(BTreeMap<Vec<u8>, Item>);

/// One thing in a tree.
#[derive(Clone, PartialEq, Eq)]
pub struct Item {
    kind: &'static str,
    mode: u32,
    owner: (u32, u32),
    /// Bytes, of files alone.
    size: u64,
    device: u64,
    /// Names of the same inode: their number, and the first of those that lie in the tree.
    links: Option<(u64, Vec<u8>)>,
    /// Target of a symlink, or hash of a content.
    content: Vec<u8>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    mtime: Option<(i64, i64)>,
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:o} {}:{} {} bytes", self.kind, self.mode, self.owner.0, self.owner.1, self.size)?;
        write!(f, " {}", self.content.escape_ascii())?;
        if let Some((count, first)) = &self.links {
            write!(f, " {count} links, first {}", first.escape_ascii())?;
        }
        for (name, value) in &self.xattrs {
            write!(f, " {}={}", name.escape_ascii(), value.escape_ascii())?;
        }
        if self.device != 0 {
            write!(f, " device {}", self.device)?;
        }
        self.mtime.map_or(Ok(()), |(seconds, nanos)| write!(f, " mtime {seconds}.{nanos:09}"))
    }
}

impl Item {
    /// Is it a file, with the content of another one?
    pub fn is_copy_of(&self, other: &Item) -> bool {
        self.kind == "file" && (self.kind, self.size, &self.content) == (other.kind, other.size, &other.content)
    }

    /// Has it a content that could be lost?
    pub fn is_file(&self) -> bool {
        self.kind == "file"
    }

    /// Had its inode another name?
    pub fn has_other_names(&self) -> bool {
        self.links.is_some()
    }
}

impl Tree {
    /// The tree at `root`.
    #[track_caller]
    pub fn of(root: &Path, times: Times) -> Tree {
        let mut items = BTreeMap::new();
        let mut firsts: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let mut todo = vec![PathBuf::new()];
        let mut paths = Vec::new();
        while let Some(below) = todo.pop() {
            let path = root.join(&below);
            let meta = std::fs::symlink_metadata(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
            if meta.is_dir() {
                let entries = std::fs::read_dir(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
                todo.extend(entries.map(|entry| below.join(entry.unwrap().file_name())));
            }
            paths.push((below.into_os_string().into_vec(), path, meta));
        }
        paths.sort_by(|a, b| a.0.cmp(&b.0));
        for (below, path, meta) in paths {
            let first = firsts.entry(meta.ino()).or_insert_with(|| below.clone()).clone();
            let links = (!meta.is_dir() && meta.nlink() > 1).then(|| (meta.nlink(), first));
            items.insert(below, item(&path, &meta, links, times));
        }
        Tree(items)
    }

    /// How many things are in it.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The paths of all that is in it.
    pub fn paths(&self) -> impl Iterator<Item = &[u8]> {
        self.0.keys().map(Vec::as_slice)
    }

    /// What is at a path.
    pub fn get(&self, path: &[u8]) -> Option<&Item> {
        self.0.get(path)
    }

    /// What differs, a line each; empty if nothing does.
    pub fn diff(&self, other: &Tree) -> String {
        let mut lines = Vec::new();
        for (path, item) in &self.0 {
            match other.0.get(path) {
                None => lines.push(format!("- {}: {item:?}", path.escape_ascii())),
                Some(there) if there != item => {
                    lines.push(format!("- {}: {item:?}\n+ {}: {there:?}", path.escape_ascii(), path.escape_ascii()));
                }
                Some(_) => {}
            }
        }
        for (path, item) in other.0.iter().filter(|(path, _)| !self.0.contains_key(*path)) {
            lines.push(format!("+ {}: {item:?}", path.escape_ascii()));
        }
        lines.join("\n")
    }

    /// Fails with what differs.
    #[track_caller]
    pub fn same(&self, other: &Tree, what: &str) {
        let diff = self.diff(other);
        assert!(diff.is_empty(), "{what}:\n{diff}");
    }
}

fn item(path: &Path, meta: &std::fs::Metadata, links: Option<(u64, Vec<u8>)>, times: Times) -> Item {
    let kind = meta.file_type();
    let (name, content) = if kind.is_dir() {
        ("directory", Vec::new())
    } else if kind.is_symlink() {
        ("symlink", std::fs::read_link(path).unwrap().into_os_string().into_vec())
    } else if kind.is_file() {
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let digest: String = Sha256::digest(&bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        ("file", digest.into_bytes())
    } else if kind.is_fifo() {
        ("fifo", Vec::new())
    } else if kind.is_socket() {
        ("socket", Vec::new())
    } else {
        ("device", Vec::new())
    };
    Item {
        kind: name,
        mode: meta.mode() & 0o7777,
        owner: (meta.uid(), meta.gid()),
        size: if kind.is_file() { meta.len() } else { 0 },
        device: meta.rdev(),
        links,
        content,
        xattrs: xattrs(path),
        mtime: (times == Times::Compare && !kind.is_dir()).then(|| (meta.mtime(), meta.mtime_nsec())),
    }
}

fn xattrs(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0_u8; 65536];
    let length = rustix::fs::llistxattr(path, &mut names).unwrap_or_default();
    names[..length]
        .split(|byte| *byte == 0)
        .filter(|name| name.starts_with(b"user."))
        .map(|name| {
            let mut value = vec![0_u8; 65536];
            let length = rustix::fs::lgetxattr(path, std::ffi::OsStr::from_bytes(name), &mut value).unwrap();
            (name.to_vec(), value[..length].to_vec())
        })
        .collect()
}
