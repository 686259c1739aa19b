//! One file of the log.

use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use cannery_formats::journal_segment::{
    BATCH_HEADER_BYTES, HEADER_BYTES, SegmentId, batch_end, seal_batch,
};
use cannery_runtime::disk::DiskFile;

use super::home::Home;
use super::record::DATA_CRC_BYTES;

/// A segment that holds batches; the last one of a log is the one that is written to.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) id: SegmentId,
    pub(super) file: Box<dyn DiskFile>,
    /// The length of the file.
    pub(super) bytes: u64,
    /// Where the next batch begins.
    pub(super) end: u64,
    /// In which period it began.
    pub(super) period: i64,
    /// How many entries have their data here, and how many bytes it would take to write them elsewhere.
    pub(super) live: u64,
    pub(super) live_bytes: u64,
}

impl Segment {
    pub(super) fn new(id: SegmentId, file: Box<dyn DiskFile>, bytes: u64, period: i64) -> Self {
        Self {
            id,
            file,
            bytes,
            end: HEADER_BYTES,
            period,
            live: 0,
            live_bytes: 0,
        }
    }

    pub(super) fn path(&self, dir: &Path) -> PathBuf {
        dir.join(self.id.to_string())
    }

    /// Whether a batch with so many bytes of records has room.
    pub(super) fn has_room(&self, record_bytes: usize) -> bool {
        batch_end(self.end, record_bytes) <= self.bytes
    }

    /// Writes a batch, which [`Segment::sync`] makes durable. After an error nothing is known of it, and the segment must
    /// not be written to again.
    pub(super) fn append(&mut self, number: u64, batch: &mut [u8]) -> io::Result<()> {
        seal_batch(self.id, number, batch);
        self.file.write_all_at(self.end, batch)?;
        self.end = batch_end(self.end, batch.len() - BATCH_HEADER_BYTES);
        Ok(())
    }

    /// Lets the disk begin with what was appended since `begin`. An error is one of [`Segment::append`].
    pub(super) fn begin_sync(&self, begin: u64) -> io::Result<()> {
        self.file.begin_sync(begin, self.end - begin)
    }

    /// Makes what was appended durable. An error is one of [`Segment::append`].
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// So many bytes from there.
    pub(super) fn read(&self, begin: u64, len: usize) -> io::Result<Bytes> {
        let mut bytes = vec![0; len];
        read_exact(&*self.file, begin, &mut bytes)?;
        Ok(Bytes::from(bytes))
    }

    /// The data of an entry, of its checksum and its data as they were read.
    pub(super) fn check(&self, home: Home, mut crc: Bytes) -> io::Result<Bytes> {
        let data = crc.split_off(DATA_CRC_BYTES);
        if crc32fast::hash(&data).to_le_bytes() == crc[..] {
            return Ok(data);
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "the data at byte {} of segment `{}` is damaged",
                home.offset, self.id
            ),
        ))
    }
}

pub(super) fn read_exact(
    file: &dyn DiskFile,
    mut offset: u64,
    mut to: &mut [u8],
) -> io::Result<()> {
    while !to.is_empty() {
        let count = file.read_at(offset, to)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        offset += count as u64;
        to = &mut to[count..];
    }
    Ok(())
}
