//! Archives of generations that are in force no more.
//!
//! A generation goes bucket by bucket, once the one in force has been so for the grace. An archive goes when the catalog
//! points at its successor since as long, and that one was read from end to end in this very run. An archive of an open can
//! that was replaced goes when the archives of the sealed cans have all of its reports.

use std::collections::{BTreeMap, BTreeSet};

use cannery_formats::archive::{Entry, Generation, IndexReader};
use cannery_formats::can::{BucketFile, FileName, TextName};
use cannery_formats::gz_lines::IndexLimits;
use cannery_formats::hour_archive::ArchiveFault;
use cannery_formats::key::AutoclavedObject;
use cannery_formats::{BucketDate, Key};
use cannery_lake::ErrorKind;

use super::files::{Loaded, loaded};
use super::{Stays, SweepReport, Sweeper, keys};
use crate::archive_index::INDEX_BYTES_MAX;
use crate::blocking::blocking;
use crate::cans::{BucketState, Indexes};
use crate::error::Error;
use crate::generation::{counting, current};
use crate::verify::{Finding, Verifier};

/// What is there of an old archive, in the order in which it may go.
type Objects = Vec<Key>;

/// What proves that an archive of a bucket was replaced.
struct Proof<'s> {
    sweeper: &'s Sweeper,
    verifier: Verifier,
    bucket: BucketDate,
    current: Generation,
    loaded: BTreeMap<String, Loaded>,
    /// The cans that count.
    counting: BTreeSet<FileName>,
    /// Those of them that were removed on purpose.
    expired_cans: BTreeSet<FileName>,
    /// Archives that were removed on purpose, with the reports that they had.
    expired_archives: BTreeMap<FileName, BTreeSet<TextName>>,
    /// Archives of the generation in force that were read: their reports, or what is wrong.
    verified: BTreeMap<FileName, Result<BTreeSet<TextName>, Finding>>,
    bytes_in: u64,
}

impl Sweeper {
    /// Removes the archives that these generations have of a bucket, as far as they are proven to be replaced. That in force,
    /// and that which follows it, stay in any case.
    ///
    /// # Errors
    /// As [`Sweeper::bucket`].
    pub async fn generations(
        &self,
        bucket: BucketDate,
        generations: &BTreeSet<Generation>,
    ) -> Result<SweepReport, Error> {
        let mut report = SweepReport::default();
        let Some(current) = current(&self.plant.public).await? else {
            return Ok(report);
        };
        if current.next.is_some() || current.since.is_some_and(|since| !self.is_over(since)) {
            report.is_waiting = true;
            return Ok(report);
        }
        let current = current.in_force.generation;
        let mut proof = Proof::new(self, bucket, current).await?;
        for generation in generations {
            if *generation != current {
                self.old(*generation, &mut proof, &mut report).await?;
            }
        }
        report.bytes_in = proof.bytes_in;
        Ok(report)
    }

    async fn old(
        &self,
        generation: Generation,
        proof: &mut Proof<'_>,
        report: &mut SweepReport,
    ) -> Result<(), Error> {
        let folder = Key::autoclaved_generation(generation, Some(proof.bucket));
        let mut names = BTreeSet::new();
        let there = keys(&self.plant.public, &folder).await?;
        for key in &there {
            if let Some((_, _, object)) = key.as_autoclaved() {
                match object {
                    AutoclavedObject::File(name) | AutoclavedObject::FileIndex(name) => {
                        names.insert(name);
                    }
                    AutoclavedObject::SealedIndex => {}
                }
            }
        }
        // It names all of them, so it goes before the first.
        let joined = Key::autoclaved_index(generation, proof.bucket);
        let mut joined = there.contains(&joined).then_some(joined);
        let is_empty = names.is_empty();
        for name in names {
            match proof.of(generation, &name).await? {
                Ok(objects) => {
                    let there = objects.into_iter().filter(|key| there.contains(key));
                    for key in joined.take().into_iter().chain(there) {
                        self.remove(key, report).await?;
                    }
                }
                Err(Stays::Waits) => report.is_waiting = true,
                Err(Stays::ForGood) => {}
                Err(Stays::Because(key, why)) => report.kept.push(Finding { key, why }),
            }
        }
        match joined {
            Some(key) if is_empty => self.remove(key, report).await,
            Some(_) | None => Ok(()),
        }
    }

    async fn remove(&self, key: Key, report: &mut SweepReport) -> Result<(), Error> {
        self.plant.public.delete(&key).await?;
        report.removed.push(key);
        Ok(())
    }
}

impl<'s> Proof<'s> {
    async fn new(
        sweeper: &'s Sweeper,
        bucket: BucketDate,
        current: Generation,
    ) -> Result<Self, Error> {
        let indexes = Indexes::new(sweeper.plant.raw.clone());
        let state = indexes.state(bucket).await?;
        Ok(Self {
            verifier: Verifier {
                plant: sweeper.plant.clone(),
            },
            bucket,
            current,
            loaded: loaded(&sweeper.catalog, bucket).await?,
            counting: counting(&indexes, &state).await?,
            expired_archives: expired_archives(&indexes, &state).await?,
            expired_cans: state.expired_cans,
            verified: BTreeMap::new(),
            bytes_in: 0,
            sweeper,
        })
    }

