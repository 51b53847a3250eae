//! Paths on the wire: text, or the base64 of bytes that are not UTF-8.

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

/// A path relative to the view's root (`src/main.rs`; empty or `.` is the root), or absolute under its mountpoint or alias.
/// A path that is not UTF-8 is written `{"bytes": "<base64>"}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum WirePath {
    /// UTF-8.
    Text(String),
    /// Anything else.
    Bytes {
        /// Base64 of the raw bytes.
        bytes: String,
    },
}

impl WirePath {
    /// From raw bytes.
    #[must_use]
    pub fn of(path: &[u8]) -> Self {
        match std::str::from_utf8(path) {
            Ok(text) => WirePath::Text(text.into()),
            Err(_) => WirePath::Bytes { bytes: STANDARD.encode(path) },
        }
    }

    /// The raw bytes; `None` if the base64 is none.
    #[must_use]
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        match self {
            WirePath::Text(text) => Some(text.clone().into_bytes()),
            WirePath::Bytes { bytes } => STANDARD.decode(bytes).ok(),
        }
    }
}

impl Default for WirePath {
    fn default() -> Self {
        WirePath::Text(String::new())
    }
}

impl From<&str> for WirePath {
    fn from(text: &str) -> Self {
        WirePath::Text(text.into())
    }
}

impl fmt::Display for WirePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_bytes() {
            Some(bytes) if bytes.is_empty() => ".".fmt(f),
            Some(bytes) => String::from_utf8_lossy(&bytes).fmt(f),
            None => "(not base64)".fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_survives_the_wire() {
        for path in [&b""[..], b"a/b", "ä".as_bytes(), b"a/\xff\xfe"] {
            let json = serde_json::to_string(&WirePath::of(path)).expect("it has a form");
            let back: WirePath = serde_json::from_str(&json).expect(&json);
            assert_eq!(back.to_bytes().as_deref(), Some(path), "{json}");
        }
        assert_eq!(WirePath::Bytes { bytes: "?".into() }.to_bytes(), None);
    }
}
