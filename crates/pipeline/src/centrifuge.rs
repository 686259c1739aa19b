//! The stage `centrifuge`: an archive becomes rows of the catalog.
//!
//! What is to be done is decided from the index of the archive and from what the catalog knows. Only where measurements have
//! to be looked at the archive itself is read.

pub(crate) mod facts;
mod spin;

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use cannery_catalog::{
    Catalog, Committed, Decision, Error as CatalogError, ErrorKind, FileState, KnownFile, Load,
    LoadPlan, Residual,
};
use cannery_formats::Key;
use cannery_formats::archive::Generation;
use cannery_formats::can::BucketFile;
use cannery_formats::hour_archive::ArchiveFault;
use futures::future::BoxFuture;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::archive_index::{self, Found, INDEX_BYTES_MAX};
use crate::blocking::blocking;
use crate::error::Error;
use crate::features::Features;
use crate::fetch_file::fetch_file;
use crate::stage::Plant;
use facts::Known;
use spin::{Push, Spin};

/// A file needs two steps at most; more are others at work on it.
const ROUNDS_MAX: u32 = 8;
/// Batches on their way to the catalog.
const BATCHES_AHEAD: usize = 2;

/// Loads archives into a catalog. It may be run twice, at the same time, and be killed anywhere.
#[derive(Clone, Debug)]
pub struct Centrifuge {
    /// The lakes, and what every stage needs.
    pub plant: Plant,
    /// The catalog.
    pub catalog: Catalog,
    /// What is taken out of measurements. [`Centrifuge::declare`] makes it known to the catalog.
    pub features: Arc<Features>,
}

/// Which file is to be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The generation that the catalog shall point at.
    pub generation: Generation,
    /// The file.
    pub file: BucketFile,
    /// Files whose place it takes, such as the open cans of a bucket that is sealed.
    pub replaces: Vec<BucketFile>,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CentrifugeReport {
    /// What was decided, step by step. The last is [`Decision::Skip`] or [`Decision::NewerThanCode`].
    pub decisions: Vec<Decision>,
    /// What the commits did, together.
    pub committed: Committed,
    /// Measurements that were pushed.
    pub measurements: u64,
    /// Bytes read of the index.
    pub index_bytes: u64,
    /// Bytes read of the archive.
    pub bytes_in: u64,
}

/// Asked before a commit: whether the work is still ours.
pub type Fence<'f> = &'f (dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync);

