//! Contents that a client can show: recognised by their first bytes, not by their name.

/// A kind of media block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// An image block.
    Image,
    /// An audio block.
    Audio,
    /// An embedded resource.
    Document,
}

/// What the first bytes say it is: the block it travels in and its media type. 16 bytes are enough.
pub(super) fn recognise(head: &[u8]) -> Option<(Shape, &'static str)> {
    let is = |at: usize, magic: &[u8]| head.get(at..at + magic.len()) == Some(magic);
    let found = if is(0, b"\x89PNG\r\n\x1a\n") {
        (Shape::Image, "image/png")
    } else if is(0, b"\xff\xd8\xff") {
        (Shape::Image, "image/jpeg")
    } else if is(0, b"GIF87a") || is(0, b"GIF89a") {
        (Shape::Image, "image/gif")
    } else if is(0, b"RIFF") && is(8, b"WEBP") {
        (Shape::Image, "image/webp")
    } else if is(0, b"RIFF") && is(8, b"WAVE") {
        (Shape::Audio, "audio/wav")
    } else if is(0, b"OggS") {
        (Shape::Audio, "audio/ogg")
    } else if is(0, b"fLaC") {
        (Shape::Audio, "audio/flac")
    } else if is(0, b"ID3") || is(0, b"\xff\xfb") || is(0, b"\xff\xf3") || is(0, b"\xff\xf2") {
        (Shape::Audio, "audio/mpeg")
    } else if is(4, b"ftypM4A ") {
        (Shape::Audio, "audio/mp4")
    } else if is(0, b"%PDF-") {
        (Shape::Document, "application/pdf")
    } else {
        return None;
    };
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_decide() {
        for (head, expected) in [
            (&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0\0\x10JFIF", Some("image/jpeg")),
            (b"GIF89a\x01\0\x01\0", Some("image/gif")),
            (b"RIFF\x10\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"RIFF\x10\0\0\0WAVEfmt ", Some("audio/wav")),
            (b"RIFF\x10\0\0\0AVI ", None),
            (b"OggS\0\x02", Some("audio/ogg")),
            (b"fLaC\0", Some("audio/flac")),
            (b"ID3\x04", Some("audio/mpeg")),
            (b"\0\0\0\x20ftypM4A ", Some("audio/mp4")),
            (b"%PDF-1.7\n", Some("application/pdf")),
            (b"\x7fELF", None),
            (b"", None),
        ] {
            assert_eq!(recognise(head).map(|(_, name)| name), expected, "{head:?}");
        }
    }
}
