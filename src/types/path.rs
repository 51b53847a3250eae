//! Names and paths as bytes, checked once: an `EntryName` is one component, a `ViewPath` never leaves its root.

use std::{ffi::OsStr, fmt, os::unix::ffi::OsStrExt};

/// The longest name a directory entry may have, in bytes (Linux `NAME_MAX`).
pub const NAME_MAX: usize = 255;

/// One directory entry's name: not empty, not `.` or `..`, without `/` and NUL, at most 255 bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryName(Box<[u8]>);

/// A path relative to a root, in normal form: components joined by `/`; empty for the root itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ViewPath(Vec<u8>);

/// Why bytes are not a name or not a path below a root.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone, Copy)]
pub enum PathError {
    /// Empty, `.` or `..` where one entry's name is due.
    #[error("not an entry name: empty, `.` or `..`")]
    NotAName,
    /// A `/` or a NUL byte inside a name.
    #[error("a name cannot hold `/` or NUL")]
    BadByte,
    /// A component over 255 bytes (ENAMETOOLONG).
    #[error("a name is longer than 255 bytes")]
    TooLong,
    /// `..` above the root, or an absolute path.
    #[error("the path leaves the view")]
    Escapes,
}

impl EntryName {
    /// Checks `bytes` as one component.
    ///
    /// # Errors
    /// `NotAName`, `BadByte` or `TooLong`.
    pub fn new(bytes: &[u8]) -> Result<Self, PathError> {
        if matches!(bytes, b"" | b"." | b"..") {
            return Err(PathError::NotAName);
        }
        if bytes.iter().any(|b| matches!(b, b'/' | 0)) {
            return Err(PathError::BadByte);
        }
        if bytes.len() > NAME_MAX {
            return Err(PathError::TooLong);
        }
        Ok(EntryName(bytes.into()))
    }

    /// The raw bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// For system calls.
    #[must_use]
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(&self.0).fmt(f)
    }
}

impl fmt::Debug for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl ViewPath {
    /// The root itself.
    #[must_use]
    pub fn root() -> Self {
        ViewPath(Vec::new())
    }

    /// Normalises a relative path: `.` and doubled slashes vanish, `..` goes up, and may not pass the root.
    ///
    /// # Errors
    /// `Escapes` for an absolute path or `..` above the root; `BadByte`, `TooLong` for a component.
    pub fn parse(bytes: &[u8]) -> Result<Self, PathError> {
        if bytes.first() == Some(&b'/') {
            return Err(PathError::Escapes);
        }
        let mut path = ViewPath::root();
        for part in bytes.split(|b| *b == b'/') {
            match part {
                b"" | b"." => {}
                b".." => path = path.parent().ok_or(PathError::Escapes)?,
                name => path.push(&EntryName::new(name)?),
            }
        }
        Ok(path)
    }

    /// Appends one component in place.
    pub fn push(&mut self, name: &EntryName) {
        if !self.0.is_empty() {
            self.0.push(b'/');
        }
        self.0.extend_from_slice(name.as_bytes());
    }

    /// This path and one component more.
    #[must_use]
    pub fn join(&self, name: &EntryName) -> Self {
        let mut path = self.clone();
        path.push(name);
        path
    }

    /// This path, then all components of `below`.
    #[must_use]
    pub fn join_path(&self, below: &ViewPath) -> Self {
        match (self.is_root(), below.is_root()) {
            (true, _) => below.clone(),
            (_, true) => self.clone(),
            (false, false) => ViewPath([self.as_bytes(), b"/", below.as_bytes()].concat()),
        }
    }

    /// The least path that may lie below this one: all that do follow it in the order of paths, and nothing else before them.
    #[must_use]
    pub fn first_below(&self) -> Self {
        self.join(&EntryName(Box::new([1])))
    }

    /// This path, then each directory above it, up to and with the root.
    pub fn ancestors(&self) -> impl Iterator<Item = ViewPath> {
        std::iter::successors(Some(self.clone()), ViewPath::parent)
    }

    /// The directory that holds it; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        let cut = memchr::memrchr(b'/', &self.0).unwrap_or(0);
        Some(ViewPath(self.0[..cut].to_vec()))
    }

    /// The last component; `None` for the root.
    #[must_use]
    pub fn file_name(&self) -> Option<EntryName> {
        let cut = memchr::memrchr(b'/', &self.0).map_or(0, |at| at + 1);
        (!self.is_root()).then(|| EntryName(self.0[cut..].into()))
    }

    /// Each component from the top.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = EntryName> + '_ {
        self.0.split(|b| *b == b'/').filter(|part| !part.is_empty()).map(|part| EntryName(part.into()))
    }

    /// How many components; 0 for the root.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.components().count()
    }

    /// True for the root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// What remains below `base`; the root if they are equal, `None` if this is not at or below `base`.
    #[must_use]
    pub fn strip_prefix(&self, base: &ViewPath) -> Option<Self> {
        if base.is_root() {
            return Some(self.clone());
        }
        match self.0.strip_prefix(base.as_bytes())? {
            [] => Some(ViewPath::root()),
            [b'/', rest @ ..] => Some(ViewPath(rest.to_vec())),
            [..] => None,
        }
    }

    /// True at or below `base`.
    #[must_use]
    pub fn starts_with(&self, base: &ViewPath) -> bool {
        self.strip_prefix(base).is_some()
    }

    /// The raw bytes, without a leading slash.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for ViewPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() { ".".fmt(f) } else { String::from_utf8_lossy(&self.0).fmt(f) }
    }
}

impl fmt::Debug for ViewPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, expected: Result<&str, PathError>) {
        let got = ViewPath::parse(input.as_bytes());
        assert_eq!(got.as_ref().map(ViewPath::as_bytes), expected.as_ref().map(|s| s.as_bytes()), "{input:?}");
    }

    #[test]
    fn paths_are_normalised_and_never_leave_the_root() {
        check("", Ok(""));
        check(".", Ok(""));
        check("a//b/./c/", Ok("a/b/c"));
        check("a/../b", Ok("b"));
        check("a/../../b", Err(PathError::Escapes));
        check("/etc/passwd", Err(PathError::Escapes));
        check("a\0b", Err(PathError::BadByte));
        check(&"x".repeat(256), Err(PathError::TooLong));
    }

    #[test]
    fn prefixes_end_at_component_boundaries() {
        let path = |s: &str| ViewPath::parse(s.as_bytes()).expect("a valid path");
        assert_eq!(path("a/b").strip_prefix(&path("a")), Some(path("b")));
        assert_eq!(path("ab").strip_prefix(&path("a")), None);
        assert_eq!(path("a").strip_prefix(&path("a")), Some(ViewPath::root()));
        assert_eq!(path("a/b").parent(), Some(path("a")));
        assert_eq!(path("a").parent(), Some(ViewPath::root()));
        assert_eq!(path("a").join_path(&path("b/c")), path("a/b/c"));
    }
}
