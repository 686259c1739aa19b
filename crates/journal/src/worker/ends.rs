//! Ends of leases that the journal does not know of yet.

use std::collections::VecDeque;
use std::time::Duration;

use cannery_runtime::Rng;

use super::leases::Held;
use super::{Backoff, Outcome, Summary};
use crate::date::Date;
use crate::op::{Fate, Op, Retry};
use crate::token::Token;

/// How a lease ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    Done,
    Release(Option<Date>),
    Fail { reason: String, retry: Retry },
}

impl End {
    /// What an outcome means for the journal.
    pub(super) fn of(
        outcome: Outcome,
        held: &Held,
        now: Duration,
        backoff: &Backoff,
        rng: &Rng,
    ) -> Self {
        match outcome {
            Outcome::Done => Self::Done,
            Outcome::Release { at } => Self::Release(at),
            Outcome::Retry { reason, after } => {
                let after = after.unwrap_or_else(|| backoff.pause(held.timeouts.into(), rng));
                Self::Fail {
                    reason: cut(reason),
                    retry: Retry::At(held.engine_now(now).plus(after)),
                }
            }
            Outcome::Dead { reason } => Self::Fail {
                reason: cut(reason),
                retry: Retry::Never,
            },
        }
    }

    pub(super) fn op(&self, tokens: Vec<Token>) -> Op {
        match self {
            Self::Done => Op::Done(tokens),
            Self::Release(at) => Op::Release { tokens, at: *at },
            Self::Fail { reason, retry } => Op::Fail {
                tokens,
                reason: reason.clone(),
                retry: *retry,
            },
        }
    }

    /// Counts what became of an entry.
    pub(super) fn count(&self, fate: Fate, summary: &mut Summary) {
        match (fate, self) {
            (Fate::Lost, _) => summary.lost += 1,
            (Fate::Done, _) => summary.done += 1,
            (Fate::Dead, _) => summary.dead += 1,
            (Fate::Waiting | Fate::Absorbed | Fate::Expired, Self::Fail { .. }) => {
                summary.failed += 1;
            }
            (Fate::Waiting | Fate::Absorbed | Fate::Expired, Self::Done | Self::Release(_)) => {
                summary.released += 1;
            }
        }
    }
}

/// A reason is cut by the journal; here already, so that a long one fits into a request.
fn cut(mut reason: String) -> String {
    let end = (0..=Op::TEXT_BYTES_MAX.min(reason.len()))
        .rev()
        .find(|end| reason.is_char_boundary(*end));
    reason.truncate(end.unwrap_or(0));
    reason
}

/// Ends to be reported. Those that ended well go along with the next claim; the others each on their own.
#[derive(Debug, Default)]
pub(super) struct Ends {
    done: VecDeque<Token>,
    other: VecDeque<(Token, End)>,
}

impl Ends {
    /// Whether something is to be sent: those that ended well can wait while a claim is under way.
    pub(super) fn waits(&self, claiming: bool) -> bool {
        !self.other.is_empty() || (!self.done.is_empty() && !claiming)
    }

    pub(super) fn push(&mut self, token: Token, end: End) {
        match end {
            End::Done => self.done.push_back(token),
            End::Release(_) | End::Fail { .. } => self.other.push_back((token, end)),
        }
    }

    /// As many of those that ended well as fit into one request.
    pub(super) fn take_done(&mut self) -> Vec<Token> {
        let count = self.done.len().min(Op::COUNT_MAX);
        self.done.drain(..count).collect()
    }

    /// One of the other ends, with all the leases that end in the same way, as far as they fit into one request.
    pub(super) fn take_other(&mut self) -> Option<(End, Vec<Token>)> {
        let (token, end) = self.other.pop_front()?;
        let mut tokens = vec![token];
        self.other.retain(|(token, other)| {
            let same = *other == end && tokens.len() < Op::COUNT_MAX;
            if same {
                tokens.push(*token);
            }
            !same
        });
        Some((end, tokens))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ends_are_one_request() {
        let mut ends = Ends::default();
        let token = |counter| Token {
            incarnation: 1,
            counter,
            nonce: 0,
        };
        let dead = End::Fail {
            reason: "no".into(),
            retry: Retry::Never,
        };
        ends.push(token(1), End::Release(None));
        ends.push(token(2), dead.clone());
        ends.push(token(3), End::Release(None));
        ends.push(token(4), End::Done);
        assert!(ends.waits(true));
        assert_eq!(
            ends.take_other(),
            Some((End::Release(None), vec![token(1), token(3)]))
        );
        assert_eq!(ends.take_other(), Some((dead, vec![token(2)])));
        assert_eq!(ends.take_other(), None);
        assert!(ends.waits(false) && !ends.waits(true));
        assert_eq!(ends.take_done(), [token(4)]);
        assert!(!ends.waits(false));
    }

    #[test]
    fn a_long_reason_is_cut_at_a_character() {
        let reason = cut("é".repeat(Op::TEXT_BYTES_MAX));
        assert_eq!(reason.len(), Op::TEXT_BYTES_MAX);
        assert_eq!(cut(format!("x{reason}")).len(), Op::TEXT_BYTES_MAX - 1);
    }
}
