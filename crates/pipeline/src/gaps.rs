//! What was collected of an hour, and what was not, merged over all replicas.

use std::collections::BTreeSet;

use cannery_formats::Key;
use cannery_formats::feed::{ContentSet, Coverage, FeedId, Hour, Member, Slot, merge_slots};
use cannery_lake::Lake;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::error::Error;
use crate::fetched::{Fetch, Fetcher, Subject};
use crate::hour_folder::HourFolder;
use crate::scope::Scope;
use crate::scratch::Scratch;

mod gap;

use gap::join;
pub use gap::{Counted, Gap, Reason};

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
    /// There is no archive, but the hour is not over: whoever collects it has not packed it yet.
    NotOver,
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
    /// Polls that are not due yet; they are in no gap.
    pub not_due: u64,
    /// Who asked.
    pub replicas: BTreeSet<String>,
    /// When nothing was collected, or what was collected was deleted, in order.
    pub gaps: Vec<Gap>,
    /// Archives that could not be read: they may hold more.
    pub unreadable: Vec<Key>,
}

impl HourCoverage {
    /// What the replicas say by `now` of an hour that has archives; what is about another hour is passed over.
    #[must_use]
    pub fn merged(feed: &FeedId, hour: Hour, coverages: &[Coverage], now: Timestamp) -> Self {
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
        for (place, slot) in merge_slots(&own, merged.period_ms).into_iter().enumerate() {
            merged.count(place, slot, now);
        }
        merged
    }

    /// An hour without any archive.
    #[must_use]
    pub fn absent(feed: &FeedId, hour: Hour, now: Timestamp) -> Self {
        match hour.end() > now {
            true => Self::empty(feed, hour, HourState::NotOver),
            false => Self::whole(feed, hour, HourState::Absent, Reason::NoArchive),
        }
    }

    /// An hour that was deleted on purpose.
    #[must_use]
    pub fn deleted(feed: &FeedId, hour: Hour) -> Self {
        Self::whole(feed, hour, HourState::Deleted, Reason::Deleted)
    }

    fn whole(feed: &FeedId, hour: Hour, state: HourState, reason: Reason) -> Self {
        let gap = Gap::new(hour.begin(), hour.end(), reason);
        Self {
            gaps: vec![gap],
            ..Self::empty(feed, hour, state)
        }
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
            not_due: 0,
            replicas: BTreeSet::new(),
            gaps: Vec::new(),
            unreadable: Vec::new(),
        }
    }

    fn count(&mut self, place: usize, slot: Slot, now: Timestamp) {
        let (from, to) = self.times(place);
        let reason = match slot {
            Slot::Stored => {
                self.stored += 1;
                return;
            }
            Slot::Unchanged => {
                self.unchanged += 1;
                return;
            }
            Slot::Failed { reason } => {
                self.failed += 1;
                Reason::Failed { why: reason }
            }
            // Until its time is over, somebody may still make it.
            Slot::NotCollected if to > now => {
                self.not_due += 1;
                return;
            }
            Slot::NotCollected => {
                self.not_collected += 1;
                Reason::NotCollected
            }
        };
        join(&mut self.gaps, Gap::new(from, to, reason));
    }

    /// The time that a poll stands for.
    fn times(&self, place: usize) -> (Timestamp, Timestamp) {
        let end = self.hour.end();
        let period = SignedDuration::from_millis(i64::from(self.period_ms));
        let place = i32::try_from(place).unwrap_or(i32::MAX);
        let from = self.hour.begin().saturating_add(period * place);
        let from = from.unwrap_or(end);
        let to = from.saturating_add(period).unwrap_or(end);
        (from, to.min(end))
    }
}

/// The gaps of hours in order, those that touch joined with their reasons counted. Times that were deleted on purpose are
/// among them, each by itself: see [`Gap::is_deleted`].
#[must_use]
pub fn joined(hours: &[HourCoverage]) -> Vec<Gap> {
    let mut gaps = Vec::new();
    for gap in hours.iter().flat_map(|hour| &hour.gaps) {
        join(&mut gaps, gap.clone());
    }
    gaps
}

