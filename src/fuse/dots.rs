//! `.` and `..` at the head of a listing: the room leaves them out, and programs expect them.

use crate::types::Ino;

/// Offsets after `.` and after `..`. Hosts give the end of a directory as the largest number of 63 bits, if at all, and
/// none gives those just below it.
const AFTER_DOT: u64 = i64::MAX.cast_unsigned() - 2;
const AFTER_BOTH: u64 = i64::MAX.cast_unsigned() - 1;

/// One of the two.
pub(super) struct Dot {
    pub name: &'static str,
    pub ino: Ino,
    /// The offset after it.
    pub next: u64,
}

/// What of the two is to be listed from `offset`, and the room's own offset to go on with.
pub(super) fn head(offset: u64, own: Ino, parent: impl FnOnce() -> Ino) -> (Vec<Dot>, u64) {
    match offset {
        0 => {
            let dot = Dot { name: ".", ino: own, next: AFTER_DOT };
            (vec![dot, Dot { name: "..", ino: parent(), next: AFTER_BOTH }], 0)
        }
        AFTER_DOT => (vec![Dot { name: "..", ino: parent(), next: AFTER_BOTH }], 0),
        AFTER_BOTH => (Vec::new(), 0),
        _ => (Vec::new(), offset),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_offset_goes_on_where_the_last_one_ended() {
        let check = |offset, names: &[&str], host| {
            let (dots, at) = head(offset, Ino(7), || Ino(3));
            assert_eq!(dots.iter().map(|dot| dot.name).collect::<Vec<_>>(), names, "{offset}");
            assert_eq!(at, host, "{offset}");
            dots.last().map(|dot| dot.next)
        };
        assert_eq!(check(0, &[".", ".."], 0), Some(AFTER_BOTH));
        assert_eq!(check(AFTER_DOT, &[".."], 0), Some(AFTER_BOTH));
        check(AFTER_BOTH, &[], 0);
        check(42, &[], 42);
    }
}
