//! A real disk on which the process dies at a chosen operation, so that a test can kill the real binary anywhere.

use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use rustix::process::{Signal, getpid, kill_process};

use super::{
    DirEntry, Disk, DiskDir, DiskFile, DiskFolder, DiskLock, Metadata, NewFile, Open, RealDisk,
    Wait,
};

/// The disk of the machine, until the operation of a number. Only operations that change something, or make a change
/// durable, have one.
#[derive(Clone, Debug)]
pub struct MortalDisk(Arc<Fate>);

#[derive(Debug)]
struct Fate {
    done: AtomicU64,
    end: End,
}

/// Which operation is the last.
#[derive(Debug)]
enum End {
    /// The one of this number.
    At(u64),
    /// Of those that come after a file appeared, what it says.
    Told { file: PathBuf, told: OnceLock<Told> },
}

/// `17 users/`: the operation of this number on a path that contains the text.
#[derive(Debug)]
struct Told {
    number: u64,
    path: String,
}

impl Told {
    fn read(file: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(file).ok()?;
        let (number, path) = text.trim().split_once(' ')?;
        Some(Self {
            number: number.parse().ok()?,
            path: path.to_owned(),
        })
    }
}

impl Fate {
    /// Called before each operation.
    fn step(&self, path: &Path) {
        let last = match &self.end {
            End::At(number) => *number,
            End::Told { file, told } => {
                let Some(told) = told.get().or_else(|| {
                    let read = Told::read(file)?;
                    Some(told.get_or_init(|| read))
                }) else {
                    return;
                };
                if !path.to_string_lossy().contains(&told.path) {
                    return;
                }
                told.number
            }
        };
        if self.done.fetch_add(1, Ordering::SeqCst) + 1 >= last {
            // SIGKILL cannot fail for the process itself, and does not return.
            kill_process(getpid(), Signal::KILL).ok();
        }
    }
}

impl MortalDisk {
    /// Dies instead of the operation of this number, counted from 1.
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self::with(End::At(number))
    }

    /// Lives until `file` says `<number> <text>`, and dies instead of the operation of that number, counted from then on, on a path that
    /// contains the text.
    #[must_use]
    pub fn told_by(file: &Path) -> Self {
        let (file, told) = (file.to_owned(), OnceLock::new());
        Self::with(End::Told { file, told })
    }

    fn with(end: End) -> Self {
        let done = AtomicU64::new(0);
        Self(Arc::new(Fate { done, end }))
    }

    fn file(&self, inner: Box<dyn DiskFile>, path: &Path) -> Box<dyn DiskFile> {
        let (fate, path) = (Arc::clone(&self.0), path.to_owned());
        Box::new(MortalFile { inner, fate, path })
    }
}

impl Disk for MortalDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        match how {
            Open::Read | Open::ReadWrite => {}
            Open::CreateNew | Open::CreatePrivate => self.0.step(path),
        }
        Ok(self.file(RealDisk.open(path, how)?, path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.step(to);
        RealDisk.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.step(to);
        RealDisk.rename_new(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.step(path);
        RealDisk.remove_file(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.0.step(path);
        RealDisk.create_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.0.step(path);
        RealDisk.remove_dir(path)
    }

    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn DiskDir>> {
        let inner = RealDisk.open_dir(path)?;
        let (fate, path) = (Arc::clone(&self.0), path.to_owned());
        Ok(Box::new(MortalDir { inner, fate, path }))
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

    fn visit_dir_asking(
        &self,
        path: &Path,
        visit: &mut dyn FnMut(DirEntry, io::Result<Metadata>) -> ControlFlow<()>,
    ) -> io::Result<()> {
        RealDisk.visit_dir_asking(path, visit)
    }

    fn open_beneath(&self, root: &Path, below: &Path) -> io::Result<Box<dyn DiskFile>> {
        RealDisk.open_beneath(root, below)
    }

    fn open_folder(&self, path: &Path) -> io::Result<Box<dyn DiskFolder>> {
        let inner = RealDisk.open_folder(path)?;
        let (fate, path) = (Arc::clone(&self.0), path.to_owned());
        Ok(Box::new(MortalFolder { inner, fate, path }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        RealDisk.metadata(path)
    }

    fn lock(&self, path: &Path, wait: Wait) -> io::Result<Box<dyn DiskLock>> {
        RealDisk.lock(path, wait)
    }
}

#[derive(Debug)]
struct MortalFile {
    inner: Box<dyn DiskFile>,
    fate: Arc<Fate>,
    path: PathBuf,
}

impl DiskFile for MortalFile {
    fn metadata(&self) -> io::Result<Metadata> {
        self.inner.metadata()
    }

    fn has_writer(&self) -> io::Result<Option<bool>> {
        self.inner.has_writer()
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(offset, buffer)
    }

    fn write_all_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.fate.step(&self.path);
        self.inner.write_all_at(offset, data)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.fate.step(&self.path);
        self.inner.set_len(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.fate.step(&self.path);
        self.inner.sync()
    }

    fn sync_data(&self) -> io::Result<()> {
        self.fate.step(&self.path);
        self.inner.sync_data()
    }

    fn begin_sync(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.inner.begin_sync(offset, bytes)
    }
}

#[derive(Debug)]
struct MortalDir {
    inner: Box<dyn DiskDir>,
    fate: Arc<Fate>,
    path: PathBuf,
}

impl DiskDir for MortalDir {
    fn sync(&self) -> io::Result<()> {
        self.fate.step(&self.path);
        self.inner.sync()
    }
}

#[derive(Debug)]
struct MortalFolder {
    inner: Box<dyn DiskFolder>,
    fate: Arc<Fate>,
    path: PathBuf,
}

impl DiskFolder for MortalFolder {
    fn folder(&self, name: &OsStr) -> io::Result<Box<dyn DiskFolder>> {
        self.fate.step(&self.path);
        let inner = self.inner.folder(name)?;
        let (fate, path) = (Arc::clone(&self.fate), self.path.join(name));
        Ok(Box::new(Self { inner, fate, path }))
    }

    fn open(&self, name: &OsStr) -> io::Result<Box<dyn DiskFile>> {
        self.inner.open(name)
    }

    fn new_file(&self, temp: &OsStr) -> io::Result<Box<dyn NewFile>> {
        self.fate.step(&self.path);
        let inner = self.inner.new_file(temp)?;
        let (fate, path) = (Arc::clone(&self.fate), self.path.join(temp));
        Ok(Box::new(MortalNewFile { inner, fate, path }))
    }

    fn sync_file_system(&self) -> io::Result<()> {
        self.fate.step(&self.path);
        self.inner.sync_file_system()
    }
}

#[derive(Debug)]
struct MortalNewFile {
    inner: Box<dyn NewFile>,
    fate: Arc<Fate>,
    path: PathBuf,
}

impl NewFile for MortalNewFile {
    fn write_all(&mut self, data: &[u8]) -> io::Result<()> {
        self.fate.step(&self.path);
        self.inner.write_all(data)
    }

    fn publish(self: Box<Self>, name: &OsStr, modified: Timestamp) -> io::Result<()> {
        self.fate.step(&self.path);
        self.inner.publish(name, modified)
    }
}
