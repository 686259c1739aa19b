//! Bytes that no name has any more go, after a while; so do bytes that never got a name.

use std::collections::BTreeSet;
use std::time::Duration;

use cannery_formats::Key;
use cannery_lake::{Lake, Mirrors};
use cannery_runtime::Rng;
use cannery_state::State;
use cannery_state::objects::GarbageCandidate;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;

use crate::error::{ObjectError, ObjectErrorKind};
use crate::log_writer::LogWriter;
use crate::user_records::record_users;

/// Candidates of one round.
const CANDIDATES_MAX: usize = 500;

/// How many are deleted at once.
const DELETIONS_AT_ONCE: usize = 16;

/// How long bytes stay that have no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepGrace {
    /// After they lost their last one: readers that began before have ended by then.
    pub unnamed: Duration,
    /// After they were put, by the clock of the store, without ever getting one. Longer than twelve hours: so long an upload
    /// has to get its name.
    pub orphaned: Duration,
}

impl Default for SweepGrace {
    fn default() -> Self {
        Self {
            unnamed: Duration::from_secs(3_600),
            orphaned: Duration::from_secs(86_400),
        }
    }
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Bytes that were deleted from every mirror.
    pub deleted: u64,
    /// Those of them that never had a name.
    pub orphans: u64,
    /// Bytes that another name still has.
    pub kept: u64,
    /// Bytes that could not be deleted, or were left alone because their key is none of ours; the next sweep tries again.
    pub failed: u64,
}

pub(crate) struct Sweep<'a> {
    pub(crate) state: &'a State,
    pub(crate) mirrors: &'a Mirrors,
    pub(crate) rng: &'a Rng,
    pub(crate) writer: LogWriter,
    pub(crate) now: Timestamp,
    pub(crate) grace: SweepGrace,
    /// A database that knows fewer changes is not the one that it was.
    pub(crate) version: u64,
    pub(crate) report: SweepReport,
}

impl Sweep<'_> {
    /// Safe to repeat, and to be cut off anywhere.
    pub(crate) async fn run(mut self) -> Result<SweepReport, ObjectError> {
        record_users(self.state, self.mirrors).await?;
        while self
            .state
            .remove_entries_of_removed_users(CANDIDATES_MAX, self.version)
            .await
            .map_err(older)?
        {}
        self.unnamed().await?;
        for lake in self.mirrors.iter() {
            self.orphaned(lake).await?;
        }
        Ok(self.report)
    }

    async fn unnamed(&mut self) -> Result<(), ObjectError> {
        let until = before(self.now, self.grace.unnamed).as_millisecond();
        let mut last: Option<GarbageCandidate> = None;
        loop {
            let candidates = self
                .state
                .object_garbage(until, last.as_ref(), CANDIDATES_MAX)
                .await?;
            if candidates.is_empty() {
                return Ok(());
            }
            last = candidates.last().cloned();
            // Who reads the log must not find bytes named that are gone: the changes that took their names go there first.
            let version = self.state.object_version().await?;
            self.writer.log_through(version).await?;
            let (doomed, open): (Vec<_>, Vec<_>) =
                candidates.into_iter().partition(|one| one.is_doomed);
            let open: BTreeSet<String> = open.into_iter().map(|one| one.data).collect();
            let mut doomed: BTreeSet<String> = doomed.into_iter().map(|one| one.data).collect();
            let unnamed = self
                .state
                .doom_garbage(&open, until, self.version)
                .await
                .map_err(older)?;
            self.report.kept += (open.len() - unnamed.len()) as u64;
            doomed.extend(unnamed);
            self.delete(&doomed).await?;
        }
    }

    /// Bytes that somebody put long ago and that nobody knows of.
    async fn orphaned(&mut self, lake: &Lake) -> Result<(), ObjectError> {
        let until = before(self.time_of(lake).await?, self.grace.orphaned);
        let mut listed = lake.list(Some(&Key::users()));
        let mut found = BTreeSet::new();
        while let Some(entry) = listed.try_next().await? {
            if entry.key.as_user_data().is_some() && entry.modified <= until {
                found.insert(entry.key.to_string());
            }
            if found.len() == CANDIDATES_MAX {
                self.delete_orphans(std::mem::take(&mut found)).await?;
            }
        }
        self.delete_orphans(found).await
    }

    /// What time it is by the clock of the store, which dates its objects: that of something just put.
    async fn time_of(&self, lake: &Lake) -> Result<Timestamp, ObjectError> {
        let key = Key::probe(&self.rng.id(), "time");
        lake.put_new(&key, Vec::from(*b"time")).await?;
        let head = lake.head(&key).await?;
        if let Err(error) = lake.delete(&key).await {
            tracing::warn!(%key, %error, "cannot delete what told the time of the store; it does no harm");
        }
        Ok(head.modified)
    }

    async fn delete_orphans(&mut self, found: BTreeSet<String>) -> Result<(), ObjectError> {
        if found.is_empty() {
            return Ok(());
        }
        let orphans = self
            .state
            .doom_orphans(&found, self.version)
            .await
            .map_err(older)?;
        let before = self.report.deleted;
        self.delete(&orphans).await?;
        self.report.orphans += self.report.deleted - before;
        Ok(())
    }

    /// Deletes bytes that are settled to go. One that cannot be deleted does not keep the others.
    async fn delete(&mut self, doomed: &BTreeSet<String>) -> Result<(), ObjectError> {
        let deletions = doomed.iter().map(|data| {
            let (mirrors, data) = (self.mirrors, data.clone());
            async move { (delete_one(mirrors, &data).await, data) }
        });
        let mut deletions = stream::iter(deletions).buffer_unordered(DELETIONS_AT_ONCE);
        let mut deleted = BTreeSet::new();
        while let Some((outcome, data)) = deletions.next().await {
            match outcome {
                Ok(()) => {
                    deleted.insert(data);
                }
                Err(error) => {
                    self.report.failed += 1;
                    tracing::warn!(data, %error, "cannot delete bytes of users' objects; the next sweep tries again");
                }
            }
        }
        self.report.deleted += deleted.len() as u64;
        Ok(self.state.forget_garbage(&deleted).await?)
    }
}

/// The database refuses nothing else of a sweep as invalid.
fn older(error: cannery_state::Error) -> ObjectError {
    match error.kind {
        cannery_state::ErrorKind::Invalid => {
            ObjectError::new(ObjectErrorKind::BehindLake, error.message)
        }
        _ => error.into(),
    }
}

fn before(moment: Timestamp, grace: Duration) -> Timestamp {
    moment.checked_sub(grace).unwrap_or(Timestamp::MIN)
}

async fn delete_one(mirrors: &Mirrors, data: &str) -> Result<(), ObjectError> {
    // Only what has the form of users' bytes is ever deleted, whatever a row says.
    let key = Key::new(data)
        .ok()
        .filter(|key| key.as_user_data().is_some())
        .ok_or_else(|| ObjectError::unavailable("it is not the key of a user's bytes"))?;
    for lake in mirrors.iter() {
        lake.purge(&key).await?;
    }
    Ok(())
}
