//! What a run asks of the journal, and when.

use std::time::Duration;

use futures::future::join_all;

use super::{Beaten, BeatenPart, Exchange, Handler, Phase, Report, Run};
use crate::op::Op;
use crate::token::Token;
use crate::worker::ends::End;

/// How many reports may be under way at once: where each failure has its own reason, each is a request.
const REPORTS_MAX: usize = 32;

impl<H: Handler> Run<H> {
    pub(super) fn send(&mut self, now: Duration) {
        if self.has_given_up() {
            return;
        }
        self.send_beat(now);
        if now < self.quiet_until {
            return;
        }
        while self.has_report_to_send()
            && let Some((end, tokens)) = self.ends.take_other()
        {
            self.send_report(end, tokens);
        }
        if self.exchange.is_none() {
            self.send_exchange(now);
        }
    }

    /// Whether there is a report, and room for it; else the end of another one makes room.
    pub(super) fn has_report_to_send(&self) -> bool {
        self.ends.has_other() && self.reports.len() < REPORTS_MAX
    }

    fn send_beat(&mut self, now: Duration) {
        if self.beat.is_some() {
            return;
        }
        let tokens = self.leases.due(now);
        if tokens.is_empty() {
            return;
        }
        let journal = self.worker.journal.clone();
        self.beat = Some(Box::pin(async move {
            let parts = tokens.chunks(Op::COUNT_MAX).map(|part| async {
                BeatenPart {
                    tokens: part.to_vec(),
                    answer: journal.heartbeats(part.to_vec()).await,
                }
            });
            Beaten {
                sent: now,
                parts: join_all(parts).await,
            }
        }));
    }

    fn send_report(&mut self, end: End, tokens: Vec<Token>) {
        let journal = self.worker.journal.clone();
        self.reports.push(Box::pin(async move {
            let answer = journal.end_all(end.op(tokens.clone())).await;
            Report {
                tokens,
                end,
                answer,
            }
        }));
    }

    /// Reports what is done and claims for the free places: in one request, so in one commit. What becomes done while it
    /// is under way goes with the next.
    fn send_exchange(&mut self, now: Duration) {
        let done = self.ends.take_done();
        let asked = self.wanted(done.len(), now);
        if asked > 0 {
            self.claims.sent(now);
        } else if done.is_empty() {
            return;
        }
        let (journal, name) = (self.worker.journal.clone(), self.worker.name.clone());
        self.exchange = Some(Box::pin(async move {
            let count = u32::try_from(asked).unwrap_or(u32::MAX);
            let answer = match (done.is_empty(), asked) {
                (false, 0) => {
                    let fates = journal.end_all(Op::Done(done.clone())).await;
                    fates.map(|fates| (fates, None))
                }
                (true, _) => {
                    let claimed = journal.claim(&name, count).await;
                    claimed.map(|claimed| (Vec::new(), Some(claimed)))
                }
                (false, _) => {
                    let both = journal.done_and_claim(done.clone(), &name, count).await;
                    both.map(|(fates, claimed)| (fates, Some(claimed)))
                }
            };
            Exchange {
                done,
                asked,
                sent: now,
                answer,
            }
        }));
    }

    /// How many entries to claim along with `done` reports.
    fn wanted(&self, done: usize, now: Duration) -> usize {
        if done > 0 || now >= self.claims.at() {
            self.free(done).min(self.worker.batch)
        } else {
            0
        }
    }

    /// How many more handlers may be started once `done` reports are acknowledged. A lease whose end is not acknowledged
    /// has its place: so there are never more of them than a journal that answers again can be told at once.
    pub(super) fn free(&self, done: usize) -> usize {
        let taken = self.leases.len().saturating_sub(done);
        match self.phase {
            Phase::Working => self.worker.concurrency.saturating_sub(taken),
            Phase::Finishing(_) | Phase::Leaving(_) => 0,
        }
    }
}
