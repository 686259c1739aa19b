//! Removing hours for good: first a mark that says so, then the archives. Whoever uploads or merges later finds the mark, so
//! that a replica which comes late does not bring the hour back.

use std::fmt;

use cannery_formats::Key;
use cannery_formats::feed::{FeedId, Hour, Tombstone};
use cannery_formats::large_object::COMMIT_BYTES_MAX;
use cannery_lake::{Entry, ErrorKind, Lake};
use jiff::Timestamp;
use serde::Serialize;

use crate::error::Error;
use crate::hour_folder::HourFolder;
use crate::scope::Scope;

/// How often an hour is listed again for what others put there meanwhile; they find the mark from then on.
const ROUNDS_MAX: u32 = 8;

/// An archive that would go, or has gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Doomed {
    /// Which one.
    pub key: Key,
    /// Its length.
    pub bytes: u64,
}

/// An hour of one store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoomedHour {
    /// The id of the object storage.
    pub store: String,
    /// Which feed.
    pub feed: FeedId,
    /// Which hour.
    pub hour: Hour,
    /// What goes.
    pub archives: Vec<Doomed>,
    /// What nobody knows here: it stays.
    pub left: Vec<Key>,
}

/// What a delete would do in one store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The hours that have an archive, in order.
    pub hours: Vec<DoomedHour>,
}

impl Plan {
    /// How many archives would go.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.hours.iter().map(|hour| hour.archives.len()).sum()
    }

    /// How many bytes they have.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.hours.iter().map(DoomedHour::bytes).sum()
    }
}

impl DoomedHour {
    /// How many bytes go.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.archives.iter().map(|archive| archive.bytes).sum()
    }
}

impl fmt::Display for DoomedHour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            store, feed, hour, ..
        } = self;
        let (count, bytes) = (self.archives.len(), self.bytes());
        write!(
            f,
            "{feed} {hour} in `{store}`: {count} archives, {bytes} bytes"
        )?;
        match self.left.len() {
            0 => Ok(()),
            left => write!(f, "; {left} unknown objects stay"),
        }
    }
}

/// Looks for what would go. Nothing is changed.
///
/// # Errors
/// Any failure of the store.
pub async fn plan(lake: &Lake, scope: &Scope) -> Result<Plan, Error> {
    let mut plan = Plan::default();
    for ((feed, hour), folder) in scope.folders(lake).await? {
        if !folder.archives().is_empty() {
            plan.hours.push(doom(lake, feed, hour, &folder).await?);
        }
    }
    Ok(plan)
}

async fn doom(
    lake: &Lake,
    feed: FeedId,
    hour: Hour,
    folder: &HourFolder,
) -> Result<DoomedHour, Error> {
    let mut archives = Vec::new();
    for entry in folder.archives() {
        archives.push(Doomed {
            key: entry.key.clone(),
            bytes: length(lake, entry).await?,
        });
    }
    Ok(DoomedHour {
        store: lake.id().to_owned(),
        feed,
        hour,
        archives,
        left: folder
            .unknown
            .iter()
            .map(|entry| entry.key.clone())
            .collect(),
    })
}

/// What is small may stand for something large.
async fn length(lake: &Lake, entry: &Entry) -> Result<u64, Error> {
    if entry.stored_bytes > COMMIT_BYTES_MAX {
        return Ok(entry.stored_bytes);
    }
    match lake.head(&entry.key).await {
        Ok(head) => Ok(head.bytes),
        Err(error) if matches!(error.kind, ErrorKind::Absent | ErrorKind::Corrupt) => {
            Ok(entry.stored_bytes)
        }
        Err(error) => Err(error.into()),
    }
}

/// Does what a plan says, and removes also what came to its hours since. `done` hears of every hour. It may be repeated
/// after an error. `by` is the program that does it, and is kept with the mark.
///
/// # Errors
/// Any failure of the store; hours that `done` did not hear of may be marked already, and are then removed by whoever
/// consolidates next.
pub async fn run(
    lake: &Lake,
    plan: &Plan,
    by: &str,
    now: Timestamp,
    done: &mut (dyn FnMut(&DoomedHour) + Send),
) -> Result<(), Error> {
    for hour in &plan.hours {
        let tombstone = Tombstone {
            feed: hour.feed.clone(),
            hour: hour.hour,
            deleted: now,
            by: by.to_owned(),
        };
        let mark = Key::feed_tombstone(&hour.feed, hour.hour);
        // Whoever has put it: that it is there is what counts.
        lake.put_new(&mark, tombstone.to_json()).await?;
        done(&remove(lake, hour).await?);
    }
    Ok(())
}

async fn remove(lake: &Lake, planned: &DoomedHour) -> Result<DoomedHour, Error> {
    let mut gone = DoomedHour {
        archives: Vec::new(),
        ..planned.clone()
    };
    for _ in 0..ROUNDS_MAX {
        let folder = HourFolder::list(lake, &planned.feed, planned.hour).await?;
        let now = doom(lake, planned.feed.clone(), planned.hour, &folder).await?;
        gone.left = now.left;
        if now.archives.is_empty() {
            break;
        }
        lake.delete_many(now.archives.iter().map(|archive| archive.key.clone()))
            .await?;
        gone.archives.extend(now.archives);
    }
    Ok(gone)
}

/// Takes the marks of a scope away: from now on the hours can be collected again. Gives back those that had one.
///
/// # Errors
/// Any failure of the store; repeat it.
pub async fn lift(lake: &Lake, scope: &Scope) -> Result<Vec<(FeedId, Hour)>, Error> {
    let mut lifted = Vec::new();
    for ((feed, hour), folder) in scope.folders(lake).await? {
        if folder.tombstone {
            lake.delete(&Key::feed_tombstone(&feed, hour)).await?;
            lifted.push((feed, hour));
        }
    }
    Ok(lifted)
}
