//! How long an object is that a listing shows.

use cannery_formats::large_object::COMMIT_BYTES_MAX;
use cannery_lake::{Entry, ErrorKind, Lake};

/// The length of what is read. What is small may stand for something large, so the store is asked; of one that is gone or damaged by now,
/// what the listing said: reading it will show what it is.
pub(crate) async fn length(lake: &Lake, entry: &Entry) -> cannery_lake::Result<u64> {
    if entry.stored_bytes > COMMIT_BYTES_MAX {
        return Ok(entry.stored_bytes);
    }
    match lake.head(&entry.key).await {
        Ok(head) => Ok(head.bytes),
        Err(error) if matches!(error.kind, ErrorKind::Absent | ErrorKind::Corrupt) => {
            Ok(entry.stored_bytes)
        }
        Err(error) => Err(error),
    }
}
