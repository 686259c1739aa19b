//! A disk that fails when it is told to.

use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cannery_runtime::RealDisk;
use cannery_runtime::disk::{
    DirEntry, Disk, DiskDir, DiskFile, DiskFolder, DiskLock, Metadata, NewFile, Open, Wait,
};
use jiff::Timestamp;

/// The disk of this machine, on which every operation of an open folder fails from a number on. Nothing is synced: the tests
/// that use it kill a process, and not the power.
#[derive(Clone, Debug)]
pub(super) struct TestDisk(Arc<Fate>);

#[derive(Debug)]
struct Fate {
    left: AtomicU64,
    error: io::ErrorKind,
}

impl TestDisk {
    pub(super) fn sound() -> Self {
        Self::failing_after(u64::MAX, io::ErrorKind::Other)
    }

    pub(super) fn failing_after(operations: u64, error: io::ErrorKind) -> Self {
        let left = AtomicU64::new(operations);
        Self(Arc::new(Fate { left, error }))
    }
}

impl Fate {
    fn step(&self) -> io::Result<()> {
        let less = |left: u64| left.checked_sub(1);
        match self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
        {
            Ok(_) => Ok(()),
            Err(_) => Err(self.error.into()),
        }
    }
}

impl Disk for TestDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        RealDisk.open(path, how)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename_new(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove_file(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        RealDisk.create_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove_dir(path)
    }

    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn DiskDir>> {
        RealDisk.open_dir(path)?;
        Ok(Box::new(Unsynced))
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        RealDisk.read_dir(path)
    }

    fn visit_dir(
        &self,
        path: &Path,
        visit: &mut dyn FnMut(DirEntry) -> ControlFlow<()>,
    ) -> io::Result<()> {
        RealDisk.visit_dir(path, visit)
    }

    fn open_beneath(&self, root: &Path, below: &Path) -> io::Result<Box<dyn DiskFile>> {
        RealDisk.open_beneath(root, below)
    }

    fn open_folder(&self, path: &Path) -> io::Result<Box<dyn DiskFolder>> {
        let inner = RealDisk.open_folder(path)?;
        let fate = Arc::clone(&self.0);
        Ok(Box::new(TestFolder { inner, fate }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        RealDisk.metadata(path)
    }

    fn lock(&self, path: &Path, wait: Wait) -> io::Result<Box<dyn DiskLock>> {
        RealDisk.lock(path, wait)
    }
}

#[derive(Debug)]
struct TestFolder {
    inner: Box<dyn DiskFolder>,
    fate: Arc<Fate>,
}

impl DiskFolder for TestFolder {
    fn folder(&self, name: &OsStr) -> io::Result<Box<dyn DiskFolder>> {
        self.fate.step()?;
        let inner = self.inner.folder(name)?;
        let fate = Arc::clone(&self.fate);
        Ok(Box::new(Self { inner, fate }))
    }

    fn open(&self, name: &OsStr) -> io::Result<Box<dyn DiskFile>> {
        self.inner.open(name)
    }

    fn new_file(&self, temp: &OsStr) -> io::Result<Box<dyn NewFile>> {
        self.fate.step()?;
        let inner = self.inner.new_file(temp)?;
        let fate = Arc::clone(&self.fate);
        Ok(Box::new(TestFile { inner, fate }))
    }

    fn sync_file_system(&self) -> io::Result<()> {
        self.fate.step()
    }
}

#[derive(Debug)]
struct TestFile {
    inner: Box<dyn NewFile>,
    fate: Arc<Fate>,
}

impl NewFile for TestFile {
    /// A write that fails has written a part, as on a full disk.
    fn write_all(&mut self, data: &[u8]) -> io::Result<()> {
        if let Err(error) = self.fate.step() {
            self.inner.write_all(&data[..data.len() / 2])?;
            return Err(error);
        }
        self.inner.write_all(data)
    }

    fn publish(self: Box<Self>, name: &OsStr, modified: Timestamp) -> io::Result<()> {
        self.fate.step()?;
        self.inner.publish(name, modified)
    }
}

#[derive(Debug)]
struct Unsynced;

impl DiskDir for Unsynced {
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
