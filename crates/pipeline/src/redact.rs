//! One measurement is taken out of every archive, for good.
//!
//! A redaction makes archives, so only a machine with the newest rules of the lake may do it (`archive_writer.rs`). What is
//! redacted is written down first, and nobody makes an archive without looking there before and afterwards. Then each archive
//! that has the measurement is made anew of its can, with a line in its index in the place of the text, and takes the place of
//! the old one, which is gone at once; the catalog follows. Whatever ends this half-way, doing it again goes on from
//! there. `docs/adr/0005-archive.md` says why an archive keeps its name.

mod list;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cannery_catalog::Catalog;
use cannery_formats::archive::{Entry, Generation, IndexReader};
use cannery_formats::can::{BucketFile, Expired, FileName};
use cannery_formats::gz_lines::IndexLimits;
use cannery_formats::hour_archive::ArchiveFault;
use cannery_formats::redaction::Redaction;
use cannery_formats::{BucketDate, Key, Uid};
use cannery_lake::{PutNew, present};
use cannery_sanitise::Rules;
use serde::Serialize;

pub use list::{Redactions, find};

use crate::archive_index::INDEX_BYTES_MAX;
use crate::autoclave::Autoclave;
use crate::blocking::blocking;
use crate::cans::Indexes;
use crate::centrifuge::Centrifuge;
use crate::error::Error;
use crate::features::Features;
use crate::generation::{claim, expect_newest};
use crate::holdings::{Ground, Holdings};
use crate::rebuild::{RebuildReport, load};
use crate::stage::Plant;
use crate::succession::record_of;

/// Takes measurements out.
#[derive(Clone, Debug)]
pub struct Redactor {
    /// The lakes, and what every stage needs.
    pub plant: Plant,
    /// The catalog.
    pub catalog: Catalog,
    /// What is taken out of measurements.
    pub features: Arc<Features>,
    /// The rules of this machine.
    pub rules: Arc<Rules>,
    /// The name of the program, for the mark.
    pub by: String,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Redacted {
    /// The mark.
    pub redaction: Redaction,
    /// Whether somebody had asked for it before.
    pub was_marked: bool,
    /// Archives that were made anew, `<date>/<file>`.
    pub rewritten: BTreeSet<String>,
    /// Archives that had it and were replaced before, and their indexes: they are gone.
    pub removed: BTreeSet<Key>,
}

/// The archives that have it, by their names: in which generations.
type Holders = BTreeMap<FileName, BTreeSet<Generation>>;

impl Redactor {
    /// The archives that hold the measurement, as far as the catalog and the indexes of their buckets know; nothing is changed.
    ///
    /// # Errors
    /// Those of the lakes and the catalog.
    pub async fn holders(&self, uid: &Uid) -> Result<BTreeSet<Key>, Error> {
        let marked = find(&self.plant.raw, uid).await?;
        let mut buckets = self.buckets(uid).await?;
        buckets.extend(marked.into_iter().flat_map(|mark| mark.buckets));
        let ground = Ground::survey(&self.plant, self.generation()).await?;
        let mut all = BTreeSet::new();
        for bucket in buckets {
            for (name, generations) in self.holders_of(&ground, bucket, uid).await? {
                let file = BucketFile::new(bucket, name);
                all.extend(generations.iter().map(|one| Key::autoclaved(*one, &file)));
            }
        }
        Ok(all)
    }

    /// Takes a measurement out of every archive and of the catalog, for good. It may be called again. Nothing when nobody
    /// knows the measurement.
    ///
    /// # Errors
    /// [`Error::Outdated`] when the lake has newer rules: nothing was done then, unless they came meanwhile; [`Error::WithoutCan`] when an archive cannot be made anew; [`Error::BeingSealed`] when it cannot be done yet; [`Error::Unusable`] for a can that cannot be read; those of the lakes,
    /// the disk and the catalog. The mark is there then, or nothing was done.
    pub async fn run(&self, uid: &Uid, reason: &str) -> Result<Option<Redacted>, Error> {
        let done = self.take_out(uid, reason).await;
        done.map_err(|error| error.while_trying_to(format!("redact measurement `{uid}`")))
    }

