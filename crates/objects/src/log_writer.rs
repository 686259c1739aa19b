//! Committed changes go to the log in the lake; then, and only then, whoever asked for them is answered.
//!
//! The log has no gap: before a change is answered, all changes before it are in the log, whoever made them. What cannot be
//! written stays in the outbox, and any server writes it later. Lines that are there twice do no harm.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use cannery_formats::Key;
use cannery_lake::Mirrors;
use cannery_runtime::{Clock, Rng};
use cannery_state::State;
use futures::FutureExt as _;
use tokio::sync::{mpsc, oneshot};

use crate::change::Committed;
use crate::error::ObjectError;
use crate::everywhere::put_everywhere;
use crate::lake_age::behind;
use crate::namespace::NamespaceParts;
use crate::ownership::claim;

/// Lines of one object of the log.
const LINES_MAX: usize = 2_000;

/// How many versions are logged before they leave the outbox: each leaving is a commit.
const FORGET_AT: u64 = 512;

/// How long one round of writing may take, and the emptying of the outbox.
const WRITE_LIMIT: Duration = Duration::from_secs(30);

/// How long they stay there at most.
const FORGET_AFTER: Duration = Duration::from_secs(1);

/// A change that was committed, or that was there already, and who waits for it.
pub(crate) struct Unanswered {
    pub(crate) committed: Committed,
    /// Its line in the log, if this request has made the change.
    pub(crate) line: Option<String>,
    pub(crate) answer: oneshot::Sender<Result<Committed, ObjectError>>,
}

/// The outcome of a transaction. Whoever holds the other end of `written` waits until all of it was answered.
pub(crate) struct UnansweredBatch {
    pub(crate) changes: Vec<Unanswered>,
    pub(crate) written: oneshot::Sender<()>,
}

pub(crate) struct LogWriter {
    pub(crate) state: State,
    pub(crate) mirrors: Arc<Mirrors>,
    pub(crate) clock: Clock,
    pub(crate) rng: Rng,
    /// Whether it is known that this database has the objects of the lake.
    pub(crate) is_owner: bool,
    /// Every change up to this version is in the log.
    pub(crate) logged: u64,
    /// Every change up to this version has left the outbox.
    pub(crate) forgotten: u64,
}

impl LogWriter {
    pub(crate) fn new(parts: &NamespaceParts) -> Self {
        Self {
            state: parts.state.clone(),
            mirrors: Arc::clone(&parts.mirrors),
            clock: parts.clock.clone(),
            rng: parts.rng.clone(),
            is_owner: false,
            logged: 0,
            forgotten: 0,
        }
    }

    /// Writes and answers what comes until nobody can send any more. A panic costs the changes of one round their answer; they
    /// stay in the outbox, and the next round writes them.
    pub(crate) async fn run(mut self, mut queue: mpsc::Receiver<UnansweredBatch>) {
        while AssertUnwindSafe(self.serve(&mut queue))
            .catch_unwind()
            .await
            .is_err()
        {
            tracing::error!("the writer of the log of objects panicked; restarting");
        }
    }

    async fn serve(&mut self, queue: &mut mpsc::Receiver<UnansweredBatch>) {
        let mut forgot_at = self.clock.elapsed();
        loop {
            let next = if self.forgotten == self.logged {
                queue.recv().await
            } else {
                match self.clock.timeout(FORGET_AFTER, queue.recv()).await {
                    Ok(next) => next,
                    Err(_) => {
                        self.forget().await;
                        forgot_at = self.clock.elapsed();
                        continue;
                    }
                }
            };
            let Some(batch) = next else { break };
            self.answer(batch.changes).await;
            // Nobody may be waiting any more.
            batch.written.send(()).unwrap_or_default();
            let is_time = self.clock.since(forgot_at) >= FORGET_AFTER;
            if is_time || self.logged - self.forgotten >= FORGET_AT {
                self.forget().await;
                forgot_at = self.clock.elapsed();
            }
        }
        self.forget().await;
    }

    async fn answer(&mut self, mut batch: Vec<Unanswered>) {
        let versions = batch.iter().map(|one| one.committed.version);
        let through = versions.max().unwrap_or_default();
        let made = batch.iter_mut().filter_map(|one| {
            let version = one.committed.version;
            Some((version, one.line.take()?))
        });
        let made = made.collect();
        let clock = self.clock.clone();
        let logged = clock
            .timeout(WRITE_LIMIT, self.log_made(made, through))
            .await;
        let logged = logged.unwrap_or_else(|late| Err(ObjectError::unavailable(late.to_string())));
        let logged = logged.map_err(|error| {
            tracing::warn!(changes = batch.len(), %error, "cannot write the log of objects; the changes wait in the outbox");
            let message =
                format!("the change was made, but is not in the log of the lake yet: {error}");
            ObjectError::unavailable(message)
        });
        for one in batch {
            // Who does not wait any more needs no answer.
            drop(one.answer.send(logged.clone().map(|()| one.committed)));
        }
    }

    /// Writes changes that this server has made, which need no look at the outbox if they are all that is missing; else what the
    /// outbox has.
    async fn log_made(
        &mut self,
        made: BTreeMap<u64, String>,
        through: u64,
    ) -> Result<(), ObjectError> {
        let missing = self.logged + 1..=through;
        if !missing.is_empty() && made.keys().copied().eq(missing) {
            self.put(through, made.into_values().collect()).await?;
        }
        self.log_through(through).await
    }

    /// Writes every change up to a version that is not in the log. A change that is not in the outbox any more is in the log:
    /// versions are committed in their order.
    pub(crate) async fn log_through(&mut self, through: u64) -> Result<(), ObjectError> {
        while self.logged < through {
            let waiting = self
                .state
                .object_outbox(self.logged, through, LINES_MAX)
                .await?;
            let last = match waiting.last() {
                Some(last) => last.version,
                // Logged by somebody else, unless the database went back since.
                None => match self.state.object_version().await? {
                    known if known < through => return Err(behind(through, known)),
                    _ => through,
                },
            };
            if waiting.is_empty() {
                self.logged = last;
            } else {
                let lines = waiting.into_iter().map(|one| one.line).collect();
                self.put(last, lines).await?;
            }
        }
        Ok(())
    }

    /// Writes the lines up to a version as one object of the log.
    async fn put(&mut self, last: u64, lines: String) -> Result<(), ObjectError> {
        if !self.is_owner {
            claim(&self.state, &self.mirrors, &self.rng).await?;
            self.is_owner = true;
        }
        let key = Key::object_log(last, &self.rng.id());
        put_everywhere(&self.mirrors, &key, lines.into_bytes()).await?;
        self.logged = last;
        Ok(())
    }

    /// What stays in the outbox for now is written once more by somebody, and leaves it then.
    pub(crate) async fn forget(&mut self) {
        if self.forgotten == self.logged {
            return;
        }
        let forgetting = self.state.forget_logged(self.logged);
        let failed = match self.clock.timeout(WRITE_LIMIT, forgetting).await {
            Ok(Ok(())) => {
                self.forgotten = self.logged;
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(late) => late.to_string(),
        };
        tracing::warn!(
            error = failed,
            "cannot empty the outbox of objects; it is done later"
        );
    }
}
