//! Files of a [`Disk`](cannery_runtime::Disk) as streams.

use std::io::{self, Read, Write};

use cannery_runtime::disk::DiskFile;

/// Reads a file from its beginning.
pub(super) struct FileReader<'a> {
    file: &'a dyn DiskFile,
    offset: u64,
}

impl<'a> FileReader<'a> {
    pub(super) fn new(file: &'a dyn DiskFile) -> Self {
        Self { file, offset: 0 }
    }
}

impl Read for FileReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(self.offset, buffer)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// Writes a new file from its beginning.
pub(super) struct FileWriter<'a> {
    file: &'a dyn DiskFile,
    offset: u64,
}

impl<'a> FileWriter<'a> {
    pub(super) fn new(file: &'a dyn DiskFile) -> Self {
        Self { file, offset: 0 }
    }

    /// How many bytes were written.
    pub(super) fn written(&self) -> u64 {
        self.offset
    }
}

impl Write for FileWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_all_at(self.offset, bytes)?;
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
