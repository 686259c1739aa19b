//! The leases that a worker holds: when to be heard of, and when to take one for lost.

use std::collections::HashMap;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::data::Data;
use crate::date::Date;
use crate::entry::Entry;
use crate::op::Beat;
use crate::token::Token;

/// A part of a lease between two heartbeats.
const BEATS_PER_LEASE: u32 = 4;
/// The same at the least, whatever the worker was told: one heartbeat may go astray.
const BEATS_PER_LEASE_MIN: u32 = 3;
/// The shortest time between two heartbeats.
const INTERVAL_MIN: Duration = Duration::from_millis(1);

/// One lease.
#[derive(Debug)]
pub(super) struct Held {
    /// How long it holds without being heard of.
    length: Duration,
    /// When the last request was sent that renewed it.
    heard: Duration,
    /// When it was claimed, by the engine's clock and by ours.
    claimed: (Date, Duration),
    pub(super) timeouts: u8,
    pub(super) lost: CancellationToken,
    /// Whether its handler runs; else its end is being reported.
    pub(super) running: bool,
}

impl Held {
    /// The lease of an entry that was claimed by a request sent at `sent`; nothing when the entry has none.
    pub(super) fn of(entry: &Entry<Data>, sent: Duration) -> Option<(Token, Self)> {
        let lease = entry.lease.as_ref()?;
        let held = Self {
            length: entry.deadline?.since(lease.start),
            heard: sent,
            claimed: (lease.start, sent),
            timeouts: entry.meta.timeouts,
            lost: CancellationToken::new(),
            running: true,
        };
        Some((lease.token, held))
    }

    /// The engine's time, as far as can be told without asking: dates of a retry are compared with its clock, not ours.
    pub(super) fn engine_now(&self, now: Duration) -> Date {
        let (date, at) = self.claimed;
        date.plus(now.saturating_sub(at))
    }

    fn is_kept(&self) -> bool {
        !self.lost.is_cancelled()
    }

    /// The first moment at which it is over: it holds through its last millisecond.
    fn expires(&self) -> Duration {
        let last = self.heard.saturating_add(self.length);
        last.saturating_add(Duration::from_millis(1))
    }
}

/// All leases of a worker.
#[derive(Debug)]
pub(super) struct Leases {
    by_token: HashMap<Token, Held>,
    /// Time between heartbeats, where the worker was told.
    every: Option<Duration>,
    next_beat: Duration,
    /// No running lease ends unheard before this.
    next_expiry: Duration,
}

impl Leases {
    pub(super) fn new(every: Option<Duration>) -> Self {
        Self {
            by_token: HashMap::new(),
            every,
            next_beat: Duration::MAX,
            next_expiry: Duration::MAX,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_token.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_token.is_empty()
    }

    pub(super) fn hold(&mut self, token: Token, held: Held) {
        self.next_beat = self
            .next_beat
            .min(held.heard.saturating_add(self.interval(held.length)));
        self.next_expiry = self.next_expiry.min(held.expires());
        self.by_token.insert(token, held);
    }

    pub(super) fn get_mut(&mut self, token: &Token) -> Option<&mut Held> {
        self.by_token.get_mut(token)
    }

    pub(super) fn remove(&mut self, token: &Token) -> Option<Held> {
        let held = self.by_token.remove(token);
        if self.by_token.is_empty() {
            self.next_beat = Duration::MAX;
            self.next_expiry = Duration::MAX;
        }
        held
    }

    fn interval(&self, length: Duration) -> Duration {
        let told = self.every.unwrap_or(length / BEATS_PER_LEASE);
        told.min(length / BEATS_PER_LEASE_MIN).max(INTERVAL_MIN)
    }

    fn shortest(&self) -> Option<Duration> {
        let kept = self.by_token.values().filter(|held| held.is_kept());
        kept.map(|held| held.length).min()
    }

    /// When there is something to do, unless it is done before: a heartbeat, or an end unheard.
    pub(super) fn next_time(&self, beating: bool) -> Duration {
        let beat = if beating {
            Duration::MAX
        } else {
            self.next_beat
        };
        beat.min(self.next_expiry)
    }

    /// The leases to be heard of now; empty when it is not time. The next heartbeat is a whole interval away then.
    pub(super) fn due(&mut self, now: Duration) -> Vec<Token> {
        if now < self.next_beat {
            return Vec::new();
        }
        self.next_beat = self.shortest().map_or(Duration::MAX, |shortest| {
            now.saturating_add(self.interval(shortest))
        });
        let kept = self.by_token.iter().filter(|(_, held)| held.is_kept());
        kept.map(|(token, _)| *token).collect()
    }

    /// Takes the answer to a heartbeat that was sent at `sent`. The end of a lease that is being reported is told by the
    /// answer to that report.
    pub(super) fn heard(&mut self, tokens: &[Token], beats: &[Beat], sent: Duration) {
        for (token, beat) in tokens.iter().zip(beats) {
            let Some(held) = self.by_token.get_mut(token) else {
                continue;
            };
            match beat {
                Beat::Until(_) => held.heard = held.heard.max(sent),
                Beat::Lost if held.running => held.lost.cancel(),
                Beat::Lost => {}
            }
        }
    }

    /// After a heartbeat that nobody answered: the next comes soon.
    pub(super) fn unheard(&mut self, now: Duration) {
        if let Some(shortest) = self.shortest() {
            let soon = now.saturating_add(self.interval(shortest) / BEATS_PER_LEASE);
            self.next_beat = self.next_beat.min(soon);
        }
    }

    /// Takes leases for lost that ended unheard by our own clock: whoever cannot reach the journal must not go on as if
    /// nobody else worked.
    pub(super) fn expire(&mut self, now: Duration) {
        if now < self.next_expiry {
            return;
        }
        self.next_expiry = Duration::MAX;
        let running = self.by_token.values().filter(|held| held.running);
        for held in running.filter(|held| held.is_kept()) {
            if held.expires() <= now {
                held.lost.cancel();
            } else {
                self.next_expiry = self.next_expiry.min(held.expires());
            }
        }
    }

    /// Takes all leases for lost.
    pub(super) fn lose_all(&mut self) {
        for held in self.by_token.values() {
            held.lost.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_fit_into_the_lease_and_never_follow_at_once() {
        let (lease, millisecond) = (Duration::from_secs(12), Duration::from_millis(1));
        for (every, length, interval) in [
            (None, lease, lease / 4),
            (Some(lease / 6), lease, lease / 6),
            (Some(lease / 3), lease, lease / 3),
            (Some(lease / 2), lease, lease / 3),
            (Some(Duration::MAX), lease, lease / 3),
            (Some(Duration::ZERO), lease, millisecond),
            (None, Duration::ZERO, millisecond),
        ] {
            let found = Leases::new(every).interval(length);
            assert_eq!(found, interval, "{every:?} of {length:?}");
        }
    }
}
