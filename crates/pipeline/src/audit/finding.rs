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
    /// An archive cannot be read by anybody; it can be set aside.
    Damaged {
        /// The id of the object storage.
        store: String,
        /// The archive.
        key: Key,
        /// What is wrong with it.
        why: String,
    },
    /// An archive has more in it than is read here; it can be set aside.
    TooLarge {
        /// The id of the object storage.
        store: String,
        /// The archive.
        key: Key,
        /// In what.
        why: String,
    },
    /// An archive is of a newer version.
    Beyond {
        /// The id of the object storage.
        store: String,
        /// The archive.
        key: Key,
        /// What it is.
        why: String,
    },
    /// An archive was set aside, but is sound now.
    Restored {
        /// The id of the object storage.
        store: String,
        /// The archive.
        key: Key,
    },
    /// An archive was set aside, and is gone: its mark keeps others from its name.
    Gone {
        /// The id of the object storage.
        store: String,
        /// The archive.
        key: Key,
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
            Self::Damaged { .. } | Self::TooLarge { .. } => true,
            Self::Restored { .. } | Self::Gone { .. } => true,
            Self::Beyond { .. } | Self::Unreadable { .. } => false,
        }
    }

    /// What a person can do about it.
    #[must_use]
    pub fn next(&self) -> &'static str {
        match self {
            Self::Unmerged { .. } => {
                "`cannery audit --fix` merges it, and so does a running `cannery collect`"
            }
            Self::Missing { .. } => "`cannery audit --fix` copies what it lacks",
            Self::Damaged { .. } => {
                "put a sound copy in its place if you have one; `cannery audit --fix` sets it aside"
            }
            Self::TooLarge { .. } => {
                "`cannery audit --fix` sets it aside; it stays where it is, for `cannery lake cat` and your own tools"
            }
            Self::Restored { .. } => "`cannery audit --fix` counts on it again",
            Self::Gone { .. } => "`cannery audit --fix` removes the mark",
            Self::Beyond { .. } => "use a newer version of cannery",
            Self::Unreadable { .. } => "run `cannery audit` again when the store answers",
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
                "hour `{hour}` of feed `{feed}` in `{store}` is not merged: {}",
                counted(*archives, "archive", "archives")
            ),
            Self::Missing {
                store,
                feed,
                hour,
                entries,
            } => write!(
                f,
                "hour `{hour}` of feed `{feed}` in `{store}` lacks {} that a mirror has",
                counted(*entries, "entry", "entries")
            ),
            Self::Damaged { store, key, why } | Self::TooLarge { store, key, why } => {
                write!(f, "archive `{key}` in `{store}` cannot be used: {why}")
            }
            Self::Beyond { store, key, why } => {
                write!(f, "archive `{key}` in `{store}` cannot be used here: {why}")
            }
            Self::Restored { store, key } => {
                write!(
                    f,
                    "archive `{key}` in `{store}` was set aside, and is sound"
                )
            }
            Self::Gone { store, key } => {
                write!(
                    f,
                    "archive `{key}` in `{store}` was set aside, and is gone; its mark is left"
                )
            }
            Self::Unreadable { store, key, why } => {
                write!(f, "archive `{key}` in `{store}` could not be read: {why}")
            }
        }?;
        write!(f, "; {}", self.next())
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
    /// An archive that cannot be read was set aside.
    SetAside {
        /// The id of the object storage.
        store: String,
        /// The archive.
        key: Key,
        /// What is wrong with it.
        why: String,
        /// The archive that holds what is in it, where only its name was wrong.
        rescued: Option<Key>,
    },
    /// An archive that was set aside is sound, and its mark is gone.
    TakenBack {
        /// The id of the object storage.
        store: String,
        /// The archive.
        key: Key,
    },
    /// An archive that was set aside is gone, and now its mark is, too.
    Unmarked {
        /// The id of the object storage.
        store: String,
        /// The archive.
        key: Key,
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
            } => {
                let entries = counted(*entries, "entry", "entries");
                write!(f, "put `{key}` with {entries} into `{store}`")
            }
            Self::SetAside {
                store,
                key,
                why,
                rescued,
            } => {
                write!(
                    f,
                    "set `{key}` in `{store}` aside: {why}; it stays there and is not counted any more"
                )?;
                match rescued {
                    None => Ok(()),
                    Some(rescued) => write!(f, "; what is in it is in `{rescued}`, too"),
                }
            }
            Self::TakenBack { store, key } => {
                write!(f, "`{key}` in `{store}` is counted on again")
            }
            Self::Unmarked { store, key } => {
                write!(f, "removed the mark of `{key}` in `{store}`, which is gone")
            }
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

/// `1 archive`, `2 archives`.
pub(crate) fn counted(count: usize, one: &str, more: &str) -> String {
    let what = if count == 1 { one } else { more };
    format!("{count} {what}")
}
