//! Handling files of which not everything is known: copies of damaged ones, and certainty about the last one.

use std::io;
use std::path::{Path, PathBuf};

use cannery_formats::journal_segment::{Found, HEADER_BYTES, SegmentId, find_batch};
use cannery_runtime::disk::{self, Disk, DiskFile};

use super::record::{self, Record};
use super::segment::read_exact;
use super::wire::Take;

/// The folder for what was damaged.
const DAMAGED: &str = "damaged";

/// What the batches of a segment say about which segment is the first that counts, and where they end;
/// nothing if it has none.
pub(super) fn front_in(id: SegmentId, bytes: &[u8]) -> Option<(u32, u64)> {
    let mut offset = HEADER_BYTES;
    let mut front = None;
    while let Some(rest) = usize::try_from(offset).ok().and_then(|at| bytes.get(at..)) {
        let Found::Whole(batch) = find_batch(id, rest) else {
            break;
        };
        let mut take = Take::new(batch.records);
        while !take.is_empty() {
            match record::take(&mut take) {
                Ok(Record::Front(later)) => front = front.max(Some(later)),
                Ok(Record::Checkpoint(checkpoint)) => front = front.max(Some(checkpoint.front)),
                Ok(Record::Effect(_) | Record::Whole { .. }) => {}
                Err(_) => break,
            }
        }
        offset = batch.end(offset);
    }
    front.map(|front| (front, offset))
}

/// Writes the batches of a segment again, as they are. What a killed process left may be in the cache of the operating
/// system alone, and a sync that failed may have left it there for good as if it were written.
pub(super) fn harden(file: &dyn DiskFile, end: u64) -> io::Result<()> {
    let too_large = |_| io::ErrorKind::FileTooLarge;
    // A file that was cut may lack what fills the last sector.
    let end = end.min(file.len()?);
    let mut bytes = vec![0; usize::try_from(end).map_err(too_large)?];
    read_exact(file, 0, &mut bytes)?;
    let body = usize::try_from(HEADER_BYTES).map_err(too_large)?;
    if bytes.len() > body {
        file.write_all_at(HEADER_BYTES, &bytes[body..])?;
    }
    file.sync_data()
}

/// Copies a damaged file to where nothing removes it. What was kept before stays; the same again is not kept twice.
pub(super) fn set_aside(disk: &dyn Disk, dir: &Path, path: &Path) -> io::Result<PathBuf> {
    let folder = dir.join(DAMAGED);
    disk::create_dir_all(disk, &folder)?;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let bytes = disk::read(disk, path, u64::from(u32::MAX))?;
    let mut copy = folder.join(name);
    for attempt in 1.. {
        match disk::read(disk, &copy, u64::from(u32::MAX)) {
            Ok(kept) if kept == bytes => return Ok(copy),
            Ok(_) => {
                let mut other = name.to_owned();
                other.push(format!(".{attempt}"));
                copy = folder.join(other);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(error),
        }
    }
    disk::write_private(disk, &copy, &bytes)?;
    Ok(copy)
}
