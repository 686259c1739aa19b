//! What came of each hour of a feed becomes rows of the catalog. What came of nodes follows from their reports, which the
//! catalog has.
//!
//! The hours are those that some can has taken downloads from, and what is written of them stands in their archives: it is
//! the same whenever it is done, and a rebuilt catalog has the same rows.

use std::collections::{BTreeMap, BTreeSet};

use cannery_catalog::{Catalog, Coverage, CoverageFilter, CoverageState};
use cannery_formats::Kind;
use cannery_formats::feed::{FeedId, Hour};
use serde::Serialize;

use crate::cans::{BucketState, Indexes};
use crate::error::Error;
use crate::gaps::{Bodies, CoverageReader, HourCoverage, HourState};
use crate::hour_folder::HourFolder;
use crate::scope::Scope;
use crate::stage::{Plant, Stage, StageKey};

const SUBJECT: &str = "feed";

/// An hour of a feed.
pub(crate) type FeedHour = (FeedId, Hour);

/// Reads the coverage of hours, and writes it to a catalog.
#[derive(Clone, Debug)]
pub(crate) struct Coverer {
    plant: Plant,
    indexes: Indexes,
    catalog: Catalog,
}

/// What is known of an hour now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Covered {
    /// How many polls should have been made, how many were, and what they brought; nothing when the hour has no archive.
    pub(crate) row: Option<Coverage>,
}

impl Coverer {
    pub(crate) fn new(plant: Plant, indexes: Indexes, catalog: Catalog) -> Self {
        Self {
            plant,
            indexes,
            catalog,
        }
    }

    /// What it takes: an archive is read in pieces, its list of downloads is held.
    pub(crate) fn memory_bytes(&self) -> u64 {
        64 << 20
    }

    /// Makes the row of an hour as the lake has it. It may be called again, at any time.
    ///
    /// # Errors
    /// Those of the lake, the disk and the catalog.
    pub(crate) async fn hour(&self, feed: &FeedId, hour: Hour) -> Result<Covered, Error> {
        let reader = CoverageReader::new(self.plant.scratch.clone());
        let lake = &self.plant.raw;
        let folder = HourFolder::list(lake, feed, hour).await?;
        // Every poll of it counts, as it will for ever: the hour is over, or somebody's clock is wrong.
        let (coverage, bodies) = reader
            .measured(lake, feed, hour, &folder, hour.end())
            .await?;
        let row = row(&coverage, bodies);
        match &row {
            Some(row) => self.catalog.cover(std::slice::from_ref(row)).await?,
            None => {
                let (feed, hour) = (feed.to_string(), text_of(hour));
                self.catalog.uncover(SUBJECT, &feed, &hour).await?;
            }
        }
        Ok(Covered { row })
    }

    /// The hours that the cans of a bucket have taken downloads from.
    ///
    /// # Errors
    /// Those of the lake; [`Error::Unusable`] for an index that cannot be read.
    pub(crate) async fn hours_of(&self, state: BucketState) -> Result<BTreeSet<FeedHour>, Error> {
        let named = self.indexes.named(&[state], None).await?;
        Ok(named.hours().collect())
    }

    /// The hours that cans name, of every bucket whose indexes can be read.
    ///
    /// # Errors
    /// Those of the lake.
    pub(crate) async fn hours(&self) -> Result<BTreeSet<FeedHour>, Error> {
        let mut hours = BTreeSet::new();
        for state in self.indexes.buckets().await? {
            match self.hours_of(state).await {
                // Whoever reads the bucket itself tells of it.
                Err(Error::Unusable { .. }) => {}
                named => hours.append(&mut named?),
            }
        }
        Ok(hours)
    }

    /// Those of the hours that the catalog has no row of, and those that were deleted, or brought back, since it has one.
    ///
    /// # Errors
    /// Those of the lake and the catalog.
    pub(crate) async fn lacking(
        &self,
        hours: BTreeSet<FeedHour>,
    ) -> Result<BTreeSet<FeedHour>, Error> {
        let feeds: BTreeSet<FeedId> = hours.iter().map(|(feed, _)| feed.clone()).collect();
        let states = self.states(&feeds).await?;
        let scope = Scope {
            feeds: Some(feeds),
            ..Scope::default()
        };
        let folders = scope.folders(&self.plant.raw, &mut |_| {}).await?;
        let is_lacking = |hour: &FeedHour| {
            let nothing = HourFolder::default();
            let folder = folders.get(hour).unwrap_or(&nothing);
            match states.get(hour) {
                Some(state) => (*state == CoverageState::Deleted) != folder.tombstone,
                None => folder.tombstone || !folder.archives().is_empty(),
            }
        };
        Ok(hours.into_iter().filter(is_lacking).collect())
    }

