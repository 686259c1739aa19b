//! What PostgreSQL says when it goes wrong, sorted by what a caller can do about it.

use std::fmt;

use cannery_runtime::secret::redact;
use deadpool_postgres::{HookError, PoolError};
use tokio_postgres::error::{DbError, SqlState};

use crate::error::{Error, ErrorKind};

/// The kinds of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The server does not answer, is busy, is no primary any more, or cut the request off.
    Unavailable,
    /// Two transactions were in each other's way; nothing was done. Made again, it may succeed.
    Collided,
    /// A row with the same key is there already; nothing was done.
    Taken,
    /// The server refused the credentials, or its certificate is not believed.
    Denied,
    /// The disk is full.
    Full,
    /// The statement is wrong, or does not fit the data.
    Statement,
    /// Anything else: what is stored is not what was expected.
    Corrupt,
}

/// A fault: its kind, and a sentence without secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What the caller decides by.
    pub kind: FaultKind,
    /// What the server said, or that it said nothing.
    pub message: String,
}

impl Fault {
    /// Sorts an error of the client library.
    #[must_use]
    pub fn of(error: &tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(told) => Self {
                kind: kind_of(told.code()),
                message: sentence(told),
            },
            None => client_side(error),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let kind = match fault.kind {
            FaultKind::Unavailable | FaultKind::Collided => ErrorKind::Unavailable,
            FaultKind::Denied => ErrorKind::Denied,
            FaultKind::Full => ErrorKind::Full,
            // Somebody's declaration.
            FaultKind::Statement => ErrorKind::Invalid,
            FaultKind::Taken | FaultKind::Corrupt => ErrorKind::Corrupt,
        };
        Self::new(kind, fault.message)
    }
}

pub(super) fn sorted(error: &tokio_postgres::Error) -> Error {
    Fault::of(error).into()
}

pub(super) fn of_pool(error: PoolError) -> Error {
    match error {
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
            sorted(&error)
        }
        other => Error::unavailable(format!("no connection is free: {other}")),
    }
}

/// The connection failed, or never came about.
fn client_side(error: &tokio_postgres::Error) -> Fault {
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
    let (kind, what) = if text.contains("TLS handshake") {
        (FaultKind::Denied, "cannot speak to PostgreSQL in secret")
    } else {
        (FaultKind::Unavailable, "no answer from PostgreSQL")
    };
    Fault {
        kind,
        message: format!("{what}: {}", redact(&text)),
    }
}

fn sentence(told: &DbError) -> String {
    let mut text = format!("PostgreSQL says: {}", told.message());
    if let Some(hint) = told.hint() {
        text = format!("{text} ({hint})");
    }
    format!("{} [{}]", redact(&text), told.code().code())
}

fn kind_of(code: &SqlState) -> FaultKind {
    let named = [
        (SqlState::DISK_FULL, FaultKind::Full),
        (SqlState::INSUFFICIENT_PRIVILEGE, FaultKind::Denied),
        (SqlState::INVALID_CATALOG_NAME, FaultKind::Denied),
        // After a fail-over the old primary is a standby.
        (SqlState::READ_ONLY_SQL_TRANSACTION, FaultKind::Unavailable),
        (SqlState::LOCK_NOT_AVAILABLE, FaultKind::Unavailable),
        // The server gave up a transaction that waited too long for its client.
        (
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            FaultKind::Unavailable,
        ),
        (SqlState::UNIQUE_VIOLATION, FaultKind::Taken),
        (SqlState::T_R_SERIALIZATION_FAILURE, FaultKind::Collided),
        (SqlState::T_R_DEADLOCK_DETECTED, FaultKind::Collided),
    ];
    if let Some((_, kind)) = named.iter().find(|(known, _)| known == code) {
        return *kind;
    }
    match code.code().get(..2) {
        Some("28") => FaultKind::Denied,
        // Connection, resources, rollback, operator, and what the system under the server did.
        Some("08" | "53" | "40" | "57" | "58") => FaultKind::Unavailable,
        Some("42" | "22" | "21") => FaultKind::Statement,
        _ => FaultKind::Corrupt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_sorted_by_what_can_be_done() {
        for (code, kind) in [
            ("53100", FaultKind::Full),
            ("53300", FaultKind::Unavailable),
            ("57P01", FaultKind::Unavailable),
            ("25006", FaultKind::Unavailable),
            ("25P03", FaultKind::Unavailable),
            ("40001", FaultKind::Collided),
            ("40P01", FaultKind::Collided),
            ("40000", FaultKind::Unavailable),
            ("23505", FaultKind::Taken),
            ("23502", FaultKind::Corrupt),
            ("28P01", FaultKind::Denied),
            ("3D000", FaultKind::Denied),
            ("42501", FaultKind::Denied),
            ("42P01", FaultKind::Statement),
            ("22003", FaultKind::Statement),
            ("XX001", FaultKind::Corrupt),
        ] {
            assert_eq!(kind_of(&SqlState::from_code(code)), kind, "{code}");
        }
    }
}
