//! What can go wrong, sorted by what the caller does about it.

use std::fmt;

/// The kinds of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The address, the statement or what is to be stored is wrong; nothing of it was done.
    Invalid,
    /// The database was written by a newer program.
    Newer,
    /// The database does not answer or is busy; a commit may or may not have been done.
    Unavailable,
    /// The server refused the credentials, or the disk the access.
    Denied,
    /// The disk is full; nothing was changed.
    Full,
    /// What is stored contradicts itself.
    Corrupt,
}

/// An error of a database: its kind, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What the caller decides by.
    pub kind: ErrorKind,
    /// What was being done, to which thing, and why it failed.
    pub message: String,
}

impl Error {
    /// An error.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    pub(crate) fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// The same error, with what was being done before it.
    #[must_use]
    pub fn while_doing(self, what: impl fmt::Display) -> Self {
        Self::new(self.kind, format!("{what}: {}", self.message))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
