//! Handing out: one statement takes what is due out of the waiting rows and makes leases of it.

use std::collections::BTreeMap;
use std::sync::MutexGuard;

use tokio::sync::{SemaphorePermit, oneshot};

use super::Fault;
use super::journal::PgJournal;
use super::marks::{Flight, Marks, Position};
use super::pool::ANSWER_LIMIT;
use super::row::{self, Place, Tokens};
use super::sql::ClaimKind;
use crate::data::Data;
use crate::date::Date;
use crate::entry::Entry;
use crate::error::{Error, ErrorKind};
use crate::op::{Claimed, Fate};
use crate::priority::Priority;
use crate::token::Token;

/// When to ask again where everything that is due is in other hands this very moment.
const CONTENDED_MS: i64 = 5;

/// How many entries this process claims at a time.
pub(super) const CLAIMED_AT_ONCE: u32 = 256;

/// A claim up to this size is made together with others, up to that many entries in all.
const SMALL: usize = 16;
const TOGETHER: usize = 128;

/// A search that is under way; when it is dropped unfinished, nothing is known any more.
struct Search<'a> {
    journal: &'a PgJournal,
    flight: Flight,
    finished: bool,
}

impl<'a> Search<'a> {
    fn begin(journal: &'a PgJournal) -> Self {
        let flight = journal.marks().begin();
        Self {
            journal,
            flight,
            finished: false,
        }
    }

    fn finish(mut self, first: &BTreeMap<i16, Position>, now: Date) -> MutexGuard<'a, Marks> {
        self.finished = true;
        let mut marks = self.journal.marks();
        marks.finish(&self.flight, first, now);
        marks
    }
}

impl Drop for Search<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.journal.marks().fail(&self.flight);
        }
    }
}

/// The rows of the statement, sorted by what they tell.
#[derive(Default)]
struct Answer {
    now: Date,
    /// How many rows were locked, and how many of them were taken.
    locked: i64,
    taken: i64,
    entries: Vec<Entry<Data>>,
    ended: Vec<Token>,
    freed: Vec<Place>,
    ahead: BTreeMap<i16, Position>,
}

/// What became of the leases, and what was handed out.
type Given = (Vec<Fate>, Claimed<Data>);

/// A small claim, which is made together with others.
#[derive(Debug)]
pub(super) struct ClaimCall {
    /// Leases to end, if that was asked.
    done: Option<Vec<Token>>,
    worker: String,
    count: u32,
    answer: oneshot::Sender<Result<Given, Fault>>,
}

impl ClaimCall {
    fn size(&self) -> usize {
        (self.count as usize).max(self.done.as_ref().map_or(0, Vec::len))
    }
}

impl PgJournal {
    pub(super) async fn claim(&self, worker: &str, count: u32) -> Result<Claimed<Data>, Fault> {
        Ok(self.done_and_claim(None, worker, count).await?.1)
    }

    /// Ends leases well, if there are any to end, and hands out.
    pub(super) async fn done_and_claim(
        &self,
        done: Option<&[Token]>,
        worker: &str,
        count: u32,
    ) -> Result<Given, Fault> {
        let (answer, answered) = oneshot::channel();
        let call = ClaimCall {
            done: done.map(<[Token]>::to_vec),
            worker: worker.to_owned(),
            count,
            answer,
        };
        if call.size() > SMALL {
            let workers = [worker.as_bytes()];
            let (ended, claimed) = self.hand_out(done, &workers, count).await?;
            let fates = super::ends::fates(done.unwrap_or_default(), &mut ended.iter().collect());
            return Ok((fates, claimed));
        }
        let journal = self.me()?;
        if self.claims.bring(call) {
            tokio::spawn(async move { journal.serve_claims().await });
        }
        answered.await.unwrap_or_else(|_| Err(Fault::unanswered()))
    }