    async fn take_out(&self, uid: &Uid, reason: &str) -> Result<Option<Redacted>, Error> {
        let buckets = self.buckets(uid).await?;
        if !self.is_known(uid, &buckets).await? {
            return Ok(None);
        }
        // Whoever may not make archives does not begin.
        claim(&self.plant, &self.rules.edition()).await?;
        self.keep_cans(uid).await?;
        let Some((redaction, was_marked)) = self.mark(uid, reason, &buckets).await? else {
            return Ok(None);
        };
        let mut done = Redacted {
            redaction,
            was_marked,
            rewritten: BTreeSet::new(),
            removed: BTreeSet::new(),
        };
        let ground = Ground::survey(&self.plant, self.generation()).await?;
        let mut dates = BTreeSet::new();
        for bucket in buckets.union(&done.redaction.buckets.clone()) {
            let mut holders = self.holders_of(&ground, *bucket, uid).await?;
            // Also those whose archive has it no more, but was not loaded since.
            for file in self.catalog.files_with(&uid.to_string()).await? {
                let file = file.parse::<BucketFile>();
                if let Some(file) = file.ok().filter(|file| file.bucket == *bucket) {
                    holders.entry(file.name).or_default();
                }
            }
            for (name, generations) in holders {
                let file = BucketFile::new(*bucket, name);
                dates.append(&mut self.file(file, generations, &mut done).await?);
            }
        }
        let dates = dates.iter().map(String::as_str);
        self.catalog.recompute(dates).await?;
        Ok(Some(done))
    }

    fn autoclave(&self) -> Autoclave {
        Autoclave {
            plant: self.plant.clone(),
            rules: Arc::clone(&self.rules),
        }
    }

    /// What loads archives; its features are to be declared before the first run.
    #[must_use]
    pub fn centrifuge(&self) -> Centrifuge {
        Centrifuge {
            plant: self.plant.clone(),
            catalog: self.catalog.clone(),
            features: Arc::clone(&self.features),
        }
    }

    fn generation(&self) -> Generation {
        self.autoclave().generation()
    }

    /// The buckets that the catalog knows of.
    async fn buckets(&self, uid: &Uid) -> Result<BTreeSet<BucketDate>, Error> {
        let files = self.catalog.files_with(&uid.to_string()).await?.into_iter();
        let files = files.filter_map(|file| file.parse::<BucketFile>().ok());
        Ok(files.map(|file| file.bucket).collect())
    }

    /// Refuses what [`Redactor::run`] would refuse; nothing is changed.
    ///
    /// # Errors
    /// [`Error::Outdated`] when these rules are not the newest of the lake; [`Error::WithoutCan`] when an archive that has it
    /// cannot be made anew; those of the lakes and the catalog.
    pub async fn expect_possible(&self, uid: &Uid) -> Result<(), Error> {
        let buckets = self.buckets(uid).await?;
        if self.is_known(uid, &buckets).await? {
            let newest = expect_newest(&self.plant.public, &self.rules.edition()).await;
            newest.map_err(|error| error.while_trying_to(format!("redact measurement `{uid}`")))?;
        }
        self.marked_cans(uid).await.map(drop)
    }

    /// Whether there is something to redact, or to go on with.
    async fn is_known(&self, uid: &Uid, buckets: &BTreeSet<BucketDate>) -> Result<bool, Error> {
        Ok(!buckets.is_empty() || find(&self.plant.raw, uid).await?.is_some())
    }

    /// A can that is marked to go stays: it is needed.
    async fn keep_cans(&self, uid: &Uid) -> Result<(), Error> {
        for file in self.marked_cans(uid).await? {
            let mark = Key::expired(&file, Expired::Can);
            self.plant.raw.delete(&mark).await?;
        }
        Ok(())
    }

    /// Those that are still there.
    async fn marked_cans(&self, uid: &Uid) -> Result<Vec<BucketFile>, Error> {
        let indexes = Indexes::new(self.plant.raw.clone());
        let mut marked = Vec::new();
        for file in self.catalog.files_with(&uid.to_string()).await? {
            let Ok(file) = file.parse::<BucketFile>() else {
                continue;
            };
            let state = indexes.state(file.bucket).await?;
            if state.expired_cans.contains(&file.name) {
                return Err(Error::WithoutCan { file });
            }
            if state.marked_cans.contains(&file.name) {
                marked.push(file);
            }
        }
        Ok(marked)
    }

