//! The local disk behind a trait, so that a test can make any write fail or be forgotten.
//!
//! The operations block; async code calls them on a blocking thread.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use jiff::Timestamp;

mod durable;
mod folder;
#[cfg(feature = "sim")]
mod mortal;
mod real;
mod space;

pub use durable::{create_dir_all, is_sync_failure, preallocate, write_durably, write_private};
pub use folder::{DiskFolder, NewFile};
#[cfg(feature = "sim")]
pub use mortal::MortalDisk;
pub use real::RealDisk;
pub use space::{Space, space};

/// What the product asks of a file system. Paths are never followed through a symbolic link in their last component.
pub trait Disk: fmt::Debug + Send + Sync + 'static {
    /// Opens a file.
    ///
    /// # Errors
    /// As the operating system says; `AlreadyExists` for [`Open::CreateNew`] on an existing path.
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>>;

    /// Renames a file, replacing what is at `to`. Durable after [`Disk::sync_dir`] of both folders.
    ///
    /// # Errors
    /// As the operating system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Renames a file unless something is at `to`.
    ///
    /// # Errors
    /// `AlreadyExists` when something is at `to`; then nothing has changed.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Durable after [`Disk::sync_dir`].
    ///
    /// # Errors
    /// As the operating system says.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Creates one folder. Durable after [`Disk::sync_dir`] of its parent.
    ///
    /// # Errors
    /// `AlreadyExists` when something is there.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty folder.
    ///
    /// # Errors
    /// `DirectoryNotEmpty`, or as the operating system says.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Opens a folder for syncing it later: who opens it before a change cannot fail to open it after.
    ///
    /// # Errors
    /// As the operating system says.
    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn DiskDir>>;

    /// Opens a folder and syncs it.
    ///
    /// # Errors
    /// As [`Disk::open_dir`] and [`DiskDir::sync`].
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.open_dir(path)?.sync()
    }

    /// The names in a folder, in no order.
    ///
    /// # Errors
    /// As the operating system says; never a part of the list.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>>;

    /// Calls `visit` with the names in a folder, one by one and in no order, until it says so: a folder of millions of
    /// files takes no memory.
    ///
    /// # Errors
    /// As the operating system says; what was visited until then is a part of the list.
    fn visit_dir(
        &self,
        path: &Path,
        visit: &mut dyn FnMut(DirEntry) -> ControlFlow<()>,
    ) -> io::Result<()>;

    /// The same with what is known of each name, which is cheaper than to ask for each by its path.
    ///
    /// # Errors
    /// As [`Disk::visit_dir`]; `visit` gets the errors of single names.
    fn visit_dir_asking(
        &self,
        path: &Path,
        visit: &mut dyn FnMut(DirEntry, io::Result<Metadata>) -> ControlFlow<()>,
    ) -> io::Result<()> {
        self.visit_dir(path, &mut |entry| {
            let found = self.metadata(&path.join(&entry.name));
            visit(entry, found)
        })
    }

    /// Opens a file for reading that lies below a folder of somebody else: no component of `below` is followed if it is
    /// a link, and it cannot lead out of `root`. What is no regular file is opened without waiting for it.
    ///
    /// # Errors
    /// As the operating system says; a link is an error.
    fn open_beneath(&self, root: &Path, below: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a folder for writing to it where others may plant links; links on the way to it are followed.
    ///
    /// # Errors
    /// `Unsupported` on a disk that has no such folders, or as the operating system says.
    fn open_folder(&self, path: &Path) -> io::Result<Box<dyn DiskFolder>> {
        let what = format!("no folder `{}` by its handle on this disk", path.display());
        Err(io::Error::new(io::ErrorKind::Unsupported, what))
    }

    /// What is at a path, not following a link.
    ///
    /// # Errors
    /// As the operating system says.
    fn metadata(&self, path: &Path) -> io::Result<Metadata>;

    /// Takes the advisory lock on a file, creating the file; held until the guard is dropped or the process ends.
    ///
    /// # Errors
    /// `WouldBlock` when somebody has it and `wait` is [`Wait::No`].
    fn lock(&self, path: &Path, wait: Wait) -> io::Result<Box<dyn DiskLock>>;
}

/// An open file.
pub trait DiskFile: fmt::Debug + Send + Sync {
    /// What is known of it.
    ///
    /// # Errors
    /// As the operating system says.
    fn metadata(&self) -> io::Result<Metadata>;

    /// Whether somebody has it open for writing, as far as the system tells: nothing when it does not.
    ///
    /// # Errors
    /// As the operating system says.
    fn has_writer(&self) -> io::Result<Option<bool>>;

