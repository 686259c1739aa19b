//! What can go wrong, sorted by what the caller does about it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kinds of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The request itself is wrong; nothing of it was done.
    Invalid,
    /// There is no such journal.
    #[serde(rename = "unknown_journal")]
    Unknown,
    /// The token is of a lease that is over; nothing was changed.
    LeaseLost,
    /// Another process owns the files.
    Locked,
    /// The server does not answer or does not get its quorum; the request may or may not have been done.
    Unavailable,
    /// The server refused the credentials, or the disk the access.
    Denied,
    /// The disk is full; nothing was changed.
    Full,
    /// What is stored contradicts itself.
    Corrupt,
    /// The journal was closed, or closed itself after a failed write; what was acknowledged is safe.
    Closed,
}

impl ErrorKind {
    /// Its name for programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Unknown => "unknown_journal",
            Self::LeaseLost => "lease_lost",
            Self::Locked => "locked",
            Self::Unavailable => "unavailable",
            Self::Denied => "denied",
            Self::Full => "full",
            Self::Corrupt => "corrupt",
            Self::Closed => "closed",
        }
    }
}

/// An error of a journal: its kind, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
            ErrorKind::Unknown => {
                "declare the journal first: `cannery journal declare NAME`, or in the configuration under `journals`"
            }
            ErrorKind::LeaseLost => {
                "drop the work: the entry was handed out again, ended or cancelled; a longer `lease` or more heartbeats keep it"
            }
            ErrorKind::Locked => "go through the process that owns the journal, or stop it",
            ErrorKind::Unavailable => {
                "try again; adds that are repeated merge, unless the journal has `merge: off`"
            }
            ErrorKind::Denied => {
                "check user, password, database and rights: those of the journal's `engine` address, or of its folder"
            }
            ErrorKind::Full => "make room on the disk; adds are accepted again by themselves",
            ErrorKind::Corrupt => {
                "look at the log and the folder `damaged`; what could be read was saved"
            }
            ErrorKind::Closed => "open the journal again; what was acknowledged is safe",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
