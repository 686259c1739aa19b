//! The exclusive lock on a workspace: one process owns what lies under it, and a second one learns who that is.

use std::io;
use std::path::{Path, PathBuf};

use crate::Clock;
use crate::disk::Disk;
use crate::folder_lock::{FolderLock, FolderLockError, named};

pub use crate::folder_lock::Holder;

/// The lock; it is let go when dropped, and by the kernel when the process dies.
#[derive(Debug)]
pub struct WorkspaceLock {
    _lock: FolderLock,
}

/// Why a workspace could not be had.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// Another process has it.
    #[error("workspace `{}` is in use by {}", .path.display(), named(.holder.as_ref()))]
    Locked {
        /// The workspace.
        path: PathBuf,
        /// Who has it, if that could be read.
        holder: Option<Holder>,
    },
    /// The folder cannot be made or written.
    #[error("cannot use workspace `{}`: {source}", .path.display())]
    Io {
        /// The workspace.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

impl From<FolderLockError> for WorkspaceError {
    fn from(error: FolderLockError) -> Self {
        match error {
            FolderLockError::Held { path, holder } => Self::Locked { path, holder },
            FolderLockError::Io { path, source } => Self::Io { path, source },
        }
    }
}

impl WorkspaceLock {
    /// The process that has a workspace now; nothing if nobody does.
    #[must_use]
    pub fn holder(disk: &dyn Disk, workspace: &Path) -> Option<Holder> {
        FolderLock::holder(disk, workspace)
    }

    /// Creates the workspace if needed and takes its lock for `command`.
    ///
    /// # Errors
    /// [`WorkspaceError::Locked`] names the process that has it.
    pub fn acquire(
        disk: &dyn Disk,
        workspace: &Path,
        command: &str,
        clock: &Clock,
    ) -> Result<Self, WorkspaceError> {
        let lock = FolderLock::acquire(disk, workspace, command, clock)?;
        Ok(Self { _lock: lock })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealDisk;

    #[test]
    fn the_second_process_learns_who_is_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let clock = Clock::real();
        let first = WorkspaceLock::acquire(&RealDisk, &path, "cannery up", &clock).unwrap();
        let refused = WorkspaceLock::acquire(&RealDisk, &path, "cannery up", &clock)
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("in use by `cannery up` (process "),
            "{refused}"
        );
        drop(first);
        WorkspaceLock::acquire(&RealDisk, &path, "cannery up", &clock).unwrap();
    }
}
