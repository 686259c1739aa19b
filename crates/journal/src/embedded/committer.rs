//! The one thread that owns the state and the log: it takes all requests that wait, does them in memory, makes them durable
//! with one write and one sync, and only then answers.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::time::Duration;

use cannery_runtime::Clock;
use cannery_runtime::disk;
use cannery_runtime::folder_lock::FolderLock;
use tokio::sync::{mpsc, oneshot};

use super::about::{self, About};
use super::home::Home;
use super::log::{ENTRY_BYTES, Log};
use super::reader::Reader;
use super::record::Checkpoint;
use super::shared::{Pulse, Shared};
use super::{FailedTo as _, Place, io_error, period};
use crate::data::Data;
use crate::date::Date;
use crate::error::{Error, ErrorKind};
use crate::op::{Op, Reply, Retry};
use crate::state::State;
use crate::token::{Token, TokenSource};

/// What the thread is asked.
pub(super) enum Job {
    /// An operation, and who waits for its answer.
    Call(Op, oneshot::Sender<Result<Reply<Data>, Error>>),
    /// To look at the clock.
    Tick,
}

/// How often the thread looks for another request before it falls asleep, after it answered one about many entries: for
/// less time than falling asleep and being woken takes.
const LOOKS: usize = 400;
const PAUSES_A_LOOK: usize = 16;

/// From how many entries on a request is one of somebody who drains, and comes back at once.
const MANY: usize = 32;

/// How many requests share a commit at most.
const JOBS_MAX: usize = 1_024;

/// How many entries one sweep concerns, so that a great many do not become one great batch.
const SWEEP_MAX: usize = 10_000;

/// What the record of one swept entry takes at most, with what becomes of its successor.
const SWEPT_BYTES: usize = 2 * ENTRY_BYTES + 2 * Op::TEXT_BYTES_MAX;

/// How long a journal is empty before its files are treated as `on_empty` says.
const EMPTY_FOR: Duration = Duration::from_secs(1);

pub(super) struct Committer {
    pub(super) state: State<Home>,
    pub(super) log: Log,
    pub(super) reader: Reader,
    pub(super) tokens: TokenSource,
    pub(super) incarnation: u64,
    pub(super) clock: Clock,
    pub(super) place: Place,
    pub(super) lock: FolderLock,
    pub(super) shared: Shared,
    pub(super) rewrite_through: Option<u32>,
    /// The segment that compaction empties, and what is left to move of it.
    pub(super) moving: (u32, Vec<u32>),
    /// Compaction found no room: it waits for the next request.
    pub(super) stuck: bool,
    /// When the last request came, by the clock that never goes back.
    pub(super) last_call: Duration,
}

type Waiting = (Op, oneshot::Sender<Result<Reply<Data>, Error>>);

