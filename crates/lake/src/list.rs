//! Listing: every object, or an error; never a part that looks like the whole.

use std::time::Duration;

use cannery_formats::Key;
use futures::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use object_store::ObjectMeta;
use object_store::path::Path;

use crate::error::{ErrorKind, Failure, Operation, Result};
use crate::get::modified_of;
use crate::lake::Lake;
use crate::retry::Attempts;

/// One object of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its key.
    pub key: Key,
    /// The bytes stored under this key; for a large object those of its commit.
    pub stored_bytes: u64,
    /// When it was written, by the store's clock.
    pub modified: Timestamp,
}

/// Where a listing stands.
struct Position {
    lake: Lake,
    folder: Path,
    pages: Option<BoxStream<'static, object_store::Result<ObjectMeta>>>,
    last: Option<Path>,
    in_order: bool,
    started: Duration,
    failures: u32,
    ended: bool,
}

impl Lake {
    /// All objects below `folder`, or of the whole lake. A failure half-way is repeated from where it was; if that does
    /// not help, the stream ends with an error, and what came before is not a listing.
    pub fn list(&self, folder: Option<&Key>) -> BoxStream<'static, Result<Entry>> {
        let folder = folder.map_or_else(|| self.prefix().clone(), |folder| self.path(folder));
        let start = Position {
            lake: self.clone(),
            folder,
            pages: None,
            last: None,
            in_order: true,
            started: self.clock().elapsed(),
            failures: 0,
            ended: false,
        };
        stream::unfold(start, |mut position| async move {
            if position.ended {
                return None;
            }
            let next = position.next().await.transpose()?;
            position.ended = next.is_err();
            Some((next, position))
        })
        .boxed()
    }

    /// The same as [`Lake::list`], collected.
    ///
    /// # Errors
    /// Any failure; there is no partial list.
    pub async fn list_all(&self, folder: Option<&Key>) -> Result<Vec<Entry>> {
        self.list(folder).try_collect().await
    }
}

impl Position {
    async fn next(&mut self) -> Result<Option<Entry>> {
        let lake = self.lake.clone();
        let subject = lake
            .key_at(&self.folder)
            .map_or_else(String::new, |key| key.to_string());
        let mut attempts = Attempts::new(lake.retry(), lake.clock(), lake.rng());
        let outcome = self.advance(&lake, &mut attempts).await;
        self.failures += attempts.failures();
        match outcome {
            Ok(Some(entry)) => Ok(Some(entry)),
            // The listing as a whole is one operation, counted when it ends.
            ended => {
                let (id, clock, metrics) = (lake.id(), lake.clock(), lake.metrics());
                metrics.retried(id, Operation::List, self.failures);
                metrics.count(
                    id,
                    Operation::List,
                    &ended,
                    clock.since(self.started),
                    clock.now(),
                );
                ended.map_err(|failure| lake.error(Operation::List, subject, failure))
            }
        }
    }

    async fn advance(
        &mut self,
        lake: &Lake,
        attempts: &mut Attempts<'_>,
    ) -> Result<Option<Entry>, Failure> {
        loop {
            let pages = self.pages.get_or_insert_with(|| {
                let folder = (!self.folder.is_root()).then_some(&self.folder);
                match &self.last {
                    Some(last) => lake.store().list_with_offset(folder, last),
                    None => lake.store().list(folder),
                }
            });
            let failure = match attempts.run(0, async { pages.try_next().await }).await {
                Ok(None) => return Ok(None),
                Ok(Some(meta)) => {
                    self.in_order &= self.last.as_ref().is_none_or(|last| *last < meta.location);
                    self.last = Some(meta.location.clone());
                    match entry_of(lake, &meta) {
                        Some(entry) => return Ok(Some(entry)),
                        None => continue,
                    }
                }
                // A folder that nobody has written to yet is empty; a store that is not there is an error.
                Err(failure) if failure.kind == ErrorKind::Absent && self.last.is_none() => {
                    return Ok(None);
                }
                // Going on from the last key is right only where keys come in order.
                Err(failure) if !self.in_order => return Err(failure),
                Err(failure) => failure,
            };
            self.pages = None;
            attempts.pause(failure).await?;
        }
    }
}

fn entry_of(lake: &Lake, meta: &ObjectMeta) -> Option<Entry> {
    match lake.key_at(&meta.location) {
        Some(key) => Some(Entry {
            key,
            stored_bytes: meta.size,
            modified: modified_of(meta),
        }),
        None => {
            tracing::warn!(lake = lake.id(), object = ?meta.location.as_ref(), "passed over: not a key of this lake");
            None
        }
    }
}
