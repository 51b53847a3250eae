//! Content hashes: SHA-256 over a file's raw bytes, written `sha256:` and 64 hex digits.

use std::{fmt, str::FromStr};

use sha2::{Digest, Sha256};

/// The SHA-256 of a content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub [u8; 32]);

/// What a caller may name a content by: the whole hash, or a prefix of 16 hex digits or more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HashPrefix(String);

/// A hash that is not 16 to 64 hex digits, with or without `sha256:` before them.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a content hash: expected `sha256:` and 64 hex digits, or a prefix of at least 16")]
pub struct ParseHashError;

/// SHA-256 of a stream.
#[derive(Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Feeds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all that was fed.
    #[must_use]
    pub fn finish(self) -> Hash {
        Hash(self.0.finalize().into())
    }
}

impl Hash {
    /// The hash of one content held in memory.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Hash {
        Hash(Sha256::digest(bytes).into())
    }

    /// 64 lower-case hex digits, without the `sha256:` before them.
    #[must_use]
    pub fn hex(&self) -> String {
        use fmt::Write;
        self.0.iter().fold(String::with_capacity(64), |mut s, b| {
            write!(s, "{b:02x}").expect("writing to a String cannot fail");
            s
        })
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hex()[..16])
    }
}

impl FromStr for Hash {
    type Err = ParseHashError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let hex = s.strip_prefix("sha256:").unwrap_or(s).as_bytes();
        if hex.len() != 64 {
            return Err(ParseHashError);
        }
        let mut out = [0; 32];
        for (byte, pair) in out.iter_mut().zip(hex.chunks_exact(2)) {
            let digit = |d: u8| char::from(d).to_digit(16).ok_or(ParseHashError);
            *byte = u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).expect("two hex digits fit a byte");
        }
        Ok(Hash(out))
    }
}

impl HashPrefix {
    /// True if `hash` is, or begins with, what the caller named.
    #[must_use]
    pub fn matches(&self, hash: &Hash) -> bool {
        hash.hex().starts_with(&self.0)
    }
}

impl fmt::Display for HashPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

impl FromStr for HashPrefix {
    type Err = ParseHashError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let hex = s.strip_prefix("sha256:").unwrap_or(s).to_ascii_lowercase();
        let good = (16..=64).contains(&hex.len()) && hex.bytes().all(|b| b.is_ascii_hexdigit());
        good.then_some(HashPrefix(hex)).ok_or(ParseHashError)
    }
}

impl From<Hash> for HashPrefix {
    fn from(hash: Hash) -> Self {
        HashPrefix(hash.hex())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips_and_prefixes_match() {
        let hash = Hash::of(b"abc");
        assert_eq!(hash.to_string(), "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(hash.to_string().parse(), Ok(hash));
        assert_eq!(hash.hex().parse(), Ok(hash));
        assert!("BA7816BF8F01CFEA".parse::<HashPrefix>().is_ok_and(|p| p.matches(&hash)));
        assert!("ba7816bf8f01cfe".parse::<HashPrefix>().is_err(), "15 digits are too few");
        assert!("sha256:zz".parse::<Hash>().is_err());
    }
}
