//! The entries that should have followed. Whoever committed a can may have died before it added the work that follows, and a
//! journal may be lost as a whole: what the lake and the catalog lack of each other says what is to be done.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cannery_catalog::decide::decide;
use cannery_catalog::{Decision, FileInfo, KnownFile};
use cannery_formats::archive::Generation;
use cannery_formats::can::{BucketFile, CannedObject, FileName};
use cannery_formats::{BucketDate, Key, Kind};
use cannery_journal::{Data, NewEntry, Priority};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::follow::{date_key, file_key, join_key};
use super::{Line, ToCentrifuge};
use crate::canning::add_all;
use crate::cans::{BucketState, hash_of};
use crate::cover::{FeedHour, key_of};
use crate::error::Error;
use crate::generation::{archived, expect_newest};
use crate::joined::is_needed;
use crate::seal::kind_of;
use crate::stage::{Stage, StageKey};
use crate::sweep::files;

/// Everything is compared once a day.
const EVERY: Duration = Duration::from_secs(86_400);
/// After a failure it is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(5 * 60);

/// What was added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CaughtUp {
    /// Buckets that were looked at.
    pub buckets: u64,
    /// Cans without an archive of the rules of this line.
    pub to_autoclave: u64,
    /// Archives that the catalog does not point at, or of which it has rows of older features.
    pub to_centrifuge: u64,
    /// Dates whose tables are to be computed.
    pub to_aggregate: u64,
    /// Sealed buckets whose indexes are to be joined.
    pub to_join: u64,
    /// Sealed buckets with cans of the time before, and buckets with archives of older rules.
    pub to_sweep: u64,
    /// Files that are kept no longer.
    pub to_expire: u64,
    /// Sealed buckets whose report files are still there, if they are to be removed.
    pub to_clear: u64,
    /// Hours of feeds that are in cans, and of which the catalog does not know what came.
    pub to_cover: u64,
}

impl CaughtUp {
    /// Whether a can, an archive, a table, an index or an hour was behind.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        let tables = self.to_aggregate + self.to_cover;
        self.to_autoclave + self.to_centrifuge + tables + self.to_join > 0
    }
}

/// A bucket as the lake and the catalog have it.
pub(super) struct Standing {
    bucket: BucketDate,
    generation: Generation,
    pub(super) archived: BTreeSet<FileName>,
    pub(super) loaded: BTreeMap<String, Generation>,
    /// Files with rows that the features of this line would make anew.
    outdated: BTreeSet<String>,
    /// What was removed on purpose.
    expired_cans: BTreeSet<FileName>,
    expired_archives: BTreeSet<FileName>,
}

/// What a can lacks.
pub(super) struct Lacking {
    stage: Stage,
    priority: Priority,
    /// The generation in which its archive is to be loaded.
    generation: Generation,
}

impl Standing {
    /// Whether nothing is known of an archive that cannot be made anew: it may be in another generation.
    fn is_unknown(&self, name: &FileName) -> bool {
        let file = BucketFile::new(self.bucket, name.clone()).to_string();
        let is_there = self.archived.contains(name) || self.loaded.contains_key(&file);
        self.expired_cans.contains(name) && !self.expired_archives.contains(name) && !is_there
    }

    pub(super) fn lacks(&self, name: &FileName) -> Option<Lacking> {
        let file = BucketFile::new(self.bucket, name.clone()).to_string();
        let loaded = self.loaded.get(&file);
        if self.expired_archives.contains(name) {
            return None;
        }
        // Without its can an archive stays as the rules of its time have made it.
        if self.expired_cans.contains(name) && !self.archived.contains(name) {
            let generation = *loaded.filter(|_| self.outdated.contains(&file))?;
            return Some(Lacking {
                stage: Stage::Centrifuge,
                priority: Priority::REVIEW,
                generation,
            });
        }
        let is_there = loaded == Some(&self.generation) && self.archived.contains(name);
        if is_there && !self.outdated.contains(&file) {
            return None;
        }
        Some(Lacking {
            stage: match self.archived.contains(name) {
                true => Stage::Centrifuge,
                false => Stage::Autoclave,
            },
            // What can be read, by other rules, does not stand in the way of what cannot be read at all.
            priority: match loaded {
                Some(_) => Priority::REVIEW,
                None => Priority::UPDATES,
            },
            generation: self.generation,
        })
    }
}

