//! The lines of a connection, bounded.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// What is read at once. Most messages are smaller.
const BUFFER: usize = 16 << 10;

/// Reads lines. A read that is given up loses nothing: the next one goes on where it was.
pub(super) struct Lines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    limit: usize,
    /// The present line is too long, and its end has not come yet.
    passing_over: bool,
}

/// What a read of one line gave.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Line {
    /// One message's bytes, without the line end.
    Text(Vec<u8>),
    /// Longer than the limit. What is left of it is passed over by the next read.
    TooLong,
    /// The other side writes no more. Half a line before it is nobody's message.
    End,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub fn new(input: R, limit: usize) -> Self {
        Lines { input: BufReader::with_capacity(BUFFER, input), line: Vec::new(), limit, passing_over: false }
    }

    pub async fn next(&mut self) -> io::Result<Line> {
        loop {
            let available = self.input.fill_buf().await?;
            if available.is_empty() {
                return Ok(Line::End);
            }
            // From here to `consume` nothing waits: bytes are neither lost nor taken twice.
            let end = memchr::memchr(b'\n', available);
            let text = &available[..end.unwrap_or(available.len())];
            let too_long = !self.passing_over && self.line.len() + text.len() > self.limit;
            let passed_over = self.passing_over;
            if !passed_over && !too_long {
                self.line.extend_from_slice(text);
            }
            let take = end.map_or(available.len(), |end| end + 1);
            self.input.consume(take);
            self.passing_over = (passed_over || too_long) && end.is_none();
            if too_long {
                self.line = Vec::new();
                return Ok(Line::TooLong);
            }
            if end.is_some() && !passed_over {
                return Ok(Line::Text(std::mem::take(&mut self.line)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &[&[u8]], limit: usize, expected: &[Line]) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut mock = tokio_test_reader(input);
        runtime.block_on(async {
            let mut lines = Lines::new(&mut mock, limit);
            for line in expected {
                assert_eq!(&lines.next().await.unwrap(), line, "{input:?}");
            }
        });
    }

    /// Gives its pieces one read at a time.
    struct Pieces(std::collections::VecDeque<Vec<u8>>);

    fn tokio_test_reader(input: &[&[u8]]) -> Pieces {
        Pieces(input.iter().map(|piece| piece.to_vec()).collect())
    }

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            buf: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            if let Some(piece) = self.0.pop_front() {
                buf.put_slice(&piece);
            }
            std::task::Poll::Ready(Ok(()))
        }
    }

    fn text(line: &str) -> Line {
        Line::Text(line.into())
    }

    #[test]
    fn lines_come_whole_and_bounded() {
        check(&[b"a\nbc\n"], 2, &[text("a"), text("bc"), Line::End]);
        check(&[b"a", b"b", b"c\n"], 3, &[text("abc"), Line::End]);
        check(&[b"abc\nd\n"], 2, &[Line::TooLong, text("d"), Line::End]);
        check(&[b"ab", b"cd", b"ef\ng\n"], 2, &[Line::TooLong, text("g"), Line::End]);
        check(&[b"ab", b"c", b"\n", b"\n"], 2, &[Line::TooLong, text(""), Line::End]);
        check(&[b"abcd", b"ef"], 2, &[Line::TooLong, Line::End]);
        check(&[b"a\nhalf"], 9, &[text("a"), Line::End]);
    }
}
