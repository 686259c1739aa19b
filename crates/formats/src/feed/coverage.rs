//! Which polls of an hour one replica made, and what came of each: a member of the archive, so that it survives every merge.

use serde::{Deserialize, Serialize};

use super::feed_id::FeedId;
use super::hour::Hour;
use super::{COVERAGE_FOLDER, short_hash};
use crate::Digest;

const FORMAT: u32 = 1;
const HOUR_MILLIS: u64 = 3_600_000;
const REPLICA_BYTES_MAX: usize = 60;

/// What came of one poll, from the least to the most.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Slot {
    /// Nobody asked.
    NotCollected,
    /// It was asked for in vain.
    Failed {
        /// Why, in a few words.
        reason: String,
    },
    /// The body was the one before.
    Unchanged,
    /// A body was stored.
    Stored,
}

/// Several polls, one after the other, of which the same came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotRun {
    /// What came of each.
    #[serde(flatten)]
    pub slot: Slot,
    /// How many there were.
    pub count: u32,
}

/// Polls at one distance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoverageSpan {
    /// When the first of them was due, after the beginning of the hour.
    pub offset_ms: u32,
    /// The distance of one to the next; not 0.
    pub period_ms: u32,
    /// What came of them, in order.
    pub runs: Vec<SlotRun>,
}

/// The polls of one replica in an hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    format: u32,
    /// Which feed.
    pub feed: FeedId,
    /// Which hour.
    pub hour: Hour,
    /// Who asked.
    pub replica: String,
    /// One after the other; more than one after the distance was changed, or a new start.
    pub spans: Vec<CoverageSpan>,
}

/// Why a text is no coverage.
#[derive(Debug, thiserror::Error)]
#[error("damaged coverage: {0}")]
pub struct CoverageError(String);

impl Coverage {
    /// The polls that `replica` made.
    #[must_use]
    pub fn new(feed: FeedId, hour: Hour, replica: &str, spans: Vec<CoverageSpan>) -> Self {
        Self {
            format: FORMAT,
            feed,
            hour,
            replica: replica.to_owned(),
            spans,
        }
    }

    /// The member: its name, `.coverage/<replica>-<hash>.json`, and its content.
    #[must_use]
    pub fn to_member(&self) -> (String, Vec<u8>) {
        let mut json = serde_json::to_vec(self).expect("names and numbers are always JSON");
        json.push(b'\n');
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let replica: String = self
            .replica
            .chars()
            .map(|c| if is_plain(c) { c } else { '_' })
            .take(REPLICA_BYTES_MAX)
            .collect();
        let hash = short_hash(&Digest::of(&json));
        (format!("{COVERAGE_FOLDER}/{replica}-{hash}.json"), json)
    }

    /// Whether a member with this name is coverage.
    #[must_use]
    pub fn is_member(name: &str) -> bool {
        name.strip_prefix(COVERAGE_FOLDER)
            .is_some_and(|rest| rest.starts_with('/') && rest.ends_with(".json"))
    }

    /// Reads a member.
    ///
    /// # Errors
    /// [`CoverageError`] when it is none, or of a newer version.
    pub fn parse(json: &[u8]) -> Result<Self, CoverageError> {
        let coverage: Self =
            serde_json::from_slice(json).map_err(|error| CoverageError(error.to_string()))?;
        let faulty = |why: &str| Err(CoverageError(why.to_owned()));
        if coverage.format != FORMAT {
            return faulty("it has an unknown format");
        }
        if coverage.spans.iter().any(|span| span.period_ms == 0) {
            return faulty("a period is 0");
        }
        Ok(coverage)
    }
}

