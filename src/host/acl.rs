//! POSIX access lists of the host, as far as a mount must know them: what they take away from somebody.

use std::os::fd::BorrowedFd;

use super::{Errno, Result, meta::get_xattr};

const NAME: &[u8] = b"system.posix_acl_access";
const VERSION: u32 = 2;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// True if an inode has an access list beyond its mode bits.
///
/// # Errors
/// The host's.
pub fn has_acl(fd: BorrowedFd<'_>) -> Result<bool> {
    match get_xattr(fd, NAME) {
        Ok(_) => Ok(true),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The mode bits of a directory cut to what its access list leaves to everybody of a class: who judges by them alone lets
/// nobody in whom the list keeps out. `mode` itself where there is no list.
///
/// # Errors
/// The host's.
pub fn mode_for_all(fd: BorrowedFd<'_>, mode: u32) -> Result<u32> {
    match get_xattr(fd, NAME) {
        Ok(list) => Ok(mode & (!0o077 | left_to_all(&list).unwrap_or(0))),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(mode),
        Err(error) => Err(error),
    }
}

/// The bits of group and others. One of the group, or of nobody's group, may also be named, and then its name decides.
fn left_to_all(list: &[u8]) -> Option<u32> {
    let (version, entries) = list.split_first_chunk::<4>()?;
    let (entries, rest) = entries.as_chunks::<8>();
    if u32::from_le_bytes(*version) != VERSION || !rest.is_empty() {
        return None;
    }
    let (mut named, mut any_named, mut group, mut mask, mut other) = (7, false, 7, 7, 0);
    for [tag_low, tag_high, bits, _, ..] in entries {
        let bits = u32::from(*bits) & 7;
        match u16::from_le_bytes([*tag_low, *tag_high]) {
            USER | GROUP => (named, any_named) = (named & bits, true),
            GROUP_OBJ => group = bits,
            MASK => mask = bits,
            OTHER => other = bits,
            _ => {}
        }
    }
    let named = if any_named { named & mask } else { 7 };
    Some((group & mask & named) << 3 | (other & named))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u8)]) -> Vec<u8> {
        let mut list = VERSION.to_le_bytes().to_vec();
        for (tag, bits) in entries {
            list.extend([tag.to_le_bytes()[0], tag.to_le_bytes()[1], *bits, 0, 1, 0, 0, 0]);
        }
        list
    }

    #[test]
    fn nobody_is_let_in_whom_the_list_keeps_out() {
        for (entries, expected) in [
            (&[(1, 7), (GROUP_OBJ, 5), (OTHER, 4)][..], 0o54),
            // A user who is kept out may be one of the group or one of the others.
            (&[(1, 7), (USER, 0), (GROUP_OBJ, 7), (MASK, 7), (OTHER, 5)], 0),
            (&[(1, 7), (USER, 5), (GROUP_OBJ, 7), (MASK, 7), (OTHER, 5)], 0o55),
            (&[(1, 7), (GROUP, 4), (GROUP_OBJ, 5), (MASK, 7), (OTHER, 1)], 0o40),
            // One who is let in takes nothing from others; the mask binds the group and all who are named.
            (&[(1, 7), (USER, 7), (GROUP_OBJ, 5), (MASK, 7), (OTHER, 5)], 0o55),
            (&[(1, 7), (USER, 7), (GROUP_OBJ, 5), (MASK, 4), (OTHER, 5)], 0o44),
        ] {
            assert_eq!(left_to_all(&list(entries)), Some(expected), "{entries:?}");
        }
        assert_eq!(left_to_all(&list(&[])[..3]), None);
        assert_eq!(left_to_all(b"\x03\0\0\0"), None);
    }
}