    /// Writes down what is redacted, unless it is written down. From then on no archive is made with it.
    async fn mark(
        &self,
        uid: &Uid,
        reason: &str,
        buckets: &BTreeSet<BucketDate>,
    ) -> Result<Option<(Redaction, bool)>, Error> {
        let lake = &self.plant.raw;
        if let Some(mark) = find(lake, uid).await? {
            return Ok(Some((mark, true)));
        }
        if buckets.is_empty() {
            return Ok(None);
        }
        let mark = Redaction {
            uid: *uid,
            reason: reason.to_owned(),
            buckets: buckets.clone(),
            redacted: self.plant.clock.now(),
            by: self.by.clone(),
        };
        match lake.put_new(&Key::redaction(uid), mark.to_object()).await? {
            PutNew::Created | PutNew::Same => Ok(Some((mark, false))),
            // Somebody else asked for it in this moment.
            PutNew::Different => Ok(find(lake, uid).await?.map(|mark| (mark, true))),
        }
    }

    /// The archives of a bucket whose indexes name the measurement, in all generations.
    async fn holders_of(
        &self,
        ground: &Ground,
        bucket: BucketDate,
        uid: &Uid,
    ) -> Result<Holders, Error> {
        let mut holders = Holders::new();
        let holdings = Holdings::listed(&self.plant, ground, bucket).await?;
        for (name, generations) in &holdings.archives {
            for generation in generations.keys() {
                let file = BucketFile::new(bucket, name.clone());
                if self.has(*generation, &file, uid).await? {
                    holders.entry(name.clone()).or_default().insert(*generation);
                }
            }
        }
        Ok(holders)
    }

    async fn has(
        &self,
        generation: Generation,
        file: &BucketFile,
        uid: &Uid,
    ) -> Result<bool, Error> {
        let (lake, key) = (
            &self.plant.public,
            Key::autoclaved_file_index(generation, file),
        );
        let Some(index) = present(lake.get(&key, INDEX_BYTES_MAX).await)? else {
            return Ok(false);
        };
        let uid = *uid;
        let named = blocking(move || names(&index.bytes, uid)).await;
        let named = named.map_err(|why| Error::scratch(self.plant.scratch.folder(), why))?;
        named.map_err(|fault| Error::unusable(lake, &key, &fault))
    }

    /// Makes an archive anew, loads it, and removes what other generations have of it. The dates that changed.
    async fn file(
        &self,
        file: BucketFile,
        mut generations: BTreeSet<Generation>,
        done: &mut Redacted,
    ) -> Result<BTreeSet<String>, Error> {
        let indexes = Indexes::new(self.plant.raw.clone());
        let record = record_of(&indexes, file.bucket, None, &file.name).await?;
        let mut dates = BTreeSet::new();
        match record {
            Some(can) => {
                let (autoclave, ours) = (self.autoclave(), self.generation());
                // Also where no index says that it holds it: the catalog may know better.
                generations.remove(&ours);
                autoclave.replace(&can).await?;
                let centrifuge = self.centrifuge();
                let mut report = RebuildReport::default();
                dates = load(&centrifuge, file.clone(), ours, &mut report).await?;
                if let Some(left_out) = report.left_out.pop() {
                    return Err(Error::unusable(
                        &self.plant.public,
                        &left_out.key,
                        &left_out.why,
                    ));
                }
                done.rewritten.insert(file.to_string());
            }
            // Its reports are in other cans by now; until those are loaded, the catalog needs it.
            None if self.catalog.known(&file.to_string()).await?.is_some() => {
                return Err(Error::BeingSealed {
                    bucket: file.bucket,
                });
            }
            None => {}
        }
        for generation in generations {
            // The index first: without it an archive is nobody's.
            for key in [
                Key::autoclaved_file_index(generation, &file),
                Key::autoclaved(generation, &file),
            ] {
                self.plant.public.delete(&key).await?;
                done.removed.insert(key);
            }
        }
        Ok(dates)
    }
}

/// Whether an index names a measurement.
pub(crate) fn names(index: &[u8], uid: Uid) -> Result<bool, ArchiveFault> {
    let mut reader = IndexReader::new(index, IndexLimits::default());
    while let Some(entry) = reader.next()? {
        if matches!(&entry, Entry::Datum { datum, .. } if datum.id == Some(uid)) {
            return Ok(true);
        }
    }
    Ok(false)
}
