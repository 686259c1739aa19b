//! Work that may block, away from the threads that must not.

use std::io;

/// Runs something where it may block; a panic in it is an error.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)
}
