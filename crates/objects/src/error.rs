//! What can go wrong with objects, sorted by what the caller does about it.

use std::fmt;
use std::io;

use cannery_state::ErrorKind as DatabaseErrorKind;

/// The kinds of [`ObjectError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectErrorKind {
    /// Nothing is there.
    Absent,
    /// The directory that it would lie in is not there.
    ParentAbsent,
    /// What it would lie in is an object.
    ParentNotDirectory,
    /// A directory is there, where an object is needed.
    IsDirectory,
    /// An object is there, where a directory is needed.
    IsObject,
    /// The directory has children.
    NotEmpty,
    /// A condition of the request does not hold.
    ConditionFailed,
    /// The user may not have so many bytes.
    QuotaExceeded,
    /// The object is larger than any that is taken.
    TooLarge,
    /// The bytes are not what the request says that they are.
    Mismatch,
    /// What was given is wrong.
    Invalid,
    /// The disk has no room for it.
    NoSpace,
    /// The database is older than the lake: a backup was restored, or the database is new.
    BehindLake,
    /// The lake or the database does not answer. The change may or may not have been made.
    Unavailable,
    /// What is stored contradicts itself.
    Corrupt,
}

/// An error about objects: its kind, and a sentence that says what to do next where there is something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectError {
    /// What the caller decides by.
    pub kind: ObjectErrorKind,
    /// What was being done, to which thing, and why it failed.
    pub message: String,
}

impl ObjectError {
    pub(crate) fn new(kind: ObjectErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// An error of the disk of the workspace.
    pub(crate) fn of_disk(error: &io::Error, doing: &str) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ObjectErrorKind::NoSpace,
            _ => ObjectErrorKind::Unavailable,
        };
        Self::new(kind, format!("{doing}: {error}"))
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ObjectErrorKind::Unavailable, message)
    }
}

impl From<cannery_state::Error> for ObjectError {
    fn from(error: cannery_state::Error) -> Self {
        let kind = match error.kind {
            DatabaseErrorKind::Invalid => ObjectErrorKind::Invalid,
            DatabaseErrorKind::Full => ObjectErrorKind::NoSpace,
            DatabaseErrorKind::Corrupt => ObjectErrorKind::Corrupt,
            DatabaseErrorKind::Newer
            | DatabaseErrorKind::Unavailable
            | DatabaseErrorKind::Denied => ObjectErrorKind::Unavailable,
        };
        Self::new(kind, error.message)
    }
}

impl From<cannery_lake::Error> for ObjectError {
    fn from(error: cannery_lake::Error) -> Self {
        use cannery_lake::ErrorKind;
        let kind = match error.kind {
            ErrorKind::Full => ObjectErrorKind::NoSpace,
            ErrorKind::Corrupt | ErrorKind::Absent => ObjectErrorKind::Corrupt,
            _ => ObjectErrorKind::Unavailable,
        };
        Self::new(kind, error.to_string())
    }
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ObjectError {}
