//! What is told of every execution of a stage.

use std::sync::Arc;

use cannery_runtime::Clock;
use jiff::Timestamp;
use serde::Serialize;

use crate::stage::Stage;

/// One execution of a stage, from the moment it was let in.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Execution {
    /// Which stage.
    #[serde(serialize_with = "by_name")]
    pub stage: Stage,
    /// The key of its work.
    pub key: String,
    /// How often the work was tried, this time included. What was put off because of others' trouble does not count.
    pub attempt: u32,
    /// When it began.
    pub start: Timestamp,
    /// When it ended.
    pub end: Timestamp,
    /// Bytes that it read.
    pub bytes_in: u64,
    /// Bytes that it wrote.
    pub bytes_out: u64,
    /// How it ended.
    pub ended: Ended,
    /// What the stage says of itself; `null` where it did not end well.
    pub report: serde_json::Value,
}

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "result", content = "reason")]
pub enum Ended {
    /// Well.
    Done,
    /// It is tried again later, because a store, a disk or a database is in trouble.
    PutOff(String),
    /// It went wrong, and is tried again.
    Retried(String),
    /// It went wrong for good, and is on the dead list.
    Failed(String),
    /// Its lease was lost: somebody else does it now.
    Lost,
    /// It was cut off: the worker was stopped, or the stage ended in a panic.
    CutOff,
}

/// Keeps what is told.
pub trait History: Send + Sync {
    /// An execution has begun; its end is told with the same key and the same moment. Called from a task: it must not block.
    fn began(&self, _stage: Stage, _key: &str, _attempt: u32, _start: Timestamp) {}

    /// An execution has ended. Called from a task: it must not block.
    fn executed(&self, execution: &Execution);
}

/// An execution that is under way. However it ends, it is told.
pub(super) struct Telling {
    history: Arc<dyn History>,
    clock: Clock,
    execution: Execution,
}

impl Telling {
    pub(super) fn begin(
        history: Arc<dyn History>,
        clock: Clock,
        stage: Stage,
        key: &str,
        attempt: u32,
    ) -> Self {
        let start = clock.now();
        history.began(stage, key, attempt, start);
        Self {
            history,
            clock,
            execution: Execution {
                stage,
                key: key.to_owned(),
                attempt,
                start,
                end: start,
                bytes_in: 0,
                bytes_out: 0,
                ended: Ended::CutOff,
                report: serde_json::Value::Null,
            },
        }
    }

    /// Says how it ended.
    pub(super) fn end(mut self, ended: Ended) {
        self.execution.ended = ended;
    }

    /// Says that it ended well.
    pub(super) fn end_well(mut self, bytes: (u64, u64), report: serde_json::Value) {
        (self.execution.bytes_in, self.execution.bytes_out) = bytes;
        self.execution.report = report;
        self.end(Ended::Done);
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.execution.end = self.clock.now();
        self.history.executed(&self.execution);
    }
}

fn by_name<S: serde::Serializer>(stage: &Stage, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(stage.name())
}
