//! What was retrieved, and what was not.

use std::fmt;
use std::path::PathBuf;

use cannery_formats::Key;
use cannery_formats::feed::FeedId;
use serde::Serialize;

use super::plan::{HourOf, Plan};

/// How many files of a kind are listed; the others are counted.
pub(super) const LISTED_MAX: usize = 1_000;

/// How it ended, for an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Everything that there is.
    Whole,
    /// Archives were refused, or something was in the way; everything else is there.
    Partial,
    /// There is no archive, or none that has what was asked for.
    Nothing,
}

/// An archive of which nothing was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Which one.
    pub key: Key,
    /// Whether it is damaged, hostile, newer or too large, and in what.
    pub why: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "archive `{}` was refused: {}", self.key, self.why)
    }
}

/// A file that could not have its name, because another with other content has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Renamed {
    /// The hour it is of.
    #[serde(flatten)]
    pub of: HourOf,
    /// Its name in the archive.
    pub name: String,
    /// Where it is, below the target.
    pub path: PathBuf,
}

impl fmt::Display for Renamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, path) = (self.name.escape_debug(), self.path.display().to_string());
        write!(f, "`{name}` of {} is `{}`", self.of, path.escape_debug())
    }
}

/// Something else that has the name of a file: nothing was overwritten, and the file is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InTheWay {
    /// Where it is.
    pub path: PathBuf,
    /// What is known of it.
    pub what: String,
}

impl fmt::Display for InTheWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display().to_string();
        write!(f, "`{}` is in the way: {}", path.escape_debug(), self.what)
    }
}

/// What was retrieved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Retrieved {
    /// Hours of which at least one archive could be used.
    pub hours: u64,
    /// Files that were written.
    pub files: u64,
    /// Their length together.
    pub bytes: u64,
    /// Files that were there already, with the same content.
    pub present: u64,
    /// Bodies that were dropped because the feed had the same one before.
    pub duplicates: u64,
    /// Files that have another name than in their archive.
    pub renamed_count: u64,
    /// The first thousand of them.
    pub renamed: Vec<Renamed>,
    /// Files that are not there because something else has their name.
    pub in_the_way_count: u64,
    /// What has it, the first thousand; one link can be in the way of many files.
    pub in_the_way: Vec<InTheWay>,
    /// Archives of which nothing was taken.
    pub refused: Vec<Refused>,
    /// Hours that somebody deleted on purpose; they were passed over.
    pub deleted: Vec<HourOf>,
    /// Archives that cannot be read and were set aside; they were passed over.
    pub set_aside: Vec<Key>,
    /// Feeds that were asked for by name and have nothing in these times.
    pub without: Vec<FeedId>,
}

impl Retrieved {
    /// How it ended.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let is_whole = self.refused.is_empty() && self.in_the_way_count == 0;
        // An hour in which nothing was downloaded has an archive, too: it says which polls failed.
        let is_nothing = self.files + self.present + self.duplicates == 0;
        match (is_whole, is_nothing) {
            (false, _) => Outcome::Partial,
            (true, true) => Outcome::Nothing,
            (true, false) => Outcome::Whole,
        }
    }

    pub(super) fn of(plan: &Plan) -> Self {
        Self {
            deleted: plan.deleted.clone(),
            set_aside: plan.set_aside.clone(),
            without: plan.without.clone(),
            ..Self::default()
        }
    }

    pub(super) fn take(&mut self, done: HourDone) {
        self.hours += u64::from(done.archives > 0);
        self.files += done.files;
        self.bytes += done.bytes;
        self.present += done.present;
        self.duplicates += done.duplicates;
        self.renamed_count += done.renamed.len() as u64;
        let room = LISTED_MAX.saturating_sub(self.renamed.len());
        self.renamed.extend(done.renamed.into_iter().take(room));
        self.in_the_way_count += done.in_the_way_count;
        let room = LISTED_MAX.saturating_sub(self.in_the_way.len());
        let in_the_way = done.in_the_way.into_iter().take(room);
        self.in_the_way.extend(in_the_way);
        self.refused.extend(done.refused);
        if done.is_deleted {
            self.deleted.push(done.of);
        }
    }
}

/// What became of an hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HourDone {
    /// Which hour.
    #[serde(flatten)]
    pub of: HourOf,
    /// The length of its archives as planned, for a progress bar by bytes.
    pub archive_bytes: u64,
    /// Archives that were used.
    pub archives: u64,
    /// Files that were written.
    pub files: u64,
    /// Their length together.
    pub bytes: u64,
    /// Files that were there already.
    pub present: u64,
    /// Bodies that were dropped.
    pub duplicates: u64,
    /// Files that have another name.
    pub renamed: Vec<Renamed>,
    /// Files that are not there because something else has their name.
    pub in_the_way_count: u64,
    /// What has it, the first thousand; one link can be in the way of many files.
    pub in_the_way: Vec<InTheWay>,
    /// Archives of which nothing was taken.
    pub refused: Vec<Refused>,
    /// Somebody deleted it while it was looked at.
    pub is_deleted: bool,
}

/// Hears what goes on.
pub trait Progress: Send + Sync {
    /// An hour of the plan is done. Called once for each, in the order of the plan.
    fn hour_done(&self, done: &HourDone);
}

/// Nobody listens.
impl Progress for () {
    fn hour_done(&self, _: &HourDone) {}
}
