//! Indexes: lines of JSON, compressed with gzip. Several in a row are one, so they can be joined without being read.

use std::io::{self, BufRead, BufReader, Read, Write};

use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};

use crate::hour_archive::ArchiveFault;

/// What a reader of an untrusted index accepts at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexLimits {
    /// The length of one line.
    pub line_bytes_max: u64,
    /// The length of everything, decompressed.
    pub total_bytes_max: u64,
}

impl Default for IndexLimits {
    fn default() -> Self {
        Self {
            line_bytes_max: 64 << 20,
            total_bytes_max: 4 << 30,
        }
    }
}

/// Writes lines. The same lines are the same bytes: there is neither a name nor a time in them.
pub struct GzLines<W: Write> {
    out: GzEncoder<W>,
}

impl<W: Write> GzLines<W> {
    /// No lines yet.
    pub fn new(out: W) -> Self {
        let out = GzBuilder::new().mtime(0).write(out, Compression::new(6));
        Self { out }
    }

    /// Writes one line or several, each of which has its newline.
    ///
    /// # Errors
    /// Those of the output.
    pub fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.out.write_all(lines)
    }

    /// Hands back the output.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(self) -> io::Result<W> {
        self.out.finish()
    }
}

/// Reads lines that anybody may have written.
pub struct GzLineReader<R: Read> {
    input: BufReader<io::Take<MultiGzDecoder<BufReader<R>>>>,
    limits: IndexLimits,
    line: Vec<u8>,
}

impl<R: Read> GzLineReader<R> {
    /// Reads `input`, as far as the limits allow.
    pub fn new(input: R, limits: IndexLimits) -> Self {
        let input = MultiGzDecoder::new(BufReader::new(input));
        Self {
            input: BufReader::new(input.take(limits.total_bytes_max.saturating_add(1))),
            limits,
            line: Vec::new(),
        }
    }

    /// The next line, without its newline; none at the end.
    ///
    /// # Errors
    /// [`ArchiveFault`]: damaged when the last line has no newline, or the gzip is broken.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, ArchiveFault> {
        self.line.clear();
        let max = self.limits.line_bytes_max.saturating_add(1);
        let count = (&mut self.input)
            .take(max)
            .read_until(b'\n', &mut self.line)
            .map_err(gzip_fault)?;
        if self.input.get_ref().limit() == 0 {
            let max = self.limits.total_bytes_max;
            let what = format!("the index has more than {max} bytes without its compression");
            return Err(ArchiveFault::TooLarge(what));
        }
        if count == 0 {
            return Ok(None);
        }
        match self.line.pop() {
            Some(b'\n') => Ok(Some(&self.line)),
            _ if count as u64 == max => {
                let max = self.limits.line_bytes_max;
                let what = format!("a line of the index has more than {max} bytes");
                Err(ArchiveFault::TooLarge(what))
            }
            _ => Err(ArchiveFault::Damaged("the index ends within a line".into())),
        }
    }
}

/// What gzip complains of says something of the index; any other error nothing.
fn gzip_fault(error: io::Error) -> ArchiveFault {
    match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            ArchiveFault::Damaged(format!("the gzip of the index: {error}"))
        }
        _ => ArchiveFault::Io(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gz(lines: &[u8]) -> Vec<u8> {
        let mut out = GzLines::new(Vec::new());
        out.write(lines).unwrap();
        out.finish().unwrap()
    }

    fn read(bytes: &[u8], limits: IndexLimits) -> Result<Vec<Vec<u8>>, ArchiveFault> {
        let mut reader = GzLineReader::new(bytes, limits);
        let mut lines = Vec::new();
        while let Some(line) = reader.next_line()? {
            lines.push(line.to_vec());
        }
        Ok(lines)
    }

    #[test]
    fn joined_indexes_are_one() {
        let both = [gz(b"a\nb\n"), gz(b""), gz(b"c\n")].concat();
        let lines = read(&both, IndexLimits::default()).unwrap();
        assert_eq!(lines, [b"a", b"b", b"c"]);
        assert!(read(&gz(b""), IndexLimits::default()).unwrap().is_empty());
    }

    #[test]
    fn the_header_has_neither_time_nor_name() {
        assert_eq!(gz(b"a\n")[..10], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]);
    }

    #[test]
    fn limits_hold_and_damage_is_named() {
        let limits = IndexLimits {
            line_bytes_max: 4,
            total_bytes_max: 8,
        };
        assert_eq!(read(&gz(b"1234\n56\n"), limits).unwrap().len(), 2);
        for (bytes, what) in [
            (gz(b"12345\n"), "a line of the index has more than 4"),
            (gz(&b"x".repeat(1 << 20)), "the index has more than 8"),
            (gz(b"1234\n1234\n"), "the index has more than 8"),
            (gz(b"12\n34"), "ends within a line"),
            (gz(b"12\n")[..15].to_vec(), "the gzip of the index"),
            (b"12\n".to_vec(), "the gzip of the index"),
            (
                [&gz(b"12\n")[..], b"tail"].concat(),
                "the gzip of the index",
            ),
        ] {
            let fault = read(&bytes, limits).unwrap_err().to_string();
            assert!(fault.contains(what), "{what}: {fault}");
        }
    }
}
