//! The inventory of a node: a line for each object that every mirror has, chained, so that what is removed or changed behind
//! its back is noticed.
//!
//! A line is durable on the local disk before the source of its object goes. From there it comes into the lake as
//! `.cannery/inventory/<node>/<experiment>/<date>.jsonl.gz`, some minutes later and many at a time. The day is that of the confirmation in
//! UTC, and never goes back: what a clock that was set back by less than a day confirms is counted to the later day.
//!
//! | look here | for |
//! |---|---|
//! | `ledger.rs` | what is the last line, and adding to it |
//! | `local.rs` | the files on the local disk |
//! | `day.rs` | the lines of a day, and several accounts of one day made one |
//! | `remote.rs` | the objects in a lake |
//! | `upload.rs` | bringing the files there |
//! | `check.rs` | comparing an inventory with the lake |

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cannery_formats::inventory::InventoryHome;
use cannery_formats::spool::{BundleTime, SpoolDate};
use cannery_formats::{Digest, Hasher, Key};
use cannery_lake::{Lake, Mirrors, present};
use cannery_runtime::Clock;
use cannery_runtime::disk::Disk;
use futures::TryStreamExt as _;
use jiff::{Timestamp, tz::TimeZone};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::blocking::blocking;

mod check;
mod day;
mod ledger;
mod local;
mod remote;
mod upload;

#[cfg(test)]
mod tests;

pub use check::{Broken, Changed, Findings, Gap, Missing, Report, check, check_contents};

use ledger::Ledger;
use upload::Uploads;

/// How often new lines are brought into the lake at most.
const UPLOAD_EVERY: Duration = Duration::from_secs(600);

/// How long the end of a process waits for that.
const FLUSH_MAX: Duration = Duration::from_secs(30);

/// What an inventory is made of.
#[derive(Clone, Debug)]
pub struct InventoryParts {
    /// Where lines are kept until every mirror has them: `<workspace>/collect/<experiment>/inventory`.
    pub folder: PathBuf,
    /// The disk that holds it.
    pub disk: Arc<dyn Disk>,
    /// The time.
    pub clock: Clock,
    /// Where the objects are.
    pub mirrors: Mirrors,
    /// Whose inventory it is.
    pub home: InventoryHome,
}

/// An object that every mirror has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its name.
    pub key: Key,
    /// Its length, as stored.
    pub bytes: u64,
    /// The digest of these bytes.
    pub sha256: Digest,
}

/// Why a line is not written or not in the lake yet. Trying again may help.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    /// The local disk does not take it.
    #[error("cannot write the inventory of this node: {0}")]
    Disk(#[from] io::Error),
    /// A lake does not answer.
    #[error("cannot compare the inventory with the lake: {0}")]
    Lake(#[from] cannery_lake::Error),
    /// What is in the lake is no inventory, and is not replaced: it is the only witness.
    #[error("`{key}` in `{lake}` cannot be read: {why}; move it away, and it is written anew")]
    Unreadable {
        /// The inventory of the day.
        key: Key,
        /// Where it lies.
        lake: String,
        /// What is wrong with it.
        why: String,
    },
    /// The store cannot replace an object safely, and has another one already.
    #[error(
        "`{key}` in `{lake}` lacks lines, and the store does not honour versions; the lines stay on this node"
    )]
    NoVersions {
        /// The inventory of the day.
        key: Key,
        /// Where it lies.
        lake: String,
    },
    /// Somebody else writes the same inventory all the time.
    #[error(
        "`{0}` is changed by somebody else all the time; does another node have the same name?"
    )]
    Contended(Key),
    /// A day has more lines than can be replaced at once.
    #[error("`{key}` would have {bytes} bytes, which is more than can be replaced at once")]
    TooLarge {
        /// The inventory of the day.
        key: Key,
        /// Its length, compressed.
        bytes: u64,
    },
}

/// The inventory of a node. Clones are the same; only one process may write it.
#[derive(Clone, Debug)]
pub struct Inventory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    parts: InventoryParts,
    /// Bundles that are older may have been recorded by an earlier process.
    started: Timestamp,
    ledger: Mutex<Ledger>,
    uploads: Mutex<Uploads>,
}

impl Inventory {
    /// Puts the parts together. Nothing is read or written.
    #[must_use]
    pub fn new(parts: InventoryParts) -> Self {
        Self(Arc::new(Inner {
            started: parts.clock.now(),
            ledger: Mutex::new(Ledger::new(&parts)),
            uploads: Mutex::default(),
            parts,
        }))
    }

