//! A gzip file that is written once, front to back.

use std::io::{self, Write};
use std::path::Path;

use cannery_formats::{Digest, Hasher};
use cannery_runtime::disk::{Disk, DiskFile, Open};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::outbox::Stored;

/// As the floor of the format has it: smaller takes far longer, faster is a good deal larger.
const LEVEL: u32 = 6;
const BUFFER_BYTES: usize = 128 * 1024;

/// A file that is being written; its bytes do not depend on when.
#[derive(Debug)]
pub(super) struct GzipFile(GzEncoder<Sink>);

impl GzipFile {
    pub(super) fn create(disk: &dyn Disk, path: &Path) -> io::Result<Self> {
        let sink = Sink {
            file: disk.open(path, Open::CreateNew)?,
            written: 0,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            hasher: Hasher::default(),
        };
        Ok(Self(GzEncoder::new(sink, Compression::new(LEVEL))))
    }

    pub(super) fn write(&mut self, text: &[u8]) -> io::Result<()> {
        self.0.write_all(text)
    }

    /// Ends the file and makes its content durable; its name is not.
    pub(super) fn finish(self) -> io::Result<Stored> {
        let mut sink = self.0.finish()?;
        sink.flush()?;
        sink.file.sync()?;
        Ok(Stored {
            bytes: sink.written,
            sha256: sink.digest(),
        })
    }
}

/// Where the compressed bytes go, in large pieces.
#[derive(Debug)]
struct Sink {
    file: Box<dyn DiskFile>,
    written: u64,
    buffer: Vec<u8>,
    hasher: Hasher,
}

impl Sink {
    fn digest(self) -> Digest {
        self.hasher.finish()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.file.write_all_at(self.written, &self.buffer)?;
        self.hasher.update(&self.buffer);
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
