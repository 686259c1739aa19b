//! The exclusive lock on a workspace: one process owns what lies under it, and a second one learns who that is.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Clock;
use crate::disk::{Disk, DiskLock, Open, Wait, create_dir_all, read_file, write_private};

const LOCK_FILE: &str = "lock";
const HOLDER_FILE: &str = "lock.json";
const HOLDER_BYTES_MAX: u64 = 4096;

/// The lock; it is let go when dropped, and by the kernel when the process dies.
#[derive(Debug)]
pub struct WorkspaceLock {
    _lock: Box<dyn DiskLock>,
}

/// The process that holds a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// What it was started as, such as `cannery up`.
    pub command: String,
    /// When it took the lock.
    pub since: Timestamp,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` (process {}, since {:.0})",
            self.command, self.pid, self.since
        )
    }
}

/// Why a workspace could not be had.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// Another process has it.
    #[error("workspace `{}` is in use by {}", .path.display(), .holder.as_ref().map_or_else(|| "another process".to_owned(), Holder::to_string))]
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

impl WorkspaceLock {
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
        let failed = |source| WorkspaceError::Io {
            path: workspace.to_owned(),
            source,
        };
        create_dir_all(disk, workspace).map_err(failed)?;
        let lock = match disk.lock(&workspace.join(LOCK_FILE), Wait::No) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(WorkspaceError::Locked {
                    path: workspace.to_owned(),
                    holder: holder_soon(disk, workspace),
                });
            }
            Err(error) => return Err(failed(error)),
        };
        let holder = Holder {
            pid: std::process::id(),
            command: command.to_owned(),
            since: clock.now(),
        };
        let text = serde_json::to_vec(&holder).expect("a holder is plain data");
        write_private(disk, &workspace.join(HOLDER_FILE), &text).map_err(failed)?;
        Ok(Self { _lock: lock })
    }
}

/// The holder writes its name just after it took the lock: a short wait tells it apart from one that cannot be read.
fn holder_soon(disk: &dyn Disk, workspace: &Path) -> Option<Holder> {
    (0..10).find_map(|_| {
        holder(disk, workspace).or_else(|| {
            #[allow(clippy::disallowed_methods, reason = "another process needs real time")]
            std::thread::sleep(std::time::Duration::from_millis(20));
            None
        })
    })
}

fn holder(disk: &dyn Disk, workspace: &Path) -> Option<Holder> {
    let file = disk.open(&workspace.join(HOLDER_FILE), Open::Read).ok()?;
    serde_json::from_slice(&read_file(&*file, HOLDER_BYTES_MAX).ok()?).ok()
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
