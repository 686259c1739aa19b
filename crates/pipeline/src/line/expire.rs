//! What is kept no longer is to go.

use cannery_formats::can::{BucketFile, Expired, FileName};
use cannery_formats::{Key, Kind};
use cannery_journal::worker::Work;
use cannery_lake::present;

use super::catch_up::Standing;
use super::follow::file_key;
use super::stages::complaint;
use super::{Finished, Line};
use crate::cans::BucketState;
use crate::error::Error;
use crate::expire::MARKED_FOR;
use crate::stage::{Stage, StageKey};

impl Line {
    /// The files of a bucket of which something should go.
    pub(super) async fn over(
        &self,
        state: &BucketState,
        standing: &Standing,
    ) -> Result<Vec<StageKey>, Error> {
        let (keep, now) = (&self.0.parts.keep, self.0.parts.plant.clock.now());
        let mut over = Vec::new();
        let may_be = state.is_sealed && keep.is_any_over(state.bucket, now);
        if !may_be || state.needs_sealed_cans() {
            return Ok(over);
        }
        let has_archive = |name: &FileName| {
            let file = BucketFile::new(state.bucket, name.clone()).to_string();
            !state.expired_archives.contains(name)
                || standing.archived.contains(name)
                || standing.loaded.contains_key(&file)
        };
        let sealed = Key::canned_index(state.bucket);
        let names = self.0.indexes.names(&sealed).await?;
        let mut files = names.files.iter();
        if !files.any(|name| state.cans.contains(name) || has_archive(name)) {
            return Ok(over);
        }
        for (name, kind) in self.cans_of(&sealed).await? {
            let of_kind = keep.over(&kind, state.bucket, now);
            let can = of_kind.can && state.cans.contains(&name);
            let archive = of_kind.archive && has_archive(&name);
            // What is made again right now is not proven yet.
            if !(can || archive) || standing.lacks(&name).is_some() {
                continue;
            }
            over.push(file_key(Stage::Expire, state.bucket, kind, &name));
        }
        Ok(over)
    }

    /// Removes what is kept no longer of a file. What has to wait is found again when lake and catalog are compared.
    pub(super) async fn expire(
        &self,
        key: &StageKey,
        kind: &Kind,
        name: FileName,
        work: &Work,
    ) -> Result<Finished, Error> {
        let file = BucketFile::new(key.bucket, name);
        let report = self.0.expirer.file(kind, &file).await?;
        let priority = work.entry.meta.priority;
        self.add_aggregates(&report.dates, priority).await?;
        for name in &report.outdated {
            self.load_again(name, work).await?;
        }
        if !report.removed.is_empty() {
            self.add_join(key.bucket, priority).await?;
        }
        Ok(Finished {
            complaint: complaint(&report.kept),
            again: report.is_marked.then_some(MARKED_FOR.unsigned_abs()),
            ..Finished::new((report.bytes_in, 0), &report)
        })
    }

    /// Whether a file was removed on purpose.
    pub(super) async fn is_expired(&self, file: &BucketFile, what: Expired) -> Result<bool, Error> {
        let raw = &self.0.parts.plant.raw;
        let is_marked = present(raw.head(&Key::expired(file, what)).await)?.is_some();
        Ok(match what {
            // A mark comes a day before a can goes.
            Expired::Can => is_marked && present(raw.head(&Key::canned(file)).await)?.is_none(),
            Expired::Archive => is_marked,
        })
    }
}
