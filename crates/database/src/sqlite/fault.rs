//! What SQLite says when it goes wrong, sorted by what the caller does about it.

use rusqlite::ErrorCode;

use crate::error::{Error, ErrorKind};

pub(super) fn sorted(error: &rusqlite::Error) -> Error {
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => ErrorKind::Unavailable,
        Some(ErrorCode::DiskFull) => ErrorKind::Full,
        Some(
            ErrorCode::PermissionDenied
            | ErrorCode::ReadOnly
            | ErrorCode::CannotOpen
            | ErrorCode::AuthorizationForStatementDenied,
        ) => ErrorKind::Denied,
        Some(ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory) => ErrorKind::Unavailable,
        // No code at all, or plain `SQLITE_ERROR`: the statement is wrong, which is somebody's declaration.
        Some(ErrorCode::Unknown) | None => ErrorKind::Invalid,
        Some(_) => ErrorKind::Corrupt,
    };
    Error::new(kind, format!("SQLite says: {error}"))
}
