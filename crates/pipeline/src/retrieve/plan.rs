//! Which archives of which hours: what a dry run shows, and what [`super::run`] does.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use cannery_formats::Key;
use cannery_formats::feed::{FeedId, Hour};
use cannery_lake::{Entry, Lake};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::Serialize;

use super::error::Error;
use super::options::RetrieveOptions;
use crate::entry_length::length;

/// Of so many hours the lengths are asked for at once.
const ASKED_AT_ONCE: usize = 16;

/// An hour of a feed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct HourOf {
    /// Which feed.
    pub feed: FeedId,
    /// Which hour.
    pub hour: Hour,
}

impl fmt::Display for HourOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.feed, self.hour)
    }
}

/// An archive that would be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedArchive {
    /// Which one.
    pub key: Key,
    /// Its length, compressed.
    pub bytes: u64,
}

/// An hour that has archives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedHour {
    /// Which hour.
    #[serde(flatten)]
    pub of: HourOf,
    /// Where its files go, below the target.
    pub folder: PathBuf,
    /// What would be read. Several are united.
    pub archives: Vec<PlannedArchive>,
}

impl PlannedHour {
    /// The length of its archives.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.archives.iter().map(|archive| archive.bytes).sum()
    }
}

impl fmt::Display for PlannedHour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, bytes) = (self.archives.len(), self.bytes());
        let what = if count == 1 { "archive" } else { "archives" };
        write!(f, "{}: {count} {what}, {bytes} bytes", self.of)
    }
}

/// What would be retrieved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// What was asked for.
    pub options: RetrieveOptions,
    /// The hours that have archives, by feed and time.
    pub hours: Vec<PlannedHour>,
    /// Hours that somebody deleted on purpose: nothing of them is retrieved, even if archives are left.
    pub deleted: Vec<HourOf>,
    /// Archives that cannot be read and were set aside: nothing of them is retrieved.
    pub set_aside: Vec<Key>,
    /// Feeds that were asked for by name and have nothing in these times.
    pub without: Vec<FeedId>,
}

impl Plan {
    /// How many archives would be read.
    #[must_use]
    pub fn archives(&self) -> usize {
        self.hours.iter().map(|hour| hour.archives.len()).sum()
    }

    /// Their length, compressed.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.hours.iter().map(PlannedHour::bytes).sum()
    }
}

/// Looks for what would be retrieved. Nothing is written.
///
/// # Errors
/// [`Error::Range`], and any failure of the store: a part of a listing is never taken for the whole.
pub async fn plan(lake: &Lake, options: &RetrieveOptions) -> Result<Plan, Error> {
    let folders = options.scope()?.folders(lake, &mut |_| {}).await?;
    let mut plan = Plan {
        options: options.clone(),
        hours: Vec::new(),
        deleted: Vec::new(),
        set_aside: Vec::new(),
        without: Vec::new(),
    };
    let mut found = Vec::new();
    for ((feed, hour), folder) in folders {
        let of = HourOf { feed, hour };
        let archives: Vec<Entry> = folder.archives().into_iter().cloned().collect();
        if !folder.tombstone {
            let aside = folder.set_aside.iter().map(|entry| entry.key.clone());
            plan.set_aside.extend(aside);
        }
        if folder.tombstone {
            plan.deleted.push(of);
        } else if !archives.is_empty() {
            let folder = options.folder(&of.feed, of.hour).iter().collect();
            found.push(measure(lake.clone(), of, folder, archives));
        }
    }
    let measured = stream::iter(found).buffered(ASKED_AT_ONCE);
    plan.hours = measured.try_collect().await?;
    plan.without = without(&plan);
    Ok(plan)
}

async fn measure(
    lake: Lake,
    of: HourOf,
    folder: PathBuf,
    entries: Vec<Entry>,
) -> Result<PlannedHour, Error> {
    let mut archives = Vec::with_capacity(entries.len());
    for entry in entries {
        let bytes = length(&lake, &entry).await?;
        archives.push(PlannedArchive {
            key: entry.key,
            bytes,
        });
    }
    Ok(PlannedHour {
        of,
        folder,
        archives,
    })
}

fn without(plan: &Plan) -> Vec<FeedId> {
    let found = plan.hours.iter().map(|hour| &hour.of);
    let found: BTreeSet<_> = found.chain(&plan.deleted).map(|of| &of.feed).collect();
    let asked = plan.options.feeds.iter().flatten();
    let without: BTreeSet<_> = asked.filter(|feed| !found.contains(feed)).collect();
    without.into_iter().cloned().collect()
}
