//! A directory tree as a test compares it: names, kinds, modes, links, targets, attributes, contents.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
};

/// A snapshot of a directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tree {
    entries: BTreeMap<Vec<u8>, Entry>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    mode: u32,
    owner: (u32, u32),
    /// The first path, in order, of the same inode: hard links share it.
    same_as: Vec<u8>,
    content: Vec<u8>,
    xattr: Option<Vec<u8>>,
    /// Files only: a directory's changes with what is in it.
    mtime: Option<(i64, i64)>,
}

impl Tree {
    /// Reads a directory.
    pub fn of(root: &Path) -> Tree {
        let mut tree = Tree::default();
        let mut first = BTreeMap::new();
        tree.read(root, root, &mut first);
        tree
    }

    fn read(&mut self, root: &Path, dir: &Path, first: &mut BTreeMap<u64, Vec<u8>>) {
        let mut names: Vec<_> =
            fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path()).collect();
        names.sort();
        for path in names {
            let meta = fs::symlink_metadata(&path).expect("it was just listed");
            let name = path.strip_prefix(root).expect("below the root").as_os_str().as_bytes().to_vec();
            let content = if meta.is_symlink() {
                fs::read_link(&path).expect("a link").as_os_str().as_bytes().to_vec()
            } else if meta.is_file() {
                fs::read(&path).expect("a file")
            } else {
                Vec::new()
            };
            let mut value = [0; 64];
            let xattr = rustix::fs::lgetxattr(&path, "user.test", &mut value[..]).ok().map(|len| value[..len].to_vec());
            let same_as =
                if meta.is_dir() { name.clone() } else { first.entry(meta.ino()).or_insert(name.clone()).clone() };
            let mtime = meta.is_file().then(|| (meta.mtime(), meta.mtime_nsec()));
            let entry = Entry { mode: meta.mode(), owner: (meta.uid(), meta.gid()), same_as, content, xattr, mtime };
            self.entries.insert(name, entry);
            if meta.is_dir() {
                self.read(root, &path, first);
            }
        }
    }

    /// What differs, a line a path.
    pub fn difference(&self, found: &Tree) -> String {
        let mut out = String::new();
        let names: std::collections::BTreeSet<_> = self.entries.keys().chain(found.entries.keys()).collect();
        for name in names {
            let (a, b) = (self.entries.get(name), found.entries.get(name));
            if a != b {
                let short = |entry: Option<&Entry>| match entry {
                    Some(entry) => format!(
                        "{:o} {:?} {} bytes of {:?} same as {} xattr {:?} {:?}",
                        entry.mode,
                        entry.owner,
                        entry.content.len(),
                        entry.content.first(),
                        String::from_utf8_lossy(&entry.same_as),
                        entry.xattr,
                        entry.mtime
                    ),
                    None => "nothing".into(),
                };
                writeln!(out, "{}\n  expected {}\n  found    {}", String::from_utf8_lossy(name), short(a), short(b))
                    .expect("writing to a String cannot fail");
            }
        }
        out
    }
}
