//! The rows of all objects anew, from the lake: the newest snapshot, and every line of the log above it, in every mirror.
//!
//! Lines may be there twice and in any order; of each path the highest version counts. What was read is staged beside the rows
//! that are there, and takes their place in one transaction. So a rebuild that is cut off has changed nothing, and one during
//! which an object is changed is refused.

mod read_log;
mod users;

use std::collections::BTreeSet;

use cannery_formats::{Key, ObjectChange};
use cannery_lake::Mirrors;
use cannery_state::State;
use futures::stream::TryStreamExt as _;

use crate::error::{ObjectError, ObjectErrorKind};
use crate::lake_age::newest_version;
use crate::log_writer::LogWriter;
use crate::namespace::NamespaceParts;
use crate::ownership::{check_owner, take_over};
use crate::user_records::record_users;

/// Changes that are in memory at once.
const CHANGES_AT_ONCE: usize = 1_000;

/// What a rebuild did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RebuildReport {
    /// The version of the last change.
    pub version: u64,
    /// How many entries there are now.
    pub entries: u64,
    /// Parts of the log that were read.
    pub log_parts: u64,
    /// Users who are in the lake and were not in the database, or had another id there.
    pub users_restored: u64,
}

/// How far a rebuild is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RebuildProgress {
    /// Parts of the log that were read, and the snapshot.
    pub objects_read: u64,
    /// Lines that were read.
    pub lines_read: u64,
}

/// What is staged of one rebuild.
struct Staging<'a> {
    parts: &'a NamespaceParts,
    attempt: String,
    /// Lines up to this version are in the snapshot, or were deleted before it.
    snapshot: u64,
    /// The highest version that was read.
    newest: u64,
    waiting: Vec<ObjectChange>,
    progress: RebuildProgress,
    tell: &'a (dyn Fn(RebuildProgress) + Send + Sync),
}

/// Makes the rows of all objects, and of their users, what the lake says. No server should run: if one makes a change
/// meanwhile, nothing is done. Safe to repeat, and to be cut off anywhere. Keys, tokens and limits of users are not in the lake.
///
/// # Errors
/// `Corrupt` names what is damaged in the lake, or the users who share a name; `Invalid` when something was changed meanwhile.
pub async fn rebuild(
    parts: &NamespaceParts,
    tell: &(dyn Fn(RebuildProgress) + Send + Sync),
) -> Result<RebuildReport, ObjectError> {
    let (state, mirrors) = (&parts.state, &*parts.mirrors);
    let mut staging = Staging {
        parts,
        attempt: parts.rng.id(),
        snapshot: 0,
        newest: 0,
        waiting: Vec::new(),
        progress: RebuildProgress::default(),
        tell,
    };
    state.begin_rebuild(&staging.attempt).await?;
    record_users(state, mirrors).await?;
    let known = flush(parts, state, mirrors).await?;
    staging.read_snapshot().await?;
    let log_parts = staging.read_log().await?;
    staging.stage().await?;
    let version = newest_version(mirrors).await?;
    staging.check_read_through(version)?;
    let users = users::read(state, mirrors).await?;
    let plan = users.plan(&state.staged_accounts().await?)?;
    let entries = state
        .finish_rebuild(
            &staging.attempt,
            known,
            version,
            &users.removed,
            &plan.fixes,
        )
        .await?;
    users.abandon(mirrors, &plan.abandoned).await?;
    take_over(state, mirrors, &parts.rng).await?;
    record_users(state, mirrors).await?;
    Ok(RebuildReport {
        version: version.max(known),
        entries,
        log_parts,
        users_restored: plan.fixes.len() as u64,
    })
}

/// What a database that is not behind the lake has committed, and not logged, is not lost; an older one has nothing to add. The
/// version of the database.
async fn flush(
    parts: &NamespaceParts,
    state: &State,
    mirrors: &Mirrors,
) -> Result<u64, ObjectError> {
    let newest = newest_version(mirrors).await?;
    let known = state.object_version().await?;
    let is_ours = match check_owner(state, mirrors, &parts.rng).await {
        Ok(()) => true,
        Err(error) if error.kind == ObjectErrorKind::BehindLake => false,
        Err(error) => return Err(error),
    };
    if known >= newest && is_ours {
        LogWriter::new(parts).log_through(known).await?;
    }
    Ok(known)
}

impl Staging<'_> {
    /// Takes changes; those that the snapshot stands for do not count.
    async fn take(&mut self, changes: Vec<ObjectChange>) -> Result<(), ObjectError> {
        self.progress.lines_read += changes.len() as u64;
        let versions = changes.iter().map(|change| change.version);
        self.newest = versions.fold(self.newest, u64::max);
        self.waiting.extend(changes);
        if self.waiting.len() >= CHANGES_AT_ONCE {
            self.stage().await?;
        }
        Ok(())
    }

    /// # Errors
    /// `Invalid` unless everything up to the version that the lake has now was read.
    fn check_read_through(&self, version: u64) -> Result<(), ObjectError> {
        if version <= self.newest.max(self.snapshot) {
            return Ok(());
        }
        let message = "the log of users' objects was changed during the rebuild, which changes nothing; stop all servers and run it again";
        Err(ObjectError::new(ObjectErrorKind::Invalid, message))
    }

    async fn stage(&mut self) -> Result<(), ObjectError> {
        let changes = std::mem::take(&mut self.waiting);
        for some in changes.chunks(CHANGES_AT_ONCE) {
            self.parts.state.stage_changes(&self.attempt, some).await?;
        }
        (self.tell)(self.progress);
        Ok(())
    }

    /// Reads the snapshot of the highest version, from whichever mirror has a good one.
    async fn read_snapshot(&mut self) -> Result<(), ObjectError> {
        let mut found: BTreeSet<(u64, Key)> = BTreeSet::new();
        for lake in self.parts.mirrors.iter() {
            let mut listed = lake.list(Some(&Key::object_snapshots()));
            while let Some(entry) = listed.try_next().await? {
                if let Some(version) = entry.key.as_object_snapshot() {
                    found.insert((version, entry.key));
                }
            }
        }
        let Some(&(version, _)) = found.last() else {
            return Ok(());
        };
        let mut damage = None;
        for (_, key) in found.iter().filter(|(of, _)| *of == version) {
            match self.try_snapshot(key).await {
                Ok(()) => {
                    self.snapshot = version;
                    self.progress.objects_read += 1;
                    return Ok(());
                }
                Err(error) if error.kind == ObjectErrorKind::Corrupt => damage = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(damage.unwrap_or_else(|| ObjectError::unavailable("a snapshot went away")))
    }

    async fn read_log(&mut self) -> Result<u64, ObjectError> {
        let mut parts = 0;
        for lake in self.parts.mirrors.iter() {
            let mut listed = lake.list(Some(&Key::object_logs()));
            while let Some(entry) = listed.try_next().await? {
                let is_newer = |last| last > self.snapshot;
                if entry.key.as_object_log().is_some_and(is_newer) {
                    let changes = read_log::part(&self.parts.mirrors, lake, &entry.key).await?;
                    let snapshot = self.snapshot;
                    let newer = changes.into_iter().filter(|one| one.version > snapshot);
                    self.take(newer.collect()).await?;
                    self.progress.objects_read += 1;
                    parts += 1;
                }
            }
        }
        Ok(parts)
    }
}
