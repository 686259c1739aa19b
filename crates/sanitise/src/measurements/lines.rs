//! Lines of a text, of which none fills the memory.

use std::io::{self, BufRead};

use super::Measurement;
use crate::fault::Bad;

/// Reads a text line by line into one buffer.
#[derive(Debug)]
pub(super) struct Lines<R> {
    text: R,
    pub(super) bytes_max: usize,
    buffer: Vec<u8>,
    at: u64,
}

/// Where a line stands. Its bytes are in the buffer until the next one is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) start: u64,
    /// Without the line break.
    pub(super) size: u64,
    /// Whether the buffer has it: it is not longer than a measurement may be.
    pub(super) held: bool,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(text: R, bytes_max: usize) -> Self {
        Self {
            text,
            bytes_max,
            buffer: Vec::new(),
            at: 0,
        }
    }

    /// The line that was read last, without its line break.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    pub(super) fn is_blank(&self) -> bool {
        self.buffer.iter().all(u8::is_ascii_whitespace)
    }

    /// Reads a line.
    pub(super) fn next_line(&mut self) -> io::Result<Option<Line>> {
        self.read(Some(b'\n'))
    }

    /// Reads all that is left, if anything.
    pub(super) fn next_whole(&mut self) -> io::Result<Option<Line>> {
        self.read(None)
    }

    fn read(&mut self, end: Option<u8>) -> io::Result<Option<Line>> {
        self.buffer.clear();
        let start = self.at;
        let (mut size, mut ended, mut any) = (0_u64, false, false);
        while !ended {
            let piece = match self.text.fill_buf() {
                Ok(piece) => piece,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if piece.is_empty() {
                break;
            }
            any = true;
            let found = end.and_then(|end| memchr::memchr(end, piece));
            let length = found.unwrap_or(piece.len());
            // One more byte than may be held: enough to know that it is too long.
            let room = (self.bytes_max + 1).saturating_sub(self.buffer.len());
            self.buffer.extend_from_slice(&piece[..length.min(room)]);
            size += length as u64;
            ended = found.is_some();
            let consumed = length + usize::from(ended);
            self.text.consume(consumed);
            self.at += consumed as u64;
        }
        if ended && self.buffer.last() == Some(&b'\r') && size == self.buffer.len() as u64 {
            self.buffer.pop();
            size -= 1;
        }
        let held = size <= self.bytes_max as u64;
        Ok(any.then_some(Line { start, size, held }))
    }

    pub(super) fn measurement(&self, line: Line) -> Measurement<'_> {
        Measurement {
            src_off: line.start,
            src_size: line.size,
            raw: if line.held {
                Ok(&self.buffer)
            } else {
                Err(Bad::TooLong {
                    max: self.bytes_max,
                })
            },
        }
    }
}
