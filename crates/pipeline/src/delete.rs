//! Removing hours for good: first a mark that says so, then the archives. Whoever uploads or merges later finds the mark, so
//! that a replica which comes late does not bring the hour back; also not one that had no archive when it was deleted.

use std::collections::BTreeSet;
use std::fmt;

use cannery_formats::Key;
use cannery_formats::feed::{FeedId, Hour, Tombstone};
use cannery_lake::Lake;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use serde::Serialize;

mod empty;

use crate::audit::counted;
use crate::entry_length::length;
use crate::error::Error;
use crate::hour_folder::HourFolder;
use crate::scope::Scope;
pub use empty::{EMPTY_HOURS_MAX, EmptyHours};

/// Hours without an archive that are marked at the same time.
const MARKS_AT_ONCE: usize = 8;

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
    /// The hours that have none and are marked as well, in order; see [`plan_with_empty_hours`].
    pub empty: Vec<EmptyHours>,
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

    /// How many hours without an archive would be marked.
    #[must_use]
    pub fn empty_hours(&self) -> u64 {
        self.empty.iter().map(EmptyHours::count).sum()
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
            "{feed} {hour} in `{store}`: {}, {bytes} bytes",
            counted(count, "archive", "archives")
        )?;
        match self.left.len() {
            0 => Ok(()),
            1 => f.write_str("; 1 unknown object stays"),
            left => write!(f, "; {left} unknown objects stay"),
        }
    }
}

/// Looks for what would go: the hours that have an archive. Nothing is changed.
///
/// # Errors
/// Any failure of the store.
pub async fn plan(lake: &Lake, scope: &Scope) -> Result<Plan, Error> {
    let mut plan = Plan::default();
    for ((feed, hour), folder) in scope.folders(lake, &mut |_| {}).await? {
        if !folder.removable().is_empty() {
            plan.hours.push(doom(lake, feed, hour, &folder).await?);
        }
    }
    Ok(plan)
}

/// The same with every other hour from `scope.from` to `scope.to` that has begun by `now`: a replica that comes late could bring it. The
/// feeds are those of the scope; where it names none, those that the lake has and those that are `known`.
///
/// # Errors
/// Any failure of the store; [`Error::TooManyHours`] where more than [`EMPTY_HOURS_MAX`] hours have no archive.
pub async fn plan_with_empty_hours(
    lake: &Lake,
    scope: &Scope,
    known: &BTreeSet<FeedId>,
    now: Timestamp,
) -> Result<Plan, Error> {
    let (folders, found) = scope.look(lake, &mut |_| {}).await?;
    let feeds = match &scope.feeds {
        Some(feeds) => feeds.clone(),
        None => found.union(known).cloned().collect(),
    };
    let mut plan = Plan {
        hours: Vec::new(),
        empty: empty::find(lake.id(), scope, &feeds, &folders, now)?,
    };
    for ((feed, hour), folder) in folders {
        if !folder.removable().is_empty() {
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
    for entry in folder.archives().into_iter().chain(&folder.set_aside) {
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

/// Does what a plan says, and removes also what came to its hours since. `done` hears of every hour that had an archive. It may be
/// repeated after an error. `by` is the program that does it, and is kept with the mark.
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
        mark(lake, hour, by, now).await?;
        done(&remove(lake, hour).await?);
    }
    let hours = plan.empty.iter().flat_map(EmptyHours::hours);
    let marks: Vec<_> = hours.map(|hour| bury(lake, hour, by, now)).collect();
    let mut marks = stream::iter(marks).buffered(MARKS_AT_ONCE);
    while let Some(late) = marks.try_next().await? {
        // An archive came after the plan was made.
        if !late.archives.is_empty() {
            done(&late);
        }
    }
    Ok(())
}

async fn bury(
    lake: &Lake,
    hour: DoomedHour,
    by: &str,
    now: Timestamp,
) -> Result<DoomedHour, Error> {
    mark(lake, &hour, by, now).await?;
    remove(lake, &hour).await
}

async fn mark(lake: &Lake, hour: &DoomedHour, by: &str, now: Timestamp) -> Result<(), Error> {
    let tombstone = Tombstone {
        feed: hour.feed.clone(),
        hour: hour.hour,
        deleted: now,
        by: by.to_owned(),
    };
    let mark = Key::feed_tombstone(&hour.feed, hour.hour);
    // Whoever has put it: that it is there is what counts.
    lake.put_new(&mark, tombstone.to_json()).await?;
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
        let keys = folder.removable();
        if keys.is_empty() {
            break;
        }
        lake.delete_many(keys).await?;
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
    for ((feed, hour), folder) in scope.folders(lake, &mut |_| {}).await? {
        if folder.tombstone {
            lake.delete(&Key::feed_tombstone(&feed, hour)).await?;
            lifted.push((feed, hour));
        }
    }
    Ok(lifted)
}
