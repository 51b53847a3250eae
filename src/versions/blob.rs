//! Contents in the log: compressed where that helps, kept once, verified when read.

use std::{borrow::Cow, cell::RefCell};

use super::StoreError;
use crate::types::Hash;

/// The payload is the hash, the size (8 bytes), then the bytes as they are.
const RAW: u8 = 0;
/// The payload is the hash, the size (8 bytes), then a zstd frame.
const ZSTD: u8 = 1;
/// The payload is the hash, the size (8 bytes), the hash of another content, then a zstd frame with that as dictionary.
const DELTA: u8 = 2;
/// A content is so many others away from one that is whole, at most.
pub(super) const CHAIN_MAX: usize = 16;
const LEVEL: i32 = 1;
const DELTA_LEVEL: i32 = 3;
/// Smaller contents are not worth a frame.
const COMPRESS_MIN: usize = 128;

thread_local! {
    /// To make one takes longer than to compress a small content.
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
}

/// A BLOB record's flags and payload.
pub(super) fn encode(hash: &Hash, bytes: &[u8]) -> (u8, Vec<u8>) {
    let (flags, body) = match compress(bytes) {
        Some(frame) => (ZSTD, Cow::Owned(frame)),
        None => (RAW, Cow::Borrowed(bytes)),
    };
    let mut payload = Vec::with_capacity(40 + body.len());
    payload.extend_from_slice(&hash.0);
    payload.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    payload.extend_from_slice(&body);
    (flags, payload)
}

/// A frame, if it is at least a tenth smaller.
fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() < COMPRESS_MIN {
        return None;
    }
    let frame = COMPRESSOR.with_borrow_mut(|made| {
        if made.is_none() {
            *made = zstd::bulk::Compressor::new(LEVEL).ok();
        }
        made.as_mut()?.compress(bytes).ok()
    })?;
    (frame.len() <= bytes.len() / 10 * 9).then_some(frame)
}

/// The payload of a record that holds a content as its difference to another one; none if it cannot be made.
pub(super) fn encode_delta(hash: &Hash, bytes: &[u8], base: &Hash, dictionary: &[u8]) -> Option<(u8, Vec<u8>)> {
    let mut compressor = zstd::bulk::Compressor::with_dictionary(DELTA_LEVEL, dictionary).ok()?;
    let frame = compressor.compress(bytes).ok()?;
    let mut payload = Vec::with_capacity(72 + frame.len());
    payload.extend_from_slice(&hash.0);
    payload.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    payload.extend_from_slice(&base.0);
    payload.extend_from_slice(&frame);
    Some((DELTA, payload))
}

/// The other content that a record's content is the difference to.
pub(super) fn base_of(flags: u8, payload: &[u8]) -> Option<Hash> {
    if flags != DELTA {
        return None;
    }
    payload.get(40..72)?.try_into().ok().map(Hash)
}

/// The content of a BLOB record; never other bytes than the hash says.
/// `dictionary` reads another content.
pub(super) fn decode(
    hash: &Hash,
    flags: u8,
    payload: &[u8],
    dictionary: &mut dyn FnMut(&Hash) -> Result<Vec<u8>, StoreError>,
) -> Result<Vec<u8>, StoreError> {
    let corrupt = || StoreError::Corrupt(*hash);
    let (head, body) = payload.split_at_checked(40).ok_or_else(corrupt)?;
    let size = u64::from_le_bytes(head[32..].try_into().map_err(|_| corrupt())?);
    let size = usize::try_from(size).map_err(|_| corrupt())?;
    let bytes = match flags {
        RAW => body.to_vec(),
        ZSTD => zstd::bulk::decompress(body, size).map_err(|_| corrupt())?,
        DELTA => {
            let base = base_of(flags, payload).ok_or_else(corrupt)?;
            let frame = body.get(32..).ok_or_else(corrupt)?;
            let base = dictionary(&base)?;
            let mut inverse = zstd::bulk::Decompressor::with_dictionary(&base).map_err(|_| corrupt())?;
            inverse.decompress(frame, size).map_err(|_| corrupt())?
        }
        _ => return Err(corrupt()),
    };
    if bytes.len() == size && Hash::of(&bytes) == *hash { Ok(bytes) } else { Err(corrupt()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_come_back_and_other_bytes_never_do() {
        for bytes in [&b""[..], b"x", &[7; 5000], &(0..=255).collect::<Vec<u8>>()] {
            let hash = Hash::of(bytes);
            let (flags, mut payload) = encode(&hash, bytes);
            assert_eq!(decode(&hash, flags, &payload, &mut |_| unreachable!("it has no base")).expect("whole"), bytes);
            let last = payload.len() - 1;
            payload[last] ^= 1;
            assert!(matches!(
                decode(&hash, flags, &payload, &mut |_| unreachable!("it has no base")),
                Err(StoreError::Corrupt(_))
            ));
        }
    }

    #[test]
    fn a_difference_is_small_and_needs_the_very_content_it_was_made_from() {
        let old: Vec<u8> = (0..400u32).flat_map(|n| format!("line {} of {n}\n", n * n).into_bytes()).collect();
        let new = [&old[..3000], b"one more\n", &old[3000..]].concat();
        let (hash, base) = (Hash::of(&old), Hash::of(&new));
        let (flags, payload) = encode_delta(&hash, &old, &base, &new).expect("made");
        assert!(payload.len() < 200, "{}", payload.len());
        assert_eq!(base_of(flags, &payload), Some(base));
        let with = |bytes: &[u8]| {
            let bytes = bytes.to_vec();
            decode(&hash, flags, &payload, &mut |_| Ok(bytes.clone()))
        };
        assert_eq!(with(&new).expect("whole"), old);
        assert!(matches!(with(&old[1..]), Err(StoreError::Corrupt(found)) if found == hash));
    }
}
