//! Requests that arrive together share a transaction.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cannery_lake::Mirrors;
use cannery_runtime::Clock;
use cannery_state::objects::NeededRows;
use cannery_state::{ErrorKind, State};
use futures::FutureExt as _;
use tokio::sync::{mpsc, oneshot};

use crate::change::{Committed, ObjectRequest, RequestedChange};
use crate::error::{ObjectError, ObjectErrorKind};
use crate::lake_age::behind;
use crate::log_writer::{Unanswered, UnansweredBatch};
use crate::plan::{BatchPlan, bytes_left, plan, wanted};
use crate::user_records::record_users;

/// Requests of one transaction.
const REQUESTS_MAX: usize = 256;

/// How long a transaction may take, with the waiting for its turn.
const TRANSACTION_LIMIT: Duration = Duration::from_secs(30);

/// Bytes must be named so soon after they were put: a sweep takes those for left over that were put long ago and have no name.
pub(crate) const NAMED_WITHIN: Duration = Duration::from_secs(12 * 3_600);

/// A request, and who waits for its answer.
pub(crate) struct WaitingRequest {
    pub(crate) request: ObjectRequest,
    pub(crate) answer: oneshot::Sender<Result<Committed, ObjectError>>,
}

pub(crate) struct Committer {
    pub(crate) state: State,
    pub(crate) mirrors: Arc<Mirrors>,
    pub(crate) clock: Clock,
    pub(crate) log: mpsc::Sender<UnansweredBatch>,
    /// The highest version that was seen: a database that knows fewer changes is another one.
    pub(crate) newest: Arc<AtomicU64>,
}

impl Committer {
    /// Commits what comes until nobody can ask any more. A panic costs the requests of one batch their answer, and nobody else.
    pub(crate) async fn run(self, mut queue: mpsc::Receiver<WaitingRequest>) {
        let serve = async |queue: &mut _| self.serve(queue).await;
        while AssertUnwindSafe(serve(&mut queue))
            .catch_unwind()
            .await
            .is_err()
        {
            tracing::error!("the committer of objects panicked; restarting");
        }
    }

    async fn serve(&self, queue: &mut mpsc::Receiver<WaitingRequest>) {
        while let Some(first) = queue.recv().await {
            let mut batch = vec![first];
            while batch.len() < REQUESTS_MAX
                && let Ok(more) = queue.try_recv()
            {
                batch.push(more);
            }
            self.commit(batch).await;
        }
    }

    async fn commit(&self, batch: Vec<WaitingRequest>) {
        let batch = self.refuse_late(batch);
        if batch.is_empty() {
            return;
        }
        let requests: Vec<ObjectRequest> = batch.iter().map(|one| one.request.clone()).collect();
        let transact = self.transact(&requests);
        let done = self.clock.timeout(TRANSACTION_LIMIT, transact).await;
        let done = done.unwrap_or_else(|late| {
            let message =
                format!("the database does not answer: {late}; the change may have been made");
            Err(ObjectError::unavailable(message))
        });
        match done {
            Ok(plan) => self.hand_on(batch, plan).await,
            // What one request brought must not fail the others.
            Err(error) if is_of_one(&error) && batch.len() > 1 => {
                for one in batch {
                    Box::pin(self.commit(vec![one])).await;
                }
            }
            Err(error) => {
                for one in batch {
                    drop(one.answer.send(Err(error.clone())));
                }
            }
        }
    }

    /// Answers requests whose bytes may have been swept by now; the others are left.
    fn refuse_late(&self, batch: Vec<WaitingRequest>) -> Vec<WaitingRequest> {
        let mut in_time = Vec::with_capacity(batch.len());
        for one in batch {
            match &one.request.change {
                RequestedChange::Put { bytes, .. }
                    if self.clock.since(bytes.stored_at) > NAMED_WITHIN =>
                {
                    let message = "the request waited too long after its bytes were stored; nothing was changed; send it again";
                    drop(one.answer.send(Err(ObjectError::unavailable(message))));
                }
                _ => in_time.push(one),
            }
        }
        in_time
    }