impl Committer {
    /// Serves requests until it is told to end, nobody can ask any more, or the disk fails.
    pub(super) fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let ended = self.serve(&mut jobs);
        let error = match ended {
            Ok(()) => Error::new(ErrorKind::Closed, "the journal is closed"),
            Err(error) => {
                tracing::error!(journal = %self.place.dir.display(), %error, "the journal closed itself");
                closed(&error)
            }
        };
        self.shared.close(&error);
        jobs.close();
        while let Some(job) = jobs.blocking_recv() {
            if let Job::Call(_, answer) = job {
                // Who does not wait any more needs no answer.
                drop(answer.send(Err(error.clone())));
            }
        }
    }

    fn serve(&mut self, jobs: &mut mpsc::Receiver<Job>) -> Result<(), Error> {
        self.publish();
        let mut soon = false;
        loop {
            let first = if self.is_compacting() && !self.stuck {
                // What waits goes first; without anything, the work goes on.
                jobs.try_recv().ok()
            } else {
                self.stuck = false;
                match next_job(jobs, soon) {
                    Some(job) => Some(job),
                    None => return self.end(),
                }
            };
            let calls = gather(first, jobs);
            soon = calls.iter().any(|(op, _)| size_of(op) >= MANY);
            self.check_folder()?;
            self.rest()?;
            let (now, unable) = self.sweep()?;
            match unable {
                None => self.answer(calls, now)?,
                Some(error) => refuse(calls, &error),
            }
            self.compact()?;
            self.publish();
            if jobs.is_closed() && jobs.is_empty() {
                return self.end();
            }
        }
    }

    /// What is written to a folder that was replaced is lost, and may lie where another process writes.
    fn check_folder(&self) -> Result<(), Error> {
        if self.lock.still_holds(&*self.place.disk) {
            return Ok(());
        }
        let folder = self.place.dir.display();
        Err(Error::new(
            ErrorKind::Closed,
            format!("the folder `{folder}` was removed or replaced"),
        ))
    }

    /// Does all calls that wait in one commit, or in a few where they are large.
    fn answer(&mut self, calls: Vec<Waiting>, now: Date) -> Result<(), Error> {
        if !calls.is_empty() {
            self.last_call = self.clock.elapsed();
        }
        let mut calls = calls.into_iter().peekable();
        while calls.peek().is_some() {
            let mut together = Vec::new();
            let (mut need, mut added) = (0, 0);
            while let Some((op, _)) = calls.peek() {
                let more = bytes_of(op, &self.state, added);
                if let Op::Add(adds) = op {
                    added += adds.len();
                }
                if !together.is_empty() && need + more > self.log.batch_bytes_max() / 2 {
                    break;
                }
                need += more;
                together.extend(calls.next());
            }
            self.answer_together(together, need, now)?;
        }
        Ok(())
    }

    /// At a date at which nothing is left to sweep.
    fn answer_together(
        &mut self,
        mut calls: Vec<Waiting>,
        need: usize,
        now: Date,
    ) -> Result<(), Error> {
        if self.log.is_tight() {
            // What is left of the disk is for ending what is there.
            let (adding, rest) = calls
                .into_iter()
                .partition(|(op, _)| matches!(op, Op::Add(_)));
            refuse(adding, &no_room("the last segment is nearly full"));
            calls = rest;
        }
        // What changes nothing needs no segment, which an empty journal may not even have.
        if calls.iter().any(|(op, _)| may_change(op, &self.state)) {
            match self.begin(need, now) {
                Ok(()) => {}
                Err(error) if error.kind == ErrorKind::Closed => return Err(error),
                Err(error) => {
                    let (reading, writing) = calls.into_iter().partition(|(op, _)| is_reading(op));
                    refuse(writing, &error);
                    calls = reading;
                }
            }
        }
        let replies = self.apply(calls, now);
        self.log.write().failed_to("write to the log")?;
        if replies.iter().any(|(reply, _)| has_data(reply)) {
            self.log.begin_sync().failed_to("write to the log")?;
        }
        // Answers are read from the log while the disk writes, and before anything of it is freed.
        let mut unreadable = Vec::new();
        let replies = self.fetch_all(replies, &mut unreadable);
        self.write(now)?;
        self.reply(replies, now)?;
        self.bury(unreadable, now)?;
        self.free()
    }

    /// Begins a batch. `Full` and `Invalid` leave everything as it was; any other error is the end.
    pub(super) fn begin(&mut self, need: usize, now: Date) -> Result<(), Error> {
        let (state, incarnation, front) = (&self.state, self.incarnation, self.log.front());
        let period = period::number(state.declaration().1.period, now);
        let begun = self
            .log
            .begin(need, now, period, || checkpoint(state, incarnation, front));
        begun.map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                no_room(&error.to_string())
            }
            io::ErrorKind::InvalidInput => Error::invalid(error.to_string()),
            _ => closed(&io_error("begin a segment", &error)),
        })
    }

    fn apply(&mut self, calls: Vec<Waiting>, now: Date) -> Vec<Applied<Home>> {
        calls
            .into_iter()
            .map(|(op, answer)| {
                let reply = self.state.apply(&op, now, &mut self.tokens, &mut self.log);
                (reply, answer)
            })
            .collect()
    }

    pub(super) fn commit(&mut self, now: Date) -> Result<(), Error> {
        self.write(now)?;
        self.free()
    }

    fn write(&mut self, now: Date) -> Result<(), Error> {
        let stirred = self.log.take_stirred();
        self.log.commit().failed_to("write to the log")?;
        if stirred && self.state.next_due().is_some_and(|due| due <= now) {
            self.shared.alarm.ring();
        }
        Ok(())
    }

    fn free(&mut self) -> Result<(), Error> {
        self.log.free_front().failed_to("free a segment")
    }

    fn fetch_all(
        &mut self,
        replies: Vec<Applied<Home>>,
        unreadable: &mut Vec<(Token, String)>,
    ) -> Vec<Applied<Data>> {
        let replies = replies.into_iter();
        replies
            .map(|(reply, answer)| (reply.map(|reply| self.fetch(reply, unreadable)), answer))
            .collect()
    }

    fn reply(&mut self, replies: Vec<Applied<Data>>, now: Date) -> Result<(), Error> {
        let mut unheard = Vec::new();
        for (reply, answer) in replies {
            if let Ok(Reply::Declared(_)) = reply {
                unless_full(self.keep_declaration())?;
            }
            if let Err(Ok(Reply::Claimed(claimed) | Reply::DoneAndClaimed(_, claimed))) =
                answer.send(reply)
            {
                let leases = claimed.entries.into_iter().filter_map(|entry| entry.lease);
                unheard.extend(leases.map(|lease| lease.token));
            }
        }
        self.take_back(unheard, now)
    }

    /// Who claimed has gone: others may have it at once.
    fn take_back(&mut self, tokens: Vec<Token>, now: Date) -> Result<(), Error> {
        match tokens.is_empty() {
            true => Ok(()),
            false => self.do_unasked(Op::Release { tokens, at: None }, now),
        }
    }

    fn do_unasked(&mut self, op: Op, now: Date) -> Result<(), Error> {
        let (answer, _) = oneshot::channel();
        let need = bytes_of(&op, &self.state, 0);
        self.answer_together(vec![(op, answer)], need, now)
    }

    /// The declaration must be known even when the log is empty.
    fn keep_declaration(&mut self) -> Result<(), Error> {
        let declaration = self.state.declaration().1.clone();
        self.log.habits.on_empty = declaration.on_empty;
        self.log.habits.wipe = declaration.wipe;
        self.shared.declare(declaration);
        self.write_about(self.log.front())
    }

    /// After an error it may have been replaced all the same. A failed sync is no lack of room: it is not tried again.
    fn write_about(&self, front: u32) -> Result<(), Error> {
        About::new(&self.state, self.incarnation, front)
            .write(&*self.place.disk, &self.place.dir)
            .map_err(|error| match disk::is_sync_failure(&error) {
                true => io::Error::other(error),
                false => error,
            })
            .failed_to("write `journal.json`")
    }

    /// Reads the data of a reply. An entry whose data is damaged is shown without it, and never handed out.
    fn fetch(&mut self, reply: Reply<Home>, unreadable: &mut Vec<(Token, String)>) -> Reply<Data> {
        let mut place = 0;
        let mut damaged = BTreeMap::new();
        let (log, reader) = (&self.log, &mut self.reader);
        let fetched = reply.try_map(|home| {
            let data = reader.read(log, home).map(Data::from_stored);
            let data = data.unwrap_or_else(|error| {
                self.shared.warn(&error.to_string());
                damaged.insert(place, error.to_string());
                Data::null()
            });
            place += 1;
            Ok::<_, Infallible>(data)
        });
        let Ok(mut fetched) = fetched;
        if let Reply::Claimed(claimed) | Reply::DoneAndClaimed(_, claimed) = &mut fetched {
            let mut place = 0;
            claimed.entries.retain(|entry| {
                let reason = damaged.remove(&place);
                place += 1;
                let lost = entry.lease.as_ref().zip(reason);
                let keep = lost.is_none();
                unreadable.extend(lost.map(|(lease, reason)| (lease.token, reason)));
                keep
            });
        }
        fetched
    }

    /// Entries whose data cannot be read go to the dead list, where a person sees why.
    fn bury(&mut self, unreadable: Vec<(Token, String)>, now: Date) -> Result<(), Error> {
        for (token, reason) in unreadable {
            let op = Op::Fail {
                tokens: vec![token],
                reason,
                retry: Retry::Never,
            };
            self.do_unasked(op, now)?;
        }
        Ok(())
    }

    /// Does what time has brought, in batches of bounded size; gives back the date at which nothing was left to do, or
    /// why it could not be done now.
    fn sweep(&mut self) -> Result<(Date, Option<Error>), Error> {
        loop {
            let now = Date::from(self.clock.now());
            let fit = self.log.batch_bytes_max() / 2 / SWEPT_BYTES;
            let count = self.state.overdue(now, SWEEP_MAX.min(fit.max(1)));
            if count == 0 {
                return Ok((now, None));
            }
            match self.begin(count * SWEPT_BYTES, now) {
                Ok(()) => {}
                Err(error) if error.kind == ErrorKind::Closed => return Err(error),
                Err(error) => return Ok((now, Some(error))),
            }
            self.state.sweep_some(now, count, &mut self.log);
            self.commit(now)?;
        }
    }

    /// An empty journal gives its files back, once it has been empty for a while: who adds and takes all the time must not
    /// pay for it.
    fn rest(&mut self) -> Result<(), Error> {
        if self.clock.since(self.last_call) >= EMPTY_FOR {
            unless_full(self.give_files_back())?;
        }
        Ok(())
    }

    /// A full disk is no reason to close, wherever it was met: the log begins a new segment as soon as the old ones may not
    /// count any more.
    fn give_files_back(&mut self) -> Result<(), Error> {
        if !self.state.is_empty() || !self.log.is_used() {
            return Ok(());
        }
        let front = self.log.front_when_empty();
        let written = self.write_about(front);
        if written.is_ok() || !self.stays_before(front) {
            self.log.leave_all();
        }
        written?;
        self.log.empty().failed_to("give up an empty segment")
    }

    /// Whether `journal.json` is known to name an earlier front than this one, which could not be written.
    fn stays_before(&self, front: u32) -> bool {
        match About::read(&*self.place.disk, &self.place.dir) {
            Ok(about::Found::About(about)) => about.front < front,
            Ok(_) | Err(_) => false,
        }
    }

    fn end(&mut self) -> Result<(), Error> {
        unless_full(self.give_files_back())
    }

    fn publish(&self) {
        let (bytes, _) = self.log.weigh();
        let now = Date::from(self.clock.now());
        let pulse = Pulse {
            due: self.state.next_due(),
            later: self.state.next_after(now),
            sweep: self.state.next_sweep(),
        };
        self.shared.publish(pulse, self.log.segment_count(), bytes);
    }
}

