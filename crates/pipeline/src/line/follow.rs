//! The entries that follow a stage.

use std::collections::BTreeSet;
use std::time::Duration;

use cannery_formats::archive::Generation;
use cannery_formats::can::FileName;
use cannery_formats::{BucketDate, Key, Kind};
use cannery_journal::{Data, Date, NewEntry, Priority};
use serde::{Deserialize, Serialize};

use super::Line;
use crate::canning::add_all;
use crate::cans::Refused;
use crate::cover;
use crate::error::Error;
use crate::stage::{Stage, StageKey};

/// What the entry of an archive says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToCentrifuge {
    /// The generation that the catalog shall point at.
    pub generation: Generation,
    /// The open cans whose place it takes, as far as the sealer knew; shown to people. What may go is found in the lake and
    /// in the catalog when it is loaded.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub replaces: BTreeSet<String>,
}

/// The key of work on one file.
pub(super) fn file_key(stage: Stage, bucket: BucketDate, kind: Kind, file: &FileName) -> StageKey {
    StageKey {
        stage,
        bucket,
        kind: Some(kind),
        slice: Some(file.as_str().to_owned()),
    }
}

/// The key of work on a whole bucket, or a date.
pub(super) fn date_key(stage: Stage, bucket: BucketDate) -> StageKey {
    StageKey {
        stage,
        bucket,
        kind: None,
        slice: None,
    }
}

/// The key of joining the indexes of a sealed bucket.
pub(super) fn join_key(bucket: BucketDate) -> StageKey {
    StageKey {
        slice: Some(INDEX.to_owned()),
        ..date_key(Stage::Seal, bucket)
    }
}

/// The slice of a seal that is about the indexes of its archives, not about its cans.
pub(super) const INDEX: &str = "index";

/// A journal takes no date that is over when it hears of it; what is so near is due at once.
const AT_ONCE: Duration = Duration::from_secs(1);

impl Line {
    pub(super) fn due_after(&self, pause: Duration) -> Option<Date> {
        let now = Date::from(self.0.parts.plant.clock.now());
        (pause >= AT_ONCE).then(|| now.plus(pause))
    }

    /// An archive is to be loaded.
    pub(super) async fn add_centrifuge(
        &self,
        (bucket, kind, file): (BucketDate, Kind, &FileName),
        priority: Priority,
        to: &ToCentrifuge,
    ) -> Result<(), Error> {
        let key = file_key(Stage::Centrifuge, bucket, kind, file).to_string();
        let entry = NewEntry {
            priority: Some(priority),
            ..NewEntry::new(key, Data::from_value(to)?)
        };
        add_all(&self.0.parts.journal, vec![entry]).await
    }

    /// The report files of a sealed bucket are to be removed, behind what is new.
    pub(super) async fn add_clear(&self, bucket: BucketDate) -> Result<(), Error> {
        let key = date_key(Stage::Clear, bucket);
        let entry = self.entry(&key, Priority::UPDATES)?;
        add_all(&self.0.parts.journal, vec![entry]).await
    }

    /// What a sealed bucket has replaced is to be removed, in time.
    pub(super) async fn add_sweep(&self, bucket: BucketDate) -> Result<(), Error> {
        let parts = &self.0.parts;
        let entry = NewEntry {
            process_date: self.due_after(parts.timing.sweep_grace),
            ..NewEntry::new(date_key(Stage::Sweep, bucket).to_string(), Data::null())
        };
        add_all(&parts.journal, vec![entry]).await
    }

    /// The indexes of a sealed bucket are to be joined, when nothing is added to them for a while.
    pub(super) async fn add_join(
        &self,
        bucket: BucketDate,
        priority: Priority,
    ) -> Result<(), Error> {
        let parts = &self.0.parts;
        let entry = NewEntry {
            priority: Some(priority),
            process_date: self.due_after(parts.timing.debounce),
            ..NewEntry::new(join_key(bucket).to_string(), Data::null())
        };
        add_all(&parts.journal, vec![entry]).await
    }

    /// What came of the hours that were canned is to be written down: of each, whoever has canned it, and also when it was
    /// canned before, for others may have added to it since.
    pub(super) async fn add_covers(
        &self,
        keys: &[Key],
        refused: &[Refused],
        priority: Priority,
    ) -> Result<(), Error> {
        let is_used = |key: &&Key| refused.iter().all(|refused| refused.key != **key);
        let hours = keys.iter().filter(is_used).filter_map(Key::as_feed_object);
        let keys = hours.filter_map(|(feed, hour, _)| cover::key_of(&(feed, hour)));
        let entries = keys.map(|key| self.entry(&key, priority));
        let entries = entries.collect::<Result<_, Error>>()?;
        add_all(&self.0.parts.journal, entries).await
    }

    /// Tables are to be computed again for these dates, when nothing touches them for a while.
    pub(super) async fn add_aggregates(
        &self,
        dates: &BTreeSet<String>,
        priority: Priority,
    ) -> Result<(), Error> {
        let parts = &self.0.parts;
        let due = self.due_after(parts.timing.debounce);
        let dates = dates.iter().filter_map(|date| date.parse().ok());
        let entries = dates.map(|date| NewEntry {
            priority: Some(priority),
            process_date: due,
            ..NewEntry::new(date_key(Stage::Aggregate, date).to_string(), Data::null())
        });
        add_all(&parts.journal, entries.collect()).await
    }
}
