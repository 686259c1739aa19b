//! How much an upload may bring, and how much memory and disk all uploads may take.

use std::sync::Arc;

use cannery_formats::ObjectPath;
use cannery_lake::put_memory_bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{ObjectError, ObjectErrorKind};

/// The largest object, unless [`crate::NamespaceParts`] says otherwise: as on S3.
pub const OBJECT_BYTES_MAX: u64 = 5 << 40;

/// What users leave free on the disks of this machine, unless [`crate::NamespaceParts`] says otherwise.
pub const DISK_RESERVE_BYTES: u64 = 1 << 30;

/// What is kept in memory of an upload: above it a file is cheaper than the memory of many uploads at once.
pub(crate) const SMALL_BYTES_MAX: usize = 256 * 1024;

/// How many uploads are kept in memory; those that come while there are so many have a file from the first byte.
const SMALL_UPLOADS_MAX: usize = 256;

/// The memory of all bodies that are on their way to the lake, in KiB, but for those that take more than a quarter of it.
const BODIES_KIB_MAX: u32 = 128 * 1024;

/// How many bodies that take more are on their way at once: nobody else waits for one that takes hours.
const LARGE_BODIES_MAX: usize = 2;

/// What one upload may bring, by [`crate::Namespace::check_put`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadLimit {
    bytes_max: u64,
    path: ObjectPath,
    is_quota: bool,
}

impl UploadLimit {
    /// The smaller one of what the user may still have, if that is limited, and the largest object.
    pub(crate) fn new(path: &ObjectPath, object_bytes_max: u64, quota: Option<u64>) -> Self {
        let bytes_max = quota.map_or(object_bytes_max, |quota| quota.min(object_bytes_max));
        Self {
            bytes_max,
            path: path.clone(),
            is_quota: quota.is_some_and(|quota| quota < object_bytes_max),
        }
    }

    /// How many bytes are received at most.
    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// # Errors
    /// `QuotaExceeded` or `TooLarge` when an object of so many bytes is over the limit.
    pub(crate) fn check(&self, bytes: u64) -> Result<(), ObjectError> {
        if bytes <= self.bytes_max {
            return Ok(());
        }
        let (path, max) = (&self.path, self.bytes_max);
        let (kind, message) = if self.is_quota {
            let message = format!(
                "`{path}` is longer than the {max} bytes that this user may still have; delete some objects, or ask for more (`cannery user set`)"
            );
            (ObjectErrorKind::QuotaExceeded, message)
        } else {
            let message = format!("`{path}` is longer than the {max} bytes of the largest object");
            (ObjectErrorKind::TooLarge, message)
        };
        Err(ObjectError::new(kind, message))
    }
}

/// The memory of all uploads of a server.
#[derive(Clone)]
pub(crate) struct UploadMemory {
    small: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
    large_bodies: Arc<Semaphore>,
}

impl Default for UploadMemory {
    fn default() -> Self {
        Self {
            small: Arc::new(Semaphore::new(SMALL_UPLOADS_MAX)),
            bodies: Arc::new(Semaphore::new(BODIES_KIB_MAX as usize)),
            large_bodies: Arc::new(Semaphore::new(LARGE_BODIES_MAX)),
        }
    }
}

impl UploadMemory {
    /// Room for a small upload in memory, if there is any.
    pub(crate) fn small(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.small).try_acquire_owned().ok()
    }

    /// Waits until a file of this length may be read for its way to the lake. Small ones never wait for large ones.
    pub(crate) async fn body(&self, file_bytes: u64) -> Option<OwnedSemaphorePermit> {
        let kib = u32::try_from(put_memory_bytes(file_bytes).div_ceil(1024)).unwrap_or(u32::MAX);
        let waited = if kib > BODIES_KIB_MAX / 4 {
            Arc::clone(&self.large_bodies).acquire_owned().await
        } else {
            Arc::clone(&self.bodies).acquire_many_owned(kib).await
        };
        waited.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bodies_wait_for_memory_and_small_ones_never_for_large_ones() {
        let memory = UploadMemory::default();
        let mut large = Vec::new();
        for _ in 0..LARGE_BODIES_MAX {
            large.push(memory.body(OBJECT_BYTES_MAX).await);
        }
        let next = memory.body(OBJECT_BYTES_MAX);
        tokio::pin!(next);
        assert!(futures::poll!(&mut next).is_pending());
        let mut small = Vec::new();
        for _ in 0..4 {
            small.push(memory.body(32 << 20).await);
        }
        let further = memory.body(1 << 20);
        tokio::pin!(further);
        assert!(futures::poll!(&mut further).is_pending());
        small.pop();
        assert!(further.await.is_some());
        large.pop();
        assert!(next.await.is_some());
    }

    #[test]
    fn small_uploads_have_files_once_there_are_many() {
        let memory = UploadMemory::default();
        let mut kept: Vec<_> = (0..SMALL_UPLOADS_MAX).map(|_| memory.small()).collect();
        assert!(kept.iter().all(Option::is_some));
        assert!(memory.small().is_none());
        kept.pop();
        assert!(memory.small().is_some());
    }
}