/// What an hour brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bodies {
    /// How many downloads have another body than the one before.
    pub(crate) count: u64,
    /// The bytes of these.
    pub(crate) bytes: u64,
}

impl Bodies {
    fn of(set: &ContentSet) -> Self {
        let bodies = set
            .iter()
            .filter(|member| !Coverage::is_member(member.name()));
        bodies
            .map(Member::size)
            .fold(Self::default(), |sum, size| Self {
                count: sum.count + 1,
                bytes: sum.bytes + size,
            })
    }
}

/// How far a reading is.
#[derive(Clone, Copy, Debug)]
pub enum Seen<'a> {
    /// The lake is being listed.
    Listed {
        /// How many objects were seen so far.
        objects: u64,
    },
    /// An hour was read.
    Hour(&'a HourCoverage),
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

    /// The hours from `from` to before `to` as they are by `now`, in order; `seen` hears how far it is.
    ///
    /// # Errors
    /// Any failure of the store.
    pub async fn hours(
        &self,
        lake: &Lake,
        feed: &FeedId,
        (from, to): (Hour, Hour),
        now: Timestamp,
        seen: &mut (dyn FnMut(Seen<'_>) + Send),
    ) -> Result<Vec<HourCoverage>, Error> {
        let scope = Scope {
            feeds: Some([feed.clone()].into()),
            from: Some(from),
            to: Some(to),
        };
        let mut listed = |objects| seen(Seen::Listed { objects });
        let mut folders = scope.folders(lake, &mut listed).await?;
        let mut hours = Vec::new();
        let mut next = Some(from);
        while let Some(hour) = next.filter(|hour| *hour < to) {
            let folder = folders.remove(&(feed.clone(), hour)).unwrap_or_default();
            let coverage = self.hour(lake, feed, hour, &folder, now).await?;
            seen(Seen::Hour(&coverage));
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
        now: Timestamp,
    ) -> Result<HourCoverage, Error> {
        let measured = self.measured(lake, feed, hour, folder, now).await?;
        Ok(measured.0)
    }

    /// The same, with what came as it was counted of the archives themselves.
    pub(crate) async fn measured(
        &self,
        lake: &Lake,
        feed: &FeedId,
        hour: Hour,
        folder: &HourFolder,
        now: Timestamp,
    ) -> Result<(HourCoverage, Bodies), Error> {
        let mut folder = folder.clone();
        for _ in 0..ROUNDS_MAX {
            match self.look(lake, feed, hour, &folder, now).await? {
                Some(found) => return Ok(found),
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
        now: Timestamp,
    ) -> Result<Option<(HourCoverage, Bodies)>, Error> {
        let nothing = |coverage| Ok(Some((coverage, Bodies::default())));
        if folder.tombstone {
            return nothing(HourCoverage::deleted(feed, hour));
        }
        if folder.archives().is_empty() {
            return nothing(HourCoverage::absent(feed, hour, now));
        }
        let subject = Subject {
            feed: feed.clone(),
            hour,
        };
        let (mut coverages, mut unreadable) = (Vec::new(), Vec::new());
        let mut set = ContentSet::default();
        for entry in folder.archives() {
            match self.fetcher.fetch(lake, &subject, &entry.key).await? {
                Fetch::Archive(archive) => {
                    coverages.extend(archive.survey.coverage.clone());
                    set = set.union(archive.set());
                }
                Fetch::Unusable(_) => unreadable.push(entry.key.clone()),
                Fetch::Vanished => return Ok(None),
            }
        }
        let mut merged = HourCoverage::merged(feed, hour, &coverages, now);
        merged.unreadable = unreadable;
        Ok(Some((merged, Bodies::of(&set))))
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

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_poll_counts_as_the_best_that_any_replica_made_of_it() {
        let one = coverage("a", &[(Slot::Stored, 1), (failed(), 3)]);
        let two = coverage("b", &[(failed(), 1), (Slot::Unchanged, 1), (failed(), 2)]);
        let mut other = coverage("c", &[(Slot::Stored, 6)]);
        other.hour = hour("20261115T19Z");
        let all = [one, two, other];
        let later = at("2026-11-15T20:00:00Z");
        let merged = HourCoverage::merged(&feed(), hour("20261115T18Z"), &all, later);
        let counts = [
            merged.stored,
            merged.unchanged,
            merged.failed,
            merged.not_collected,
            merged.not_due,
        ];
        assert_eq!(counts, [1, 1, 2, 2, 0]);
        assert_eq!(merged.replicas.len(), 2);
        assert_eq!(
            texts(&merged.gaps),
            [
                "2026-11-15T18:20:00Z to 2026-11-15T19:00:00Z: 2 polls failed: time-out, 2 polls not made",
            ]
        );
    }

    #[test]
    fn a_poll_that_is_not_due_yet_is_no_gap() {
        let one = coverage("a", &[(Slot::Stored, 1)]);
        let now = at("2026-11-15T18:35:00Z");
        let merged = HourCoverage::merged(&feed(), hour("20261115T18Z"), &[one], now);
        assert_eq!((merged.not_collected, merged.not_due), (2, 3));
        assert_eq!(
            texts(&merged.gaps),
            ["2026-11-15T18:10:00Z to 2026-11-15T18:30:00Z: 2 polls not made"]
        );
        let absent = HourCoverage::absent(&feed(), hour("20261115T18Z"), now);
        assert_eq!((absent.state, absent.gaps.len()), (HourState::NotOver, 0));
    }

    #[test]
    fn hours_without_an_archive_are_one_gap_and_deleted_ones_another() {
        let later = at("2026-11-16T00:00:00Z");
        let absent = |text| HourCoverage::absent(&feed(), hour(text), later);
        let hours = [
            absent("20261115T18Z"),
            absent("20261115T19Z"),
            HourCoverage::deleted(&feed(), hour("20261115T20Z")),
            HourCoverage::deleted(&feed(), hour("20261115T21Z")),
            absent("20261115T22Z"),
        ];
        let gaps = joined(&hours);
        assert_eq!(
            texts(&gaps),
            [
                "2026-11-15T18:00:00Z to 2026-11-15T20:00:00Z: no archive for 2 hours",
                "2026-11-15T20:00:00Z to 2026-11-15T22:00:00Z: 2 hours deleted on purpose",
                "2026-11-15T22:00:00Z to 2026-11-15T23:00:00Z: no archive for 1 hour",
            ]
        );
        let deleted: Vec<_> = gaps.iter().map(Gap::is_deleted).collect();
        assert_eq!(deleted, [false, true, false]);
    }

    #[test]
    fn a_line_names_the_reasons_that_came_most_often() {
        let mut gaps = Vec::new();
        let begin = at("2026-11-15T18:00:00Z");
        for number in 0..12_i64 {
            let from = begin + SignedDuration::from_secs(number);
            let why = format!("reason {}", (number % 6).min(4));
            let gap = Gap::new(
                from,
                from + SignedDuration::from_secs(1),
                Reason::Failed { why },
            );
            join(&mut gaps, gap);
        }
        assert_eq!(
            texts(&gaps),
            [
                "2026-11-15T18:00:00Z to 2026-11-15T18:00:12Z: 4 polls failed: reason 4, 2 polls failed: reason 0, \
              2 polls failed: reason 1, 2 polls failed: reason 2, and 1 more reason"
            ]
        );
        let json = serde_json::to_value(&gaps[0]).unwrap();
        assert_eq!(json["reasons"].as_array().unwrap().len(), 5);
        assert_eq!(
            json["reasons"][0],
            serde_json::json!({"reason": "failed", "why": "reason 0", "count": 2})
        );
    }

    #[test]
    fn archives_that_say_nothing_are_no_gap() {
        let merged =
            HourCoverage::merged(&feed(), hour("20261115T18Z"), &[], Timestamp::UNIX_EPOCH);
        assert_eq!(merged.state, HourState::Unknown);
        assert_eq!(merged.gaps, []);
    }
}
