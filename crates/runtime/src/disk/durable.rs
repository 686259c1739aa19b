//! Small files and folders that survive a power cut.

use std::io;
use std::path::{Path, PathBuf};

use super::{Disk, DiskFile, Kind, Open};

/// How much of a new file is written at once.
const FILL_BYTES: usize = 1 << 20;

/// A sync failed: what it covered may be lost, and repeating it would not bring it back.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a write durable: {0}")]
struct SyncFailed(io::Error);

/// Whether an error of this module says that something may never become durable, however often it is repeated.
#[must_use]
pub fn is_sync_failure(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|inner| inner.is::<SyncFailed>())
}

fn sync_dir(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    disk.open_dir(folder)?
        .sync()
        .map_err(|error| io::Error::new(error.kind(), SyncFailed(error)))
}

/// Replaces the content of `path`: after `Ok` it holds `content` whatever happens next; before, the old content or none.
///
/// Temp file in the same folder, fsync, rename, fsync of the folder. Two writers of one path must agree by a lock. May be
/// called twice.
///
/// # Errors
/// As the operating system says; then `path` holds the old content, or the new one.
pub fn write_durably(disk: &dyn Disk, path: &Path, content: &[u8]) -> io::Result<()> {
    replace(disk, path, content, Open::CreateNew)
}

/// The same as [`write_durably`] for a file that only its owner may read.
///
/// # Errors
/// As [`write_durably`].
pub fn write_private(disk: &dyn Disk, path: &Path, content: &[u8]) -> io::Result<()> {
    replace(disk, path, content, Open::CreatePrivate)
}

fn replace(disk: &dyn Disk, path: &Path, content: &[u8], how: Open) -> io::Result<()> {
    let temp = temp_path(path)?;
    remove_if_there(disk, &temp)?;
    let written = write_temp(disk, &temp, content, how).and_then(|()| disk.rename(&temp, path));
    if let Err(error) = written {
        // The error that counts is the first one; the next write removes what is left.
        drop(disk.remove_file(&temp));
        return Err(error);
    }
    sync_dir(disk, parent_of(path))
}

fn write_temp(disk: &dyn Disk, temp: &Path, content: &[u8], how: Open) -> io::Result<()> {
    let file = disk.open(temp, how)?;
    file.write_all_at(0, content)?;
    file.sync()
}

fn remove_if_there(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Err(_) | Ok(()) => Ok(()),
    }
}

fn temp_path(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut temp = std::ffi::OsString::from(".");
    temp.push(name);
    temp.push(".tmp");
    Ok(path.with_file_name(temp))
}

/// Creates a file of `bytes` zeros that only its owner may read, durable with its name, and open for writing.
///
/// The zeros are written: blocks that are only reserved would change the file system's own records when first written,
/// and every [`DiskFile::sync_data`] would pay for that. A power cut midway may leave a file of any length up to `bytes`.
///
/// # Errors
/// `AlreadyExists` when something is at `path`, or as the operating system says; then the file is removed again if that
/// is possible, and the first error returned.
pub fn preallocate(disk: &dyn Disk, path: &Path, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
    let file = disk.open(path, Open::CreatePrivate)?;
    let filled = fill_with_zeros(&*file, bytes).and_then(|()| sync_dir(disk, parent_of(path)));
    if let Err(error) = filled {
        // The error that counts is the first one.
        drop(disk.remove_file(path));
        return Err(error);
    }
    Ok(file)
}

fn fill_with_zeros(file: &dyn DiskFile, bytes: u64) -> io::Result<()> {
    let chunk_bytes = usize::try_from(bytes).map_or(FILL_BYTES, |bytes| bytes.min(FILL_BYTES));
    let zeros = vec![0; chunk_bytes];
    let mut offset = 0;
    while offset < bytes {
        let left = usize::try_from(bytes - offset).unwrap_or(usize::MAX);
        let chunk = &zeros[..left.min(zeros.len())];
        file.write_all_at(offset, chunk)?;
        offset += chunk.len() as u64;
    }
    file.sync()
}

/// Creates a folder and its missing parents and makes the whole path durable, also what was there before: whoever made
/// it may have died before syncing it. May be called twice.
///
/// # Errors
/// As the operating system says; `NotADirectory` when something else stands in the way.
pub fn create_dir_all(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    let parent = parent_of(path);
    match disk.metadata(path) {
        Ok(found) if found.kind == Kind::File => return Err(io::ErrorKind::NotADirectory.into()),
        // A link to a folder is the operator's choice; using it shows whether it leads somewhere.
        Ok(_) => {
            return if parent == path {
                Ok(())
            } else {
                sync_found(disk, parent)
            };
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    create_dir_all(disk, parent)?;
    match disk.create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Err(_) | Ok(()) => {}
    }
    sync_dir(disk, parent)
}

/// Syncs a folder that was there before, and those above it. One that this user may not even open was made by somebody
/// else, and is theirs to sync.
fn sync_found(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    match sync_dir(disk, folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
        synced => synced?,
    }
    let parent = parent_of(folder);
    if parent == folder {
        Ok(())
    } else {
        sync_found(disk, parent)
    }
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealDisk;
    use crate::disk::read;

    #[test]
    fn content_is_replaced_and_no_temp_stays() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a/b");
        create_dir_all(&RealDisk, &folder).unwrap();
        create_dir_all(&RealDisk, &folder).unwrap();
        let path = folder.join("state.json");
        write_durably(&RealDisk, &path, b"one").unwrap();
        write_durably(&RealDisk, &path, b"two").unwrap();
        assert_eq!(read(&RealDisk, &path, 10).unwrap(), b"two");
        assert_eq!(RealDisk.read_dir(&folder).unwrap().len(), 1);
    }

    #[test]
    fn a_file_in_the_way_of_a_folder_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("taken");
        write_durably(&RealDisk, &path, b"").unwrap();
        assert_eq!(
            create_dir_all(&RealDisk, &path).unwrap_err().kind(),
            io::ErrorKind::NotADirectory
        );
    }

    #[test]
    fn a_preallocated_file_is_new_private_and_zero() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("segment");
        let bytes = 2 * FILL_BYTES as u64 + 512;
        let file = preallocate(&RealDisk, &path, bytes).unwrap();
        file.write_all_at(512, &[7; 512]).unwrap();
        file.sync_data().unwrap();
        let mut expected = vec![0; 2 * FILL_BYTES + 512];
        expected[512..1024].fill(7);
        assert!(read(&RealDisk, &path, bytes).unwrap() == expected);
        let mode = std::os::unix::fs::MetadataExt::mode(&path.metadata().unwrap());
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn preallocating_leaves_what_is_there_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("segment");
        write_durably(&RealDisk, &path, b"mine").unwrap();
        let error = preallocate(&RealDisk, &path, 10).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(read(&RealDisk, &path, 10).unwrap(), b"mine");
    }

    #[test]
    fn a_file_over_the_cap_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("big");
        write_durably(&RealDisk, &path, &[7; 100]).unwrap();
        assert_eq!(
            read(&RealDisk, &path, 99).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
        assert_eq!(read(&RealDisk, &path, 100).unwrap().len(), 100);
    }
}
