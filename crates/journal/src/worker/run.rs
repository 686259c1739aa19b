//! One run of a worker: a loop that waits for the next event, and then sends what is to be sent.
#![deny(clippy::wildcard_enum_match_arm)]

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::claims::Claims;
use super::ends::{End, Ends};
use super::leases::Leases;
use super::{Handler, Outcome, Summary, Worker};
use crate::data::Data;
use crate::error::{Error, ErrorKind};
use crate::op::{Beat, Claimed, Fate};
use crate::token::Token;
use crate::wake::Wakes;

mod answers;
mod send;

/// How long aborted handlers and the last reports are waited for.
const LEAVE_LIMIT: Duration = Duration::from_secs(5);

/// What a claim, with what was done before it, was answered.
struct Exchange {
    done: Vec<Token>,
    asked: usize,
    sent: Duration,
    answer: Result<(Vec<Fate>, Option<Claimed<Data>>), Error>,
}

/// What a report of ends was answered.
struct Report {
    tokens: Vec<Token>,
    end: End,
    answer: Result<Vec<Fate>, Error>,
}

/// What a heartbeat was answered, in parts that fit into a request.
struct Beaten {
    sent: Duration,
    parts: Vec<BeatenPart>,
}

struct BeatenPart {
    tokens: Vec<Token>,
    answer: Result<Vec<Beat>, Error>,
}

/// How far the run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Working,
    /// Handlers may finish, until then.
    Finishing(Duration),
    /// Handlers were aborted; the last reports have until then.
    Leaving(Duration),
}

enum Event {
    Stop,
    Ended(Result<(Id, Outcome), JoinError>),
    Exchanged(Exchange),
    Reported(Report),
    Beaten(Beaten),
    Woken(bool),
    Time,
}

pub(super) struct Run<H> {
    worker: Worker,
    handler: Arc<H>,
    phase: Phase,
    /// Cancelled for all handlers when the run is to end, whatever the reason.
    ending: CancellationToken,
    leases: Leases,
    handlers: JoinSet<Outcome>,
    tokens: HashMap<Id, Token>,
    ends: Ends,
    claims: Claims,
    wakes: Option<Wakes>,
    exchange: Option<BoxFuture<'static, Exchange>>,
    reports: FuturesUnordered<BoxFuture<'static, Report>>,
    beat: Option<BoxFuture<'static, Beaten>>,
    /// Since the last answer: requests that failed, and how long to leave the journal alone.
    failures: u32,
    quiet_until: Duration,
    timer: Option<(Duration, BoxFuture<'static, ()>)>,
    summary: Summary,
}

impl<H: Handler> Run<H> {
    pub(super) fn new(worker: Worker, handler: Arc<H>) -> Self {
        Self {
            // Listening begins before the first claim: what is added in between is heard of.
            wakes: Some(worker.journal.wakes()),
            leases: Leases::new(worker.heartbeat_every),
            worker,
            handler,
            phase: Phase::Working,
            ending: CancellationToken::new(),
            handlers: JoinSet::new(),
            tokens: HashMap::new(),
            ends: Ends::default(),
            claims: Claims::new(),
            exchange: None,
            reports: FuturesUnordered::new(),
            beat: None,
            failures: 0,
            quiet_until: Duration::ZERO,
            timer: None,
            summary: Summary::default(),
        }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) -> Summary {
        loop {
            let now = self.worker.clock.elapsed();
            self.leases.expire(now);
            if self.is_over(now) {
                return self.finish();
            }
            self.send(now);
            let event = self.next_event(&stop).await;
            self.take(event);
            // What ended at the same moment goes into the same request.
            while let Some(ended) = self.handlers.try_join_next_with_id() {
                self.take(Event::Ended(ended));
            }
        }
    }

    async fn next_event(&mut self, stop: &CancellationToken) -> Event {
        let working = self.phase == Phase::Working;
        self.arm();
        tokio::select! {
            biased;
            () = stop.cancelled(), if working => Event::Stop,
            beaten = finished(&mut self.beat) => Event::Beaten(beaten),
            Some(report) = self.reports.next() => Event::Reported(report),
            exchange = finished(&mut self.exchange) => Event::Exchanged(exchange),
            Some(ended) = self.handlers.join_next_with_id() => Event::Ended(ended),
            alive = woken(&mut self.wakes), if working => Event::Woken(alive),
            () = finished_at(&mut self.timer) => Event::Time,
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Stop => self.begin_end(),
            Event::Ended(ended) => self.ended(ended),
            Event::Exchanged(exchange) => self.exchanged(exchange),
            Event::Reported(report) => self.reported(report),
            Event::Beaten(beaten) => self.beaten(beaten),
            Event::Woken(alive) => {
                if !alive {
                    // The claim will tell whether the journal is closed.
                    self.wakes = None;
                }
                self.claims.wake();
            }
            Event::Time => {}
        }
    }

