//! Why an archive is not usable.

use std::io;

/// Why an archive is not usable. It is left alone and reported; only after [`ArchiveFault::Io`] another look makes sense.
///
/// Inside the reader it travels in an [`io::Error`], also out of [`super::ArchiveEntry`]'s `Read`; `From` takes it out again.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveFault {
    /// It is not what somebody wrote.
    #[error("damaged: {0}")]
    Damaged(String),
    /// Nobody writes such a thing without bad intent, or with a program that we do not know.
    #[error("hostile: {0}")]
    Hostile(String),
    /// A newer version wrote it.
    #[error("{0}")]
    Newer(String),
    /// It is beyond the [`super::Limits`].
    #[error("too large: {0}")]
    TooLarge(String),
    /// It could not be read, or the result not be written; that says nothing of the archive.
    #[error(transparent)]
    Io(io::Error),
}

impl From<io::Error> for ArchiveFault {
    fn from(error: io::Error) -> Self {
        error.downcast().unwrap_or_else(Self::Io)
    }
}

impl From<ArchiveFault> for io::Error {
    fn from(fault: ArchiveFault) -> Self {
        match fault {
            ArchiveFault::Io(error) => error,
            other => Self::new(io::ErrorKind::InvalidData, other),
        }
    }
}
