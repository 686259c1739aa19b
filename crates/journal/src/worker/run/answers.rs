//! What a run does with the answers of the journal and the outcomes of its handlers.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{Id, JoinError};

use super::{Beaten, BeatenPart, Exchange, Handler, Phase, Report, Run, passes};
use crate::data::Data;
use crate::date::Date;
use crate::entry::Entry;
use crate::error::{Error, ErrorKind};
use crate::op::{Claimed, Fate};
use crate::token::Token;
use crate::worker::ends::End;
use crate::worker::leases::Held;
use crate::worker::{Backoff, Outcome, Work};

/// How long a journal that does not answer is left alone.
const TROUBLE: Backoff = Backoff {
    first: Duration::from_millis(100),
    most: Duration::from_secs(10),
};
/// The same for a worker that is about to end.
const TROUBLE_AT_THE_END: Duration = Duration::from_millis(500);

impl<H: Handler> Run<H> {
    pub(super) fn exchanged(&mut self, exchange: Exchange) {
        match exchange.answer {
            Ok((fates, claimed)) => {
                self.answered();
                self.settle(&exchange.done, &End::Done, &fates);
                if let Some(claimed) = claimed {
                    self.claimed(claimed, exchange.asked, exchange.sent);
                }
            }
            Err(error) => {
                for token in exchange.done {
                    self.ends.push(token, End::Done);
                }
                self.claims.wake();
                self.trouble(error);
            }
        }
    }

    fn claimed(&mut self, claimed: Claimed<Data>, asked: usize, sent: Duration) {
        let clock = &self.worker.clock;
        self.claims.answered(
            asked,
            claimed.entries.len(),
            claimed.next_wake,
            clock.elapsed(),
            Date::from(clock.now()),
        );
        for entry in claimed.entries {
            self.start(entry, sent);
        }
    }

    fn start(&mut self, entry: Entry<Data>, sent: Duration) {
        let Some((token, mut held)) = Held::of(&entry, sent) else {
            tracing::error!(key = %entry.key, "the engine handed out an entry without a lease");
            return;
        };
        if self.phase != Phase::Working {
            held.running = false;
            self.leases.hold(token, held);
            self.ends.push(token, End::Release(None));
            return;
        }
        let work = Work {
            entry,
            lost: held.lost.clone(),
            stop: self.ending.child_token(),
        };
        let handler = Arc::clone(&self.handler);
        let task = self
            .handlers
            .spawn(async move { handler.handle(work).await });
        self.tokens.insert(task.id(), token);
        self.leases.hold(token, held);
    }

    pub(super) fn reported(&mut self, report: Report) {
        match report.answer {
            Ok(fates) => {
                self.answered();
                self.settle(&report.tokens, &report.end, &fates);
                // What was given back may be due at once, and is in no `next_wake` that we know of.
                self.claims.wake();
            }
            Err(error) if error.kind == ErrorKind::Invalid => {
                // What is wrong is in this report: another one may be right, and repeating it is in vain.
                let (journal, entries) = (self.worker.journal.name(), report.tokens.len());
                tracing::error!(journal, entries, %error, "a report was refused; its leases will time out");
                self.settle(&report.tokens, &report.end, &[]);
            }
            Err(error) => {
                for token in report.tokens {
                    self.ends.push(token, report.end.clone());
                }
                self.trouble(error);
            }
        }
    }

    /// Lets go of leases whose end the journal knows now.
    fn settle(&mut self, tokens: &[Token], end: &End, fates: &[Fate]) {
        let fates = fates.iter().copied().chain(std::iter::repeat(Fate::Lost));
        for (token, fate) in tokens.iter().zip(fates) {
            if self.leases.remove(token).is_some() {
                end.count(fate, &mut self.summary);
            }
        }
    }

    pub(super) fn beaten(&mut self, beaten: Beaten) {
        for BeatenPart { tokens, answer } in beaten.parts {
            match answer {
                Ok(beats) => {
                    self.leases.heard(&tokens, &beats, beaten.sent);
                    // What waits for a journal that answers need not wait any longer.
                    self.answered();
                }
                Err(error) if passes(&error) => self.leases.unheard(self.worker.clock.elapsed()),
                Err(error) => self.give_up(error),
            }
        }
    }

    pub(super) fn ended(&mut self, ended: Result<(Id, Outcome), JoinError>) {
        let (id, outcome) = match ended {
            Ok(ended) => ended,
            Err(error) => (error.id(), self.outcome_of(error)),
        };
        let Some(token) = self.tokens.remove(&id) else {
            return;
        };
        let now = self.worker.clock.elapsed();
        let Some(held) = self.leases.get_mut(&token) else {
            return;
        };
        if held.lost.is_cancelled() {
            self.leases.remove(&token);
            self.summary.lost += 1;
            return;
        }
        held.running = false;
        let end = End::of(outcome, held, now, &self.worker.backoff, &self.worker.rng);
        self.ends.push(token, end);
    }

    /// The outcome of a handler that did not give one: it panicked, or was aborted.
    fn outcome_of(&self, error: JoinError) -> Outcome {
        let Ok(panic) = error.try_into_panic() else {
            return Outcome::Release { at: None };
        };
        let reason = format!("the handler panicked: {}", message(panic.as_ref()));
        tracing::error!(
            journal = self.worker.journal.name(),
            reason,
            "an entry failed"
        );
        Outcome::Retry {
            reason,
            after: None,
        }
    }

    fn answered(&mut self) {
        self.failures = 0;
        self.quiet_until = Duration::ZERO;
        if !self.has_given_up() {
            self.summary.error = None;
        }
    }

    /// Leaves a journal alone that does not answer, longer each time; gives up where waiting does not help.
    fn trouble(&mut self, error: Error) {
        if !passes(&error) {
            return self.give_up(error);
        }
        let now = self.worker.clock.elapsed();
        if now < self.quiet_until {
            return;
        }
        if self.failures == 0 {
            tracing::warn!(
                journal = self.worker.journal.name(),
                %error,
                "the journal does not answer; trying again"
            );
        }
        let mut pause = TROUBLE.pause(self.failures, &self.worker.rng);
        if self.phase != Phase::Working {
            pause = pause.min(TROUBLE_AT_THE_END);
        }
        self.failures = self.failures.saturating_add(1);
        self.quiet_until = now.saturating_add(pause);
        if !self.has_given_up() {
            self.summary.error = Some(error);
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}
