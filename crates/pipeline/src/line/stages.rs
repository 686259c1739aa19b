//! What each stage does with its key, and what follows.

use std::collections::BTreeSet;
use std::time::Duration;

use cannery_catalog::Decision;
use cannery_formats::can::{BucketFile, CannedObject, Expired, FileName};
use cannery_formats::{Key, Kind};
use cannery_journal::Data;
use cannery_journal::worker::Work;
use cannery_lake::ErrorKind;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::Serialize;

use super::follow::INDEX;
use super::generation::GENERATIONS;
use super::{Finished, Line, ToCentrifuge};
use crate::centrifuge::{CentrifugeReport, Target};
use crate::cover::hour_of;
use crate::discover::ToCan;
use crate::error::Error;
use crate::generation::{current, in_force};
use crate::joined::join;
use crate::seal::Replaces;
use crate::stage::{Stage, StageKey};
use crate::succession::{Succession, record_of};
use crate::verify::Finding;

/// A query over the rows of a date.
const AGGREGATE_BYTES: u64 = 16 << 20;
/// A sweep that has to wait is not tried more often.
const SWEEP_AGAIN_MIN: Duration = Duration::from_secs(60);

impl Finished {
    pub(super) fn new(bytes: (u64, u64), report: &impl Serialize) -> Self {
        Self {
            bytes,
            // A report is plain data; one that does not become JSON is no reason to do its work again.
            report: serde_json::to_value(report).unwrap_or_default(),
            complaint: None,
            again: None,
        }
    }

    /// There was nothing to do.
    fn nothing() -> Self {
        Self::new((0, 0), &())
    }

    pub(super) fn complaining(reason: impl Into<String>) -> Self {
        Self {
            complaint: Some(reason.into()),
            ..Self::nothing()
        }
    }
}

impl Line {
    /// The memory that the work of a key takes, about: what it is let in by.
    #[must_use]
    pub fn need_bytes(&self, key: &StageKey) -> u64 {
        let inner = &self.0;
        match key.stage {
            Stage::Can => inner.canner.memory_bytes(),
            Stage::Seal => inner.sealer.memory_bytes(),
            Stage::Autoclave => inner.autoclave.memory_bytes(),
            Stage::Centrifuge => inner.centrifuge.memory_bytes(),
            Stage::Aggregate => AGGREGATE_BYTES,
            Stage::Cover => inner.coverer.memory_bytes(),
            Stage::Verify => inner.verifier.memory_bytes(),
            Stage::Clear => inner.clearer.memory_bytes(),
            Stage::Sweep => inner.sweeper.memory_bytes(),
            Stage::Expire => inner.expirer.memory_bytes(),
            Stage::Discover => 0,
        }
    }

    /// Runs a stage.
    pub(super) async fn run(&self, key: &StageKey, work: &Work) -> Result<Finished, Error> {
        match (key.stage, &key.kind, &key.slice) {
            (Stage::Can, Some(kind), Some(_)) => self.can(key, kind, work).await,
            (Stage::Seal, None, None) => self.seal(key).await,
            (Stage::Seal, None, Some(slice)) if slice == INDEX => self.join(key).await,
            (Stage::Autoclave, Some(kind), Some(file)) => match FileName::new(file) {
                Ok(name) => self.autoclave(key, kind, name, work).await,
                Err(error) => Ok(Finished::complaining(error.to_string())),
            },
            (Stage::Centrifuge, Some(kind), Some(file)) => match FileName::new(file) {
                Ok(name) => self.centrifuge(key, kind, name, work).await,
                Err(error) => Ok(Finished::complaining(error.to_string())),
            },
            (Stage::Expire, Some(kind), Some(file)) => match FileName::new(file) {
                Ok(name) => self.expire(key, kind, name, work).await,
                Err(error) => Ok(Finished::complaining(error.to_string())),
            },
            (Stage::Aggregate, None, None) => {
                let date = key.bucket.to_string();
                self.0.parts.catalog.recompute([date.as_str()]).await?;
                Ok(Finished::nothing())
            }
            (Stage::Cover, Some(Kind::Feed(feed)), Some(_)) => match hour_of(key) {
                Some(hour) => {
                    let covered = self.0.coverer.hour(feed, hour).await?;
                    let bytes = covered.row.as_ref().map_or(0, |row| row.bytes);
                    Ok(Finished::new((bytes, 0), &covered))
                }
                None => Ok(Finished::complaining(format!("`{key}` is no hour"))),
            },
            (Stage::Verify, None, None) => self.verify(key).await,
            (Stage::Clear, None, None) => self.clear(key).await,
            (Stage::Sweep, None, None) => self.sweep(key, work).await,
            (Stage::Sweep, None, Some(slice)) if slice == GENERATIONS => {
                self.sweep_old(key, work).await
            }
            (
                Stage::Discover
                | Stage::Can
                | Stage::Seal
                | Stage::Autoclave
                | Stage::Centrifuge
                | Stage::Verify
                | Stage::Clear
                | Stage::Sweep
                | Stage::Expire
                | Stage::Aggregate
                | Stage::Cover,
                _,
                _,
            ) => Ok(Finished::complaining(format!(
                "`{key}` is no work of the line"
            ))),
        }
    }