    async fn transact(&self, requests: &[ObjectRequest]) -> Result<BatchPlan, ObjectError> {
        let now_us = self.clock.now().as_microsecond();
        let wanted = wanted(requests);
        let begin = || self.state.begin_objects_knowing(&wanted);
        let (mut transaction, mut known) = begin().await?;
        // The lake must know a user before it has an object of that user.
        if known.usage.values().any(|usage| !usage.is_recorded) {
            transaction.end().await;
            record_users(&self.state, &self.mirrors).await?;
            (transaction, known) = begin().await?;
        }
        let newest = self.newest.fetch_max(known.version, Ordering::Relaxed);
        if known.version < newest {
            return Err(behind(newest, known.version));
        }
        let plan = plan(known, now_us, requests);
        if plan.writes.changes.is_empty() && plan.writes.garbage.is_empty() {
            transaction.end().await;
            return Ok(plan);
        }
        match transaction.commit(&plan.writes).await {
            Ok(()) => {
                self.newest
                    .fetch_max(plan.writes.version, Ordering::Relaxed);
                Ok(plan)
            }
            // A refusal stands all the same; its bytes are found by their age.
            Err(error) if plan.writes.changes.is_empty() => {
                tracing::warn!(%error, "cannot list the bytes of refused requests as garbage; they go by their age");
                Ok(plan)
            }
            Err(error) if error.kind == ErrorKind::Unavailable => self.find_out(plan, error).await,
            Err(error) => Err(error.into()),
        }
    }

    /// What would become of a request now, without doing it; how many bytes an object there may have, if that is limited.
    pub(crate) async fn rehearse(
        state: &State,
        request: ObjectRequest,
    ) -> Result<Option<u64>, ObjectError> {
        let requests = [request];
        let mut transaction = state.look_at_objects().await?;
        let known = transaction.look(&wanted(&requests)).await?;
        let left = bytes_left(&known, &requests[0].at);
        for answer in plan(known, 0, &requests).answers {
            answer?;
        }
        Ok(left)
    }

    /// After an answer that was lost: the outbox, or else the rows, tell whether the transaction was committed, all of it or nothing.
    async fn find_out(
        &self,
        plan: BatchPlan,
        lost: cannery_state::Error,
    ) -> Result<BatchPlan, ObjectError> {
        match self.was_committed(&plan).await {
            Ok(true) => Ok(plan),
            // Not there: it was not committed, or somebody has logged and replaced it already. Nobody can tell.
            Ok(false) | Err(_) => Err(lost.into()),
        }
    }

    async fn was_committed(&self, plan: &BatchPlan) -> Result<bool, cannery_state::Error> {
        let Some(change) = plan.writes.changes.first() else {
            return Ok(true);
        };
        if self.state.version_of_attempt(&change.attempt).await? == Some(change.version) {
            return Ok(true);
        }
        let needed = NeededRows {
            entries: plan.writes.entries.keys().cloned().collect(),
            ..NeededRows::default()
        };
        let there = self.state.look_at_objects().await?.look(&needed).await?;
        Ok(there.entries.iter().any(|(key, row)| {
            let written = plan.writes.entries.get(key).and_then(Option::as_ref);
            written.is_some_and(|written| written.attempt == row.attempt)
        }))
    }

    /// Refusals are answered at once; the rest when it is in the log, also what needed no change: it may be somebody's change
    /// that is not there yet. The next transaction waits for that: what arrives meanwhile shares it, and one object of the log.
    async fn hand_on(&self, batch: Vec<WaitingRequest>, plan: BatchPlan) {
        let changes = plan.writes.changes.iter();
        let mut lines: BTreeMap<u64, String> = changes
            .map(|change| (change.version, change.to_line()))
            .collect();
        let mut changes = Vec::new();
        for (one, answer) in batch.into_iter().zip(plan.answers) {
            match answer {
                Ok(committed) => changes.push(Unanswered {
                    line: lines.remove(&committed.version),
                    committed,
                    answer: one.answer,
                }),
                Err(refusal) => drop(one.answer.send(Err(refusal))),
            }
        }
        if changes.is_empty() {
            return;
        }
        let (written, was_written) = oneshot::channel();
        let batch = UnansweredBatch { changes, written };
        if self.log.send(batch).await.is_err() {
            tracing::warn!(
                "a change was committed while the log writer was stopped; it waits in the outbox"
            );
        }
        // A writer that panicked has dropped it, and goes on.
        was_written.await.unwrap_or_default();
    }
}

/// Whether an error may be about one request of a batch alone: what it brought, or a damaged row that it is about.
fn is_of_one(error: &ObjectError) -> bool {
    matches!(
        error.kind,
        ObjectErrorKind::Invalid | ObjectErrorKind::Corrupt
    )
}

#[cfg(test)]
mod tests;
