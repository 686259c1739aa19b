//! What was collected of an hour, and what was not, merged over all replicas.

use std::collections::BTreeSet;
use std::fmt;

use cannery_formats::Key;
use cannery_formats::feed::{Coverage, FeedId, Hour, Slot, merge_slots};
use cannery_lake::Lake;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::error::Error;
use crate::fetched::{Fetch, Fetcher, Subject};
use crate::hour_folder::HourFolder;
use crate::scope::Scope;
use crate::scratch::Scratch;

/// The finest distance of polls that is told apart; 36,000 slots of an hour.
const PERIOD_MS_MIN: u32 = 100;
const HOUR_MS: u32 = 3_600_000;
const ROUNDS_MAX: u32 = 16;

/// What is known of an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HourState {
    /// Which polls were made is known.
    Known,
    /// There are archives, but none says which polls were made.
    Unknown,
    /// It was deleted on purpose.
    Deleted,
    /// There is no archive.
    Absent,
}

/// A time for which nothing was collected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// When it begins.
    pub from: Timestamp,
    /// When it is over.
    pub to: Timestamp,
    /// Why there is nothing.
    pub why: String,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}: {}", self.from, self.to, self.why)
    }
}

/// The polls of an hour; each counts as the best that any replica made of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HourCoverage {
    /// Which feed.
    pub feed: FeedId,
    /// Which hour.
    pub hour: Hour,
    /// What is known of it.
    pub state: HourState,
    /// The distance of the polls that are counted; 0 when none are known.
    pub period_ms: u32,
    /// Polls that stored a body.
    pub stored: u64,
    /// Polls whose body was the one before.
    pub unchanged: u64,
    /// Polls in vain.
    pub failed: u64,
    /// Polls that nobody made.
    pub not_collected: u64,
    /// Who asked.
    pub replicas: BTreeSet<String>,
    /// When nothing was collected, in order.
    pub gaps: Vec<Gap>,
    /// Archives that could not be read: they may hold more.
    pub unreadable: Vec<Key>,
}

impl HourCoverage {
    /// What the replicas say of an hour that has archives; what is about another hour is passed over.
    #[must_use]
    pub fn merged(feed: &FeedId, hour: Hour, coverages: &[Coverage]) -> Self {
        let own = coverages
            .iter()
            .filter(|coverage| coverage.feed == *feed && coverage.hour == hour);
        let own: Vec<Coverage> = own.cloned().collect();
        let periods = own.iter().flat_map(|coverage| &coverage.spans);
        let Some(period) = periods.map(|span| span.period_ms).min() else {
            return Self::empty(feed, hour, HourState::Unknown);
        };
        let mut merged = Self::empty(feed, hour, HourState::Known);
        merged.period_ms = period.clamp(PERIOD_MS_MIN, HOUR_MS);
        merged.replicas = own
            .iter()
            .map(|coverage| coverage.replica.clone())
            .collect();
        for (place, slot) in merge_slots(&own, merged.period_ms).iter().enumerate() {
            merged.count(place, slot);
        }
        merged
    }

    /// An hour without any archive.
    #[must_use]
    pub fn absent(feed: &FeedId, hour: Hour) -> Self {
        let mut absent = Self::empty(feed, hour, HourState::Absent);
        absent.gaps.push(Gap {
            from: hour.begin(),
            to: hour.end(),
            why: "no archive".to_owned(),
        });
        absent
    }

    fn empty(feed: &FeedId, hour: Hour, state: HourState) -> Self {
        Self {
            feed: feed.clone(),
            hour,
            state,
            period_ms: 0,
            stored: 0,
            unchanged: 0,
            failed: 0,
            not_collected: 0,
            replicas: BTreeSet::new(),
            gaps: Vec::new(),
            unreadable: Vec::new(),
        }
    }

    fn count(&mut self, place: usize, slot: &Slot) {
        match slot {
            Slot::Stored => self.stored += 1,
            Slot::Unchanged => self.unchanged += 1,
            Slot::Failed { reason } => {
                self.failed += 1;
                self.widen(place, format!("failed: {reason}"));
            }
            Slot::NotCollected => {
                self.not_collected += 1;
                self.widen(place, "not collected".to_owned());
            }
        }
    }

    /// Makes the slot part of the last gap, or begins a new one.
    fn widen(&mut self, place: usize, why: String) {
        let period = SignedDuration::from_millis(i64::from(self.period_ms));
        let place = i32::try_from(place).unwrap_or(i32::MAX);
        let from = self.hour.begin().saturating_add(period * place);
        let from = from.unwrap_or(self.hour.end());
        let to = from.saturating_add(period).unwrap_or(self.hour.end());
        let to = to.min(self.hour.end());
        join(&mut self.gaps, Gap { from, to, why });
    }
}

fn join(gaps: &mut Vec<Gap>, next: Gap) {
    match gaps.last_mut() {
        Some(last) if last.to == next.from && last.why == next.why => last.to = next.to,
        Some(_) | None => gaps.push(next),
    }
}

/// The gaps of hours in order, those that touch joined.
#[must_use]
pub fn joined(hours: &[HourCoverage]) -> Vec<Gap> {
    let mut gaps = Vec::new();
    for gap in hours.iter().flat_map(|hour| &hour.gaps) {
        join(&mut gaps, gap.clone());
    }
    gaps
}

/// Reads the coverage of hours from the lake.
#[derive(Clone, Debug)]
pub struct CoverageReader {
    fetcher: Fetcher,
}

impl CoverageReader {
    /// One that works in this folder.
    #[must_use]
    pub fn new(scratch: Scratch) -> Self {
        Self {
            fetcher: Fetcher::new(scratch),
        }
    }

