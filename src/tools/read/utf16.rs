//! UTF-16 made UTF-8 as it streams past.

/// Decodes chunks that may be split anywhere. What is no character becomes U+FFFD; the byte order mark is left out.
pub(super) struct Utf16 {
    big_endian: bool,
    odd: Option<u8>,
    high: Option<u16>,
    started: bool,
}

impl Utf16 {
    pub fn new(big_endian: bool) -> Utf16 {
        Utf16 { big_endian, odd: None, high: None, started: false }
    }

    /// The next bytes as UTF-8.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut out = String::with_capacity(chunk.len());
        for byte in chunk {
            let Some(first) = self.odd.take() else {
                self.odd = Some(*byte);
                continue;
            };
            let pair = [first, *byte];
            self.unit(if self.big_endian { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }, &mut out);
        }
        out.into_bytes()
    }

    /// What the end leaves undecided.
    pub fn finish(&mut self) -> Vec<u8> {
        let open = self.odd.take().is_some() || self.high.take().is_some();
        if open { "\u{fffd}".into() } else { Vec::new() }
    }

    fn unit(&mut self, unit: u16, out: &mut String) {
        if !self.started {
            self.started = true;
            if unit == 0xfeff {
                return;
            }
        }
        let units = match self.high.take() {
            Some(high) => vec![high, unit],
            None if (0xd800..0xdc00).contains(&unit) => {
                self.high = Some(unit);
                return;
            }
            None => vec![unit],
        };
        let lone = units.len() == 2 && (0xd800..0xdc00).contains(&unit);
        let decoded = if lone { &units[..1] } else { &units };
        out.extend(char::decode_utf16(decoded.iter().copied()).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)));
        self.high = lone.then_some(unit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8], big_endian: bool, chunk: usize) -> String {
        let mut decoder = Utf16::new(big_endian);
        let mut out = Vec::new();
        bytes.chunks(chunk).for_each(|chunk| out.extend(decoder.push(chunk)));
        out.extend(decoder.finish());
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn chunks_may_be_split_anywhere() {
        let text = "a\näß😀 z";
        for big_endian in [false, true] {
            let units = std::iter::once(0xfeff).chain(text.encode_utf16());
            let bytes: Vec<u8> =
                units.flat_map(|unit| if big_endian { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect();
            for chunk in [1, 2, 3, 5, 100] {
                assert_eq!(decoded(&bytes, big_endian, chunk), text);
            }
        }
    }

    #[test]
    fn what_is_no_character_is_marked() {
        for (units, expected) in [
            (&[0xd800][..], "\u{fffd}"),
            (&[0xdc00, 0x61], "\u{fffd}a"),
            (&[0xd800, 0x61], "\u{fffd}a"),
            (&[0xd83d, 0xd83d, 0xde00], "\u{fffd}😀"),
        ] {
            let bytes: Vec<u8> = units.iter().flat_map(|unit: &u16| unit.to_le_bytes()).collect();
            assert_eq!(decoded(&bytes, false, 3), expected, "{units:x?}");
        }
        assert_eq!(decoded(b"a\0b", false, 2), "a\u{fffd}");
    }
}
