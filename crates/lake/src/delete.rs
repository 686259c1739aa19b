//! Deleting. Who calls this has proven that the content is elsewhere, or was told by a person.

use cannery_formats::large_object::COMMIT_BYTES_MAX;
use cannery_formats::{Key, LargeObject};
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

    /// Deletes an object that nobody reads any more. The data of a large one goes first: whoever repeats a deletion that was cut off
    /// still finds the commit that says where it is.
    ///
    /// # Errors
    /// After an error any part of the object may be there; repeat the call.
    pub async fn purge(&self, key: &Key) -> Result<()> {
        let mut running = self.begin(Operation::Delete, key.as_str());
        let attempts = &mut running.attempts;
        let purged = async {
            if let Some(commit) = self.commit_at(key, attempts).await? {
                self.delete_stored(&commit.data, attempts).await?;
            }
            self.delete_stored(key, attempts).await
        };
        let purged = purged.await;
        running.finish(purged)
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
        let commit = self.commit_at(key, attempts).await?;
        // The commit goes first: a reader must never find one without its data.
        self.delete_stored(key, attempts).await?;
        match commit {
            Some(commit) => self.delete_stored(&commit.data, attempts).await,
            None => Ok(()),
        }
    }

    /// The commit of a large object at `key`. `None` also when nothing is there: the delete goes on all the same, because
    /// the answer to an earlier one may have been lost before it was durable.
    async fn commit_at(
        &self,
        key: &Key,
        attempts: &mut Attempts<'_>,
    ) -> Result<Option<LargeObject>, Failure> {
        let found = match self.stored_head(key, attempts).await {
            Ok(stored) if stored.bytes > COMMIT_BYTES_MAX => return Ok(None),
            Ok(_) => self.find(key, COMMIT_BYTES_MAX, attempts).await,
            Err(failure) => Err(failure),
        };
        match found {
            Ok(Found::Large(commit, _)) => Ok(Some(commit)),
            Ok(Found::Plain(_)) => Ok(None),
            // A damaged commit names no data, but a person may still want it gone.
            Err(failure)
                if matches!(
                    failure.kind,
                    ErrorKind::Absent | ErrorKind::Corrupt | ErrorKind::Invalid
                ) =>
            {
                Ok(None)
            }
            Err(failure) => Err(failure),
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
