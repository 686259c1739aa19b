//! The lines that a program writes, as long as they are reasonable.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// What is longer comes as several lines.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// The next line without its end; nothing at the end of the input.
pub(super) async fn next<R: AsyncBufRead + Unpin>(input: &mut R) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    loop {
        let found = input.fill_buf().await?;
        if found.is_empty() {
            let text = String::from_utf8_lossy(&line).into_owned();
            return Ok((!line.is_empty()).then_some(text));
        }
        let most = found.len().min(LINE_BYTES_MAX - line.len());
        let end = found[..most].iter().position(|byte| *byte == b'\n');
        line.extend_from_slice(&found[..end.unwrap_or(most)]);
        input.consume(end.map_or(most, |end| end + 1));
        if end.is_some() || line.len() == LINE_BYTES_MAX {
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_bounded_and_the_last_needs_no_end() {
        let text = format!("one\n\n{}\nlast \u{fe}", "x".repeat(LINE_BYTES_MAX + 5));
        let mut bytes = text.into_bytes();
        bytes.push(0xff);
        let mut input = tokio::io::BufReader::with_capacity(7, &bytes[..]);
        let mut lines = Vec::new();
        while let Some(line) = next(&mut input).await.unwrap() {
            lines.push(line);
        }
        assert_eq!(lines.len(), 5);
        assert_eq!((lines[0].as_str(), lines[1].as_str()), ("one", ""));
        assert_eq!(
            (lines[2].len(), lines[3].as_str()),
            (LINE_BYTES_MAX, "xxxxx")
        );
        assert_eq!(lines[4], "last \u{fe}\u{fffd}");
    }
}