    /// Makes the small claims until there are none.
    async fn serve_claims(&self) {
        loop {
            let calls = self.claims.take(ClaimCall::size, TOGETHER);
            if calls.is_empty() {
                return;
            }
            self.serve(calls).await;
        }
    }

    async fn serve(&self, calls: Vec<ClaimCall>) {
        let count = calls.iter().map(|call| call.count).sum();
        let workers: Vec<&[u8]> = calls
            .iter()
            .flat_map(|call| (0..call.count).map(|_| call.worker.as_bytes()))
            .collect();
        let ending = calls.iter().any(|call| call.done.is_some());
        let done: Vec<Token> = calls
            .iter()
            .flat_map(|call| call.done.iter().flatten().copied())
            .collect();
        let given = self
            .hand_out(ending.then_some(&done[..]), &workers, count)
            .await;
        match given {
            Ok((ended, claimed)) => self.distribute(calls, &ended, claimed).await,
            Err(fault) => {
                for call in calls {
                    // Who has gone does not need to hear of it.
                    call.answer.send(Err(fault.clone())).ok();
                }
            }
        }
    }

    /// Gives each caller what is his, in the order in which they came.
    async fn distribute(&self, calls: Vec<ClaimCall>, ended: &[Token], claimed: Claimed<Data>) {
        let mut entries = claimed.entries.into_iter();
        let mut ended = ended.iter().collect();
        for call in calls {
            let done = call.done.as_deref().unwrap_or_default();
            let fates = super::ends::fates(done, &mut ended);
            let own = Claimed {
                entries: entries.by_ref().take(call.count as usize).collect(),
                next_wake: claimed.next_wake,
            };
            if let Err(Ok((_, unheard))) = call.answer.send(Ok((fates, own))) {
                self.take_back(&unheard).await;
            }
        }
    }

    /// The caller has gone: others may have it.
    async fn take_back(&self, unheard: &Claimed<Data>) {
        let leases = unheard
            .entries
            .iter()
            .filter_map(|entry| entry.lease.as_ref());
        let tokens: Vec<Token> = leases.map(|lease| lease.token).collect();
        if tokens.is_empty() {
            return;
        }
        if let Err(fault) = self.release(&tokens, None).await {
            tracing::debug!(error = %fault.error, "the leases of a caller that has gone run out");
        }
    }

    /// One statement: ends leases and hands out. Gives back what ended.
    async fn hand_out(
        &self,
        done: Option<&[Token]>,
        workers: &[&[u8]],
        count: u32,
    ) -> Result<(Vec<Token>, Claimed<Data>), Fault> {
        let _room = self.room(count).await?;
        let search = Search::begin(self);
        let answer = self.ask(&search.flight, done, workers, count).await?;
        {
            let mut marks = search.finish(&answer.ahead, answer.now);
            // What was locked and not taken was skipped by whoever searched beside us; what was freed lay before the
            // mark.
            let left = answer.locked > answer.taken;
            let freed = answer.freed.iter().map(|place| place.priority);
            let everything = answer.ahead.keys().copied().filter(|_| left);
            for priority in freed.chain(everything).collect::<Vec<_>>() {
                if let Some(first) = answer.ahead.get(&priority) {
                    marks.lower(priority, *first);
                }
            }
        }
        self.hold(&answer);
        self.announce_freed(&answer);
        let next_wake = self.next_wake(&answer, count);
        self.shared.rearm();
        let entries = answer.entries;
        Ok((answer.ended, Claimed { entries, next_wake }))
    }

