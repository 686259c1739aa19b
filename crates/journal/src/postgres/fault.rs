//! What PostgreSQL says when it goes wrong, sorted by what the caller does about it.

use cannery_database::postgres::{self, FaultKind};
use cannery_runtime::clock::TimedOut;

use crate::error::{Error, ErrorKind};

/// An error, and whether the same request may simply be made again: nothing of it was done.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) error: Error,
    pub(super) again: bool,
}

impl Fault {
    /// The request collided with another one and is to be made again.
    pub(super) fn collided(what: &str) -> Self {
        Self {
            error: Error::new(
                ErrorKind::Unavailable,
                format!("{what} changed under the request again and again"),
            ),
            again: true,
        }
    }

    /// Whether the fault is the server's, so that another connection may fare better.
    pub(super) fn is_of_server(&self) -> bool {
        !self.again && self.error.kind == ErrorKind::Unavailable
    }

    /// Whoever worked on it has gone.
    pub(super) fn unanswered() -> Self {
        Error::new(ErrorKind::Unavailable, "the request was cut off").into()
    }

    pub(super) fn timed_out(limit: TimedOut) -> Self {
        Error::new(
            ErrorKind::Unavailable,
            format!("{limit}: the server may be waiting for its synchronous standbys"),
        )
        .into()
    }

    /// The commit is on one server only.
    pub(super) fn unreplicated() -> Self {
        Error::new(
            ErrorKind::Unavailable,
            "the server was told not to wait for its synchronous standbys: the change is on one server only",
        )
        .into()
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self {
            error,
            again: false,
        }
    }
}

impl From<postgres::Fault> for Fault {
    fn from(fault: postgres::Fault) -> Self {
        // Somebody else was first with the key, or has declared otherwise: the next try sees it.
        let again = matches!(fault.kind, FaultKind::Collided | FaultKind::Taken);
        let kind = match fault.kind {
            FaultKind::Unavailable | FaultKind::Collided | FaultKind::Taken => {
                ErrorKind::Unavailable
            }
            FaultKind::Denied => ErrorKind::Denied,
            FaultKind::Full => ErrorKind::Full,
            FaultKind::Statement | FaultKind::Corrupt => ErrorKind::Corrupt,
        };
        Self {
            error: Error::new(kind, fault.message),
            again,
        }
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        postgres::Fault::of(&error).into()
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        fault.error
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        Fault::from(error).error
    }
}

impl From<postgres::Fault> for Error {
    fn from(fault: postgres::Fault) -> Self {
        Fault::from(fault).error
    }
}

/// Of an address.
impl From<cannery_database::Error> for Error {
    fn from(error: cannery_database::Error) -> Self {
        use cannery_database::ErrorKind as Kind;
        let kind = match error.kind {
            Kind::Invalid | Kind::Newer => ErrorKind::Invalid,
            Kind::Unavailable => ErrorKind::Unavailable,
            Kind::Denied => ErrorKind::Denied,
            Kind::Full => ErrorKind::Full,
            Kind::Corrupt => ErrorKind::Corrupt,
        };
        Self::new(kind, error.message)
    }
}
