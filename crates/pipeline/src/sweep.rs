//! Sweeping: what was replaced is removed, after a grace in which readers end that have looked it up before.
//!
//! An object is removed only when what it holds was read elsewhere in this very run, from end to end, with the sums that its
//! index says. What is not proven stays, and is reported with the reason. A run may be repeated, and be killed anywhere: the
//! index of an open can goes last, so what is left is found again.

pub(crate) mod files;
mod generations;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cannery_catalog::{Catalog, Committed};
use cannery_formats::archive::Generation;
use cannery_formats::can::{BucketFile, CannedFile, FileName, TextName};
use cannery_formats::{BucketDate, Key, Kind};
use cannery_lake::Lake;
use jiff::Timestamp;
use serde::Serialize;

use crate::autoclave::private_index_key;
use crate::cans::Indexes;
use crate::error::Error;
use crate::generation::current;
use crate::stage::Plant;
use crate::succession::{Replaced, Succession};
use crate::verify::{Finding, Verifier};
use files::{Loaded, loaded};

/// Removes what was replaced.
#[derive(Clone, Debug)]
pub struct Sweeper {
    /// The lakes, and what every stage needs.
    pub plant: Plant,
    /// The catalog: nothing that it points at is removed.
    pub catalog: Catalog,
    /// So long after the catalog points elsewhere, nobody reads the old place any more.
    pub grace: Duration,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SweepReport {
    /// What was removed.
    pub removed: Vec<Key>,
    /// What was replaced and stays, with the reason.
    pub kept: Vec<Finding>,
    /// Bytes that were read to prove it.
    pub bytes_in: u64,
    /// Whether more can be removed later, because the grace is not over or something is not loaded yet.
    pub is_waiting: bool,
    /// Dates whose tables are to be computed again, because the catalog forgot a file that was replaced.
    pub dates: BTreeSet<String>,
    /// Files whose features are to be decided on again, for the same reason.
    pub outdated: Vec<String>,
}

/// Why an object stays.
enum Stays {
    /// It may go later.
    Waits,
    /// Nothing took its place, or will.
    ForGood,
    /// Somebody has to look.
    Because(Key, String),
}

/// A look at a bucket.
struct Sweep<'s> {
    sweeper: &'s Sweeper,
    verifier: Verifier,
    succession: Succession,
    loaded: BTreeMap<String, Loaded>,
    /// The objects that are there, of cans and of archives.
    cans: BTreeSet<Key>,
    archives: BTreeSet<Key>,
    generations: BTreeSet<Generation>,
    /// What was read from end to end: the reports of its archive, or what is wrong.
    verified: BTreeMap<FileName, Result<BTreeSet<TextName>, Finding>>,
    report: SweepReport,
}

impl Sweeper {
    /// What it takes at most, beside about 600 bytes for each report of the bucket.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let plant = self.plant.clone();
        Verifier { plant }.memory_bytes()
    }

    /// Removes the open cans of a sealed bucket, and their archives. A bucket that is not sealed is left alone.
    ///
    /// # Errors
    /// Those of the lakes, the disk and the catalog. What was removed until then was proven.
    pub async fn bucket(&self, bucket: BucketDate) -> Result<SweepReport, Error> {
        let indexes = Indexes::new(self.plant.raw.clone());
        let Some(succession) = Succession::read(&indexes, bucket).await? else {
            return Ok(SweepReport::default());
        };
        let loaded = loaded(&self.catalog, bucket).await?;
        let current = current(&self.plant.public).await?;
        let known = loaded.values().map(|file| file.generation);
        let current = current.iter();
        let current = current.flat_map(|it| [it.in_force.generation, it.newest().generation]);
        let generations: BTreeSet<Generation> = known.chain(current).collect();
        let mut archives = BTreeSet::new();
        for generation in &generations {
            let folder = Key::autoclaved_generation(*generation, Some(bucket));
            archives.extend(keys(&self.plant.public, &folder).await?);
        }
        let folder = Key::canned_folder(Some(bucket));
        let mut sweep = Sweep {
            sweeper: self,
            verifier: Verifier {
                plant: self.plant.clone(),
            },
            succession,
            loaded,
            cans: keys(&self.plant.raw, &folder).await?,
            archives,
            generations,
            verified: BTreeMap::new(),
            report: SweepReport::default(),
        };
        sweep.run().await?;
        Ok(sweep.report)
    }

    /// Whether the grace after a moment is over.
    fn is_over(&self, at: Timestamp) -> bool {
        let end = at.checked_add(self.grace).unwrap_or(Timestamp::MAX);
        self.plant.clock.now() >= end
    }
}

