//! The exclusive lock on a folder: one process owns what lies in it, and a second one learns who that is.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Clock;
use crate::disk::{Disk, DiskLock, Open, Wait, create_dir_all, read_file, write_private};

const LOCK_FILE: &str = "lock";
/// Not the lock file itself: replaced as a whole, it is never read half written.
const HOLDER_FILE: &str = "lock.json";
const HOLDER_BYTES_MAX: u64 = 4096;

/// The lock; it is let go when dropped, and by the kernel when the process dies. It uses the names `lock` and `lock.json`
/// in its folder, and leaves both files there.
#[derive(Debug)]
pub struct FolderLock {
    lock: Box<dyn DiskLock>,
    path: PathBuf,
}

/// The process that holds a folder.
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

/// Who has a folder, in words.
pub(crate) fn named(holder: Option<&Holder>) -> String {
    holder.map_or_else(|| "another process".to_owned(), Holder::to_string)
}

/// Why a folder could not be had.
#[derive(Debug, thiserror::Error)]
pub enum FolderLockError {
    /// Another process has it.
    #[error("folder `{}` is in use by {}", .path.display(), named(.holder.as_ref()))]
    Held {
        /// The folder.
        path: PathBuf,
        /// Who has it, if that could be read.
        holder: Option<Holder>,
    },
    /// The folder cannot be made or written.
    #[error("cannot use folder `{}`: {source}", .path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

impl FolderLock {
    /// Creates the folder if needed and takes its lock for `command`.
    ///
    /// # Errors
    /// [`FolderLockError::Held`] names the process that has it.
    pub fn acquire(
        disk: &dyn Disk,
        folder: &Path,
        command: &str,
        clock: &Clock,
    ) -> Result<Self, FolderLockError> {
        let failed = |source| FolderLockError::Io {
            path: folder.to_owned(),
            source,
        };
        create_dir_all(disk, folder).map_err(failed)?;
        let path = folder.join(LOCK_FILE);
        make_private(disk, &path).map_err(failed)?;
        let lock = match lock_soon(disk, &path) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(FolderLockError::Held {
                    path: folder.to_owned(),
                    holder: holder_soon(disk, folder),
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
        write_private(disk, &folder.join(HOLDER_FILE), &text).map_err(failed)?;
        Ok(Self { lock, path })
    }

    /// The process that holds a folder now; nothing if nobody does, or if it cannot be told.
    #[must_use]
    pub fn holder(disk: &dyn Disk, folder: &Path) -> Option<Holder> {
        match disk.lock(&folder.join(LOCK_FILE), Wait::No) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => holder_soon(disk, folder),
            Ok(_) | Err(_) => None,
        }
    }

    /// Whether the folder is still the one that was locked: somebody may have removed or replaced it with everything in
    /// it, and then another process may own what lies there now.
    #[must_use]
    pub fn still_holds(&self, disk: &dyn Disk) -> bool {
        let held = self.lock.file().metadata().map(|held| held.id);
        let there = disk.metadata(&self.path).map(|found| found.id);
        matches!((held, there), (Ok(held), Ok(there)) if held == there)
    }
}

/// Who may read the file may lock it, and keep everybody else out.
fn make_private(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.open(path, Open::CreatePrivate) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Somebody who only looks whether it is held holds it for a moment.
fn lock_soon(disk: &dyn Disk, path: &Path) -> io::Result<Box<dyn DiskLock>> {
    match disk.lock(path, Wait::No) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            #[allow(clippy::disallowed_methods, reason = "another process needs real time")]
            std::thread::sleep(std::time::Duration::from_millis(20));
            disk.lock(path, Wait::No)
        }
        outcome => outcome,
    }
}

/// The holder writes its name just after it took the lock: a short wait tells it apart from one that cannot be read.
fn holder_soon(disk: &dyn Disk, folder: &Path) -> Option<Holder> {
    (0..10).find_map(|_| {
        holder(disk, folder).or_else(|| {
            #[allow(clippy::disallowed_methods, reason = "another process needs real time")]
            std::thread::sleep(std::time::Duration::from_millis(20));
            None
        })
    })
}

fn holder(disk: &dyn Disk, folder: &Path) -> Option<Holder> {
    let file = disk.open(&folder.join(HOLDER_FILE), Open::Read).ok()?;
    serde_json::from_slice(&read_file(&*file, HOLDER_BYTES_MAX).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealDisk;

    #[test]
    fn the_second_process_learns_who_is_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let clock = Clock::real();
        let first = FolderLock::acquire(&RealDisk, &path, "cannery up", &clock).unwrap();
        let refused = FolderLock::acquire(&RealDisk, &path, "cannery add", &clock).unwrap_err();
        let FolderLockError::Held { holder, .. } = &refused else {
            panic!("{refused}");
        };
        let holder = holder.as_ref().unwrap();
        assert_eq!(
            (holder.pid, holder.command.as_str()),
            (std::process::id(), "cannery up")
        );
        assert_eq!(
            refused.to_string(),
            format!("folder `{}` is in use by {holder}", path.display())
        );
        drop(first);
        FolderLock::acquire(&RealDisk, &path, "cannery add", &clock).unwrap();
    }

    #[test]
    fn a_holder_that_cannot_be_read_is_another_process() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::real();
        let _held = RealDisk
            .lock(&dir.path().join(LOCK_FILE), Wait::No)
            .unwrap();
        let refused = FolderLock::acquire(&RealDisk, dir.path(), "cannery up", &clock)
            .unwrap_err()
            .to_string();
        assert!(refused.ends_with("in use by another process"), "{refused}");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        write_private(&RealDisk, &path, b"").unwrap();
        let refused =
            FolderLock::acquire(&RealDisk, &path, "cannery up", &Clock::real()).unwrap_err();
        assert!(matches!(&refused, FolderLockError::Io { path: named, .. } if *named == path));
    }
}