type Applied<D> = (
    Result<Reply<D>, Error>,
    oneshot::Sender<Result<Reply<Data>, Error>>,
);

/// Whether a reply brings data of entries whose leases the batch holds.
fn has_data(reply: &Result<Reply<Home>, Error>) -> bool {
    match reply {
        Ok(Reply::Claimed(claimed) | Reply::DoneAndClaimed(_, claimed)) => {
            !claimed.entries.is_empty()
        }
        Ok(_) | Err(_) => false,
    }
}

pub(super) fn checkpoint(state: &State<Home>, incarnation: u64, front: u32) -> Checkpoint {
    Checkpoint {
        counts: *state.counts(),
        next_seq: state.next_seq(),
        incarnation,
        front,
        declarations: state.declarations().clone(),
    }
}

/// The next job; none when nobody can ask any more.
fn next_job(jobs: &mut mpsc::Receiver<Job>, soon: bool) -> Option<Job> {
    for _ in 0..if soon { LOOKS } else { 0 } {
        if let Ok(job) = jobs.try_recv() {
            return Some(job);
        }
        // Not a yield: the scheduler would let the thread wait for it later, when a date has come.
        for _ in 0..PAUSES_A_LOOK {
            std::hint::spin_loop();
        }
    }
    jobs.blocking_recv()
}