    /// Writes a line for each of the items, durably. They were made at `made` or later; with `again`, this may have been
    /// called for them before: then only those that have no line yet get one.
    ///
    /// # Errors
    /// [`InventoryError`]: some of the lines may be there. Call it again, with `again`.
    pub async fn record(
        &self,
        items: Vec<Item>,
        made: Timestamp,
        again: bool,
    ) -> Result<(), InventoryError> {
        let mut ledger = self.0.ledger.lock().await;
        let items = if again || made <= self.0.started {
            ledger.lacking(items, self.search_from(made)).await?
        } else {
            items
        };
        ledger.add(items).await
    }

    /// Writes lines for objects of this node that are in every mirror and have none: what a lost workspace has forgotten.
    ///
    /// # Errors
    /// [`InventoryError`]. May be called again.
    pub async fn adopt(&self, keys: Vec<Key>, made: Timestamp) -> Result<(), InventoryError> {
        let mut ledger = self.0.ledger.lock().await;
        let nothing = Digest::of(b"");
        let unread = keys.into_iter().map(|key| Item {
            key,
            bytes: 0,
            sha256: nothing,
        });
        let lacking = ledger.lacking(unread.collect(), self.search_from(made));
        for item in lacking.await? {
            if let Some(item) = measure(self.0.parts.mirrors.first(), item.key).await? {
                tracing::info!(key = %item.key, "an object of this node had no line in the inventory");
                ledger.add(vec![item]).await?;
            }
        }
        Ok(())
    }

    /// Lines about something made at `made` are of this day or later.
    fn search_from(&self, made: Timestamp) -> SpoolDate {
        let earlier = made.min(self.0.parts.clock.now());
        // A clock may have been set back in between.
        let day = day_of(earlier);
        day.date()
            .yesterday()
            .ok()
            .and_then(|before| SpoolDate::new(before).ok())
            .unwrap_or(day)
    }

    /// Brings all lines into every mirror, as far as the stores allow; files of earlier days that every mirror has go.
    ///
    /// # Errors
    /// The first [`InventoryError`]; whatever else could be done was done. May be called again.
    pub async fn upload(&self) -> Result<(), InventoryError> {
        let mut uploads = self.0.uploads.lock().await;
        uploads.run(&self.0.parts, &self.0.ledger).await
    }

    /// Starts to bring lines into the lake: those that an earlier process left at once, new ones now and again.
    #[must_use]
    pub fn start(&self) -> Uploader {
        let stop = CancellationToken::new();
        let task = tokio::spawn(self.clone().upload_until(stop.clone()));
        let clock = self.0.parts.clock.clone();
        Uploader { task, stop, clock }
    }

    /// The last upload begins after `stop`.
    async fn upload_until(self, stop: CancellationToken) {
        loop {
            let is_last = stop.is_cancelled();
            if let Err(error) = self.upload().await {
                tracing::warn!(%error, "lines of the inventory are not in the lake yet; they stay on this node");
            }
            if is_last {
                return;
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.0.parts.clock.sleep(UPLOAD_EVERY) => {}
            }
        }
    }
}

/// The task that brings lines into the lake.
#[derive(Debug)]
pub struct Uploader {
    task: JoinHandle<()>,
    stop: CancellationToken,
    clock: Clock,
}

impl Uploader {
    /// Brings what is left, for at most `limit`; what is not done in time stays on this node for the next start. To be called
    /// when nobody records any more.
    pub async fn finish(mut self, limit: Duration) {
        self.stop.cancel();
        let limit = limit.min(FLUSH_MAX);
        if self.clock.timeout(limit, &mut self.task).await.is_err() {
            self.task.abort();
            tracing::warn!(
                ?limit,
                "lines of the inventory are not in the lake yet; they stay on this node for the next start"
            );
        }
    }
}

/// Reads an object for its line; none when it is gone.
async fn measure(lake: &Lake, key: Key) -> Result<Option<Item>, InventoryError> {
    let Some(mut pieces) = present(lake.stream(&key).await)? else {
        return Ok(None);
    };
    let (mut bytes, mut hasher) = (0, Hasher::default());
    while let Some(piece) = pieces.try_next().await? {
        bytes += piece.len() as u64;
        hasher.update(&piece);
    }
    let sha256 = hasher.finish();
    Ok(Some(Item { key, bytes, sha256 }))
}

/// The day of an instant, in UTC.
fn day_of(time: Timestamp) -> SpoolDate {
    let time = BundleTime::from_timestamp(time).timestamp();
    SpoolDate::new(TimeZone::UTC.to_datetime(time).date())
        .expect("a bundle's time is of the years 1 to 9999")
}

/// The last day whose lines can be of now: a clock may differ, but not by more.
fn last_day(now: Timestamp) -> SpoolDate {
    let today = day_of(now);
    let tomorrow = today.date().tomorrow().ok();
    tomorrow
        .and_then(|date| SpoolDate::new(date).ok())
        .unwrap_or(today)
}
