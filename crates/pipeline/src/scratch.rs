//! Files for what is being worked on: nothing in them is needed after a crash.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cannery_runtime::disk::{Disk as _, DiskFile, DiskLock, Kind, Open, Wait, create_dir_all};
use cannery_runtime::{RealDisk, Rng};

use crate::error::Error;

const ENDING: &str = ".part";

/// How often a new file may be taken for left over, by somebody who tidies up at that moment, before it is locked.
const TRIES_MAX: u32 = 16;

/// A folder for files that live as long as their handle. Several processes may share it: each file is locked by who works on it. Clones
/// are the same folder.
#[derive(Clone, Debug)]
pub struct Scratch(Arc<Home>);

#[derive(Debug)]
struct Home {
    folder: PathBuf,
    rng: Rng,
    /// Whether the folder goes with its last handle.
    is_temporary: bool,
}

/// A file that is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct ScratchFile {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    /// Until then nobody else takes it for left over.
    _lock: Box<dyn DiskLock>,
    _home: Scratch,
}

/// A place in a scratch file.
#[derive(Debug)]
pub(crate) struct Place {
    file: Arc<dyn DiskFile>,
    at: u64,
}

impl Scratch {
    /// Makes the folder if needed, and removes what processes that died have left there. It blocks.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub fn open(folder: &Path, rng: Rng) -> Result<Self, Error> {
        let scratch = Self::at(folder.to_owned(), rng, false);
        create_dir_all(&RealDisk, folder)
            .and_then(|()| tidy(folder))
            // A folder that is there may still be one that nobody may write to.
            .and_then(|()| scratch.file().map(drop))
            .map_err(|why| Error::scratch(folder, why))?;
        Ok(scratch)
    }

    /// Makes a new folder below `parent`, for who may not write elsewhere. It is gone with its last handle and file. It blocks.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn temporary(parent: &Path, rng: Rng) -> Result<Self, Error> {
        let folder = parent.join(format!("cannery-{}", rng.id()));
        RealDisk
            .create_dir(&folder)
            .map_err(|why| Error::scratch(&folder, why))?;
        Ok(Self::at(folder, rng, true))
    }

    fn at(folder: PathBuf, rng: Rng, is_temporary: bool) -> Self {
        Self(Arc::new(Home {
            folder,
            rng,
            is_temporary,
        }))
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// A new, empty file. It blocks.
    pub(crate) fn file(&self) -> io::Result<ScratchFile> {
        for _ in 0..TRIES_MAX {
            let path = self.folder().join(format!("{}{ENDING}", self.0.rng.id()));
            let file = RealDisk.open(&path, Open::CreatePrivate)?;
            if let Some(lock) = locked(&path)?
                && lock.file().metadata()?.id == file.metadata()?.id
            {
                return Ok(ScratchFile {
                    path,
                    file: file.into(),
                    _lock: lock,
                    _home: self.clone(),
                });
            }
            gone(RealDisk.remove_file(&path))?;
        }
        Err(io::Error::other("others keep removing what is new there"))
    }
}

/// Removes the files that nobody has locked: the processes that did are gone.
fn tidy(folder: &Path) -> io::Result<()> {
    for entry in RealDisk.read_dir(folder)? {
        let is_ours = entry.kind == Kind::File && entry.name.to_string_lossy().ends_with(ENDING);
        let path = folder.join(&entry.name);
        if is_ours && let Some(_lock) = locked(&path)? {
            gone(RealDisk.remove_file(&path))?;
        }
    }
    Ok(())
}

/// The lock of a file; nothing when somebody has it.
fn locked(path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
    match RealDisk.lock(path, Wait::No) {
        Ok(lock) => Ok(Some(lock)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if self.is_temporary
            && let Err(error) = gone(RealDisk.remove_dir(&self.folder))
        {
            tracing::warn!(path = %self.folder.display(), %error, "a scratch folder is left over");
        }
    }
}

/// Another process may have removed it first.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

impl ScratchFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    /// Its content from the begin on, to be read or written.
    pub(crate) fn begin(&self) -> Place {
        Place {
            file: Arc::clone(&self.file),
            at: 0,
        }
    }

    /// The open file without its name: nothing is left even after a crash.
    pub(crate) fn into_nameless(self) -> Place {
        self.begin()
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        if let Err(error) = gone(RealDisk.remove_file(&self.path)) {
            tracing::warn!(path = %self.path.display(), %error, "a scratch file is left over");
        }
    }
}

impl Read for Place {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(self.at, buffer)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Write for Place {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.file.write_all_at(self.at, data)?;
        self.at += data.len() as u64;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Place {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.file.len()?.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use cannery_runtime::disk::write_durably;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = RealDisk.read_dir(folder).unwrap().into_iter();
        let mut names: Vec<_> = entries
            .map(|entry| entry.name.into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_gone_with_its_handle() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::open(folder.path(), Rng::seeded(1)).unwrap();
        let file = scratch.file().unwrap();
        file.begin().write_all(b"abc").unwrap();
        let mut place = file.begin();
        place.seek(SeekFrom::End(-2)).unwrap();
        let mut text = String::new();
        place.read_to_string(&mut text).unwrap();
        assert_eq!(text, "bc");
        drop(file);
        assert_eq!(names(folder.path()), Vec::<String>::new());
    }

    #[test]
    fn what_nobody_works_on_is_tidied_up_at_once_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::open(folder.path(), Rng::seeded(1)).unwrap();
        let file = scratch.file().unwrap();
        file.begin().write_all(b"abc").unwrap();
        // As a process leaves them that was killed.
        for name in ["a.part", "notes.txt"] {
            write_durably(&RealDisk, &folder.path().join(name), b"left").unwrap();
        }
        Scratch::open(folder.path(), Rng::seeded(2)).unwrap();
        let used = file.path().file_name().unwrap().to_str().unwrap();
        let mut expected = vec![used.to_owned(), "notes.txt".to_owned()];
        expected.sort();
        assert_eq!(names(folder.path()), expected);
        let mut text = String::new();
        file.begin().read_to_string(&mut text).unwrap();
        assert_eq!(text, "abc");
    }

    #[test]
    fn a_temporary_folder_is_gone_with_the_last_file() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::temporary(parent.path(), Rng::seeded(1)).unwrap();
        let file = scratch.file().unwrap();
        drop(scratch);
        assert_eq!(names(parent.path()).len(), 1);
        file.begin().write_all(b"abc").unwrap();
        drop(file);
        assert_eq!(names(parent.path()), Vec::<String>::new());
    }
}