/// How many entries an operation is about.
fn size_of(op: &Op) -> usize {
    match op {
        Op::Add(adds) => adds.len(),
        Op::Claim { count, .. } => *count as usize,
        Op::DoneAndClaim { done, count, .. } => done.len().max(*count as usize),
        Op::Heartbeat(tokens)
        | Op::Done(tokens)
        | Op::Release { tokens, .. }
        | Op::Fail { tokens, .. } => tokens.len(),
        Op::Cancel(_)
        | Op::Requeue(_)
        | Op::Forget(_)
        | Op::Get(_)
        | Op::List(_)
        | Op::Stats
        | Op::Sweep
        | Op::Declare(_) => 1,
    }
}

/// All jobs that wait, up to a bound.
fn gather(first: Option<Job>, jobs: &mut mpsc::Receiver<Job>) -> Vec<Waiting> {
    let mut calls = Vec::new();
    let mut next = first;
    while let Some(job) = next {
        match job {
            Job::Call(op, answer) => calls.push((op, answer)),
            Job::Tick => {}
        }
        if calls.len() == JOBS_MAX {
            break;
        }
        next = jobs.try_recv().ok();
    }
    calls
}

fn no_room(why: &str) -> Error {
    Error::new(
        ErrorKind::Full,
        format!("no room for another segment: {why}"),
    )
}

