//! Backfill: the work of some stages for the buckets of a range of dates, planned from the lake and the catalog.

use std::collections::BTreeSet;

use cannery_formats::{BucketDate, Kind};
use cannery_journal::{Data, NewEntry, Priority};

use super::Line;
use super::follow::{date_key, file_key};
use crate::canning::add_all;
use crate::cans::BucketState;
use crate::cover::key_of;
use crate::discover::{Discoverer, Reach, ToCan};
use crate::error::Error;
use crate::stage::{Stage, StageKey};

/// What is to be done again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backfill {
    /// The first date.
    pub from: BucketDate,
    /// The last date, itself included.
    pub to: BucketDate,
    /// Which stages; [`Stage::Discover`] has no work of its own.
    pub stages: BTreeSet<Stage>,
    /// Reports of this kind alone. Stages of whole buckets and of dates are left out then.
    pub kind: Option<Kind>,
}

/// Work that is to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Its key.
    pub key: StageKey,
    /// The inputs, for the stage `can`.
    pub to_can: Option<ToCan>,
}

impl Backfill {
    fn has(&self, date: BucketDate) -> bool {
        (self.from..=self.to).contains(&date)
    }

    fn has_kind(&self, kind: &Kind) -> bool {
        self.kind.as_ref().is_none_or(|wanted| wanted == kind)
    }

    fn wants(&self, stage: Stage) -> bool {
        self.stages.contains(&stage)
    }
}

impl Line {
    /// The keys of the work, in order. Nothing is changed.
    ///
    /// # Errors
    /// Those of the lakes, the folder of reports and the catalog.
    pub async fn plan(
        &self,
        backfill: &Backfill,
        discoverer: &Discoverer,
    ) -> Result<Vec<Planned>, Error> {
        let mut planned = Vec::new();
        if backfill.wants(Stage::Can) {
            let found = discoverer.look(Reach::Whole).await?.to_can.into_iter();
            let wanted = found.filter(|(key, _)| {
                backfill.has(key.bucket)
                    && key
                        .kind
                        .as_ref()
                        .is_some_and(|kind| backfill.has_kind(kind))
            });
            planned.extend(wanted.map(|(key, to_can)| Planned {
                key,
                to_can: Some(to_can),
            }));
        }
        for state in self.0.indexes.buckets().await? {
            if backfill.has(state.bucket) {
                let keys = self.keys_of(&state, backfill).await?;
                planned.extend(keys.into_iter().map(|key| Planned { key, to_can: None }));
            }
        }
        if backfill.wants(Stage::Cover) {
            let hours = self.0.coverer.hours().await?;
            let keys = hours.iter().filter_map(key_of);
            let wanted = keys.filter(|key| {
                let kind = key.kind.as_ref();
                backfill.has(key.bucket) && kind.is_some_and(|kind| backfill.has_kind(kind))
            });
            planned.extend(wanted.map(|key| Planned { key, to_can: None }));
        }
        if backfill.wants(Stage::Aggregate) && backfill.kind.is_none() {
            let dates = self.0.parts.catalog.dates().await?;
            let dates = dates.iter().filter_map(|date| date.parse().ok());
            let keys = dates
                .filter(|date| backfill.has(*date))
                .map(|date| date_key(Stage::Aggregate, date));
            planned.extend(keys.map(|key| Planned { key, to_can: None }));
        }
        planned.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(planned)
    }

    async fn keys_of(
        &self,
        state: &BucketState,
        backfill: &Backfill,
    ) -> Result<Vec<StageKey>, Error> {
        let mut keys = Vec::new();
        let of_files = [Stage::Autoclave, Stage::Centrifuge];
        let of_files = of_files.into_iter().filter(|stage| backfill.wants(*stage));
        let of_files: Vec<Stage> = of_files.collect();
        if !of_files.is_empty() {
            for index in self.0.indexes.counting(state, None).await? {
                for (name, kind) in self.cans_of(&index).await? {
                    if backfill.has_kind(&kind) {
                        let stages = of_files.iter();
                        let key = |stage| file_key(stage, state.bucket, kind.clone(), &name);
                        keys.extend(stages.map(|stage| key(*stage)));
                    }
                }
            }
        }
        if backfill.wants(Stage::Expire) {
            let standing = self.standing(state).await?;
            let over = self.over(state, &standing).await?;
            let has_kind =
                |key: &StageKey| key.kind.as_ref().is_none_or(|kind| backfill.has_kind(kind));
            keys.extend(over.into_iter().filter(has_kind));
        }
        if backfill.kind.is_some() {
            return Ok(keys);
        }
        let is_over = state.bucket < self.0.parts.plant.today();
        let of_buckets = [
            (Stage::Seal, is_over && !state.is_sealed),
            (Stage::Verify, true),
            (Stage::Clear, state.is_sealed && self.0.parts.reports_remove),
            (Stage::Sweep, state.is_sealed),
        ];
        for (stage, is_possible) in of_buckets {
            if is_possible && backfill.wants(stage) {
                keys.push(date_key(stage, state.bucket));
            }
        }
        Ok(keys)
    }

    /// Adds what was planned, behind what is new. Adding what waits already changes little.
    ///
    /// # Errors
    /// Those of the journal; some of it may have been added.
    pub async fn add(&self, planned: &[Planned]) -> Result<(), Error> {
        let entries = planned.iter().map(|one| match &one.to_can {
            None => self.entry(&one.key, Priority::RESET),
            Some(to_can) => Ok(NewEntry {
                priority: Some(Priority::RESET),
                ..NewEntry::new(one.key.to_string(), Data::from_value(to_can)?)
            }),
        });
        let entries = entries.collect::<Result<_, Error>>()?;
        add_all(&self.0.parts.journal, entries).await
    }
}