impl Line {
    /// Adds work for every can that counts and has no archive by the rules of this line, for every such archive that the
    /// catalog does not point at or has old rows of, for dates that were touched, for hours of feeds whose coverage it does not have,
    /// for sealed buckets that were not swept or cleared, and for files that are kept no longer. When nothing of that is left after a change of the rules, their
    /// generation is put in force. What is on the dead list stays there. It may be called at any time, by anybody.
    ///
    /// # Errors
    /// [`Error::Outdated`] when the lake has newer rules, and those of the lakes, the catalog and the journal; some of it may have been added.
    pub async fn catch_up(&self) -> Result<CaughtUp, Error> {
        let inner = &self.0;
        expect_newest(&inner.parts.plant.public, &inner.edition).await?;
        let (mut caught, mut hours) = (CaughtUp::default(), BTreeSet::new());
        let reports: Vec<u128> = match self.0.parts.reports_remove {
            true => self.0.clearer.left().await?.iter().map(hash_of).collect(),
            false => Vec::new(),
        };
        for state in self.0.indexes.buckets().await? {
            caught.buckets += 1;
            let mut entries = Vec::new();
            let standing = self.standing(&state).await?;
            for (key, lacking) in self.behind(&state, &standing).await? {
                match key.stage {
                    Stage::Autoclave => caught.to_autoclave += 1,
                    _ => caught.to_centrifuge += 1,
                }
                entries.push(entry(&key, lacking.priority, lacking.generation)?);
            }
            if entries.is_empty() && self.is_to_be_joined(&state).await? {
                caught.to_join += 1;
                entries.push(self.entry(&join_key(state.bucket), Priority::UPDATES)?);
            }
            if state.is_to_be_swept() {
                let key = date_key(Stage::Sweep, state.bucket);
                if !self.is_given_up(&key).await? {
                    caught.to_sweep += 1;
                    entries.push(self.entry(&key, Priority::UPDATES)?);
                }
            }
            if self.is_to_be_cleared(&state, &reports).await? {
                let key = date_key(Stage::Clear, state.bucket);
                if !self.is_given_up(&key).await? {
                    caught.to_clear += 1;
                    entries.push(self.entry(&key, Priority::UPDATES)?);
                }
            }
            for key in self.over(&state, &standing).await? {
                if !self.is_given_up(&key).await? {
                    caught.to_expire += 1;
                    entries.push(self.entry(&key, Priority::UPDATES)?);
                }
            }
            add_all(&self.0.parts.journal, entries).await?;
            hours.append(&mut self.0.coverer.hours_of(state).await?);
        }
        caught.to_aggregate = self.add_touched().await?;
        self.take_over(inner.edition.generation).await?;
        caught.to_sweep += self.add_old_generations().await?;
        caught.to_cover = self.uncovered(hours).await?;
        Ok(caught)
    }

    /// Adds work for those of the hours that the catalog does not have; how many.
    async fn uncovered(&self, hours: BTreeSet<FeedHour>) -> Result<u64, Error> {
        let lacking = self.0.coverer.lacking(hours).await?;
        let mut entries = Vec::new();
        for key in lacking.iter().filter_map(key_of) {
            if !self.is_given_up(&key).await? {
                entries.push(self.entry(&key, Priority::UPDATES)?);
            }
        }
        let count = entries.len() as u64;
        add_all(&self.0.parts.journal, entries).await?;
        Ok(count)
    }