/// What a full disk kept from being done is done later: nothing depends on it.
pub(super) fn unless_full(done: Result<(), Error>) -> Result<(), Error> {
    match done {
        Err(error) if error.kind == ErrorKind::Full => {
            tracing::warn!(%error, "the disk is full; trying again later");
            Ok(())
        }
        done => done,
    }
}

/// Nothing can be written now.
fn refuse(calls: Vec<Waiting>, error: &Error) {
    for (_, answer) in calls {
        drop(answer.send(Err(error.clone())));
    }
}

/// Whether an operation leaves everything as it is.
fn is_reading(op: &Op) -> bool {
    match op {
        Op::Get(_) | Op::List(_) | Op::Stats => true,
        Op::Add(_)
        | Op::Claim { .. }
        | Op::DoneAndClaim { .. }
        | Op::Heartbeat(_)
        | Op::Done(_)
        | Op::Release { .. }
        | Op::Fail { .. }
        | Op::Cancel(_)
        | Op::Requeue(_)
        | Op::Forget(_)
        | Op::Sweep
        | Op::Declare(_) => false,
    }
}

/// Whether an operation can leave a trace: in an empty journal there is nothing to claim or to end.
fn may_change(op: &Op, state: &State<Home>) -> bool {
    let begins = matches!(op, Op::Add(_) | Op::Declare(_));
    begins || (!is_reading(op) && !state.is_empty())
}

/// How many bytes of records an operation can make at most, after so many adds in the same batch.
fn bytes_of(op: &Op, state: &State<Home>, added: usize) -> usize {
    let claims = |count: u32, worker: &str| {
        (count as usize).min(state.len() + added) * (ENTRY_BYTES + worker.len())
    };
    let all_of = |key| (state.count_of(key) + added) * 2 * ENTRY_BYTES;
    let effects = match op {
        Op::Add(adds) => adds
            .iter()
            .map(|add| ENTRY_BYTES + add.key.as_str().len() + add.data.as_bytes().len())
            .sum(),
        Op::Claim { worker, count } => claims(*count, worker),
        Op::DoneAndClaim {
            done,
            worker,
            count,
        } => done.len() * ENTRY_BYTES + claims(*count, worker),
        Op::Heartbeat(tokens) | Op::Done(tokens) => tokens.len() * ENTRY_BYTES,
        Op::Release { tokens, .. } => tokens.len() * 2 * ENTRY_BYTES,
        Op::Fail { tokens, reason, .. } => {
            tokens.len() * (2 * ENTRY_BYTES + reason.len().min(Op::TEXT_BYTES_MAX))
        }
        Op::Cancel(key) | Op::Requeue(key) | Op::Forget(key) => all_of(key),
        Op::Get(_) | Op::List(_) | Op::Stats | Op::Sweep => 0,
        Op::Declare(declaration) => serde_json::to_vec(declaration).map_or(0, |text| text.len()),
    };
    // And the counts.
    effects + ENTRY_BYTES
}

/// The journal ends with this error; what was acknowledged before is safe.
fn closed(error: &Error) -> Error {
    Error::new(
        ErrorKind::Closed,
        format!("the journal closed itself: {}", error.message),
    )
}