impl Sweep<'_> {
    async fn run(&mut self) -> Result<(), Error> {
        let names: Vec<FileName> = self.succession.replaced.keys().cloned().collect();
        let mut gone = BTreeSet::new();
        for name in names {
            let replaced = &self.succession.replaced[&name];
            let (file, record) = (replaced.record.filename.clone(), replaced.record.clone());
            let objects = self.objects_of(&file);
            if objects.is_empty() {
                gone.insert(name);
                continue;
            }
            match self.may_go(&record).await? {
                Ok(()) => {
                    for (lake, key) in objects {
                        lake.delete(&key).await?;
                        self.report.removed.push(key);
                    }
                    gone.insert(name);
                }
                Err(Stays::Waits) => self.report.is_waiting = true,
                Err(Stays::ForGood) => {}
                Err(Stays::Because(key, why)) => self.report.kept.push(Finding { key, why }),
            }
        }
        self.indexes(&gone).await
    }

    /// What is there of a replaced can, in the order in which it may go: an archive's index before the archive, and the can
    /// last.
    fn objects_of(&self, file: &BucketFile) -> Vec<(Lake, Key)> {
        let plant = &self.sweeper.plant;
        let mut objects = Vec::new();
        for generation in &self.generations {
            let index = Key::autoclaved_file_index(*generation, file);
            let archive = Key::autoclaved(*generation, file);
            let both = [index, archive].into_iter();
            let there = both.filter(|key| self.archives.contains(key));
            objects.extend(there.map(|key| (plant.public.clone(), key)));
        }
        let of_raw = private_index_key(file).ok().into_iter();
        let of_raw = of_raw.chain([Key::canned(file)]);
        let there = of_raw.filter(|key| self.cans.contains(key));
        objects.extend(there.map(|key| (plant.raw.clone(), key)));
        objects
    }

    /// Whether everything of a replaced can is proven to be elsewhere, and nobody looks for it there any more.
    async fn may_go(&mut self, record: &CannedFile) -> Result<Result<(), Stays>, Error> {
        let file = &record.filename;
        let replaced = &self.succession.replaced[&file.name];
        if !replaced.is_whole || replaced.successors.contains(&file.name) {
            let why = "its reports are not all in the sealed cans of its bucket".to_owned();
            return Ok(Err(Stays::Because(Key::canned(file), why)));
        }
        let bucket = file.bucket;
        let successors = successors(bucket, replaced);
        for successor in &successors {
            let loaded = self.loaded.get(&successor.to_string());
            if !loaded.is_some_and(|loaded| self.sweeper.is_over(loaded.at)) {
                return Ok(Err(Stays::Waits));
            }
        }
        // Whoever looks it up from now on is sent to its successors; the grace begins again.
        if self.forget(file).await? {
            return Ok(Err(Stays::Waits));
        }
        let mut reports = BTreeSet::new();
        for successor in &successors {
            match self.verify(successor).await? {
                Ok(theirs) => reports.extend(theirs),
                Err(finding) => return Ok(Err(Stays::Because(finding.key, finding.why))),
            }
        }
        let is_there = |text: &TextName| reports.contains(text);
        match record.texts().iter().all(|text| is_there(&text.textname)) {
            true => Ok(Ok(())),
            false => {
                let why = "its reports are not all in the archives of the sealed cans".to_owned();
                Ok(Err(Stays::Because(Key::canned(file), why)))
            }
        }
    }

    /// Takes a replaced file out of the catalog; whether it was there. All that it holds stands in files that are loaded.
    async fn forget(&mut self, file: &BucketFile) -> Result<bool, Error> {
        let (catalog, name) = (&self.sweeper.catalog, file.to_string());
        let Some(known) = catalog.known(&name).await? else {
            return Ok(false);
        };
        let Committed {
            dates, outdated, ..
        } = catalog.forget(&name, &known.facts.state()).await?;
        self.report.dates.extend(dates);
        self.report.outdated.extend(outdated);
        Ok(true)
    }

    /// Reads a sealed can and its archive from end to end, once; the reports of the archive.
    async fn verify(
        &mut self,
        file: &BucketFile,
    ) -> Result<Result<BTreeSet<TextName>, Finding>, Error> {
        if let Some(known) = self.verified.get(&file.name) {
            return Ok(known.clone());
        }
        let read = self.read(file).await?;
        self.verified.insert(file.name.clone(), read.clone());
        Ok(read)
    }

    async fn read(
        &mut self,
        file: &BucketFile,
    ) -> Result<Result<BTreeSet<TextName>, Finding>, Error> {
        let key = Key::canned(file);
        let (record, loaded) = (
            self.succession.sealed.get(&file.name),
            self.loaded.get(&file.to_string()),
        );
        let (Some(record), Some(loaded)) = (record, loaded) else {
            let why = "it is not sealed, or not loaded".to_owned();
            return Ok(Err(Finding { key, why }));
        };
        match self.verifier.can(record).await? {
            Ok(bytes) => self.report.bytes_in += bytes,
            Err(finding) => return Ok(Err(finding)),
        }
        let archive = self.verifier.archive(loaded.generation, file).await?;
        Ok(archive.map(|verified| {
            self.report.bytes_in += verified.bytes;
            verified.reports
        }))
    }

    /// Removes the indexes all of whose cans are gone. Those of feeds stay: only they say which versions of an hour were
    /// taken.
    async fn indexes(&mut self, gone: &BTreeSet<FileName>) -> Result<(), Error> {
        for (key, index) in &self.succession.indexes {
            let is_feed = matches!(index.kind, Some(Kind::Feed(_)));
            let is_empty = index.cans.iter().all(|name| gone.contains(name));
            if is_feed || !is_empty || index.cans.is_empty() {
                continue;
            }
            self.sweeper.plant.raw.delete(key).await?;
            self.report.removed.push(key.clone());
        }
        Ok(())
    }
}

fn successors(bucket: BucketDate, replaced: &Replaced) -> Vec<BucketFile> {
    let names = replaced.successors.iter().cloned();
    names.map(|name| BucketFile::new(bucket, name)).collect()
}

pub(crate) async fn keys(lake: &Lake, folder: &Key) -> Result<BTreeSet<Key>, Error> {
    let entries = lake.list_all(Some(folder)).await?.into_iter();
    Ok(entries.map(|entry| entry.key).collect())
}