impl Centrifuge {
    /// How much memory a run takes at most, about.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let batches = (BATCHES_AHEAD as u64 + 2) * 2 * spin::BATCH_BYTES as u64;
        INDEX_BYTES_MAX / 8 + 2 * spin::FRAME_TEXT_MAX + batches
    }

    /// Makes features and aggregates known to the catalog. To be called before the first run. The dates of an aggregate that
    /// is another than before are touched then: see [`Catalog::touched_dates`].
    ///
    /// # Errors
    /// Those of the catalog: `Newer` when a newer program has declared one of them.
    pub async fn declare(&self) -> Result<(), Error> {
        for feature in self.features.features() {
            self.catalog.declare_feature(feature).await?;
        }
        for aggregate in self.features.aggregates() {
            self.catalog.declare_aggregate(aggregate).await?;
        }
        Ok(())
    }

    /// Brings the catalog to what the file says, whatever that takes.
    ///
    /// # Errors
    /// [`Error::Unusable`] for an archive that is not as its index says; those of the lake, the disk and the catalog. The
    /// catalog is then as it was before the step that failed.
    pub async fn run(&self, target: &Target, fence: Fence<'_>) -> Result<CentrifugeReport, Error> {
        self.run_unless(target, None, fence).await
    }

    /// The same, but a file that the catalog has in the generation `newest` stays there: work that waited while newer rules
    /// came does not point it back.
    ///
    /// # Errors
    /// As [`Centrifuge::run`].
    pub async fn run_unless(
        &self,
        target: &Target,
        newest: Option<Generation>,
        fence: Fence<'_>,
    ) -> Result<CentrifugeReport, Error> {
        let newest = newest.filter(|newest| *newest != target.generation);
        let newest = newest.map(|newest| newest.to_string());
        let is_newer = |known: Option<&KnownFile>| {
            let known = known.map(|known| &known.facts.generation);
            known.is_some() && known == newest.as_ref()
        };
        let known = self.catalog.known(&target.file.to_string()).await?;
        if is_newer(known.as_ref()) {
            return Ok(CentrifugeReport::default());
        }
        let found = archive_index::find(&self.plant, target.generation, &target.file).await?;
        let Some(Found { key, bytes: index }) = found else {
            return Err(Error::NoIndex {
                store: self.plant.public.id().to_owned(),
                key: Key::autoclaved(target.generation, &target.file),
            });
        };
        let known = self.read_index(target, &key, index.clone()).await?;
        let versions = self.features.versions(&known.kind);
        let mut report = CentrifugeReport {
            index_bytes: index.len() as u64,
            ..CentrifugeReport::default()
        };
        for _ in 0..ROUNDS_MAX {
            let before = self.catalog.known(&known.facts.name).await?;
            if is_newer(before.as_ref()) {
                return Ok(report);
            }
            let decision =
                cannery_catalog::decide::decide(&known.facts, before.as_ref(), &versions);
            report.decisions.push(decision.clone());
            let state = before.map(|file| file.facts.state());
            let work = Step {
                target,
                known: &known,
                index: &index,
                decision,
                state,
            };
            match self.step(work, fence, &mut report).await {
                Ok(true) => {}
                Ok(false) => return Ok(report),
                // Somebody else was at it: what is to be done may be something else now.
                Err(Error::Catalog(error)) if error.kind == ErrorKind::Conflict => {
                    fence().await.map_err(|why| refused(&why))?;
                }
                Err(error) => return Err(error),
            }
        }
        let why = format!("it was changed by others in each of {ROUNDS_MAX} rounds");
        Err(Error::Catalog(CatalogError::new(ErrorKind::Conflict, why)))
    }

    async fn read_index(&self, target: &Target, key: &Key, index: Bytes) -> Result<Known, Error> {
        let about = (target.generation, target.file.clone());
        let read = blocking(move || facts::read(&index, about.0, &about.1)).await;
        read.map_err(|why| self.failed(why))?
            .map_err(|fault| Error::unusable(&self.plant.public, key, &fault))
    }

    /// Does what was decided. Whether there may be more to do.
    async fn step(
        &self,
        step: Step<'_>,
        fence: Fence<'_>,
        report: &mut CentrifugeReport,
    ) -> Result<bool, Error> {
        let name = &step.known.facts.name;
        let (features, residual) = match &step.decision {
            Decision::Skip | Decision::NewerThanCode { .. } => return Ok(false),
            Decision::MarkCurrent { features } => {
                fence().await.map_err(|why| refused(&why))?;
                self.catalog.mark_current(name, features).await?;
                return Ok(true);
            }
            Decision::Repoint => (Vec::new(), Residual::Keep),
            Decision::Reprocess { features } => (features.clone(), Residual::Replace),
            Decision::Ingest | Decision::Reingest => {
                let versions = self.features.versions(&step.known.kind);
                let names = versions.into_iter().map(|feature| feature.name);
                (names.collect(), Residual::Replace)
            }
        };
        let is_whole = matches!(step.decision, Decision::Ingest | Decision::Reingest);
        let replaces = step.target.replaces.iter().filter(|_| is_whole);
        let load = self.catalog.load(LoadPlan {
            facts: step.known.facts.clone(),
            decision: step.decision.clone(),
            expected: step.state.clone(),
            features: if is_whole {
                features.clone()
            } else {
                Vec::new()
            },
            replaces: replaces.map(ToString::to_string).collect(),
            residual,
        });
        let load = load.await?;
        let reads_text = residual == Residual::Replace || !step.known.has_uids;
        let load = self.push(load, &step, features, reads_text, report).await?;
        add(&mut report.committed, load.commit(fence()).await?);
        Ok(true)
    }

    /// Pushes everything that the file has. The reading and extracting is done on other threads, a little ahead.
    async fn push(
        &self,
        mut load: Load,
        step: &Step<'_>,
        wanted: Vec<String>,
        reads_text: bool,
        report: &mut CentrifugeReport,
    ) -> Result<Load, Error> {
        let key = Key::autoclaved(step.target.generation, &step.target.file);
        let archive = match reads_text {
            true => Some(fetch_file(&self.plant.public, &key, &self.plant.scratch).await?),
            false => None,
        };
        if archive.is_some() {
            report.bytes_in += step.known.facts.file_size;
        }
        let (send, mut receive) = mpsc::channel(BATCHES_AHEAD);
        let spin = Spin {
            archive,
            index: step.index.clone(),
            codec: step.target.file.name.codec(),
            kind: step.known.kind.clone(),
            features: Arc::clone(&self.features),
            wanted: wanted.into_iter().collect::<BTreeSet<_>>(),
            lake_key: self.plant.lake_key.clone(),
            is_residual_kept: matches!(step.decision, Decision::Repoint),
        };
        let spinning = tokio::task::spawn_blocking(move || spin.run(&send));
        let mut failed = None;
        while let Some(batch) = receive.recv().await {
            if let Err(error) = push_all(&mut load, batch, report).await {
                failed = Some(error);
                break;
            }
        }
        // The thread ends once nobody takes what it sends.
        drop(receive);
        let spun = spinning.await.map_err(io::Error::other);
        if let Some(error) = failed {
            return Err(error.into());
        }
        match spun.map_err(|why| self.failed(why))? {
            Ok(()) => Ok(load),
            Err(ArchiveFault::Io(why)) => Err(self.failed(why)),
            Err(fault) => Err(Error::unusable(&self.plant.public, &key, &fault)),
        }
    }

    fn failed(&self, why: io::Error) -> Error {
        Error::scratch(self.plant.scratch.folder(), why)
    }
}

struct Step<'s> {
    target: &'s Target,
    known: &'s Known,
    index: &'s Bytes,
    decision: Decision,
    state: Option<FileState>,
}

async fn push_all(
    load: &mut Load,
    batch: Vec<Push>,
    report: &mut CentrifugeReport,
) -> Result<(), CatalogError> {
    for push in batch {
        match push {
            Push::Report(new) => load.report(&new).await?,
            Push::Measurement(new, bad_rows) => {
                load.measurement(new).await?;
                report.measurements += 1;
                for row in bad_rows {
                    load.bad_row(&row).await?;
                }
            }
            Push::BadBlob(new) => load.bad_blob(&new).await?,
            Push::Residual(skeleton, count) => load.residual(&skeleton, count).await?,
        }
    }
    Ok(())
}

fn refused(why: &str) -> Error {
    let why = format!("the load may not go on: {why}");
    Error::Catalog(CatalogError::new(ErrorKind::Conflict, why))
}

fn add(sum: &mut Committed, more: Committed) {
    sum.added += more.added;
    sum.removed += more.removed;
    sum.duplicates += more.duplicates;
    sum.bad_rows += more.bad_rows;
    sum.dates.extend(more.dates);
    sum.outdated.extend(more.outdated);
}
