//! Files for what is being worked on: nothing in them is needed after a crash.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cannery_runtime::disk::{Disk as _, DiskFile, Open, create_dir_all};
use cannery_runtime::{Clock, RealDisk, Rng};

use crate::error::Error;

const ENDING: &str = ".part";

/// Older than any work that goes on: what a process that died has left.
const LEFT_OVER: Duration = Duration::from_secs(2 * 86_400);

/// A folder for files that live as long as their handle. Several processes may share it. Clones are the same folder.
#[derive(Clone, Debug)]
pub struct Scratch {
    folder: PathBuf,
    rng: Rng,
}

/// A file that is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct ScratchFile {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
}

/// A place in a scratch file.
#[derive(Debug)]
pub(crate) struct Place {
    file: Arc<dyn DiskFile>,
    at: u64,
}

impl Scratch {
    /// Makes the folder if needed, and removes what a process that died days ago has left there. It blocks.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub fn open(folder: &Path, clock: &Clock, rng: Rng) -> Result<Self, Error> {
        let scratch = Self {
            folder: folder.to_owned(),
            rng,
        };
        create_dir_all(&RealDisk, folder)
            .and_then(|()| scratch.tidy(clock))
            .map_err(|why| Error::scratch(folder, why))?;
        Ok(scratch)
    }

    fn tidy(&self, clock: &Clock) -> io::Result<()> {
        let now = clock.now();
        for entry in RealDisk.read_dir(&self.folder)? {
            if !entry.name.to_string_lossy().ends_with(ENDING) {
                continue;
            }
            let path = self.folder.join(&entry.name);
            let is_old = |modified| now.duration_since(modified) > limit();
            match RealDisk.metadata(&path) {
                Ok(found) if is_old(found.modified) => gone(RealDisk.remove_file(&path))?,
                Ok(_) => {}
                Err(error) => gone(Err(error))?,
            }
        }
        Ok(())
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A new, empty file. It blocks.
    pub(crate) fn file(&self) -> io::Result<ScratchFile> {
        let path = self.folder.join(format!("{}{ENDING}", self.rng.id()));
        let file = RealDisk.open(&path, Open::CreatePrivate)?.into();
        Ok(ScratchFile { path, file })
    }
}

fn limit() -> jiff::SignedDuration {
    jiff::SignedDuration::try_from(LEFT_OVER).expect("two days are a duration")
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
    use cannery_runtime::clock::SimulatedClock;
    use cannery_runtime::disk::write_durably;

    use super::*;

    #[test]
    fn a_file_is_gone_with_its_handle() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::open(folder.path(), &Clock::real(), Rng::seeded(1)).unwrap();
        let file = scratch.file().unwrap();
        file.begin().write_all(b"abc").unwrap();
        let mut place = file.begin();
        place.seek(SeekFrom::End(-2)).unwrap();
        let mut text = String::new();
        place.read_to_string(&mut text).unwrap();
        assert_eq!(text, "bc");
        drop(file);
        assert_eq!(RealDisk.read_dir(folder.path()).unwrap(), []);
    }

    #[test]
    fn only_what_is_old_and_ours_is_tidied_up() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.part", "notes.txt"] {
            write_durably(&RealDisk, &folder.path().join(name), b"").unwrap();
        }
        let count = || RealDisk.read_dir(folder.path()).unwrap().len();
        Scratch::open(folder.path(), &Clock::real(), Rng::seeded(1)).unwrap();
        assert_eq!(count(), 2, "somebody else may be at work");
        let later = Clock::real().now() + jiff::SignedDuration::from_hours(72);
        let later = SimulatedClock::starting_at(later).clock();
        Scratch::open(folder.path(), &later, Rng::seeded(1)).unwrap();
        assert_eq!(count(), 1);
    }
}
