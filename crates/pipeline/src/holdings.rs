//! What the lake has of a bucket, and what of it belongs into the catalog. From the lake alone.

use std::collections::{BTreeMap, BTreeSet};

use cannery_formats::archive::Generation;
use cannery_formats::can::{BucketFile, FileName};
use cannery_formats::key::AutoclavedObject;
use cannery_formats::{BucketDate, Key};
use cannery_lake::Entry;
use futures::TryStreamExt as _;

use crate::cans::{BucketState, Indexes};
use crate::error::Error;
use crate::generation::current;
use crate::stage::Plant;
use crate::succession::Succession;

/// The buckets and generations of a lake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ground {
    /// Every date that has a can or an archive.
    pub buckets: BTreeSet<BucketDate>,
    /// Every generation that has an archive.
    pub generations: BTreeSet<Generation>,
    /// Those whose archives are taken first, the best first: those that the lake names, and that of the rules.
    pub preferred: Vec<Generation>,
}

impl Ground {
    /// Looks at the names of everything. `ours` is the generation of the rules that are configured.
    ///
    /// # Errors
    /// Those of the lakes.
    pub async fn survey(plant: &Plant, ours: Generation) -> Result<Self, Error> {
        let mut ground = Self::default();
        match current(&plant.public).await? {
            // Written before the lake said which rules are newer: it names the first ones that ever were.
            Some(current) if current.newest().version.is_none() => {
                ground.preferred = vec![ours, current.in_force.generation];
            }
            Some(current) => {
                let newest = current.newest().generation;
                ground.preferred = vec![newest, current.in_force.generation, ours];
            }
            None => ground.preferred = vec![ours],
        }
        let mut cans = plant.raw.list(Some(&Key::canned_folder(None)));
        while let Some(entry) = cans.try_next().await? {
            ground
                .buckets
                .extend(entry.key.as_canned().map(|(date, _)| date));
        }
        let mut archives = plant.public.list(Some(&Key::autoclaved_folder()));
        while let Some(entry) = archives.try_next().await? {
            if let Some((generation, bucket, _)) = entry.key.as_autoclaved() {
                ground.buckets.insert(bucket);
                ground.generations.insert(generation);
            }
        }
        Ok(ground)
    }
}

/// An archive in a generation: its objects, as far as they are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Archive {
    pub(crate) file: Option<Entry>,
    pub(crate) index: Option<Entry>,
}

/// What a bucket has.
#[derive(Debug)]
pub(crate) struct Holdings {
    pub(crate) bucket: BucketDate,
    /// The objects in the folder of its cans.
    pub(crate) cans: Vec<Entry>,
    pub(crate) state: BucketState,
    /// The archives, by their names and generations.
    pub(crate) archives: BTreeMap<FileName, BTreeMap<Generation, Archive>>,
    /// The cans whose archives belong into the catalog; nothing when no index says anything about cans.
    counting: Option<BTreeSet<FileName>>,
    preferred: Vec<Generation>,
}

impl Holdings {
    /// Looks at a bucket.
    ///
    /// # Errors
    /// Those of the lakes; [`Error::Unusable`] for an index of cans that cannot be read.
    pub(crate) async fn read(
        plant: &Plant,
        ground: &Ground,
        bucket: BucketDate,
    ) -> Result<Self, Error> {
        let mut holdings = Self::listed(plant, ground, bucket).await?;
        holdings.counting = holdings.counting(&Indexes::new(plant.raw.clone())).await?;
        Ok(holdings)
    }