    /// What may go of an archive.
    async fn of(
        &mut self,
        generation: Generation,
        name: &FileName,
    ) -> Result<Result<Objects, Stays>, Error> {
        let file = BucketFile::new(self.bucket, name.clone());
        let archive = Key::autoclaved(generation, &file);
        let index = Key::autoclaved_file_index(generation, &file);
        if self.expired_archives.contains_key(name) {
            return Ok(Ok(vec![index, archive]));
        }
        if let Some(loaded) = self.loaded.get(&file.to_string()) {
            // Newer rules cannot make it again.
            if loaded.generation == generation && self.expired_cans.contains(name) {
                return Ok(Err(Stays::ForGood));
            }
            if !self.is_settled(*loaded) {
                return Ok(Err(Stays::Waits));
            }
            return Ok(match self.verify(name).await? {
                // A reader must never find an index without its archive.
                Ok(_) => Ok(vec![index, archive]),
                Err(finding) => Err(Stays::Because(finding.key, finding.why)),
            });
        }
        if self.counting.contains(name) {
            return Ok(Err(Stays::Waits));
        }
        let Some(reports) = self.reports(&index).await? else {
            let why = "no index says what it holds, and its can does not count".to_owned();
            return Ok(Err(Stays::Because(archive, why)));
        };
        // Here the index goes last: only it says what the archive holds, and nobody is sent to either.
        let objects = vec![archive.clone(), index];
        Ok(match self.have(&reports).await? {
            Ok(true) => Ok(objects),
            Ok(false) => {
                let why = "its reports are not all in archives of the generation in force";
                Err(Stays::Because(archive, why.to_owned()))
            }
            Err(stays) => Err(stays),
        })
    }

    /// Whether the catalog points at the generation in force, and nobody looks elsewhere any more.
    fn is_settled(&self, loaded: Loaded) -> bool {
        loaded.generation == self.current && self.sweeper.is_over(loaded.at)
    }

    /// Whether all of these reports are in archives that the catalog points at.
    async fn have(&mut self, reports: &BTreeSet<TextName>) -> Result<Result<bool, Stays>, Error> {
        let mut successors = Vec::new();
        for (name, loaded) in &self.loaded {
            let Ok(file) = name.parse::<BucketFile>() else {
                return Ok(Err(Stays::Waits));
            };
            match self.is_settled(*loaded) {
                true => successors.push(file),
                // It stays in its generation, and took nobody's place.
                false if self.expired_cans.contains(&file.name) => {}
                false => return Ok(Err(Stays::Waits)),
            }
        }
        let expired = self.expired_archives.values();
        let mut there: BTreeSet<TextName> = expired.flatten().cloned().collect();
        for file in successors {
            match self.verify(&file.name).await? {
                Ok(theirs) => there.extend(theirs),
                Err(finding) => return Ok(Err(Stays::Because(finding.key, finding.why))),
            }
        }
        Ok(Ok(reports.is_subset(&there)))
    }

    /// Reads an archive of the generation in force, once.
    async fn verify(
        &mut self,
        name: &FileName,
    ) -> Result<Result<BTreeSet<TextName>, Finding>, Error> {
        if let Some(known) = self.verified.get(name) {
            return Ok(known.clone());
        }
        let file = BucketFile::new(self.bucket, name.clone());
        let read = self.verifier.archive(self.current, &file).await?;
        let read = read.map(|verified| {
            self.bytes_in += verified.bytes;
            verified.reports
        });
        self.verified.insert(name.clone(), read.clone());
        Ok(read)
    }

    /// The reports that an index names; nothing when it is not there or cannot be read.
    async fn reports(&self, index: &Key) -> Result<Option<BTreeSet<TextName>>, Error> {
        let plant = &self.sweeper.plant;
        let bytes = match plant.public.get(index, INDEX_BYTES_MAX).await {
            Ok(object) => object.bytes,
            Err(error) if matches!(error.kind, ErrorKind::Absent | ErrorKind::Corrupt) => {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let read = blocking(move || reports_of(&bytes)).await;
        let read = read.map_err(|why| Error::scratch(plant.scratch.folder(), why))?;
        Ok(read.ok())
    }
}

/// The archives of a bucket that were removed on purpose, with the reports that they had.
async fn expired_archives(
    indexes: &Indexes,
    state: &BucketState,
) -> Result<BTreeMap<FileName, BTreeSet<TextName>>, Error> {
    let mut expired = BTreeMap::new();
    if state.expired_archives.is_empty() {
        return Ok(expired);
    }
    for record in indexes.read(&Key::canned_index(state.bucket)).await?.files {
        if state.expired_archives.contains(&record.filename.name) {
            let texts = record.texts().iter();
            let texts = texts.map(|text| text.textname.clone()).collect();
            expired.insert(record.filename.name, texts);
        }
    }
    Ok(expired)
}

fn reports_of(index: &[u8]) -> Result<BTreeSet<TextName>, ArchiveFault> {
    let mut reader = IndexReader::new(index, IndexLimits::default());
    let mut reports = BTreeSet::new();
    while let Some(entry) = reader.next()? {
        if let Entry::Report(report) = entry {
            reports.insert(report.textname);
        }
    }
    Ok(reports)
}