    /// Its length in bytes.
    ///
    /// # Errors
    /// As the operating system says.
    fn len(&self) -> io::Result<u64>;

    /// Whether it has no bytes.
    ///
    /// # Errors
    /// As the operating system says.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads up to `buffer.len()` bytes; 0 at the end of the file.
    ///
    /// # Errors
    /// As the operating system says.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `data`, making the file longer where needed.
    ///
    /// # Errors
    /// As the operating system says; any part may have been written.
    fn write_all_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Cuts the file to `bytes`, or makes it longer with zeros that need no space yet. Durable after a sync; a power cut
    /// before it leaves the old length or the new one.
    ///
    /// # Errors
    /// As the operating system says; `InvalidInput` for a file that was opened for reading.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Makes content and length survive a power cut.
    ///
    /// # Errors
    /// As the operating system says. A failed sync must not be retried.
    fn sync(&self) -> io::Result<()>;

    /// The same as [`DiskFile::sync`] without what nobody needs for reading the content, such as the time it changed:
    /// where blocks that were written before are overwritten, only the data goes to the disk.
    ///
    /// # Errors
    /// As [`DiskFile::sync`]: a failed one must not be retried.
    fn sync_data(&self) -> io::Result<()>;

    /// The same open file as the operating system knows it, for who hands it on without reading it; nothing on a disk that has
    /// no such files.
    ///
    /// # Errors
    /// As the operating system says.
    fn system_file(&self) -> io::Result<Option<File>> {
        Ok(None)
    }

    /// Begins to bring what was written there to the disk and does not wait: what the caller does until the sync costs no
    /// time then. Nothing is durable before [`DiskFile::sync_data`].
    ///
    /// # Errors
    /// As [`DiskFile::sync`]: the sync that follows must not be believed.
    fn begin_sync(&self, offset: u64, bytes: u64) -> io::Result<()>;
}

/// An open folder.
pub trait DiskDir: fmt::Debug + Send + Sync {
    /// Makes what was created, renamed and removed in the folder survive a power cut.
    ///
    /// # Errors
    /// As the operating system says. A failed sync must not be retried: what it covered is lost or in doubt.
    fn sync(&self) -> io::Result<()>;
}

/// A lock that is held; dropping it lets go.
pub trait DiskLock: fmt::Debug + Send + Sync {
    /// The locked file, open for writing unless it belongs to another user. Who holds it is said by
    /// [`FolderLock`](crate::folder_lock::FolderLock) beside it, where a reader never meets half a line.
    fn file(&self) -> &dyn DiskFile;
}

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    ReadWrite,
    /// A file that must not exist yet, for reading and writing.
    CreateNew,
    /// The same, readable by its owner alone.
    CreatePrivate,
}

/// Whether to wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Until it is free.
    Yes,
    /// Not at all.
    No,
}

/// One name in a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// The last component of the path.
    pub name: OsString,
    /// What it is.
    pub kind: Kind,
}

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Dir,
    /// A link, device, socket or pipe: nothing the product reads or writes.
    Other,
}

/// What is known of a path without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// What it is.
    pub kind: Kind,
    /// Length in bytes, of a file.
    pub len: u64,
    /// When its content last changed.
    pub modified: Timestamp,
    /// Which file it is, whatever its name.
    pub id: FileId,
    /// How many names it has.
    pub links: u64,
    /// Whose it is.
    pub owner: u32,
}

/// A file of this machine, as long as it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// The file system.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

/// Reads a whole file of at most `bytes_max`.
///
/// # Errors
/// `FileTooLarge` when it is longer, or as the operating system says.
pub fn read(disk: &dyn Disk, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_file(&*disk.open(path, Open::Read)?, bytes_max)
}

/// Reads a whole open file of at most `bytes_max`.
///
/// # Errors
/// `FileTooLarge` when it is longer, or as the operating system says.
pub fn read_file(file: &dyn DiskFile, bytes_max: u64) -> io::Result<Vec<u8>> {
    let too_large = || io::Error::from(io::ErrorKind::FileTooLarge);
    let mut content =
        vec![0; usize::try_from(file.len()?.min(bytes_max)).map_err(|_| too_large())?];
    let mut filled = 0;
    loop {
        if filled == content.len() {
            // The file may have grown since its length was asked: look for one byte more.
            let mut more = [0];
            if file.read_at(filled as u64, &mut more)? == 0 {
                return Ok(content);
            }
            if filled as u64 >= bytes_max {
                return Err(too_large());
            }
            content.push(more[0]);
            filled += 1;
        } else {
            match file.read_at(filled as u64, &mut content[filled..])? {
                0 => content.truncate(filled),
                n => filled += n,
            }
        }
    }
}