    /// The hours from `from` to before `to`, in order; `seen` hears of each.
    ///
    /// # Errors
    /// Any failure of the store.
    pub async fn hours(
        &self,
        lake: &Lake,
        feed: &FeedId,
        from: Hour,
        to: Hour,
        seen: &mut (dyn FnMut(&HourCoverage) + Send),
    ) -> Result<Vec<HourCoverage>, Error> {
        let scope = Scope {
            feeds: Some([feed.clone()].into()),
            from: Some(from),
            to: Some(to),
        };
        let mut folders = scope.folders(lake).await?;
        let mut hours = Vec::new();
        let mut next = Some(from);
        while let Some(hour) = next.filter(|hour| *hour < to) {
            let folder = folders.remove(&(feed.clone(), hour)).unwrap_or_default();
            let coverage = self.hour(lake, feed, hour, &folder).await?;
            seen(&coverage);
            hours.push(coverage);
            next = hour.next();
        }
        Ok(hours)
    }

    /// One hour, by what is in its folder; others may merge it meanwhile.
    ///
    /// # Errors
    /// Any failure of the store; an archive that cannot be read is not one.
    pub async fn hour(
        &self,
        lake: &Lake,
        feed: &FeedId,
        hour: Hour,
        folder: &HourFolder,
    ) -> Result<HourCoverage, Error> {
        let mut folder = folder.clone();
        for _ in 0..ROUNDS_MAX {
            match self.look(lake, feed, hour, &folder).await? {
                Some(coverage) => return Ok(coverage),
                None => folder = HourFolder::list(lake, feed, hour).await?,
            }
        }
        Err(Error::Restless {
            store: lake.id().to_owned(),
            feed: feed.clone(),
            hour,
            rounds: ROUNDS_MAX,
        })
    }

    /// Nothing when an archive is gone by now: what it said is in another one, which may not be in this folder.
    async fn look(
        &self,
        lake: &Lake,
        feed: &FeedId,
        hour: Hour,
        folder: &HourFolder,
    ) -> Result<Option<HourCoverage>, Error> {
        if folder.tombstone {
            return Ok(Some(HourCoverage::empty(feed, hour, HourState::Deleted)));
        }
        if folder.archives().is_empty() {
            return Ok(Some(HourCoverage::absent(feed, hour)));
        }
        let subject = Subject {
            feed: feed.clone(),
            hour,
        };
        let (mut coverages, mut unreadable) = (Vec::new(), Vec::new());
        for entry in folder.archives() {
            match self.fetcher.fetch(lake, &subject, &entry.key).await? {
                Fetch::Archive(archive) => coverages.extend(archive.survey.coverage.clone()),
                Fetch::Unusable(_) => unreadable.push(entry.key.clone()),
                Fetch::Vanished => return Ok(None),
            }
        }
        let mut merged = HourCoverage::merged(feed, hour, &coverages);
        merged.unreadable = unreadable;
        Ok(Some(merged))
    }
}

#[cfg(test)]
mod tests {
    use cannery_formats::feed::{CoverageSpan, SlotRun};

    use super::*;

    fn feed() -> FeedId {
        FeedId::new("f").unwrap()
    }

    fn hour(text: &str) -> Hour {
        text.parse().unwrap()
    }

    fn coverage(replica: &str, runs: &[(Slot, u32)]) -> Coverage {
        let runs = runs.iter().cloned();
        let span = CoverageSpan {
            offset_ms: 0,
            period_ms: 600_000,
            runs: runs.map(|(slot, count)| SlotRun { slot, count }).collect(),
        };
        Coverage::new(feed(), hour("20261115T18Z"), replica, vec![span])
    }

    fn failed() -> Slot {
        Slot::Failed {
            reason: "time-out".into(),
        }
    }

    fn texts(gaps: &[Gap]) -> Vec<String> {
        gaps.iter().map(Gap::to_string).collect()
    }

    #[test]
    fn a_poll_counts_as_the_best_that_any_replica_made_of_it() {
        let one = coverage("a", &[(Slot::Stored, 1), (failed(), 3)]);
        let two = coverage("b", &[(failed(), 1), (Slot::Unchanged, 1), (failed(), 2)]);
        let mut other = coverage("c", &[(Slot::Stored, 6)]);
        other.hour = hour("20261115T19Z");
        let merged = HourCoverage::merged(&feed(), hour("20261115T18Z"), &[one, two, other]);
        let counts = [
            merged.stored,
            merged.unchanged,
            merged.failed,
            merged.not_collected,
        ];
        assert_eq!(counts, [1, 1, 2, 2]);
        assert_eq!(merged.replicas.len(), 2);
        assert_eq!(
            texts(&merged.gaps),
            [
                "2026-11-15T18:20:00Z to 2026-11-15T18:40:00Z: failed: time-out",
                "2026-11-15T18:40:00Z to 2026-11-15T19:00:00Z: not collected",
            ]
        );
    }

    #[test]
    fn hours_without_an_archive_are_one_gap() {
        let hours = ["20261115T18Z", "20261115T19Z", "20261115T21Z"];
        let hours = hours.map(|text| HourCoverage::absent(&feed(), hour(text)));
        assert_eq!(
            texts(&joined(&hours)),
            [
                "2026-11-15T18:00:00Z to 2026-11-15T20:00:00Z: no archive",
                "2026-11-15T21:00:00Z to 2026-11-15T22:00:00Z: no archive",
            ]
        );
    }

    #[test]
    fn archives_that_say_nothing_are_no_gap() {
        let merged = HourCoverage::merged(&feed(), hour("20261115T18Z"), &[]);
        assert_eq!(merged.state, HourState::Unknown);
        assert_eq!(merged.gaps, []);
    }
}
