//! The next file of the log, made ready before it is needed: growing a file on the way of a commit costs ten times the commit.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use cannery_formats::journal_segment::HEADER_BYTES;
use cannery_runtime::disk::{self, Disk, DiskFile, Open};

use crate::declaration::OnEmpty;

/// Its name in the folder. Whatever it holds is free.
const NAME: &str = "spare";

/// What was being made when the process ended is free as well.
const MAKING: &str = "spare.new";

/// What was being freed, too.
const FREED: &str = "freed";

const FILL_BYTES: u64 = 1 << 20;

/// What happens without being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Files are made ready ahead, compaction gives way to requests, and time brings wake-ups, time-outs and expiries.
    Free,
    /// Nothing, and everything else in the same order every time: for tests that number every effect.
    Stepwise,
}

/// A segment that is given up.
pub(super) struct Freed<'a> {
    pub(super) file: &'a dyn DiskFile,
    /// How far it was written.
    pub(super) end: u64,
    pub(super) on_empty: OnEmpty,
    /// Whether what it held is overwritten.
    pub(super) wiped: bool,
}

#[derive(Debug)]
pub(super) struct Spare {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    bytes: u64,
    pace: Pace,
    there: bool,
    making: Option<JoinHandle<io::Result<()>>>,
}

impl Spare {
    /// None yet. What an earlier process left is removed, and overwritten before if that is asked for: after a power cut a
    /// file may be found under its old name and its new one, so that nothing but its removal is safe.
    pub(super) fn clear(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        bytes: u64,
        pace: Pace,
        wiped: bool,
    ) -> io::Result<Self> {
        for name in [NAME, MAKING, FREED] {
            clear_away(&**disk, &dir.join(name), wiped)?;
        }
        Ok(Self {
            disk: Arc::clone(disk),
            dir: dir.to_owned(),
            bytes,
            pace,
            there: false,
            making: None,
        })
    }

    pub(super) fn path(&self) -> PathBuf {
        self.dir.join(NAME)
    }

    pub(super) fn is_there(&self) -> bool {
        self.there || self.making.is_some()
    }

    /// Whether there is one, or one is being made.
    pub(super) fn is_ready_or_coming(&mut self) -> bool {
        if self.making.as_ref().is_some_and(JoinHandle::is_finished) {
            self.settle();
        }
        self.is_there()
    }

    /// Makes one on the spot, unless there is one.
    pub(super) fn prepare_now(&mut self) -> io::Result<()> {
        self.settle();
        if !self.there {
            make(&*self.disk, &self.dir, self.bytes)?;
            self.there = true;
        }
        Ok(())
    }

    /// Begins to make one, unless there is one. That it cannot be made shows when it is needed.
    pub(super) fn prepare(&mut self) -> io::Result<()> {
        if self.is_there() {
            return Ok(());
        }
        match self.pace {
            Pace::Stepwise => {
                make(&*self.disk, &self.dir, self.bytes)?;
                self.there = true;
            }
            Pace::Free => {
                let (disk, dir, bytes) = (Arc::clone(&self.disk), self.dir.clone(), self.bytes);
                let thread = std::thread::Builder::new().name("journal segment".to_owned());
                self.making = Some(thread.spawn(move || make(&*disk, &dir, bytes))?);
            }
        }
        Ok(())
    }

    /// The file, of full length and open for writing; it still has the name of a spare.
    pub(super) fn take(&mut self) -> io::Result<Box<dyn DiskFile>> {
        self.prepare_now()?;
        let filled = self.disk.open(&self.path(), Open::ReadWrite);
        let filled = filled.and_then(|file| fill(&*file, self.bytes).map(|()| file));
        if filled.is_err() {
            // What it lacks may never reach the disk. The next attempt makes another one, and the first error counts.
            drop(self.remove());
        }
        filled
    }

    /// The file has another name now.
    pub(super) fn taken(&mut self) {
        self.there = false;
    }

    /// Takes the file of a segment that nothing is at home in. It leaves the log durably before anything happens to it:
    /// half of what it held must never be read again.
    ///
    /// After an error it may be called again, and goes on where it was.
    pub(super) fn give(&mut self, path: &Path, freed: &Freed<'_>) -> io::Result<()> {
        let scratch = self.dir.join(FREED);
        match self.disk.rename(path, &scratch) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if !is_there(&*self.disk, &scratch)? {
                    // An earlier attempt came to its end, whatever it said. The file may be a segment again by now.
                    return Ok(());
                }
            }
            renamed => renamed?,
        }
        // A failed sync is no lack of room, and is not tried again.
        self.disk.sync_dir(&self.dir).map_err(io::Error::other)?;
        if freed.wiped {
            wipe(freed.file, freed.end)?;
        }
        if freed.on_empty == OnEmpty::Truncate {
            freed.file.set_len(HEADER_BYTES)?;
            freed.file.sync()?;
        }
        if freed.on_empty == OnEmpty::Delete || self.is_there() {
            return self.disk.remove_file(&scratch);
        }
        self.disk.rename(&scratch, &self.path())?;
        self.there = true;
        Ok(())
    }

    /// Removes it, and what a failed attempt to make one left.
    pub(super) fn remove(&mut self) -> io::Result<()> {
        self.settle();
        self.there = false;
        clear_away(&*self.disk, &self.path(), false)
    }

    /// Waits for what is being made.
    fn settle(&mut self) {
        if let Some(making) = self.making.take() {
            // A failure shows again when the file is made on the spot.
            self.there = matches!(making.join(), Ok(Ok(())));
        }
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        self.settle();
    }
}

/// One whose name could not be made durable is not used: after a power cut its file may have an earlier name, too.
fn make(disk: &dyn Disk, dir: &Path, bytes: u64) -> io::Result<()> {
    let making = dir.join(MAKING);
    // What an earlier attempt could not remove.
    clear_away(disk, &making, false)?;
    drop(disk::preallocate(disk, &making, bytes)?);
    disk.rename(&making, &dir.join(NAME))?;
    disk.sync_dir(dir)
}

/// A file that was cut when it was freed gets its blocks back.
fn fill(file: &dyn DiskFile, bytes: u64) -> io::Result<()> {
    let length = file.len()?;
    if length >= bytes {
        return Ok(());
    }
    zero(file, length, bytes)?;
    file.sync()
}

fn wipe(file: &dyn DiskFile, end: u64) -> io::Result<()> {
    zero(file, 0, end)?;
    file.sync_data()
}

fn zero(file: &dyn DiskFile, mut offset: u64, end: u64) -> io::Result<()> {
    let zeros = vec![0; usize::try_from(FILL_BYTES.min(end - offset)).unwrap_or_default()];
    while offset < end {
        let left = usize::try_from(end - offset).unwrap_or(usize::MAX);
        let chunk = &zeros[..left.min(zeros.len())];
        file.write_all_at(offset, chunk)?;
        offset += chunk.len() as u64;
    }
    Ok(())
}

/// Removes a file that may be there, and overwrites it before if that is asked for.
pub(super) fn clear_away(disk: &dyn Disk, path: &Path, wiped: bool) -> io::Result<()> {
    if !is_there(disk, path)? {
        return Ok(());
    }
    if wiped {
        let file = disk.open(path, Open::ReadWrite)?;
        wipe(&*file, file.len()?)?;
    }
    disk.remove_file(path)
}

fn is_there(disk: &dyn Disk, path: &Path) -> io::Result<bool> {
    match disk.metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        found => found.map(|_| true),
    }
}
