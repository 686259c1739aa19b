//! What can go wrong with users, keys and tokens, sorted by what the caller does about it.

use std::fmt;

use cannery_database::{Error, ErrorKind};

/// The kinds of [`IdentityError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityErrorKind {
    /// What was given is wrong; nothing was changed.
    Invalid,
    /// There is no such user, key or token.
    Absent,
    /// There is one already.
    Taken,
    /// The database could not do it.
    Database(ErrorKind),
}

/// An error about users, keys or tokens: its kind, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityError {
    /// What the caller decides by.
    pub kind: IdentityErrorKind,
    /// What was being done, to which thing, and why it failed.
    pub message: String,
}

impl IdentityError {
    pub(super) fn new(kind: IdentityErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    pub(super) fn absent(message: impl Into<String>) -> Self {
        Self::new(IdentityErrorKind::Absent, message)
    }
}

impl From<Error> for IdentityError {
    fn from(error: Error) -> Self {
        Self::new(IdentityErrorKind::Database(error.kind), error.message)
    }
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for IdentityError {}
