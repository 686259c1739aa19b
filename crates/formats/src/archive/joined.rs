//! The index of a bucket: those of its archives, one after the other.

use std::io::Read;

use super::Record;
use crate::can::BucketFile;
use crate::gz_lines::{GzLineReader, GzLines, IndexLimits};
use crate::hour_archive::ArchiveFault;

/// Only a line with this word begins a file; most lines need no closer look.
const WORD: &[u8] = b"\"filename\"";

/// The part of a joined index that is about one file, as an index of its own; nothing when there is none.
///
/// # Errors
/// [`ArchiveFault`]: what is wrong with the lines up to its end.
pub fn part_of_index(
    joined: impl Read,
    file: &BucketFile,
) -> Result<Option<Vec<u8>>, ArchiveFault> {
    let mut lines = GzLineReader::new(joined, IndexLimits::default());
    let mut part: Option<GzLines<Vec<u8>>> = None;
    while let Some(line) = lines.next_line()? {
        let begins = memchr::memmem::find(line, WORD).is_some();
        if begins && let Record::File(name) = Record::parse(line)? {
            if part.is_some() {
                break;
            }
            if name == *file {
                part = Some(GzLines::new(Vec::new()));
            }
        }
        if let Some(part) = &mut part {
            part.write(line).map_err(ArchiveFault::Io)?;
            part.write(b"\n").map_err(ArchiveFault::Io)?;
        }
    }
    part.map(|part| part.finish().map_err(ArchiveFault::Io))
        .transpose()
}
