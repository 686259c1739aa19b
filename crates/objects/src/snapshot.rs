//! A snapshot: everything that is there, as one object, so that the log before it can go.
//!
//! The rows are read page by page while changes go on. Version V is read first, so a row that is read later has the version that
//! it had at V, or a higher one; what was added, replaced or deleted meanwhile has a line in the log with a version above V, and
//! all those lines are in the log before the snapshot is put. So the snapshot and the lines above V say what is there.

use std::sync::Arc;

use cannery_formats::gz_lines::GzLines;
use cannery_formats::{Key, ObjectChange};
use cannery_lake::{Body, Lake};
use futures::stream::TryStreamExt as _;

use crate::error::ObjectError;
use crate::everywhere::put_everywhere;
use crate::lake_age::{behind, check_age};
use crate::log_writer::LogWriter;
use crate::namespace::NamespaceParts;
use crate::scratch_file::{ScratchCursor, ScratchFile, blocking};

/// Rows that are in memory at once.
const ROWS_AT_ONCE: usize = 1_000;

/// What a snapshot did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotReport {
    /// The version that it is of.
    pub version: u64,
    /// How many entries it has; 0 also when nothing was changed since the one before, which then stays.
    pub entries: u64,
    /// Parts of the log, and older snapshots, that were deleted, in all mirrors together.
    pub deleted: u64,
}

/// Takes one, and deletes what it replaces. Safe to repeat, and to be cut off anywhere.
pub(crate) async fn snapshot(
    parts: &NamespaceParts,
    writer: &mut LogWriter,
) -> Result<SnapshotReport, ObjectError> {
    // An old database must never be the reason to delete the log of a newer one.
    let version = check_age(&parts.state, &parts.mirrors, &parts.rng).await?;
    let mut report = SnapshotReport {
        version,
        ..SnapshotReport::default()
    };
    if !is_everywhere(parts, version).await? {
        let path = parts.uploads.join(parts.rng.id());
        let disk = Arc::clone(&parts.disk);
        let file = blocking(move || ScratchFile::create(&disk, &path))
            .await
            .map_err(|error| failed(&error))?;
        let file = Arc::new(file);
        report.entries = write(parts, &file).await?;
        let after = parts.state.object_version().await?;
        if after < version {
            return Err(behind(version, after));
        }
        writer.log_through(after).await?;
        let key = Key::object_snapshot(version, &parts.rng.id());
        put_everywhere(&parts.mirrors, &key, Body::File(file.path().to_owned())).await?;
    }
    for lake in parts.mirrors.iter() {
        report.deleted += delete_replaced(lake, version).await?;
    }
    Ok(report)
}

/// Whether every mirror has a snapshot of this version, or there is nothing to take one of.
async fn is_everywhere(parts: &NamespaceParts, version: u64) -> Result<bool, ObjectError> {
    if version == 0 {
        return Ok(true);
    }
    for lake in parts.mirrors.iter() {
        let mut listed = lake.list(Some(&Key::object_snapshots()));
        let mut is_there = false;
        while let Some(entry) = listed.try_next().await? {
            is_there |= entry.key.as_object_snapshot() == Some(version);
        }
        if !is_there {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes all rows to the file; how many they are.
async fn write(parts: &NamespaceParts, file: &Arc<ScratchFile>) -> Result<u64, ObjectError> {
    let mut lines = GzLines::new(ScratchCursor::new(Arc::clone(file)));
    let mut entries = 0;
    let mut last = None;
    loop {
        let page = parts
            .state
            .object_entries_after(last.as_ref(), ROWS_AT_ONCE)
            .await?;
        let Some((key, _)) = page.last() else { break };
        last = Some(key.clone());
        entries += page.len() as u64;
        lines = blocking(move || {
            for (key, row) in page {
                let change = ObjectChange {
                    version: row.version,
                    attempt: row.attempt,
                    user: key.account,
                    path: key.path,
                    entry: Some(row.entry),
                };
                lines.write(change.to_line().as_bytes())?;
            }
            Ok(lines)
        })
        .await
        .map_err(|error| failed(&error))?;
    }
    blocking(move || lines.finish())
        .await
        .map_err(|error| failed(&error))?;
    Ok(entries)
}

/// Deletes the parts of the log that end at the version or before it, then the snapshots of lower versions.
async fn delete_replaced(lake: &Lake, version: u64) -> Result<u64, ObjectError> {
    let mut deleted = 0;
    let mut logs = lake.list(Some(&Key::object_logs()));
    while let Some(entry) = logs.try_next().await? {
        if entry
            .key
            .as_object_log()
            .is_some_and(|last| last <= version)
        {
            lake.delete(&entry.key).await?;
            deleted += 1;
        }
    }
    let mut snapshots = lake.list(Some(&Key::object_snapshots()));
    while let Some(entry) = snapshots.try_next().await? {
        let older = entry.key.as_object_snapshot();
        if older.is_some_and(|older| older < version) {
            lake.delete(&entry.key).await?;
            deleted += 1;
        }
    }
    Ok(deleted)
}

fn failed(error: &std::io::Error) -> ObjectError {
    ObjectError::of_disk(error, "cannot keep the snapshot on the disk")
}