    /// Claims that run side by side walk over what the others have locked, so large ones wait for each other.
    async fn room(&self, count: u32) -> Result<SemaphorePermit<'_>, Fault> {
        let waiting = self.room.acquire_many(count.clamp(1, CLAIMED_AT_ONCE));
        match self.shared.timer.timeout(ANSWER_LIMIT, waiting).await {
            Ok(Ok(room)) => Ok(room),
            Ok(Err(_)) => Err(Error::new(ErrorKind::Closed, "the journal is closed").into()),
            Err(limit) => Err(Fault::timed_out(limit)),
        }
    }

    async fn ask(
        &self,
        flight: &Flight,
        done: Option<&[Token]>,
        workers: &[&[u8]],
        count: u32,
    ) -> Result<Answer, Fault> {
        let view = self.view();
        let slow = flight
            .priorities
            .last()
            .is_some_and(|last| *last >= i16::from(Priority::SLOW.0));
        let sql = view.sql.claim(ClaimKind {
            count,
            done: done.is_some(),
            // A successor that is freed may be slow without anybody here knowing.
            slow: slow || done.is_some(),
        });
        let now = self.shared.now();
        let incarnation = self.shared.incarnation;
        let nonces: Vec<i64> = (0..count).map(|_| self.shared.nonce()).collect();
        let tokens = Tokens::new(done.unwrap_or_default());
        let mut params: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> = vec![
            &now,
            &flight.priorities,
            &flight.dates,
            &flight.seqs,
            &incarnation,
            &nonces,
            &workers,
        ];
        if done.is_some() {
            params.extend([
                &tokens.counters as &(dyn tokio_postgres::types::ToSql + Sync),
                &tokens.incarnations,
                &tokens.nonces,
            ]);
        }
        let mut session = self.session().await?;
        let rows = session.query(&sql, &params).await?;
        Ok(read(&rows)?)
    }

    fn hold(&self, answer: &Answer) {
        let mut leases = self.leases();
        for token in &answer.ended {
            leases.end(token.counter.cast_signed());
        }
        for entry in &answer.entries {
            if let (Some(lease), Some(deadline)) = (&entry.lease, entry.deadline) {
                leases.hold(lease.token.counter.cast_signed(), deadline.as_millis());
            }
        }
    }

    /// Others have to hear of what was freed and not taken at once.
    fn announce_freed(&self, answer: &Answer) {
        let left: Vec<Place> = answer
            .freed
            .iter()
            .filter(|place| {
                !answer
                    .entries
                    .iter()
                    .any(|entry| entry.seq.cast_signed() == place.position.seq)
            })
            .copied()
            .collect();
        if !left.is_empty() {
            self.arrived(&left, answer.now);
        }
    }

    /// When to claim again. The leases are asked before the marks: whoever ends a lease lowers the mark before.
    fn next_wake(&self, answer: &Answer, count: u32) -> Option<Date> {
        let lease = self
            .leases()
            .first_deadline()
            .map(|deadline| deadline.saturating_add(1));
        let now = answer.now.as_millis();
        // What is due and was not to be had is in the hands of others this very moment.
        let contended = count > 0 && answer.entries.is_empty();
        let due = self.marks().next_due().map(|due| {
            if contended && due <= now {
                now + CONTENDED_MS
            } else {
                due
            }
        });
        let next = [due, lease].into_iter().flatten().min();
        next.map(Date::from_millis)
    }
}

fn read(rows: &[tokio_postgres::Row]) -> Result<Answer, Error> {
    let mut answer = Answer::default();
    for row in rows {
        match row::cell::<i16>(row, 0)? {
            0 => {
                answer.now = Date::from_millis(row::cell(row, 16)?);
                answer.locked = row::cell(row, 1)?;
                answer.taken = row::cell(row, 13)?;
            }
            1 => answer.entries.push(row::entry(row, 1, false)?),
            2 => answer.ended.extend(row::token(row, 13)?),
            kind => {
                let place = Place {
                    priority: row::cell(row, 3)?,
                    position: Position {
                        process: row::cell(row, 4)?,
                        seq: row::cell(row, 1)?,
                    },
                };
                if kind == 3 {
                    answer.freed.push(place);
                } else {
                    answer.ahead.insert(place.priority, place.position);
                }
            }
        }
    }
    answer
        .entries
        .sort_unstable_by_key(|entry| (entry.meta.priority, entry.meta.process, entry.seq));
    Ok(answer)
}
