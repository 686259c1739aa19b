//! What is kept on the disk: lines about minutes and tasks, and totals.

use cannery_formats::feed::{FeedId, Hour};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::minute::{Minute, MinuteNumber};

/// One line of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Line {
    Minute {
        feed: FeedId,
        minute: MinuteNumber,
        is: Minute,
    },
    Task {
        feed: FeedId,
        task: Task,
    },
}

/// What kind of work a task was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskKind {
    /// An hour was packed.
    Archive,
    /// An archive was shipped to a store.
    Upload,
    /// An hour of a store was consolidated.
    Consolidate,
}

/// One piece of work that ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// What kind of work.
    pub kind: TaskKind,
    /// When it ended.
    pub at: Timestamp,
    /// Of which hour.
    pub hour: Hour,
    /// In which store, if in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// Whether it ended well.
    pub ok: bool,
    /// What was done, step by step, or why not.
    pub did: Vec<String>,
}

/// All that was ever counted of a feed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Polls that stored a body.
    pub stored: u64,
    /// Polls that found the body of before.
    pub unchanged: u64,
    /// Polls in vain.
    pub failed: u64,
    /// Polls that were left out because the one before took so long.
    pub missed: u64,
    /// Bytes of bodies that were stored.
    pub bytes: u64,
    /// How long the successful polls took together.
    pub latency_ms: u64,
    /// When a poll last succeeded.
    pub last_success: Option<Timestamp>,
    /// The last poll in vain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<LastFailure>,
    /// Hours that were packed.
    pub archives: Done,
    /// Archives that a store got.
    pub uploads: Done,
    /// Hours that were consolidated by this process.
    pub consolidations: Done,
}

/// A poll in vain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastFailure {
    /// When.
    pub at: Timestamp,
    /// Why.
    pub reason: String,
}

/// How often something ended well or not, and when last well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Done {
    /// Well.
    pub ok: u64,
    /// Not well.
    pub failed: u64,
    /// When last well.
    pub last: Option<Timestamp>,
}

impl Totals {
    pub(super) fn count(&mut self, task: &Task) {
        let done = match task.kind {
            TaskKind::Archive => &mut self.archives,
            TaskKind::Upload => &mut self.uploads,
            TaskKind::Consolidate => &mut self.consolidations,
        };
        if task.ok {
            done.ok += 1;
            done.last = Some(task.at);
        } else {
            done.failed += 1;
        }
    }
}
