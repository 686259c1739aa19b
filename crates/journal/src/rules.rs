//! The rules: how adds merge, how a claimed entry comes back, when it is given up. Pure, and the only place that decides;
//! every engine asks here.
#![deny(clippy::wildcard_enum_match_arm)]

use std::time::Duration;

use crate::add::Add;
use crate::date::{Date, Expiration};
use crate::declaration::Declaration;
use crate::entry::Meta;
use crate::op::Retry;

/// How far a client's clock may be ahead.
pub const CLOCK_AHEAD_MAX: Duration = Duration::from_secs(5 * 60);

/// How many times `timeouts_max` a key may fail that is re-added all the time.
const STRIKES_PER_TIMEOUT: u16 = 4;

/// The client's date as far as it is believed; the flag says that it was not.
#[must_use]
pub fn clamp(insertion: Date, now: Date) -> (Date, bool) {
    let latest = now.plus(CLOCK_AHEAD_MAX);
    (insertion.min(latest), insertion > latest)
}

/// The process date of an add whose insertion date was clamped to this: what is to be done at once stays so.
fn process(add: &Add, insertion: Date) -> Date {
    if add.process == add.insertion {
        insertion
    } else {
        add.process
    }
}

/// A new entry. Its insertion date is clamped before.
#[must_use]
pub fn insert(add: &Add, insertion: Date, now: Date, version: u32) -> Meta {
    Meta {
        insertion,
        newest: insertion,
        arrived: now,
        expiration: add.expiration,
        process: process(add, insertion),
        priority: add.priority,
        timeouts: 0,
        strikes: 0,
        version,
    }
}

/// What an add of the same key makes of a waiting entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// The entry with the data of the add.
    Replace(Meta),
    /// The add is older than what was merged before: the entry keeps its data.
    KeepData(Meta),
}

/// Merges an add into the waiting entry of the same key.
#[must_use]
pub fn merge(
    waiting: &Meta,
    add: &Add,
    insertion: Date,
    declared: &Declaration,
    version: u32,
) -> Merge {
    let merged = Meta {
        expiration: waiting.expiration.max(add.expiration),
        priority: waiting.priority.min(add.priority),
        process: later(waiting, process(add, insertion), declared),
        ..*waiting
    };
    if insertion < waiting.newest {
        return Merge::KeepData(merged);
    }
    Merge::Replace(Meta {
        newest: insertion,
        timeouts: 0,
        version,
        ..merged
    })
}

/// The later process date, but no later than `max_delay` after the first arrival: a key that is added again and again
/// still runs, and a far date is never pulled nearer.
fn later(waiting: &Meta, process: Date, declared: &Declaration) -> Date {
    let bound = declared
        .max_delay
        .map_or(process, |delay| waiting.arrived.plus(delay).min(process));
    waiting.process.max(bound)
}

/// How a lease ended without being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// Nobody was heard of for too long.
    TimedOut,
    /// It was given back, to wait until a date.
    Released(Option<Date>),
    /// The worker said that it failed.
    Failed(Retry),
}

/// What becomes of an entry that comes back. Where it meets a waiting entry of its key, see [`absorb`] and [`inherit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comeback {
    /// It waits again.
    Waits(Meta),
    /// It is given up.
    Dies(Meta),
    /// It had expired, and is never tried again.
    Expires(Meta),
}

/// Decides about an entry that comes back; `declared` is what it was written with.
#[must_use]
pub fn come_back(entry: &Meta, how: Return, declared: &Declaration, now: Date) -> Comeback {
    let mut meta = *entry;
    let (counted, given_up) = match how {
        Return::TimedOut => (true, false),
        Return::Released(at) => {
            meta.process = meta.process.max(at.unwrap_or(meta.process));
            (false, false)
        }
        Return::Failed(Retry::At(at)) => {
            meta.process = meta.process.max(at);
            (true, false)
        }
        Return::Failed(Retry::Never) => (true, true),
    };
    if counted {
        meta.timeouts = meta.timeouts.saturating_add(1);
        meta.strikes = meta.strikes.saturating_add(1);
    }
    if meta.expiration.is_past(now) {
        return Comeback::Expires(meta);
    }
    let strikes_max = u16::from(declared.timeouts_max).saturating_mul(STRIKES_PER_TIMEOUT);
    let past_limit =
        counted && (meta.timeouts > declared.timeouts_max || meta.strikes > strikes_max);
    if given_up || past_limit {
        Comeback::Dies(meta)
    } else {
        Comeback::Waits(meta)
    }
}

/// Which of two entries keeps its place and its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absorb {
    /// The successor, which is the usual case.
    IntoSuccessor(Meta),
    /// The old one, because its data is newer.
    IntoOld(Meta),
}

/// One entry of an old one that comes back and the successor that waits: as if the successor's add had come after the old
/// one was back, except that the counters are carried.
#[must_use]
pub fn absorb(old: &Meta, successor: &Meta, declared: &Declaration) -> Absorb {
    let first = if successor.arrived < old.arrived {
        successor
    } else {
        old
    };
    let meta = Meta {
        insertion: first.insertion,
        newest: old.newest.max(successor.newest),
        arrived: first.arrived,
        expiration: old.expiration.max(successor.expiration),
        process: later(
            &Meta {
                arrived: first.arrived,
                ..*old
            },
            successor.process,
            declared,
        ),
        priority: old.priority.min(successor.priority),
        timeouts: old.timeouts.max(successor.timeouts),
        strikes: old.strikes.max(successor.strikes),
        version: successor.version,
    };
    if successor.newest < old.newest {
        Absorb::IntoOld(Meta {
            version: old.version,
            ..meta
        })
    } else {
        Absorb::IntoSuccessor(meta)
    }
}

/// What a successor takes over from an old entry that died or expired: what is known against the key. A successor starts
/// with a clean count of its own, because its data may be the cure; the strikes stay.
#[must_use]
pub fn inherit(old: &Meta, successor: &Meta) -> Meta {
    Meta {
        strikes: old.strikes.max(successor.strikes),
        ..*successor
    }
}

/// A dead entry that a person puts back: everything against it is forgotten, and it is due at once.
#[must_use]
pub fn requeue(dead: &Meta, now: Date) -> Meta {
    let expiration = if dead.expiration.is_past(now) {
        Expiration::NEVER
    } else {
        dead.expiration
    };
    Meta {
        timeouts: 0,
        strikes: 0,
        expiration,
        process: dead.process.min(now).max(dead.insertion),
        ..*dead
    }
}

/// The last moment of a lease; after it the entry counts as timed out.
#[must_use]
pub fn deadline(start: Date, declared: &Declaration) -> Date {
    start.plus(declared.lease)
}

/// Why a lease that ran out once too often ended on the dead list.
#[must_use]
pub fn timeout_reason(meta: &Meta, worker: &str) -> String {
    format!(
        "timed out: {} attempts in a row did not end, {} in all; the last was of worker `{worker}`",
        meta.timeouts, meta.strikes
    )
}

#[cfg(test)]
mod tests;
