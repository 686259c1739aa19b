//! What an audit says, as values, text and JSON.

use std::fmt;

use cannery_formats::Key;
use cannery_formats::feed::{FeedId, Hour};
use serde::Serialize;

use crate::consolidate::Report;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "finding", rename_all = "snake_case")]
pub enum Finding {
    /// The archives of an hour are not one yet, or were not removed yet though the hour was deleted.
    Unmerged {
        /// The id of the object storage.
        store: String,
        /// Which feed.
        feed: FeedId,
        /// Which hour.
        hour: Hour,
        /// How many archives there are.
        archives: usize,
    },
    /// A mirror lacks something that another one has.
    Missing {
        /// The id of the object storage that lacks it.
        store: String,
        /// Which feed.
        feed: FeedId,
        /// Which hour.
        hour: Hour,
        /// How many entries it lacks.
        entries: usize,
    },
    /// An archive cannot be used; it is never touched.
    Damaged {
        /// The id of the object storage.
        store: String,
        /// The archive.
        key: Key,
        /// What is wrong with it.
        why: String,
    },
    /// An archive could not be read, which says nothing of what is in it.
    Unreadable {
        /// The id of the object storage.
        store: String,
        /// The archive.
        key: Key,
        /// What the store said.
        why: String,
    },
}

impl Finding {
    /// Whether [`super::Auditor::fix`] can do something about it.
    #[must_use]
    pub fn is_mendable(&self) -> bool {
        match self {
            Self::Unmerged { .. } | Self::Missing { .. } => true,
            Self::Damaged { .. } | Self::Unreadable { .. } => false,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unmerged {
                store,
                feed,
                hour,
                archives,
            } => write!(
                f,
                "hour `{hour}` of feed `{feed}` in `{store}` is not merged: {archives} archives"
            ),
            Self::Missing {
                store,
                feed,
                hour,
                entries,
            } => write!(
                f,
                "hour `{hour}` of feed `{feed}` in `{store}` lacks {entries} entries that a mirror has"
            ),
            Self::Damaged { store, key, why } => {
                write!(f, "archive `{key}` in `{store}` cannot be used: {why}")
            }
            Self::Unreadable { store, key, why } => {
                write!(f, "archive `{key}` in `{store}` could not be read: {why}")
            }
        }
    }
}

/// What was done about findings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "mended", rename_all = "snake_case")]
pub enum Mended {
    /// An hour was consolidated.
    Consolidated {
        /// What was done.
        report: Report,
    },
    /// A mirror got what it lacked.
    Healed {
        /// The id of the object storage.
        store: String,
        /// The archive that it got.
        key: Key,
        /// What is in that.
        entries: usize,
    },
    /// It is as it was.
    Not {
        /// The id of the object storage.
        store: String,
        /// Which feed.
        feed: FeedId,
        /// Which hour.
        hour: Hour,
        /// Why.
        why: String,
    },
}

impl fmt::Display for Mended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Consolidated { report } => write!(f, "{report}"),
            Self::Healed {
                store,
                key,
                entries,
            } => write!(f, "put `{key}` with {entries} entries into `{store}`"),
            Self::Not {
                store,
                feed,
                hour,
                why,
            } => write!(
                f,
                "hour `{hour}` of feed `{feed}` in `{store}` was not mended: {why}"
            ),
        }
    }
}