    /// The same without the indexes of the cans: everything counts.
    pub(crate) async fn listed(
        plant: &Plant,
        ground: &Ground,
        bucket: BucketDate,
    ) -> Result<Self, Error> {
        let mut archives = BTreeMap::<FileName, BTreeMap<Generation, Archive>>::new();
        // The original's archives have one index for all.
        let mut joined = BTreeMap::<Generation, Entry>::new();
        for generation in &ground.generations {
            let folder = Key::autoclaved_generation(*generation, Some(bucket));
            for entry in plant.public.list_all(Some(&folder)).await? {
                let Some((generation, _, object)) = entry.key.as_autoclaved() else {
                    continue;
                };
                match object {
                    AutoclavedObject::File(name) => {
                        let of_name = archives.entry(name).or_default();
                        of_name.entry(generation).or_default().file = Some(entry);
                    }
                    AutoclavedObject::FileIndex(name) => {
                        let of_name = archives.entry(name).or_default();
                        of_name.entry(generation).or_default().index = Some(entry);
                    }
                    AutoclavedObject::SealedIndex => drop(joined.insert(generation, entry)),
                }
            }
        }
        for (generation, joined) in joined {
            let of_generation = archives.values_mut();
            for archive in of_generation.filter_map(|of_name| of_name.get_mut(&generation)) {
                if archive.file.is_some() && archive.index.is_none() {
                    archive.index = Some(joined.clone());
                }
            }
        }
        let folder = Key::canned_folder(Some(bucket));
        let cans = plant.raw.list_all(Some(&folder)).await?;
        Ok(Self {
            bucket,
            state: BucketState::of(bucket, cans.iter().cloned()),
            cans,
            archives,
            counting: None,
            preferred: ground.preferred.clone(),
        })
    }

    /// The archives that belong into the catalog, in the order of their names, each in the generation that it is read from.
    pub(crate) fn belonging(&self) -> impl Iterator<Item = (BucketFile, Generation)> + '_ {
        self.archives.keys().filter_map(|name| {
            if !self.belongs(name) {
                return None;
            }
            let generation = self.generation_of(name)?;
            Some((BucketFile::new(self.bucket, name.clone()), generation))
        })
    }

    /// Whether the archive of this name belongs into the catalog.
    pub(crate) fn belongs(&self, name: &FileName) -> bool {
        let counts = self.counting.as_ref();
        counts.is_none_or(|counts| counts.contains(name))
            && !self.state.expired_archives.contains(name)
    }

    /// The generation in which an archive is read: one of those that are preferred, else the one that was written last.
    fn generation_of(&self, name: &FileName) -> Option<Generation> {
        let generations = self.archives.get(name)?;
        let committed = generations.iter().filter_map(|(generation, archive)| {
            let index = archive.index.as_ref()?;
            Some((index.modified, *generation))
        });
        let committed: Vec<_> = committed.collect();
        let is_there = |wanted: &&Generation| committed.iter().any(|(_, known)| known == *wanted);
        let preferred = self.preferred.iter().find(is_there);
        let last = || committed.iter().max().map(|(_, generation)| *generation);
        preferred.copied().or_else(last)
    }

    /// The cans whose archives belong into the catalog: those that count; and of a sealed bucket an open can as long as what
    /// took its place is not all there as archives. Until then a measurement would be nowhere.
    async fn counting(&self, indexes: &Indexes) -> Result<Option<BTreeSet<FileName>>, Error> {
        if self.state.open.is_empty() && !self.state.is_sealed {
            return Ok(None);
        }
        if let Some(succession) = Succession::read(indexes, self.bucket).await? {
            let is_made = |name: &FileName| {
                self.generation_of(name).is_some() || self.state.expired_archives.contains(name)
            };
            let stays = succession.replaced.iter().filter(|(_, replaced)| {
                !(replaced.is_whole && replaced.successors.iter().all(is_made))
            });
            let stays: BTreeSet<FileName> = stays.map(|(name, _)| name.clone()).collect();
            return Ok(Some(succession.sealed.into_keys().chain(stays).collect()));
        }
        let mut counting = BTreeSet::new();
        for key in indexes.counting(&self.state, None).await? {
            counting.extend(indexes.names(&key).await?.files.iter().cloned());
        }
        Ok(Some(counting))
    }
}
