//! How much room there is.

use std::io;
use std::path::Path;

use serde::Serialize;

/// Free and total bytes of the file system under `path`.
///
/// # Errors
/// As the operating system says.
pub fn space(path: &Path) -> io::Result<Space> {
    let found = rustix::fs::statvfs(path)?;
    Ok(Space {
        free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
        total_bytes: found.f_blocks.saturating_mul(found.f_frsize),
    })
}

/// See [`space`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Space {
    /// What this user may still write.
    pub free_bytes: u64,
    /// The size of the file system.
    pub total_bytes: u64,
}