/// The slots of an hour at a distance of `period_ms`: of each the best that any replica says.
#[must_use]
pub fn merge_slots(coverages: &[Coverage], period_ms: u32) -> Vec<Slot> {
    let period = u64::from(period_ms.max(1));
    let count = HOUR_MILLIS.div_ceil(period);
    let mut slots = vec![Slot::NotCollected; usize::try_from(count).unwrap_or(usize::MAX)];
    for span in coverages.iter().flat_map(|coverage| &coverage.spans) {
        let length = u64::from(span.period_ms.max(1));
        let mut begin = u64::from(span.offset_ms);
        for run in &span.runs {
            let end = begin.saturating_add(length.saturating_mul(u64::from(run.count)));
            // A poll stands for the time until the next, and counts where it begins.
            let last = (end.saturating_sub(length) / period).max((end / period).saturating_sub(1));
            mark(&mut slots, &run.slot, begin / period, last);
            begin = end;
        }
    }
    slots
}

fn mark(slots: &mut [Slot], slot: &Slot, first: u64, last: u64) {
    let place = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let after = place(last).saturating_add(1).min(slots.len());
    let marked = slots.get_mut(place(first)..after).unwrap_or_default();
    for known in marked {
        if *known < *slot {
            known.clone_from(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coverage(replica: &str, offset_ms: u32, period_ms: u32, runs: &[(Slot, u32)]) -> Coverage {
        let runs = runs.iter().cloned();
        let span = CoverageSpan {
            offset_ms,
            period_ms,
            runs: runs.map(|(slot, count)| SlotRun { slot, count }).collect(),
        };
        Coverage::new(
            FeedId::new("f").unwrap(),
            "20261115T18Z".parse().unwrap(),
            replica,
            vec![span],
        )
    }

    fn failed() -> Slot {
        Slot::Failed {
            reason: "time-out".into(),
        }
    }

    #[test]
    fn it_reads_as_it_is_written_and_its_name_is_that_of_its_content() {
        let one = coverage("lga 1/x", 0, 1_000, &[(Slot::Stored, 2), (failed(), 1)]);
        let (name, json) = one.to_member();
        assert!(name.starts_with(".coverage/lga_1_x-"), "{name}");
        assert!(Coverage::is_member(&name));
        assert_eq!(Coverage::parse(&json).unwrap(), one);
        let text = String::from_utf8(json).unwrap();
        assert!(
            text.contains(r#"{"state":"failed","reason":"time-out","count":1}"#),
            "{text}"
        );
        assert!(!Coverage::is_member("a_.coverage/x.json"));
    }

    #[test]
    fn what_lies_is_refused() {
        let zero = coverage("a", 0, 0, &[]).to_member().1;
        assert!(Coverage::parse(&zero).is_err());
        assert!(Coverage::parse(br#"{"format":9}"#).is_err());
    }

    #[test]
    fn the_best_of_all_replicas_counts() {
        let one = coverage("a", 0, 900_000, &[(failed(), 1), (Slot::Unchanged, 1)]);
        let two = coverage("b", 0, 900_000, &[(Slot::Stored, 1), (failed(), 2)]);
        let merged = merge_slots(&[one, two], 900_000);
        assert_eq!(
            merged,
            [Slot::Stored, Slot::Unchanged, failed(), Slot::NotCollected]
        );
    }

    #[test]
    fn other_distances_are_put_onto_the_same_grid() {
        let coarse = coverage("a", 1_800_000, 1_800_000, &[(Slot::Stored, 9)]);
        let merged = merge_slots(&[coarse], 900_000);
        assert_eq!(
            merged,
            [
                Slot::NotCollected,
                Slot::NotCollected,
                Slot::Stored,
                Slot::Stored
            ]
        );
        let fine = coverage("a", 100_000, 450_000, &[(Slot::Stored, 3)]);
        let merged = merge_slots(&[fine], 900_000);
        assert_eq!(
            merged,
            [
                Slot::Stored,
                Slot::Stored,
                Slot::NotCollected,
                Slot::NotCollected
            ]
        );
        let beside = coverage("a", 899_000, 900_000, &[(Slot::Stored, 1)]);
        let merged = merge_slots(&[beside], 900_000);
        let stored = merged.iter().filter(|slot| **slot == Slot::Stored);
        assert_eq!(stored.count(), 1, "a poll counts once");
        let endless = coverage("a", u32::MAX, u32::MAX, &[(Slot::Stored, u32::MAX)]);
        assert_eq!(merge_slots(&[endless], 3_600_000), [Slot::NotCollected]);
    }
}
