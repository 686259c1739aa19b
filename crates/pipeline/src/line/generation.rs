//! The generation of newer rules takes over, and what older ones made is to go.

use std::collections::{BTreeMap, BTreeSet};

use cannery_formats::archive::Generation;
use cannery_formats::{BucketDate, Key};
use cannery_journal::worker::Work;
use cannery_journal::{Data, NewEntry, Priority};
use futures::TryStreamExt as _;
use serde::{Deserialize, Serialize};

use super::follow::date_key;
use super::stages::{complaint, payload};
use super::{Finished, Line};
use crate::canning::add_all;
use crate::error::Error;
use crate::generation::{TakeOver, current, take_over};
use crate::stage::{Stage, StageKey};

/// The slice of a sweep that is about old generations, not about the open cans of a sealed bucket.
pub(super) const GENERATIONS: &str = "generations";

/// What the entry of such a sweep says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ToSweep {
    generations: BTreeSet<Generation>,
}

impl Line {
    /// Puts a generation in force if it is the next and nothing is left to be done for it. It may be called at any time.
    pub(super) async fn take_over(&self, generation: Generation) -> Result<(), Error> {
        let parts = &self.0.parts;
        match take_over(&parts.plant, &parts.catalog, generation).await? {
            TakeOver::Done => {
                tracing::info!(%generation, "the archives of the newer rules are in force");
                self.add_old_generations().await?;
            }
            TakeOver::HeldUp(file) => {
                tracing::debug!(%generation, file, "the archives of the newer rules are not all there yet");
            }
            TakeOver::NotNext => {}
        }
        Ok(())
    }

    /// What older rules made is to be removed, in time; for how many buckets.
    pub(super) async fn add_old_generations(&self) -> Result<u64, Error> {
        let parts = &self.0.parts;
        let Some(current) = current(&parts.plant.public).await? else {
            return Ok(0);
        };
        if current.next.is_some() {
            return Ok(0);
        }
        let now = parts.plant.clock.now();
        let due = current.since.unwrap_or(now);
        let due = due.checked_add(parts.timing.sweep_grace).unwrap_or(now);
        let pause = due.duration_since(now).max(jiff::SignedDuration::ZERO);
        let mut entries = Vec::new();
        for (bucket, generations) in self.old_generations(current.in_force.generation).await? {
            let key = old_key(bucket);
            if self.is_given_up(&key).await? {
                continue;
            }
            entries.push(NewEntry {
                priority: Some(Priority::UPDATES),
                process_date: self.due_after(pause.unsigned_abs()),
                ..NewEntry::new(key.to_string(), Data::from_value(&ToSweep { generations })?)
            });
        }
        let count = entries.len() as u64;
        add_all(&parts.journal, entries).await?;
        Ok(count)
    }

    /// The buckets that have something of a generation that is not in force.
    pub(super) async fn old_generations(
        &self,
        in_force: Generation,
    ) -> Result<BTreeMap<BucketDate, BTreeSet<Generation>>, Error> {
        let mut old = BTreeMap::<_, BTreeSet<_>>::new();
        let mut archives = self
            .0
            .parts
            .plant
            .public
            .list(Some(&Key::autoclaved_folder()));
        while let Some(entry) = archives.try_next().await? {
            if let Some((generation, bucket, _)) = entry.key.as_autoclaved()
                && generation != in_force
            {
                old.entry(bucket).or_default().insert(generation);
            }
        }
        Ok(old)
    }

    /// Removes what older rules made of a bucket.
    pub(super) async fn sweep_old(&self, key: &StageKey, work: &Work) -> Result<Finished, Error> {
        let to: ToSweep = match payload(&work.entry.data) {
            Ok(to) => to.unwrap_or_default(),
            Err(reason) => return Ok(Finished::complaining(reason)),
        };
        let sweeper = &self.0.sweeper;
        let report = sweeper.generations(key.bucket, &to.generations).await?;
        let again = report.is_waiting.then(|| self.sweeps_again_after());
        Ok(Finished {
            complaint: complaint(&report.kept).filter(|_| again.is_none()),
            again,
            ..Finished::new((report.bytes_in, 0), &report)
        })
    }
}

fn old_key(bucket: BucketDate) -> StageKey {
    StageKey {
        slice: Some(GENERATIONS.to_owned()),
        ..date_key(Stage::Sweep, bucket)
    }
}