    /// Catches up now and once a day, until `stop` is cancelled. What fails is logged and tried again.
    pub async fn keep_up(&self, stop: CancellationToken) {
        let clock = &self.0.parts.plant.clock;
        loop {
            let caught = tokio::select! {
                () = stop.cancelled() => return,
                caught = self.catch_up() => caught,
            };
            let pause = match caught {
                Ok(caught) => {
                    if caught.is_behind() {
                        tracing::info!(?caught, "added work that was missing in the journal");
                    }
                    EVERY
                }
                Err(error) => {
                    tracing::warn!(%error, "could not compare the lake with the catalog; trying again");
                    AGAIN_AFTER
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = clock.sleep(pause) => {}
            }
        }
    }

    /// An entry for the work of a key, as the line itself would add it.
    pub(super) fn entry(&self, key: &StageKey, priority: Priority) -> Result<NewEntry, Error> {
        entry(key, priority, self.0.autoclave.generation())
    }

    async fn behind(
        &self,
        state: &BucketState,
        standing: &Standing,
    ) -> Result<Vec<(StageKey, Lacking)>, Error> {
        let mut behind = Vec::new();
        for index in self.0.indexes.counting(state, None).await? {
            let names = self.0.indexes.names(&index).await?;
            let is_well =
                |name: &FileName| standing.lacks(name).is_none() && !standing.is_unknown(name);
            if names.files.iter().all(is_well) {
                continue;
            }
            for (name, kind) in self.cans_of(&index).await? {
                let lacking = match standing.is_unknown(&name) {
                    true => self.elsewhere(state.bucket, &name).await?,
                    false => standing.lacks(&name),
                };
                let Some(lacking) = lacking else {
                    continue;
                };
                let key = file_key(lacking.stage, state.bucket, kind, &name);
                if !self.is_given_up(&key).await? {
                    behind.push((key, lacking));
                }
            }
        }
        Ok(behind)
    }

    /// An archive that is in another generation than ours, and in no catalog, is to be loaded from there.
    async fn elsewhere(
        &self,
        bucket: BucketDate,
        name: &FileName,
    ) -> Result<Option<Lacking>, Error> {
        let inner = &self.0;
        let others = self.old_generations(inner.autoclave.generation()).await?;
        for generation in others.get(&bucket).into_iter().flatten() {
            let there = archived(&inner.parts.plant, *generation, bucket).await?;
            if there.contains(name) {
                return Ok(Some(Lacking {
                    stage: Stage::Centrifuge,
                    priority: Priority::UPDATES,
                    generation: *generation,
                }));
            }
        }
        Ok(None)
    }

    /// Whether one of these report files is in a sealed can of the bucket.
    async fn is_to_be_cleared(&self, state: &BucketState, reports: &[u128]) -> Result<bool, Error> {
        if !state.is_sealed || reports.is_empty() {
            return Ok(false);
        }
        let key = Key::canned_index(state.bucket);
        let names = self.0.indexes.names(&key).await?;
        Ok(names.has_any(reports))
    }

    /// The cans that an index names, and the kinds of their reports.
    pub(super) async fn cans_of(&self, index: &Key) -> Result<Vec<(FileName, Kind)>, Error> {
        let kind = match index.as_canned() {
            Some((_, CannedObject::OpenIndex(name))) => Some(name.kind),
            Some(_) | None => None,
        };
        let files = self.0.indexes.read(index).await?.files.into_iter();
        let cans = files.map(|file| {
            let kind = kind.clone().unwrap_or_else(|| kind_of(&file));
            (file.filename.name, kind)
        });
        Ok(cans.collect())
    }

    pub(super) async fn standing(&self, state: &BucketState) -> Result<Standing, Error> {
        let bucket = state.bucket;
        let (inner, generation) = (&self.0, self.0.autoclave.generation());
        let catalog = &inner.parts.catalog;
        let mut standing = Standing {
            bucket,
            generation,
            archived: archived(&inner.parts.plant, generation, bucket).await?,
            loaded: BTreeMap::new(),
            outdated: BTreeSet::new(),
            expired_cans: state.expired_cans.clone(),
            expired_archives: state.expired_archives.clone(),
        };
        let mut versions = catalog.versions_of(&bucket.to_string()).await?;
        for FileInfo { facts, .. } in files::all(catalog, bucket).await? {
            // One that is described in a way that nobody knows counts as not loaded.
            let (Ok(generation), Ok(kind)) = (facts.generation.parse(), facts.kind.parse()) else {
                continue;
            };
            let name = facts.name.clone();
            let known = KnownFile {
                versions: versions.remove(&name).unwrap_or_default(),
                facts,
            };
            let features = inner.parts.features.versions(&kind);
            match decide(&known.facts, Some(&known), &features) {
                Decision::Skip | Decision::NewerThanCode { .. } => {}
                _ => drop(standing.outdated.insert(name.clone())),
            }
            standing.loaded.insert(name, generation);
        }
        Ok(standing)
    }

    async fn is_to_be_joined(&self, state: &BucketState) -> Result<bool, Error> {
        let inner = &self.0;
        let generation = inner.autoclave.generation();
        Ok(state.is_sealed
            && is_needed(&inner.parts.plant, state.bucket, generation).await?
            && !self.is_given_up(&join_key(state.bucket)).await?)
    }

    /// Tables are to be computed for dates that were touched, unless that is known; for how many.
    async fn add_touched(&self) -> Result<u64, Error> {
        let parts = &self.0.parts;
        let mut dates = BTreeSet::new();
        for date in parts.catalog.touched_dates().await? {
            let Ok(day) = date.parse() else {
                continue;
            };
            let key = date_key(Stage::Aggregate, day).to_string();
            let key = cannery_journal::Key::new(key)?;
            if parts.journal.get(key).await?.is_empty() {
                dates.insert(date);
            }
        }
        self.add_aggregates(&dates, Priority::UPDATES).await?;
        Ok(dates.len() as u64)
    }

    /// Whether the work is on the dead list: a person has to look.
    pub(super) async fn is_given_up(&self, key: &StageKey) -> Result<bool, Error> {
        let key = cannery_journal::Key::new(key.to_string())?;
        let known = self.0.parts.journal.get(key).await?;
        Ok(known.iter().any(|entry| entry.death.is_some()))
    }
}

fn entry(key: &StageKey, priority: Priority, generation: Generation) -> Result<NewEntry, Error> {
    let data = match key.stage {
        Stage::Centrifuge => Data::from_value(&ToCentrifuge {
            generation,
            replaces: BTreeSet::new(),
        })?,
        _ => Data::null(),
    };
    Ok(NewEntry {
        priority: Some(priority),
        ..NewEntry::new(key.to_string(), data)
    })
}
