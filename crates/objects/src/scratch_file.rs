//! A file of the workspace that nobody needs for longer than it is being worked on.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cannery_runtime::disk::{Disk, DiskFile, Open};

/// The file; dropped, it is removed, also when whoever wrote it has gone.
#[derive(Debug)]
pub(crate) struct ScratchFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Box<dyn DiskFile>,
}

impl ScratchFile {
    pub(crate) fn create(disk: &Arc<dyn Disk>, path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: disk.open(path, Open::CreatePrivate)?,
            disk: Arc::clone(disk),
            path: path.to_owned(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn write_all_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(offset, data)
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        if let Err(error) = self.disk.remove_file(&self.path) {
            tracing::warn!(file = %self.path.display(), %error, "cannot remove a file of the uploads; the next start does");
        }
    }
}

/// Reads or writes a scratch file from its beginning.
#[derive(Debug)]
pub(crate) struct ScratchCursor {
    pub(crate) file: Arc<ScratchFile>,
    offset: u64,
}

impl ScratchCursor {
    pub(crate) fn new(file: Arc<ScratchFile>) -> Self {
        Self { file, offset: 0 }
    }
}

impl io::Write for ScratchCursor {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.file.write_all_at(self.offset, data)?;
        self.offset += data.len() as u64;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl io::Read for ScratchCursor {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.file.read_at(self.offset, buffer)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// Runs what blocks where it holds up nobody.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)?
}
