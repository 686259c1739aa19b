//! The history of executions: one row for each time that a stage ran.
//!
//! A row is written when an execution begins and once more when it ends. Nobody writes `lost` for a worker that died: every
//! worker has a row in `session`, in which it leaves a sign of life every [`HEARTBEAT`]; an execution without an end whose
//! session has ended, or has been silent for [`SILENCE`], is shown as lost. So a worker that was only cut off from the
//! database is right again once it is heard of.

mod forget;
mod query;
mod queue;
mod recorder;
mod summary;
mod write;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

pub use forget::KEEP;
pub use query::{Cursor, Filter, Page};
pub use recorder::{Recorder, RecorderOptions, Ticket};
pub use summary::StageSummary;

/// How often a worker leaves a sign of life.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(30);

/// A worker that was not heard of for so long is taken for dead. The clocks of workers may differ by less than that.
pub const SILENCE: Duration = Duration::from_secs(3 * 60);

/// How an execution stands, or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It has not ended, and its worker is heard of.
    Running,
    /// It ended well.
    Done,
    /// It is tried again later, because a store, a disk or a database is in trouble.
    PutOff,
    /// It went wrong, and is tried again.
    Retried,
    /// It went wrong for good.
    Failed,
    /// Its lease was lost, or its worker is not heard of any more: somebody else does it.
    Lost,
    /// It was cut off: the worker was stopped, or the stage ended in a panic.
    CutOff,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Running,
        Self::Done,
        Self::PutOff,
        Self::Retried,
        Self::Failed,
        Self::Lost,
        Self::CutOff,
    ];

    /// Those of executions that ended, but not well.
    pub const TROUBLE: [Self; 5] = [
        Self::PutOff,
        Self::Retried,
        Self::Failed,
        Self::Lost,
        Self::CutOff,
    ];

    /// Its name, in the table too.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::PutOff => "put_off",
            Self::Retried => "retried",
            Self::Failed => "failed",
            Self::Lost => "lost",
            Self::CutOff => "cut_off",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The text is no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownOutcome;

impl fmt::Display for UnknownOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Outcome::ALL.map(Outcome::name).join(", ");
        write!(f, "choose one of: {names}")
    }
}

impl std::error::Error for UnknownOutcome {}

impl FromStr for Outcome {
    type Err = UnknownOutcome;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        all.find(|outcome| outcome.name() == text)
            .ok_or(UnknownOutcome)
    }
}

/// What is known of an execution when it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// Which stage.
    pub stage: String,
    /// The key of its work.
    pub key: String,
    /// The bucket that the key names, if it names one.
    pub bucket: Option<String>,
    /// The kind that the key names, if it names one.
    pub kind: Option<String>,
    /// The slice that the key names, if it names one.
    pub slice: Option<String>,
    /// How often the work was tried, this time included.
    pub attempt: u32,
    /// When.
    pub started: Timestamp,
}

/// What is known of an execution when it ends.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// When.
    pub ended: Timestamp,
    /// Bytes that it read.
    pub bytes_in: u64,
    /// Bytes that it wrote.
    pub bytes_out: u64,
    /// How. `Running` is no end, and is kept as [`Outcome::CutOff`].
    pub outcome: Outcome,
    /// Why it did not end well.
    pub reason: Option<String>,
    /// What the stage says of itself.
    pub report: serde_json::Value,
}

/// An execution, as the history knows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Execution {
    /// Which stage.
    pub stage: String,
    /// The key of its work.
    pub key: String,
    /// The bucket that the key names.
    pub bucket: Option<String>,
    /// The kind that the key names.
    pub kind: Option<String>,
    /// The slice that the key names.
    pub slice: Option<String>,
    /// How often the work was tried, this time included.
    pub attempt: u64,
    /// The node that it ran on.
    pub worker: String,
    /// When it began.
    pub started: Timestamp,
    /// When it ended; nothing while it runs, and when nobody knows.
    pub ended: Option<Timestamp>,
    /// Bytes that it read.
    pub bytes_in: u64,
    /// Bytes that it wrote.
    pub bytes_out: u64,
    /// How it stands.
    pub result: Outcome,
    /// Why it did not end well.
    pub reason: Option<String>,
    /// What the stage says of itself.
    pub report: serde_json::Value,
    /// Its place in the history.
    #[serde(skip)]
    pub cursor: Cursor,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_read_as_they_are_written() {
        for outcome in Outcome::ALL {
            assert_eq!(outcome.name().parse(), Ok(outcome));
            let json = serde_json::to_value(outcome).unwrap();
            assert_eq!(json, outcome.name());
        }
        assert_eq!("Done".parse::<Outcome>(), Err(UnknownOutcome));
        assert!(!Outcome::TROUBLE.contains(&Outcome::Running));
    }

    #[test]
    fn a_worker_may_miss_signs_of_life_before_it_is_taken_for_dead() {
        assert!(HEARTBEAT * 4 < SILENCE);
    }
}
