//! What can go wrong, sorted by what the caller does about it.

use std::fmt;

/// The kinds of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request itself is wrong; nothing of it was done.
    Invalid,
    /// The catalog is not as the caller thought, or the caller's check failed; nothing was changed. Decide again.
    Conflict,
    /// The catalog was written by a newer program.
    Newer,
    /// The database does not answer or is busy; a commit may or may not have been done. Decide again.
    Unavailable,
    /// The server refused the credentials, or the disk the access.
    Denied,
    /// The disk is full; nothing was changed.
    Full,
    /// What is stored contradicts itself.
    Corrupt,
}

/// An error of the catalog: its kind, and a sentence.
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

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    pub(crate) fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// The same error, with what was being done before it.
    #[must_use]
    pub fn while_doing(self, what: impl fmt::Display) -> Self {
        Self::new(self.kind, format!("{what}: {}", self.message))
    }

    /// What a person can do about it.
    #[must_use]
    pub fn next_step(&self) -> &'static str {
        match self.kind {
            ErrorKind::Invalid => "correct the request; nothing of it was done",
            ErrorKind::Conflict => "decide again: somebody else has worked on the same file",
            ErrorKind::Newer => {
                "use the newer program, or drop the catalog and rebuild it from the lake"
            }
            ErrorKind::Unavailable => "try again; what was committed is not done twice",
            ErrorKind::Denied => "check user, password, database and rights of `catalog`",
            ErrorKind::Full => "make room on the disk of the catalog",
            ErrorKind::Corrupt => "drop the catalog and rebuild it from the lake",
        }
    }
}

impl From<cannery_database::Error> for Error {
    fn from(error: cannery_database::Error) -> Self {
        use cannery_database::ErrorKind as Kind;
        let kind = match error.kind {
            Kind::Invalid => ErrorKind::Invalid,
            Kind::Newer => ErrorKind::Newer,
            Kind::Unavailable => ErrorKind::Unavailable,
            Kind::Denied => ErrorKind::Denied,
            Kind::Full => ErrorKind::Full,
            Kind::Corrupt => ErrorKind::Corrupt,
        };
        Self::new(kind, error.message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
