//! Open files and held locks.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use cannery_runtime::disk::{DiskFile, DiskLock, Metadata, Wait};
use rustix::io::Errno;

use super::SimDisk;
use super::tree::Handle;

/// An open file; it keeps working after its name is gone, until the power is.
pub(super) struct SimFile {
    disk: SimDisk,
    /// As it was opened, for the log.
    path: PathBuf,
    handle: Handle,
    writable: bool,
}

impl SimFile {
    pub(super) fn new(disk: SimDisk, path: &Path, handle: Handle, writable: bool) -> Self {
        Self {
            disk,
            path: path.to_owned(),
            handle,
            writable,
        }
    }

    /// The two syncs differ in their cost alone: both cover the content and the length.
    fn sync_as(&self, what: &str) -> io::Result<()> {
        self.disk.mutate_or(
            &format!("{what} `{}`", self.path.display()),
            |state| {
                state.tree.sync(self.handle.node);
                Ok(())
            },
            |state| state.spoil(self.handle.node),
        )
    }
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimFile(`{}`)", self.path.display())
    }
}

impl DiskFile for SimFile {
    fn metadata(&self) -> io::Result<Metadata> {
        self.disk
            .look(|state| state.tree.metadata_of(self.handle.node))
    }

    /// Nobody writes to a file of this disk while a test looks at it.
    fn has_writer(&self) -> io::Result<Option<bool>> {
        self.disk.look(|_| Ok(Some(false)))
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.look(|state| Ok(state.tree.len(self.handle.node)))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.disk.look(|state| {
            if state.lost.contains(&self.handle.node) {
                return Err(Errno::IO.into());
            }
            let content = state.tree.content(self.handle.node)?;
            let offset = usize::try_from(offset)
                .unwrap_or(usize::MAX)
                .min(content.len());
            let part = &content[offset..];
            let len = part.len().min(buffer.len());
            buffer[..len].copy_from_slice(&part[..len]);
            Ok(len)
        })
    }

    fn write_all_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let what = &format!(
            "write `{}` {} bytes at {offset}",
            self.path.display(),
            data.len()
        );
        self.disk.mutate(what, |state| {
            if !self.writable {
                return Err(Errno::BADF.into());
            }
            state.write(self.handle.node, offset, data)
        })
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let what = &format!("set length `{}` to {bytes} bytes", self.path.display());
        self.disk.mutate(what, |state| {
            if !self.writable {
                return Err(Errno::INVAL.into());
            }
            state.set_len(self.handle.node, bytes)
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_as("sync")
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync_as("sync data")
    }

    /// What is not synced may be on this disk in any case.
    fn begin_sync(&self, _offset: u64, _bytes: u64) -> io::Result<()> {
        self.disk.look(|_| Ok(()))
    }
}

/// A held lock; it belongs to the file, whatever its name is by now.
#[derive(Debug)]
pub(super) struct SimLock(SimFile);

impl SimLock {
    pub(super) fn acquire(disk: &SimDisk, path: &Path, wait: Wait) -> io::Result<Self> {
        let handle = open_or_create(disk, path)?;
        let mut state = disk.state();
        loop {
            state.faults.check_power()?;
            let node = state.tree.node_mut(handle.node);
            if !node.locked {
                node.locked = true;
                break;
            }
            state = match wait {
                Wait::No => return Err(Errno::WOULDBLOCK.into()),
                Wait::Yes => disk
                    .0
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
        drop(state);
        Ok(Self(SimFile::new(disk.clone(), path, handle, true)))
    }
}

fn open_or_create(disk: &SimDisk, path: &Path) -> io::Result<Handle> {
    loop {
        match disk.look(|state| state.tree.open_file(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        let what = &format!("create lock `{}`", path.display());
        match disk.mutate(what, |state| state.tree.create_file(path)) {
            // Somebody else created it since it was looked for.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created,
        }
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.0.disk.state().tree.node_mut(self.0.handle.node).locked = false;
        self.0.disk.0.changed.notify_all();
    }
}

impl DiskLock for SimLock {
    fn file(&self) -> &dyn DiskFile {
        &self.0
    }
}
