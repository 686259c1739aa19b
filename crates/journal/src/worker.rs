//! The claim loop: concurrency, heartbeats, outcomes, and a graceful end.
//!
//! A [`Worker`] hands entries to a [`Handler`] and tells the journal what became of them. One task does all the deciding
//! (`worker/run.rs`); the handlers run in tasks that it owns and waits for.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cannery_runtime::{Clock, Rng};
use tokio_util::sync::CancellationToken;

use crate::data::Data;
use crate::date::Date;
use crate::entry::Entry;
use crate::error::Error;
use crate::journal::Journal;
use crate::op::Op;

mod backoff;
mod claims;
mod ends;
mod leases;
mod run;

pub use backoff::Backoff;

/// What is done with an entry.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Does the work of one entry. It may be run again for the same entry, also while an earlier attempt whose lease was
    /// lost has not ended yet. A panic counts as [`Outcome::Retry`]. When the grace of a stop is over it is dropped at an
    /// `await`.
    async fn handle(&self, work: Work) -> Outcome;
}

/// One entry, claimed for a handler.
#[derive(Debug)]
pub struct Work {
    /// The entry, with its lease; the worker keeps the lease alive.
    pub entry: Entry<Data>,
    /// Cancelled when the lease is lost, or was not heard of for so long that it must be taken for lost. Somebody else may
    /// do the work now; the outcome is not reported any more.
    pub lost: CancellationToken,
    /// Cancelled when the worker was asked to stop; a handler may then finish early, with [`Outcome::Release`].
    pub stop: CancellationToken,
}

/// How the work of an entry ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Well: the entry is gone.
    Done,
    /// Not at all, and without blame.
    Release {
        /// Not to be handed out before this; [`Date::LAST`] at most.
        at: Option<Date>,
    },
    /// Badly, and it is worth another attempt; after too many the entry goes to the dead list.
    Retry {
        /// Why, for the person who looks.
        reason: String,
        /// How long to wait, [`Date::LAST`] at most; as the worker's [`Backoff`] says when left out.
        after: Option<Duration>,
    },
    /// Badly, and another attempt would be in vain: the entry goes to the dead list.
    Dead {
        /// Why, for the person who looks.
        reason: String,
    },
}

/// What a worker did, in entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Done, as the journal acknowledged.
    pub done: u64,
    /// Given back without blame.
    pub released: u64,
    /// Failed, to be tried again.
    pub failed: u64,
    /// Failed, and on the dead list now.
    pub dead: u64,
    /// Without an acknowledged end: the lease was lost, the journal did not answer in time or refused the report, or it
    /// answered to the repetition of a report that the lease is over, perhaps because the first report had ended it.
    pub lost: u64,
    /// Why the worker ended without being asked to, or what kept its last reports from the journal.
    pub error: Option<Error>,
}

/// Claims entries of a journal and has them handled, until it is stopped.
#[derive(Clone, Debug)]
pub struct Worker {
    journal: Journal,
    name: String,
    clock: Clock,
    rng: Rng,
    concurrency: usize,
    batch: usize,
    heartbeat_every: Option<Duration>,
    backoff: Backoff,
    grace: Duration,
}

impl Worker {
    /// A worker that handles one entry at a time; `name` is shown to people who look at the leases. `clock` measures the
    /// leases and the pauses, `rng` spreads the retries.
    #[must_use]
    pub fn new(journal: Journal, name: impl Into<String>, clock: Clock, rng: Rng) -> Self {
        Self {
            journal,
            name: name.into(),
            clock,
            rng,
            concurrency: 1,
            batch: Op::COUNT_MAX,
            heartbeat_every: None,
            backoff: Backoff::default(),
            grace: Duration::from_secs(30),
        }
    }

    /// How many handlers may run at once; at least 1.
    #[must_use]
    pub fn concurrency(mut self, most: usize) -> Self {
        self.concurrency = most.max(1);
        self
    }

    /// How many entries one claim may ask for, within the free places; all of them by default.
    #[must_use]
    pub fn batch(mut self, most: usize) -> Self {
        self.batch = most.clamp(1, Op::COUNT_MAX);
        self
    }

    /// How often leases are kept alive; a quarter of the shortest lease by default, and never less often than three times in
    /// it.
    #[must_use]
    pub fn heartbeat_every(mut self, every: Duration) -> Self {
        self.heartbeat_every = Some(every);
        self
    }

    /// How long a failed entry waits for its next attempt, by the attempts that failed before.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// How long handlers may go on after a stop was asked for; then they are aborted and their leases given back.
    #[must_use]
    pub fn grace(mut self, limit: Duration) -> Self {
        self.grace = limit;
        self
    }

    /// Works until `stop` is cancelled or the journal is closed.
    ///
    /// Afterwards no handler runs (one that never comes to an `await` is left behind, and logged), and every lease has
    /// ended or was given back as far as the journal answered. Dropping the future aborts the handlers and leaves their
    /// leases to time out.
    pub async fn run<H: Handler>(self, handler: H, stop: CancellationToken) -> Summary {
        run::Run::new(self, Arc::new(handler)).run(stop).await
    }
}