    /// What the catalog knows of the hours of these feeds.
    async fn states(
        &self,
        feeds: &BTreeSet<FeedId>,
    ) -> Result<BTreeMap<FeedHour, CoverageState>, Error> {
        let mut states = BTreeMap::new();
        for feed in feeds {
            let of_feed = CoverageFilter {
                subject: Some(SUBJECT.to_owned()),
                name: Some(feed.to_string()),
                hours: None,
            };
            for row in self.catalog.coverage(&of_feed, u32::MAX).await? {
                let folder = row.hour.replace(['-', 'T'], "/");
                if let Ok(hour) = Hour::from_folder(&folder)
                    && row.state != CoverageState::Absent
                {
                    states.insert((feed.clone(), hour), row.state);
                }
            }
        }
        Ok(states)
    }
}

/// The key of the work on an hour: `cover/<date of the hour>/feed-<id>/<hour>`. Nothing for an hour of a year that no bucket has.
pub(crate) fn key_of((feed, hour): &FeedHour) -> Option<StageKey> {
    let (date, hour) = split(*hour);
    Some(StageKey {
        stage: Stage::Cover,
        bucket: date.parse().ok()?,
        kind: Some(Kind::Feed(feed.clone())),
        slice: Some(hour),
    })
}

/// The hour that a key is about.
pub(crate) fn hour_of(key: &StageKey) -> Option<Hour> {
    let day = key.bucket.to_string().replace('-', "/");
    Hour::from_folder(&format!("{day}/{}", key.slice.as_deref()?)).ok()
}

/// As the catalog writes it.
fn text_of(hour: Hour) -> String {
    let (date, hour) = split(hour);
    format!("{date}T{hour}")
}

fn split(hour: Hour) -> (String, String) {
    let begin = hour.begin();
    let part = |form: &str| begin.strftime(form).to_string();
    (part("%Y-%m-%d"), part("%H"))
}

/// What the catalog keeps of an hour. An hour without any archive has no row: whether it is missing depends on its neighbours.
fn row(coverage: &HourCoverage, bodies: Bodies) -> Option<Coverage> {
    let present = coverage.stored + coverage.unchanged;
    let (expected, present, state) = match coverage.state {
        HourState::Known => {
            let expected = present + coverage.failed + coverage.not_collected;
            (expected, present, CoverageState::Known)
        }
        HourState::Unknown => (bodies.count, bodies.count, CoverageState::Unknown),
        HourState::Deleted => (0, 0, CoverageState::Deleted),
        HourState::Absent | HourState::NotOver => return None,
    };
    Some(Coverage {
        subject: SUBJECT.to_owned(),
        name: coverage.feed.to_string(),
        hour: text_of(coverage.hour),
        expected,
        present,
        bytes: bodies.bytes,
        state,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    #[test]
    fn the_key_of_an_hour_reads_as_it_is_written() {
        let hour = (
            FeedId::new("tfl").unwrap(),
            "20261115T08Z".parse::<Hour>().unwrap(),
        );
        let key = key_of(&hour).unwrap();
        assert_eq!(key.to_string(), "cover/2026-11-15/feed-tfl/08");
        assert_eq!(hour_of(&key), Some(hour.1));
        for bad in [
            "cover/2026-11-15/feed-tfl/24",
            "cover/2026-11-15/feed-tfl/8",
        ] {
            assert_eq!(hour_of(&bad.parse().unwrap()), None, "{bad}");
        }
    }

    #[test]
    fn every_state_of_an_hour_has_its_row_or_none() {
        let (feed, hour) = (
            FeedId::new("f").unwrap(),
            "20261115T18Z".parse::<Hour>().unwrap(),
        );
        let bodies = Bodies { count: 3, bytes: 9 };
        let merged = HourCoverage::merged(&feed, hour, &[], Timestamp::MAX);
        let unknown = row(&merged, bodies).unwrap();
        assert_eq!(
            (unknown.expected, unknown.present, unknown.bytes),
            (3, 3, 9)
        );
        assert_eq!(unknown.state, CoverageState::Unknown);
        let known = HourCoverage {
            state: HourState::Known,
            stored: 3,
            unchanged: 50,
            failed: 4,
            not_collected: 3,
            ..merged
        };
        let known = row(&known, bodies).unwrap();
        assert_eq!((known.expected, known.present, known.bytes), (60, 53, 9));
        assert_eq!(known.hour, "2026-11-15T18");
        let deleted = row(&HourCoverage::deleted(&feed, hour), Bodies::default()).unwrap();
        assert_eq!(
            (deleted.expected, deleted.state),
            (0, CoverageState::Deleted)
        );
        let absent = HourCoverage::absent(&feed, hour, Timestamp::MAX);
        assert_eq!(row(&absent, Bodies::default()), None);
    }
}
