//! A time for which there is nothing, and why, with each reason counted.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

/// How many reasons a line for a person names.
const REASONS_SHOWN_MAX: usize = 4;

/// Why there is nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// The hour has no archive; counted in hours.
    NoArchive,
    /// The hour was deleted on purpose; counted in hours.
    Deleted,
    /// Nobody asked; counted in polls.
    NotCollected,
    /// It was asked for in vain; counted in polls.
    Failed {
        /// What went wrong.
        why: String,
    },
}

/// A reason, and how often it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// Why.
    #[serde(flatten)]
    pub reason: Reason,
    /// How many hours or polls, as [`Reason`] says.
    pub count: u64,
}

/// A time for which there is nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// When it begins.
    pub from: Timestamp,
    /// When it is over.
    pub to: Timestamp,
    /// Why, in the order in which the reasons first came.
    pub reasons: Vec<Counted>,
}

impl Gap {
    pub(super) fn new(from: Timestamp, to: Timestamp, reason: Reason) -> Self {
        let reasons = vec![Counted { reason, count: 1 }];
        Self { from, to, reasons }
    }

    /// Whether this is no gap but a time that somebody deleted.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        let deleted = |counted: &Counted| counted.reason == Reason::Deleted;
        self.reasons.iter().any(deleted)
    }

    fn take(&mut self, next: Self) {
        self.to = next.to;
        for more in next.reasons {
            let same = |known: &&mut Counted| known.reason == more.reason;
            match self.reasons.iter_mut().find(same) {
                Some(known) => known.count += more.count,
                None => self.reasons.push(more),
            }
        }
    }
}

/// Makes `next` part of the last one when they touch; what was deleted stays by itself.
pub(super) fn join(gaps: &mut Vec<Gap>, next: Gap) {
    match gaps.last_mut() {
        Some(last) if last.to == next.from && last.is_deleted() == next.is_deleted() => {
            last.take(next);
        }
        Some(_) | None => gaps.push(next),
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.count;
        let polls = if count == 1 { "poll" } else { "polls" };
        let hours = if count == 1 { "hour" } else { "hours" };
        match &self.reason {
            Reason::NoArchive => write!(f, "no archive for {count} {hours}"),
            Reason::Deleted => write!(f, "{count} {hours} deleted on purpose"),
            Reason::NotCollected => write!(f, "{count} {polls} not made"),
            Reason::Failed { why } => write!(f, "{count} {polls} failed: {why}"),
        }
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}: ", self.from, self.to)?;
        let mut most: Vec<&Counted> = self.reasons.iter().collect();
        most.sort_by_key(|counted| std::cmp::Reverse(counted.count));
        for (place, counted) in most.iter().take(REASONS_SHOWN_MAX).enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{counted}")?;
        }
        match most.len().saturating_sub(REASONS_SHOWN_MAX) {
            0 => Ok(()),
            1 => f.write_str(", and 1 more reason"),
            more => write!(f, ", and {more} more reasons"),
        }
    }
}
