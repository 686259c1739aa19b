//! Folders that others may write to as well, worked on without ever going through a link.

use std::ffi::OsStr;
use std::fmt;
use std::io;

use jiff::Timestamp;

use super::DiskFile;

/// An open folder. Names in it are single components, and nothing is reached through a link that stands there, whenever it
/// was put there: the folder stays the one that was opened.
pub trait DiskFolder: fmt::Debug + Send + Sync {
    /// The folder of this name in it, made if there is none.
    ///
    /// # Errors
    /// `NotADirectory` when something else is there, such as a link to a folder; or as the operating system says.
    fn folder(&self, name: &OsStr) -> io::Result<Box<dyn DiskFolder>>;

    /// Opens what has this name, for reading. What is no regular file is opened without waiting for it.
    ///
    /// # Errors
    /// As the operating system says; a link is an error.
    fn open(&self, name: &OsStr) -> io::Result<Box<dyn DiskFile>>;

    /// Begins a file that has no name yet. On a file system that has no such files it is called `temp` until then, which
    /// only a killed process leaves behind.
    ///
    /// # Errors
    /// As the operating system says.
    fn new_file(&self, temp: &OsStr) -> io::Result<Box<dyn NewFile>>;

    /// Makes everything that was written to its file system survive a power cut.
    ///
    /// # Errors
    /// As the operating system says. A failed sync must not be retried.
    fn sync_file_system(&self) -> io::Result<()>;
}

/// A file that is being written and nobody sees. Dropped before [`NewFile::publish`] it is gone.
pub trait NewFile: fmt::Debug + Send {
    /// Writes behind what was written before.
    ///
    /// # Errors
    /// As the operating system says.
    fn write_all(&mut self, data: &[u8]) -> io::Result<()>;

    /// Gives it its name, if nothing has that: a file that everybody may read, last changed at `modified`.
    ///
    /// # Errors
    /// `AlreadyExists` when something has the name, also a link; then that is as it was. Or as the operating system says.
    fn publish(self: Box<Self>, name: &OsStr, modified: Timestamp) -> io::Result<()>;
}
