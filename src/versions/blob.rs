//! Contents in the log: compressed where that helps, kept once, verified when read.

use std::borrow::Cow;

use super::StoreError;
use crate::types::Hash;

/// The payload is the hash, the size (8 bytes), then the bytes as they are.
const RAW: u8 = 0;
/// The payload is the hash, the size (8 bytes), then a zstd frame.
const ZSTD: u8 = 1;
const LEVEL: i32 = 1;
/// Smaller contents are not worth a frame.
const COMPRESS_MIN: usize = 128;

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
    let frame = zstd::bulk::compress(bytes, LEVEL).ok()?;
    (frame.len() <= bytes.len() / 10 * 9).then_some(frame)
}

/// The content of a BLOB record; never other bytes than the hash says.
pub(super) fn decode(hash: &Hash, flags: u8, payload: &[u8]) -> Result<Vec<u8>, StoreError> {
    let corrupt = || StoreError::Corrupt(*hash);
    let (head, body) = payload.split_at_checked(40).ok_or_else(corrupt)?;
    let size = u64::from_le_bytes(head[32..].try_into().map_err(|_| corrupt())?);
    let size = usize::try_from(size).map_err(|_| corrupt())?;
    let bytes = match flags {
        RAW => body.to_vec(),
        ZSTD => zstd::bulk::decompress(body, size).map_err(|_| corrupt())?,
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
            assert_eq!(decode(&hash, flags, &payload).expect("whole"), bytes);
            let last = payload.len() - 1;
            payload[last] ^= 1;
            assert!(matches!(decode(&hash, flags, &payload), Err(StoreError::Corrupt(_))));
        }
    }
}
