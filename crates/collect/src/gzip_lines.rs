//! The lines of a gzip object, one at a time, each of a bounded length.

use std::io::{self, BufRead as _, BufReader};

use flate2::read::MultiGzDecoder;

const BUFFER_BYTES: usize = 64 * 1024;

pub(crate) struct Lines<'a> {
    text: BufReader<MultiGzDecoder<&'a [u8]>>,
    bytes_max: usize,
    line: Vec<u8>,
}

/// A line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    Text(&'a [u8]),
    /// Longer than any that was ever written; it was passed over.
    TooLong,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(gzip: &'a [u8], bytes_max: usize) -> Self {
        Self {
            text: BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(gzip)),
            bytes_max,
            line: Vec::new(),
        }
    }

    /// The next line; none at the end, which is reached only if all was as it was written.
    ///
    /// # Errors
    /// The object is damaged. Lines that came before must not be believed.
    pub(crate) fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let (mut began, mut too_long) = (false, false);
        loop {
            let piece = self.text.fill_buf()?;
            if piece.is_empty() && !began {
                return Ok(None);
            }
            let end = piece.iter().position(|byte| *byte == b'\n');
            let part = &piece[..end.unwrap_or(piece.len())];
            too_long |= self.line.len() + part.len() > self.bytes_max;
            if !too_long {
                self.line.extend_from_slice(part);
            }
            let (taken, is_last) = (part.len(), piece.is_empty());
            self.text.consume(taken + usize::from(end.is_some()));
            began = true;
            if end.is_some() || is_last {
                break;
            }
        }
        Ok(Some(if too_long {
            Line::TooLong
        } else {
            Line::Text(&self.line)
        }))
    }
}

/// Whether an object can be read to its end.
///
/// # Errors
/// It is damaged.
pub(crate) fn check_whole(gzip: &[u8]) -> io::Result<()> {
    io::copy(&mut MultiGzDecoder::new(gzip), &mut io::sink()).map(drop)
}
