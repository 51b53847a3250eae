//! Cursors: where a result went on, opaque to callers, and good for the query that gave them alone.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::types::Hash;

/// Bytes of the query's hash in a cursor.
const MARK: usize = 8;

/// A cursor for `position` in the results of a query.
pub(super) fn encode(query: &Hash, position: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode([&query.0[..MARK], position].concat())
}

/// The position, if the cursor is one of this query's.
pub(super) fn decode(query: &Hash, cursor: &str) -> Option<Vec<u8>> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let (mark, position) = bytes.split_at_checked(MARK)?;
    (mark == &query.0[..MARK]).then(|| position.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_fits_its_query_alone() {
        let (one, other) = (Hash::of(b"one"), Hash::of(b"other"));
        let cursor = encode(&one, b"src/\xff");
        assert_eq!(decode(&one, &cursor).as_deref(), Some(&b"src/\xff"[..]));
        assert_eq!(decode(&other, &cursor), None);
        for bad in ["", "AAAA", "not base64!", &cursor[..6]] {
            assert_eq!(decode(&one, bad), None, "{bad}");
        }
    }
}
