//! A state under test, and short words for what the tests do with it.

use std::any::Any;
use std::ops::Deref;
use std::time::Duration;

use cannery_runtime::clock::SimulatedClock;
use cannery_runtime::{Clock, Rng};
use cannery_state::{Begin, End, Execution, Filter, Outcome, Recorder, RecorderOptions, State};
use jiff::{SignedDuration, Timestamp};

pub(crate) const LIMIT: Duration = Duration::from_secs(20);

pub(crate) struct Subject {
    pub(crate) state: State,
    pub(crate) address: String,
    /// Moves the time.
    pub(crate) hand: SimulatedClock,
    /// What must live as long as the state: a folder, a server.
    _kept: Box<dyn Any + Send + Sync>,
}

impl Deref for Subject {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

/// When everything begins.
pub(crate) fn start() -> Timestamp {
    "2026-11-15T18:00:00Z".parse().unwrap()
}

pub(crate) fn after(seconds: i64) -> Timestamp {
    start() + SignedDuration::from_secs(seconds)
}

pub(crate) fn hand() -> (SimulatedClock, Clock) {
    let hand = SimulatedClock::starting_at(start());
    let clock = hand.clock();
    (hand, clock)
}

/// `<stage>/<bucket>/<kind>/<slice>`, begun so many seconds after the start.
pub(crate) fn begin(key: &str, seconds: i64) -> Begin {
    let parts: Vec<&str> = key.split('/').collect();
    let part = |at: usize| {
        parts
            .get(at)
            .filter(|part| **part != "-")
            .map(|part| (*part).to_owned())
    };
    Begin {
        stage: parts[0].to_owned(),
        key: key.to_owned(),
        bucket: part(1),
        kind: part(2),
        slice: part(3),
        attempt: 1,
        started: after(seconds),
    }
}

/// Ended well so many seconds after the start.
pub(crate) fn well(seconds: i64) -> End {
    End {
        ended: after(seconds),
        bytes_in: 1_000,
        bytes_out: 100,
        outcome: Outcome::Done,
        reason: None,
        report: serde_json::json!({"cans": 2}),
    }
}

pub(crate) fn badly(seconds: i64, outcome: Outcome, reason: &str) -> End {
    End {
        bytes_in: 0,
        bytes_out: 0,
        outcome,
        reason: Some(reason.to_owned()),
        report: serde_json::Value::Null,
        ..well(seconds)
    }
}

impl Subject {
    pub(crate) fn new(
        state: State,
        address: &str,
        hand: SimulatedClock,
        kept: impl Any + Send + Sync,
    ) -> Self {
        Self {
            state,
            address: address.to_owned(),
            hand,
            _kept: Box::new(kept),
        }
    }

    /// A worker that forgets nothing by itself.
    pub(crate) fn recorder(&self, worker: &str) -> Recorder {
        let options = RecorderOptions {
            keep: None,
            ..RecorderOptions::of(worker)
        };
        Recorder::start(&self.state, &options, &Rng::from_os())
    }

    /// Writes executions that ended well: key, begin and end.
    pub(crate) async fn tell(&self, executions: &[(&str, i64, i64)]) {
        let recorder = self.recorder("node-1");
        for (key, from, to) in executions {
            recorder.record(begin(key, *from), &well(*to));
        }
        assert!(recorder.close(LIMIT).await);
    }

    pub(crate) async fn all(&self) -> Vec<Execution> {
        let page = self.executions(&Filter::default(), None, 10_000).await;
        page.unwrap().items
    }

    /// Key and result of everything, newest first.
    pub(crate) async fn picture(&self) -> Vec<(String, Outcome)> {
        let all = self.all().await;
        all.into_iter().map(|one| (one.key, one.result)).collect()
    }
}

/// The statements that the documentation shows.
pub(crate) fn documented() -> Vec<String> {
    let text = include_str!("../../../../docs/history.md");
    let blocks = text.split("```sql\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap().to_owned());
    let statements: Vec<String> = blocks.collect();
    assert_eq!(statements.len(), 2, "{statements:?}");
    statements
}
