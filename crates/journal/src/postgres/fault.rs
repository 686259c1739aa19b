//! What PostgreSQL says when it goes wrong, sorted by what the caller does about it.

use cannery_runtime::clock::TimedOut;
use cannery_runtime::secret::redact;
use tokio_postgres::error::{DbError, SqlState};

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

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(told) = error.as_db_error() else {
            return client_side(&error).into();
        };
        let again = [
            &SqlState::T_R_SERIALIZATION_FAILURE,
            &SqlState::T_R_DEADLOCK_DETECTED,
            // Somebody else was first with the key, or has declared otherwise: the next try sees it.
            &SqlState::UNIQUE_VIOLATION,
        ]
        .contains(&told.code());
        Self {
            error: Error::new(kind_of(told.code()), sentence(told)),
            again,
        }
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

/// The connection failed, or never came about.
fn client_side(error: &tokio_postgres::Error) -> Error {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    // The library tells its kinds apart in words only. A certificate that is not believed stays so.
    if text.contains("TLS handshake") {
        return Error::new(
            ErrorKind::Denied,
            format!("cannot speak to PostgreSQL in secret: {}", redact(&text)),
        );
    }
    Error::new(
        ErrorKind::Unavailable,
        format!("no answer from PostgreSQL: {}", redact(&text)),
    )
}

fn sentence(told: &DbError) -> String {
    let mut text = format!("PostgreSQL says: {}", told.message());
    if let Some(hint) = told.hint() {
        text = format!("{text} ({hint})");
    }
    format!("{} [{}]", redact(&text), told.code().code())
}

fn kind_of(code: &SqlState) -> ErrorKind {
    let named = [
        (SqlState::DISK_FULL, ErrorKind::Full),
        (SqlState::INSUFFICIENT_PRIVILEGE, ErrorKind::Denied),
        (SqlState::INVALID_CATALOG_NAME, ErrorKind::Denied),
        // After a fail-over the old primary is a standby.
        (SqlState::READ_ONLY_SQL_TRANSACTION, ErrorKind::Unavailable),
        (SqlState::LOCK_NOT_AVAILABLE, ErrorKind::Unavailable),
        (SqlState::UNIQUE_VIOLATION, ErrorKind::Unavailable),
    ];
    if let Some((_, kind)) = named.iter().find(|(known, _)| known == code) {
        return *kind;
    }
    match code.code().get(..2) {
        Some("28") => ErrorKind::Denied,
        // Connection, resources, rollback, operator, and what the system under the server did.
        Some("08" | "53" | "40" | "57" | "58") => ErrorKind::Unavailable,
        _ => ErrorKind::Corrupt,
    }
}