    /// Reads a bucket from end to end.
    async fn verify(&self, key: &StageKey) -> Result<Finished, Error> {
        let inner = &self.0;
        let generation = in_force(&inner.parts.plant).await?;
        let generation = generation.unwrap_or_else(|| inner.autoclave.generation());
        let report = inner.verifier.bucket(key.bucket, generation).await?;
        Ok(Finished {
            complaint: complaint(&report.findings),
            ..Finished::new((report.bytes_in, 0), &report)
        })
    }

    /// Work that was added while reports were to be removed is nothing when they are not any more.
    async fn clear(&self, key: &StageKey) -> Result<Finished, Error> {
        if !self.0.parts.reports_remove {
            return Ok(Finished::nothing());
        }
        let report = self.0.clearer.bucket(key.bucket).await?;
        Ok(Finished {
            complaint: complaint(&report.kept),
            ..Finished::new((report.bytes_in, 0), &report)
        })
    }

    async fn sweep(&self, key: &StageKey, work: &Work) -> Result<Finished, Error> {
        let report = self.0.sweeper.bucket(key.bucket).await?;
        self.add_aggregates(&report.dates, work.entry.meta.priority)
            .await?;
        for name in &report.outdated {
            self.load_again(name, work).await?;
        }
        let again = report.is_waiting.then(|| self.sweeps_again_after());
        Ok(Finished {
            complaint: complaint(&report.kept).filter(|_| again.is_none()),
            again,
            ..Finished::new((report.bytes_in, 0), &report)
        })
    }

    /// When a sweep that has to wait is tried again.
    pub(super) fn sweeps_again_after(&self) -> Duration {
        self.0.parts.timing.sweep_grace.max(SWEEP_AGAIN_MIN)
    }

    async fn can(&self, key: &StageKey, kind: &Kind, work: &Work) -> Result<Finished, Error> {
        let to_can: ToCan = match payload(&work.entry.data) {
            Ok(to_can) => to_can.unwrap_or_default(),
            Err(reason) => return Ok(Finished::complaining(reason)),
        };
        let (inner, now) = (&self.0, self.0.parts.plant.clock.elapsed());
        let is_new = |key: &Key| !inner.refusals.is_fresh(key, now);
        let keys: Vec<Key> = to_can.inputs.into_iter().filter(is_new).collect();
        let report = inner.canner.open(key.bucket, kind, &keys).await?;
        for refused in &report.refused {
            inner.refusals.note(refused.key.clone(), now);
        }
        if !report.is_closed {
            self.add_covers(&keys, &report.refused, work.entry.meta.priority)
                .await?;
        }
        let mut finished = Finished::new((report.bytes_in, report.bytes_out), &report);
        let refused = report.refused.iter();
        let reasons: Vec<String> = refused
            .map(|refused| format!("cannot use `{}`: {}", refused.key, refused.why))
            .collect();
        if !reasons.is_empty() {
            let reason = format!("{}; the other inputs were canned", reasons.join("; "));
            finished.complaint = self.unless_known(work, reason).await?;
        }
        Ok(finished)
    }

    /// The reason, unless it is on the dead list already: what cannot be used is found again and again.
    async fn unless_known(&self, work: &Work, reason: String) -> Result<Option<String>, Error> {
        let known = self.0.parts.journal.get(work.entry.key.clone()).await?;
        let deaths = known.iter().filter_map(|entry| entry.death.as_ref());
        let is_known = deaths.into_iter().any(|death| *death.reason == *reason);
        Ok((!is_known).then_some(reason))
    }

