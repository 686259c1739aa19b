//! Deleting. Who calls this has proven that the content is elsewhere, or was told by a person.

use cannery_formats::Key;
use cannery_formats::large_object::COMMIT_BYTES_MAX;
use futures::stream::{self, TryStreamExt as _};
use object_store::ObjectStoreExt as _;

use crate::error::{ErrorKind, Failure, Operation, Result};
use crate::get::Found;
use crate::lake::Lake;
use crate::retry::Attempts;

const DELETES_AT_ONCE: usize = 16;

impl Lake {
    /// Deletes an object; one that is not there is no error. Safe to repeat.
    ///
    /// # Errors
    /// After an error the object may or may not be there.
    pub async fn delete(&self, key: &Key) -> Result<()> {
        let mut running = self.begin(Operation::Delete, key.as_str());
        let outcome = self.delete_attempts(key, &mut running.attempts).await;
        running.finish(outcome)
    }

    /// Deletes several objects, some at a time, and stops at the first error.
    ///
    /// # Errors
    /// After an error any of the objects may be gone; repeat the call.
    pub async fn delete_many(&self, keys: impl IntoIterator<Item = Key>) -> Result<()> {
        stream::iter(keys.into_iter().map(Ok))
            .try_for_each_concurrent(
                DELETES_AT_ONCE,
                |key| async move { self.delete(&key).await },
            )
            .await
    }

    async fn delete_attempts(&self, key: &Key, attempts: &mut Attempts<'_>) -> Result<(), Failure> {
        let stored = match self.stored_head(key, attempts).await {
            Ok(stored) => stored,
            Err(failure) if failure.kind == ErrorKind::Absent => return Ok(()),
            Err(failure) => return Err(failure),
        };
        let commit = if stored.bytes <= COMMIT_BYTES_MAX {
            match self.find(key, COMMIT_BYTES_MAX, attempts).await {
                Ok(Found::Large(commit, _)) => Some(commit),
                Ok(Found::Plain(_)) => None,
                // A damaged commit names no data, but a person may still want it gone.
                Err(failure) if matches!(failure.kind, ErrorKind::Corrupt | ErrorKind::Invalid) => {
                    None
                }
                Err(failure) if failure.kind == ErrorKind::Absent => return Ok(()),
                Err(failure) => return Err(failure),
            }
        } else {
            None
        };
        // The commit goes first: a reader must never find one without its data.
        self.delete_stored(key, attempts).await?;
        match commit {
            Some(commit) => self.delete_stored(&commit.data, attempts).await,
            None => Ok(()),
        }
    }

    /// Deletes what lies at `key` itself.
    pub(crate) async fn delete_stored(
        &self,
        key: &Key,
        attempts: &mut Attempts<'_>,
    ) -> Result<(), Failure> {
        let path = self.path(key);
        loop {
            match attempts.run(0, self.store().delete(&path)).await {
                Ok(()) => return Ok(()),
                Err(failure) if failure.kind == ErrorKind::Absent => return Ok(()),
                Err(failure) => attempts.pause(failure).await?,
            }
        }
    }
}
