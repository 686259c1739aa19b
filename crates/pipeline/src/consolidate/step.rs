//! What a consolidation did, step by step, for a log and for people.

use std::fmt;

use cannery_formats::Key;
use cannery_formats::feed::{FeedId, Hour};
use serde::Serialize;

use crate::audit::counted;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Step {
    /// The folder of the hour was listed.
    Listed {
        /// How many archives there were.
        archives: usize,
    },
    /// Several archives became one.
    Merged {
        /// How many.
        archives: usize,
        /// The one.
        into: Key,
        /// What is in it.
        entries: usize,
    },
    /// The primary was created, or replaced by one that holds more.
    Swapped {
        /// The primary.
        primary: Key,
        /// What is in it now.
        entries: usize,
    },
    /// The primary is a new copy of the archive that holds everything.
    Copied {
        /// That archive.
        from: Key,
        /// The primary.
        primary: Key,
    },
    /// An archive was deleted: everything in it is elsewhere, or the hour was deleted on purpose.
    Deleted {
        /// Which one.
        key: Key,
    },
    /// An archive was not used and not touched.
    LeftAlone {
        /// Which one.
        key: Key,
        /// Why.
        why: String,
    },
    /// Somebody else changed it first; it was looked at again.
    Conflict {
        /// What was changed.
        key: Key,
    },
    /// The hour was deleted on purpose: its archives are removed.
    Tombstoned,
    /// All is as it should be.
    NothingToDo,
}

impl Step {
    /// Whether the lake was changed by it.
    #[must_use]
    pub fn is_change(&self) -> bool {
        match self {
            Self::Merged { .. } | Self::Swapped { .. } | Self::Copied { .. } => true,
            Self::Deleted { .. } => true,
            Self::Listed { .. } | Self::LeftAlone { .. } | Self::Conflict { .. } => false,
            Self::Tombstoned | Self::NothingToDo => false,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listed { archives } => {
                write!(f, "found {}", counted(*archives, "archive", "archives"))
            }
            Self::Merged {
                archives,
                into,
                entries,
            } => write!(
                f,
                "merged {} into `{into}` with {}",
                counted(*archives, "archive", "archives"),
                counted(*entries, "entry", "entries")
            ),
            Self::Swapped { primary, entries } => {
                let entries = counted(*entries, "entry", "entries");
                write!(f, "wrote the primary `{primary}` with {entries}")
            }
            Self::Copied { from, primary } => write!(f, "copied `{from}` to `{primary}`"),
            Self::Deleted { key } => write!(f, "deleted `{key}`"),
            Self::LeftAlone { key, why } => write!(f, "left `{key}` alone: {why}"),
            Self::Conflict { key } => write!(f, "`{key}` was changed by somebody else"),
            Self::Tombstoned => f.write_str("the hour was deleted on purpose"),
            Self::NothingToDo => f.write_str("nothing to do"),
        }
    }
}

/// What a consolidation did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The id of the object storage.
    pub store: String,
    /// Which feed.
    pub feed: FeedId,
    /// Which hour.
    pub hour: Hour,
    /// The steps in order.
    pub steps: Vec<Step>,
}

impl Report {
    /// Whether the lake was changed.
    #[must_use]
    pub fn is_change(&self) -> bool {
        self.steps.iter().any(Step::is_change)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} in `{}`: ", self.feed, self.hour, self.store)?;
        for (place, step) in self.steps.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{step}")?;
        }
        Ok(())
    }
}