    fn begin_end(&mut self) {
        if self.phase != Phase::Working {
            return;
        }
        let now = self.worker.clock.elapsed();
        self.phase = Phase::Finishing(now.saturating_add(self.worker.grace));
        self.quiet_until = now;
        self.ending.cancel();
    }

    /// Ends because the journal cannot be used any more: nobody can report anything.
    fn give_up(&mut self, error: Error) {
        if self.summary.error.is_none() {
            tracing::error!(journal = self.worker.journal.name(), %error, "the worker ends");
            self.summary.error = Some(error);
        }
        self.leases.lose_all();
        self.begin_end();
    }

    /// Whether nothing is left to do; moves on to the next phase when the time for this one is over.
    fn is_over(&mut self, now: Duration) -> bool {
        match self.phase {
            Phase::Working => return false,
            Phase::Finishing(until) if now >= until => {
                self.handlers.abort_all();
                self.quiet_until = now;
                self.phase = Phase::Leaving(now.saturating_add(LEAVE_LIMIT));
            }
            Phase::Leaving(until) if now >= until => return true,
            Phase::Finishing(_) | Phase::Leaving(_) => {}
        }
        if self.has_given_up() {
            return self.handlers.is_empty();
        }
        self.leases.is_empty() && self.exchange.is_none() && self.reports.is_empty()
    }

    fn has_given_up(&self) -> bool {
        self.summary
            .error
            .as_ref()
            .is_some_and(|error| !passes(error))
    }

    fn finish(mut self) -> Summary {
        if !self.handlers.is_empty() {
            tracing::error!(
                journal = self.worker.journal.name(),
                handlers = self.handlers.len(),
                "handlers do not end although they were aborted; they are left behind"
            );
        }
        self.summary.lost += self.leases.len() as u64;
        if self.leases.is_empty() && !self.has_given_up() {
            self.summary.error = None;
        }
        self.summary
    }

    /// When the loop must look again although nothing happens.
    fn next_time(&self) -> Duration {
        let phase = match self.phase {
            Phase::Working => Duration::MAX,
            Phase::Finishing(until) | Phase::Leaving(until) => until,
        };
        if self.has_given_up() {
            // Nothing is sent any more, whatever is due.
            return phase;
        }
        let mut next = phase.min(self.leases.next_time(self.beat.is_some()));
        if self.exchange.is_none() && self.free(0) > 0 {
            next = next.min(self.claims.at().max(self.quiet_until));
        }
        if self.has_report_to_send() || (self.exchange.is_none() && self.ends.has_done()) {
            next = next.min(self.quiet_until);
        }
        next
    }

    fn arm(&mut self) {
        let next = self.next_time();
        if self.timer.as_ref().is_some_and(|(at, _)| *at == next) {
            return;
        }
        let clock = self.worker.clock.clone();
        self.timer = (next < Duration::MAX).then(|| {
            let pause = next.saturating_sub(clock.elapsed());
            let sleep: BoxFuture<'static, ()> = Box::pin(async move { clock.sleep(pause).await });
            (next, sleep)
        });
    }
}

/// Whether a request that failed so is worth repeating.
fn passes(error: &Error) -> bool {
    match error.kind {
        ErrorKind::Unavailable | ErrorKind::Full => true,
        ErrorKind::Invalid
        | ErrorKind::Unknown
        | ErrorKind::LeaseLost
        | ErrorKind::Locked
        | ErrorKind::Denied
        | ErrorKind::Corrupt
        | ErrorKind::Closed => false,
    }
}

/// The answer of a request, once; for ever none where there is no request.
async fn finished<T>(request: &mut Option<BoxFuture<'static, T>>) -> T {
    let Some(running) = request else {
        return pending().await;
    };
    let answer = running.await;
    *request = None;
    answer
}

async fn finished_at(timer: &mut Option<(Duration, BoxFuture<'static, ()>)>) {
    let Some((_, sleep)) = timer else {
        return pending().await;
    };
    sleep.await;
    *timer = None;
}

async fn woken(wakes: &mut Option<Wakes>) -> bool {
    match wakes {
        Some(wakes) => wakes.next().await,
        None => pending().await,
    }
}
