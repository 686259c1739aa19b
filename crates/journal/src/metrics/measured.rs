//! An engine that is measured.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use cannery_runtime::Clock;
use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::{JournalMetrics, Kind, Meters, Outcome};
use crate::data::Data;
use crate::date::Date;
use crate::declaration::Declaration;
use crate::engine::{Engine, Health, Usage};
use crate::error::Error;
use crate::op::{Op, Reply, Stats};
use crate::wake::Wakes;

/// For how long numbers are fresh.
const FRESH: Duration = Duration::from_secs(1);

/// An engine that needs longer than this for its numbers is not asked at every look.
const HARD_WORK: Duration = Duration::from_millis(250);

/// An engine whose operations are counted and timed, and whose numbers are remembered. Made by
/// [`JournalMetrics::measure`].
#[derive(Debug)]
pub struct Measured {
    name: String,
    engine: Arc<dyn Engine>,
    clock: Clock,
    meters: Meters,
    done_well: [OnceLock<(Counter, Histogram)>; KINDS.len()],
    last: Mutex<Last>,
    /// Held by whoever asks for the numbers; the others wait and see what he got.
    asking: tokio::sync::Mutex<()>,
}

/// What was last heard of the numbers.
#[derive(Clone, Debug, Default)]
struct Last {
    stats: Option<Arc<Stats>>,
    success: Option<Timestamp>,
    /// When an answer last came, good or bad, and how long it took.
    answered: Option<Duration>,
    took: Duration,
}

impl Measured {
    pub(super) fn new(name: &str, engine: Arc<dyn Engine>, metrics: &JournalMetrics) -> Self {
        Self {
            name: name.to_owned(),
            engine,
            clock: metrics.clock.clone(),
            meters: metrics.meters.clone(),
            done_well: [const { OnceLock::new() }; KINDS.len()],
            last: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// The numbers that were last heard; nothing before the first time.
    #[must_use]
    pub fn last_stats(&self) -> Option<Arc<Stats>> {
        self.last().stats.clone()
    }

    /// When numbers were last heard.
    #[must_use]
    pub fn last_success(&self) -> Option<Timestamp> {
        self.last().success
    }

    /// Asks for the numbers unless they are fresh, for somebody who looks: at most once a second, however many look, and
    /// not at all where they are hard work, for which [`Measured::ask`] has a rhythm.
    pub async fn refresh(&self) {
        let spare = |last: &Last| {
            let fresh = |at| self.clock.since(at) < FRESH;
            last.took > HARD_WORK || last.answered.is_some_and(fresh)
        };
        if spare(&self.last()) {
            return;
        }
        let _asking = self.asking.lock().await;
        let answered_meanwhile = spare(&self.last());
        if !answered_meanwhile {
            // Who looks sees the last numbers and the health; the rhythm tells of the error.
            self.ask_now().await.ok();
        }
    }

    /// Asks for the numbers, and says how long that took.
    ///
    /// # Errors
    /// As the engine says; the last numbers stay.
    pub async fn ask(&self) -> Result<Duration, Error> {
        let _asking = self.asking.lock().await;
        self.ask_now().await
    }

    async fn ask_now(&self) -> Result<Duration, Error> {
        let begun = self.clock.elapsed();
        let reply = self.engine.call(Op::Stats).await;
        let took = self.clock.since(begun);
        let mut last = self.last();
        last.answered = Some(self.clock.elapsed());
        last.took = took;
        if let Reply::Stats(stats) = reply? {
            last.stats = Some(Arc::from(stats));
            last.success = Some(self.clock.now());
        }
        Ok(took)
    }

    fn count(&self, kind: usize, reply: &Result<Reply<Data>, Error>, took: Duration) {
        let (well, seconds) = self.done_well[kind].get_or_init(|| self.meters_of(kind));
        seconds.observe(took.as_secs_f64());
        match reply {
            Ok(_) => {
                well.inc();
            }
            Err(error) => {
                let outcome = self.outcome(kind, error.kind.name());
                self.meters.operations.get_or_create(&outcome).inc();
            }
        }
    }

    /// Looked up once, since operations come by the ten thousand.
    fn meters_of(&self, kind: usize) -> (Counter, Histogram) {
        let label = Kind {
            journal: self.name.clone(),
            operation: KINDS[kind],
        };
        let well = self.outcome(kind, "ok");
        (
            self.meters.operations.get_or_create_owned(&well),
            self.meters.seconds.get_or_create_owned(&label),
        )
    }

    fn outcome(&self, kind: usize, result: &'static str) -> Outcome {
        Outcome {
            journal: self.name.clone(),
            operation: KINDS[kind],
            result,
        }
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Engine for Measured {
    async fn call(&self, op: Op) -> Result<Reply<Data>, Error> {
        let kind = kind_of(&op);
        let begun = self.clock.elapsed();
        let reply = self.engine.call(op).await;
        self.count(kind, &reply, self.clock.since(begun));
        reply
    }

    fn now(&self) -> Date {
        self.engine.now()
    }

    fn wakes(&self) -> Wakes {
        self.engine.wakes()
    }

    fn declaration(&self) -> Declaration {
        self.engine.declaration()
    }

    fn health(&self) -> Health {
        self.engine.health()
    }

    fn usage(&self) -> Option<Usage> {
        self.engine.usage()
    }

    async fn close(&self) {
        self.engine.close().await;
    }
}

/// The kinds of operation, for labels.
const KINDS: [&str; 15] = [
    "add",
    "claim",
    "done_and_claim",
    "heartbeat",
    "done",
    "release",
    "fail",
    "cancel",
    "requeue",
    "forget",
    "get",
    "list",
    "stats",
    "sweep",
    "declare",
];

/// The place of an operation in [`KINDS`].
fn kind_of(op: &Op) -> usize {
    match op {
        Op::Add(_) => 0,
        Op::Claim { .. } => 1,
        Op::DoneAndClaim { .. } => 2,
        Op::Heartbeat(_) => 3,
        Op::Done(_) => 4,
        Op::Release { .. } => 5,
        Op::Fail { .. } => 6,
        Op::Cancel(_) => 7,
        Op::Requeue(_) => 8,
        Op::Forget(_) => 9,
        Op::Get(_) => 10,
        Op::List(_) => 11,
        Op::Stats => 12,
        Op::Sweep => 13,
        Op::Declare(_) => 14,
    }
}
