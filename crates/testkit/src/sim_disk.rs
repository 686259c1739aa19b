//! A file system in memory, on a disk that loses power.
//!
//! It answers as Linux does through `RealDisk`, and keeps for every file and folder what a power cut would leave: what was
//! synced, and by seed any part of what was not. Paths have no working folder: `a`, `./a` and `/a` are one file, and the
//! root exists.
//!
//! A test of durable code runs it, cuts the power with [`SimDisk::power_off_at`] at every step, and looks at
//! [`SimDisk::crash`] under many seeds.

use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use cannery_runtime::Rng;
use cannery_runtime::disk::{DirEntry, Disk, DiskDir, DiskFile, DiskLock, Metadata, Open, Wait};

mod crash;
mod fault;
mod file;
mod inode;
mod names;
mod place;
mod state;
mod tree;

#[cfg(test)]
mod tests;

pub use fault::DiskError;

use fault::{Fault, Moment};
use file::{SimFile, SimLock};
use state::State;

/// A disk in memory that loses what was not synced; clones are the same disk.
#[derive(Clone)]
pub struct SimDisk(Arc<Shared>);

struct Shared {
    seed: u64,
    state: Mutex<State>,
    /// A lock was let go, or the power went.
    changed: Condvar,
}

impl SimDisk {
    /// An empty disk; `seed` decides what a crash leaves of what was not synced.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::holding(seed, State::new(seed))
    }

    fn holding(seed: u64, state: State) -> Self {
        Self(Arc::new(Shared {
            seed,
            state: Mutex::new(state),
            changed: Condvar::new(),
        }))
    }

    /// Cuts the power: a new disk with what survived. This disk, its files and its locks only return errors from now on.
    ///
    /// May be called again, and then leaves the same.
    #[must_use]
    pub fn crash(&self) -> Self {
        self.crash_with(self.0.seed)
    }

    /// As [`SimDisk::crash`] with another seed: many outcomes of one run.
    #[must_use]
    pub fn crash_with(&self, seed: u64) -> Self {
        self.state().faults.power_off();
        self.0.changed.notify_all();
        self.crash_copy(seed)
    }

    /// What [`SimDisk::crash_with`] would leave at this moment, while this disk goes on.
    #[must_use]
    pub fn crash_copy(&self, seed: u64) -> Self {
        let rng = Rng::seeded(seed);
        let survived = self.state().after_crash(&rng);
        Self::holding(rng.below(u64::MAX), survived)
    }

    /// How many operations were asked for so far: create, write, set the length, sync, rename, remove, and the same for
    /// folders, each counted whether it succeeded or not. A lock counts when it creates its file.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().faults.operations()
    }

    /// The operations so far with their numbers and errors, for the message of a failed test.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        self.state().faults.log().to_vec()
    }

    /// The operation numbered `n`, counted from 1 since the disk was made, fails without effect, once.
    ///
    /// A sync that fails this way spoils what it covered, as on Linux: a seeded part is on the disk, and no later sync
    /// brings the rest there.
    pub fn fail_at(&self, n: u64, error: impl Into<DiskError>) {
        self.state().faults.plan(n, Moment::Before, error.into());
    }

    /// The operation numbered `n` takes effect and returns the error all the same, once.
    pub fn fail_after(&self, n: u64, error: impl Into<DiskError>) {
        self.state().faults.plan(n, Moment::After, error.into());
    }

    /// The operation numbered `n` and all after it fail without effect, until [`SimDisk::clear_faults`]; reading goes on.
    pub fn fail_from(&self, n: u64, error: impl Into<DiskError>) {
        self.state()
            .faults
            .plan_from(n, Moment::Before, error.into());
    }

    /// The operation numbered `n` and all after it take effect and return the error all the same, until
    /// [`SimDisk::clear_faults`].
    pub fn fail_from_after(&self, n: u64, error: impl Into<DiskError>) {
        self.state()
            .faults
            .plan_from(n, Moment::After, error.into());
    }

    /// Nothing fails any more of what was to fail. What failed syncs covered stays spoiled.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// The operation numbered `n` has no effect, and it and everything after it return an error until [`SimDisk::crash`].
    pub fn power_off_at(&self, n: u64) {
        self.state().faults.power_off_at(n);
        self.0.changed.notify_all();
    }

    /// Writes that would make all files together longer than this fail with `StorageFull`, after a seeded part.
    ///
    /// Holes count by their length. Setting a length never fails for want of space, as it writes nothing; what it added
    /// is missing for the writes after it.
    pub fn set_capacity(&self, bytes: u64) {
        self.state().capacity_bytes = bytes;
    }

    /// The medium has lost what is in a file: reading it is an error until the power goes. Its name is as good as any.
    ///
    /// # Errors
    /// When there is no such file.
    pub fn lose(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        let node = state.tree.find(path)?;
        state.lost.insert(node);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs what changes nothing.
    fn look<T>(&self, at: impl FnOnce(&State) -> io::Result<T>) -> io::Result<T> {
        let state = self.state();
        state.faults.check_power()?;
        at(&state)
    }

    /// Runs a numbered operation, unless its number is to fail.
    fn mutate<T>(
        &self,
        what: &str,
        effect: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> io::Result<T> {
        self.mutate_or(what, effect, |_| {})
    }

    /// As [`SimDisk::mutate`]; `spoil` happens instead of the effect when the operation is to fail without it.
    fn mutate_or<T>(
        &self,
        what: &str,
        effect: impl FnOnce(&mut State) -> io::Result<T>,
        spoil: impl FnOnce(&mut State),
    ) -> io::Result<T> {
        let mut state = self.state();
        let done = match state.faults.begin(what) {
            Ok(None) => effect(&mut state),
            Ok(Some(Fault { moment, error })) => match moment {
                Moment::Before => {
                    spoil(&mut state);
                    Err(error.into())
                }
                Moment::After => {
                    drop(effect(&mut state));
                    Err(error.into())
                }
            },
            Err(no_power) => {
                self.0.changed.notify_all();
                Err(no_power)
            }
        };
        if let Err(error) = &done {
            state.faults.note(error);
        }
        done
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimDisk(seed {})", self.0.seed)
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        let (handle, writable) = match how {
            Open::Read => (self.look(|state| state.tree.open(path))?, false),
            Open::ReadWrite => (self.look(|state| state.tree.open_file(path))?, true),
            Open::CreateNew | Open::CreatePrivate => {
                let what = &format!("create `{}`", path.display());
                (
                    self.mutate(what, |state| state.tree.create_file(path))?,
                    true,
                )
            }
        };
        Ok(Box::new(SimFile::new(self.clone(), path, handle, writable)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let what = &format!("rename `{}` to `{}`", from.display(), to.display());
        self.mutate(what, |state| state.tree.rename(from, to, true))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let what = &format!("rename `{}` to new `{}`", from.display(), to.display());
        self.mutate(what, |state| state.tree.rename(from, to, false))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let what = &format!("remove `{}`", path.display());
        self.mutate(what, |state| state.tree.remove_file(path))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let what = &format!("create folder `{}`", path.display());
        self.mutate(what, |state| state.tree.create_dir(path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let what = &format!("remove folder `{}`", path.display());
        self.mutate(what, |state| state.tree.remove_dir(path))
    }

    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn DiskDir>> {
        self.look(|state| state.tree.find(path).map(drop))?;
        Ok(Box::new(SimDir {
            disk: self.clone(),
            path: path.to_owned(),
        }))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.mutate_or(
            &format!("sync folder `{}`", path.display()),
            |state| {
                let node = state.tree.find(path)?;
                state.tree.sync(node);
                Ok(())
            },
            |state| {
                if let Ok(node) = state.tree.find(path) {
                    state.spoil(node);
                }
            },
        )
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.look(|state| state.tree.list(path))
    }

    fn visit_dir(
        &self,
        path: &Path,
        visit: &mut dyn FnMut(DirEntry) -> ControlFlow<()>,
    ) -> io::Result<()> {
        for entry in self.read_dir(path)? {
            if visit(entry).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn open_beneath(&self, root: &Path, below: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.open(&root.join(below), Open::Read)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.look(|state| state.tree.metadata(path))
    }

    fn lock(&self, path: &Path, wait: Wait) -> io::Result<Box<dyn DiskLock>> {
        Ok(Box::new(SimLock::acquire(self, path, wait)?))
    }
}

/// A folder by its path: nothing of ours removes or renames a folder that it is about to sync.
#[derive(Debug)]
struct SimDir {
    disk: SimDisk,
    path: PathBuf,
}

impl DiskDir for SimDir {
    fn sync(&self) -> io::Result<()> {
        self.disk.sync_dir(&self.path)
    }
}