    async fn seal(&self, key: &StageKey) -> Result<Finished, Error> {
        let report = self.0.sealer.seal(key.bucket).await?;
        if self.0.parts.reports_remove {
            self.add_clear(key.bucket).await?;
        }
        self.add_sweep(key.bucket).await?;
        Ok(Finished::new((report.bytes_in, report.bytes_out), &report))
    }

    async fn autoclave(
        &self,
        key: &StageKey,
        kind: &Kind,
        name: FileName,
        work: &Work,
    ) -> Result<Finished, Error> {
        let replaces: Replaces = match payload(&work.entry.data) {
            Ok(replaces) => replaces.unwrap_or_default(),
            Err(reason) => return Ok(Finished::complaining(reason)),
        };
        let inner = &self.0;
        let record = record_of(&inner.indexes, key.bucket, Some(kind), &name).await?;
        // A can that counts no more has been replaced by others, which have work of their own.
        let Some(record) = record else {
            return Ok(Finished::nothing());
        };
        let report = match inner.autoclave.run(&record).await {
            // It was removed on purpose, and what was made of it is all that there will be.
            Err(Error::Lake(error))
                if error.kind == ErrorKind::Absent
                    && self.is_expired(&record.filename, Expired::Can).await? =>
            {
                return Ok(Finished::nothing());
            }
            ran => ran?,
        };
        let to = ToCentrifuge {
            generation: inner.autoclave.generation(),
            replaces: replaces.replaces,
        };
        let file = (key.bucket, kind.clone(), &name);
        self.add_centrifuge(file, work.entry.meta.priority, &to)
            .await?;
        if !matches!(
            CannedObject::parse(name.as_str()),
            Some(CannedObject::Open { .. })
        ) {
            self.add_join(key.bucket, work.entry.meta.priority).await?;
        }
        Ok(Finished::new((report.bytes_in, report.bytes_out), &report))
    }

    /// Joins the indexes of a sealed bucket, if all are there.
    async fn join(&self, key: &StageKey) -> Result<Finished, Error> {
        let inner = &self.0;
        let current = current(&inner.parts.plant.public).await?;
        let generation = match current {
            Some(current) => current.newest().generation,
            None => inner.autoclave.generation(),
        };
        let report = join(&inner.parts.plant, key.bucket, generation).await?;
        Ok(Finished::new((report.bytes_in, report.bytes_out), &report))
    }

    async fn centrifuge(
        &self,
        key: &StageKey,
        kind: &Kind,
        name: FileName,
        work: &Work,
    ) -> Result<Finished, Error> {
        let to: Option<ToCentrifuge> = match payload(&work.entry.data) {
            Ok(to) => to,
            Err(reason) => return Ok(Finished::complaining(reason)),
        };
        let inner = &self.0;
        let generation = to.map_or_else(|| inner.autoclave.generation(), |to| to.generation);
        let record = record_of(&inner.indexes, key.bucket, Some(kind), &name).await?;
        if record.is_none() {
            return Ok(Finished::nothing());
        }
        let file = BucketFile::new(key.bucket, name);
        let target = Target {
            generation,
            replaces: self.may_go(&file).await?,
            file,
        };
        let fence = self.fence(work);
        let current = current(&inner.parts.plant.public).await?;
        let newest = current.as_ref().map(|it| it.newest().generation);
        let centrifuge = &inner.centrifuge;
        let report = match centrifuge.run_unless(&target, newest, &*fence).await {
            Err(Error::NoIndex { .. })
                if self.is_expired(&target.file, Expired::Archive).await? =>
            {
                return Ok(Finished::nothing());
            }
            Err(Error::NoIndex { .. }) if self.is_expired(&target.file, Expired::Can).await? => {
                // Newer rules could not make it: it stays where it is.
                self.stays(&target, work).await?;
                return Ok(Finished::nothing());
            }
            ran => ran?,
        };
        self.after_centrifuge(&report, work).await?;
        if current.is_some_and(|it| it.next.is_some()) && newest == Some(generation) {
            self.take_over(generation).await?;
        }
        let bytes_in = report.bytes_in + report.index_bytes;
        Ok(match report.decisions.last() {
            Some(Decision::NewerThanCode { .. }) => Finished::complaining(
                "it was loaded by a newer version of a feature; use the newer program",
            ),
            _ => Finished::new((bytes_in, 0), &report),
        })
    }

