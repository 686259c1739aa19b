//! Ends of leases that the journal does not know of yet.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use cannery_runtime::Rng;

use super::leases::Held;
use super::{Backoff, Outcome, Summary};
use crate::date::Date;
use crate::op::{Fate, Op, Retry};
use crate::token::Token;

/// How a lease ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum End {
    Done,
    Release(Option<Date>),
    Fail { reason: String, at: Date },
    Die { reason: String },
}

impl End {
    /// What an outcome means for the journal. A date that no entry can carry is as good as the last one.
    pub(super) fn of(
        outcome: Outcome,
        held: &Held,
        now: Duration,
        backoff: &Backoff,
        rng: &Rng,
    ) -> Self {
        match outcome {
            Outcome::Done => Self::Done,
            Outcome::Release { at } => Self::Release(at.map(|at| at.min(Date::LAST))),
            Outcome::Retry { reason, after } => {
                let after = after.unwrap_or_else(|| backoff.pause(held.timeouts.into(), rng));
                let at = held.engine_now(now).plus(after).min(Date::LAST);
                Self::Fail { reason, at }
            }
            Outcome::Dead { reason } => Self::Die { reason },
        }
    }

    pub(super) fn op(&self, tokens: Vec<Token>) -> Op {
        match self {
            Self::Done => Op::Done(tokens),
            Self::Release(at) => Op::Release { tokens, at: *at },
            Self::Fail { reason, at } => Op::Fail {
                tokens,
                reason: reason.clone(),
                retry: Retry::At(*at),
            },
            Self::Die { reason } => Op::Fail {
                tokens,
                reason: reason.clone(),
                retry: Retry::Never,
            },
        }
    }

    /// Counts what became of an entry.
    pub(super) fn count(&self, fate: Fate, summary: &mut Summary) {
        match (fate, self) {
            (Fate::Lost, _) => summary.lost += 1,
            (Fate::Done, _) => summary.done += 1,
            (Fate::Dead, _) => summary.dead += 1,
            (
                Fate::Waiting | Fate::Absorbed | Fate::Expired,
                Self::Fail { .. } | Self::Die { .. },
            ) => {
                summary.failed += 1;
            }
            (Fate::Waiting | Fate::Absorbed | Fate::Expired, Self::Done | Self::Release(_)) => {
                summary.released += 1;
            }
        }
    }
}

/// Ends to be reported. Those that ended well go along with the next claim; the others with those that ended in the same
/// way.
#[derive(Debug, Default)]
pub(super) struct Ends {
    done: VecDeque<Token>,
    other: HashMap<End, Vec<Token>>,
    /// The keys of `other`, in the order in which they are reported.
    order: VecDeque<End>,
}

impl Ends {
    /// Whether one that ended well is to be sent.
    pub(super) fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// Whether another one is to be sent.
    pub(super) fn has_other(&self) -> bool {
        !self.order.is_empty()
    }

    pub(super) fn push(&mut self, token: Token, end: End) {
        match end {
            End::Done => self.done.push_back(token),
            End::Release(_) | End::Fail { .. } | End::Die { .. } => self.push_other(token, end),
        }
    }

    fn push_other(&mut self, token: Token, end: End) {
        if let Some(tokens) = self.other.get_mut(&end) {
            tokens.push(token);
            return;
        }
        self.order.push_back(end.clone());
        self.other.insert(end, vec![token]);
    }

    /// As many of those that ended well as fit into one request.
    pub(super) fn take_done(&mut self) -> Vec<Token> {
        let count = self.done.len().min(Op::COUNT_MAX);
        self.done.drain(..count).collect()
    }

    /// One of the other ends, with all the leases that end in the same way, as far as they fit into one request.
    pub(super) fn take_other(&mut self) -> Option<(End, Vec<Token>)> {
        let end = self.order.pop_front()?;
        let mut tokens = self.other.remove(&end)?;
        if tokens.len() > Op::COUNT_MAX {
            let rest = tokens.split_off(Op::COUNT_MAX);
            self.other.insert(end.clone(), rest);
            self.order.push_front(end.clone());
        }
        Some((end, tokens))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(counter: u64) -> Token {
        Token {
            incarnation: 1,
            counter,
            nonce: 0,
        }
    }

    #[test]
    fn equal_ends_are_one_request() {
        let mut ends = Ends::default();
        let dead = End::Die {
            reason: "no".into(),
        };
        ends.push(token(1), End::Release(None));
        ends.push(token(2), dead.clone());
        ends.push(token(3), End::Release(None));
        ends.push(token(4), End::Done);
        assert!(ends.has_other() && ends.has_done());
        assert_eq!(
            ends.take_other(),
            Some((End::Release(None), vec![token(1), token(3)]))
        );
        assert_eq!(ends.take_other(), Some((dead, vec![token(2)])));
        assert_eq!(ends.take_other(), None);
        assert!(ends.has_done() && !ends.has_other());
        assert_eq!(ends.take_done(), [token(4)]);
        assert!(!ends.has_done());
    }

    #[test]
    fn more_equal_ends_than_fit_are_more_requests() {
        let mut ends = Ends::default();
        let all: Vec<Token> = (0..2_500).map(token).collect();
        for token in &all {
            ends.push(*token, End::Release(None));
        }
        let mut taken = Vec::new();
        while let Some((end, tokens)) = ends.take_other() {
            assert_eq!(end, End::Release(None));
            taken.push(tokens);
        }
        let counts: Vec<usize> = taken.iter().map(Vec::len).collect();
        assert_eq!(counts, [1_000, 1_000, 500]);
        assert_eq!(taken.concat(), all);
        assert!(!ends.has_other());
    }
}