    /// An archive that is in no other generation than the catalog says is looked at there.
    async fn stays(&self, target: &Target, work: &Work) -> Result<(), Error> {
        let name = target.file.to_string();
        let known = self.0.parts.catalog.known(&name).await?;
        match known.is_some_and(|known| known.facts.generation != target.generation.to_string()) {
            true => self.load_again(&name, work).await,
            false => Ok(()),
        }
    }

    /// The open cans that the catalog may forget when this file is loaded: all other sealed cans with their reports are
    /// loaded. Until then a measurement would be nowhere.
    async fn may_go(&self, file: &BucketFile) -> Result<Vec<BucketFile>, Error> {
        let (indexes, catalog) = (&self.0.indexes, &self.0.parts.catalog);
        let Some(succession) = Succession::read(indexes, file.bucket).await? else {
            return Ok(Vec::new());
        };
        let mut may_go = Vec::new();
        'replaced: for replaced in succession.replaced_by(&file.name) {
            let others = replaced
                .successors
                .iter()
                .filter(|name| **name != file.name);
            for other in others {
                let other = BucketFile::new(file.bucket, other.clone());
                if catalog.known(&other.to_string()).await?.is_none() {
                    continue 'replaced;
                }
            }
            may_go.push(replaced.record.filename.clone());
        }
        Ok(may_go)
    }

    /// Says no once the lease is lost: a commit must not come from somebody whose work is done by another.
    fn fence(
        &self,
        work: &Work,
    ) -> Box<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync> {
        let journal = self.0.parts.journal.clone();
        let token = work.entry.lease.as_ref().map(|lease| lease.token);
        Box::new(move || {
            let journal = journal.clone();
            async move {
                let token = token.ok_or("the work has no lease")?;
                let beat = journal.heartbeat(token).await;
                beat.map(drop).map_err(|error| error.to_string())
            }
            .boxed()
        })
    }

    /// Adds what follows a load. A file that was not even read may be one whose loader died before it did.
    async fn after_centrifuge(&self, report: &CentrifugeReport, work: &Work) -> Result<(), Error> {
        if !self.0.parts.features.aggregates().is_empty() {
            let dates = match report.decisions.as_slice() {
                [Decision::Skip] => {
                    let touched = self.0.parts.catalog.touched_dates().await?;
                    touched.into_iter().collect()
                }
                _ => report.committed.dates.clone(),
            };
            self.add_aggregates(&dates, work.entry.meta.priority)
                .await?;
        }
        for name in &report.committed.outdated {
            self.load_again(name, work).await?;
        }
        Ok(())
    }

    /// A file that holds measurements now which another held: their rows are to be made.
    pub(super) async fn load_again(&self, name: &str, work: &Work) -> Result<(), Error> {
        let Some(known) = self.0.parts.catalog.known(name).await? else {
            return Ok(());
        };
        let facts = known.facts;
        let file = facts
            .name
            .split_once('/')
            .map(|(_, file)| FileName::new(file));
        let parsed = (
            facts.bucket.parse(),
            facts.kind.parse(),
            file,
            facts.generation.parse(),
        );
        let (Ok(bucket), Ok(kind), Some(Ok(file)), Ok(generation)) = parsed else {
            tracing::error!(
                name,
                "the catalog has a file whose name is none; run `cannery rebuild`"
            );
            return Ok(());
        };
        let to = ToCentrifuge {
            generation,
            replaces: BTreeSet::new(),
        };
        self.add_centrifuge((bucket, kind, &file), work.entry.meta.priority, &to)
            .await
    }
}

/// What is wrong, in a sentence for a person.
pub(super) fn complaint(findings: &[Finding]) -> Option<String> {
    let first = findings.first()?;
    let (key, why) = (&first.key, &first.why);
    Some(match findings.len() {
        1 => format!("`{key}`: {why}"),
        count => format!("`{key}`: {why}; and {} more", count - 1),
    })
}

/// What an entry says; nothing for `null`.
pub(super) fn payload<T: serde::de::DeserializeOwned>(data: &Data) -> Result<Option<T>, String> {
    data.to().map_err(|error| error.to_string())
}
