//! Reading the log and snapshots. Damage is named, and another mirror is asked before it is an error.

use std::sync::Arc;

use cannery_formats::gz_lines::{GzLineReader, IndexLimits};
use cannery_formats::{Key, ObjectChange};
use cannery_lake::{ErrorKind, Lake, Mirrors};
use futures::stream::TryStreamExt as _;

use super::{CHANGES_AT_ONCE, Staging};
use crate::error::{ObjectError, ObjectErrorKind};
use crate::scratch_file::{ScratchCursor, ScratchFile, blocking};

/// No part of the log is longer: it has at most 2,000 lines.
const PART_BYTES_MAX: u64 = 256 << 20;

const LIMITS: IndexLimits = IndexLimits {
    line_bytes_max: 4 << 20,
    total_bytes_max: 1 << 40,
};

type SnapshotLines = GzLineReader<ScratchCursor>;

/// The changes in a part of the log that `listed` has; from another mirror if it is damaged there.
pub(super) async fn part(
    mirrors: &Mirrors,
    listed: &Lake,
    key: &Key,
) -> Result<Vec<ObjectChange>, ObjectError> {
    let others = mirrors.iter().filter(|lake| lake.id() != listed.id());
    let mut damage = None;
    for lake in std::iter::once(listed).chain(others) {
        match one(lake, key).await {
            Err(error) if error.kind == ObjectErrorKind::Corrupt => {
                tracing::warn!(lake = lake.id(), %key, %error, "a part of the log of objects is damaged");
                damage = damage.or(Some(error));
            }
            answer => return answer,
        }
    }
    Err(damage.unwrap_or_else(|| damaged(key, "it is in no mirror")))
}

async fn one(lake: &Lake, key: &Key) -> Result<Vec<ObjectChange>, ObjectError> {
    let object = match lake.get(key, PART_BYTES_MAX).await {
        Err(error) if matches!(error.kind, ErrorKind::Absent | ErrorKind::Invalid) => {
            return Err(damaged(key, &error.to_string()));
        }
        answer => answer?,
    };
    let last = key.as_object_log().unwrap_or(0);
    let text = std::str::from_utf8(&object.bytes).map_err(|error| damaged(key, &error))?;
    if !text.ends_with('\n') {
        return Err(damaged(key, &"it ends within a line"));
    }
    let change = |line| {
        let change = ObjectChange::from_line(line).map_err(|error| damaged(key, &error))?;
        if change.version > last {
            return Err(damaged(key, &"a line is newer than its name says"));
        }
        Ok(change)
    };
    let changes = text.lines().map(change).collect::<Result<Vec<_>, _>>()?;
    // A part is named by its last line: one that ends before it was cut off.
    match changes.last() {
        Some(end) if end.version == last => Ok(changes),
        _ => Err(damaged(key, &"its last lines are missing")),
    }
}

fn damaged(key: &Key, why: &(impl std::fmt::Display + ?Sized)) -> ObjectError {
    let message = format!(
        "`{key}` is damaged: {why}; put a good copy of it there, from a mirror or a backup, and run `cannery rebuild` again"
    );
    ObjectError::new(ObjectErrorKind::Corrupt, message)
}

impl Staging<'_> {
    /// Reads a snapshot through a file, and stages it only if all of it is good.
    pub(super) async fn try_snapshot(&mut self, key: &Key) -> Result<(), ObjectError> {
        let mut damage = None;
        for lake in self.parts.mirrors.iter() {
            let file = match self.download(lake, key).await {
                Ok(file) => file,
                Err(error) if error.kind == ObjectErrorKind::Corrupt => {
                    damage = damage.or(Some(error));
                    continue;
                }
                Err(error) => return Err(error),
            };
            match check(&file, key).await {
                Ok(()) => return self.stage_snapshot(&file, key).await,
                Err(error) => damage = damage.or(Some(error)),
            }
        }
        Err(damage.unwrap_or_else(|| damaged(key, "it is in no mirror")))
    }

    async fn download(&self, lake: &Lake, key: &Key) -> Result<Arc<ScratchFile>, ObjectError> {
        let path = self.parts.uploads.join(self.parts.rng.id());
        let (disk, folder) = (Arc::clone(&self.parts.disk), self.parts.uploads.clone());
        let file = blocking(move || {
            cannery_runtime::disk::create_dir_all(&*disk, &folder)?;
            ScratchFile::create(&disk, &path)
        });
        let file = Arc::new(file.await.map_err(|error| failed(&error))?);
        let mut pieces = match lake.stream(key).await {
            Err(error) if error.kind == ErrorKind::Absent => {
                return Err(damaged(key, "it is not in every mirror"));
            }
            answer => answer?,
        };
        let mut offset = 0;
        while let Some(piece) = pieces.try_next().await? {
            let (start, into) = (offset, Arc::clone(&file));
            offset += piece.len() as u64;
            let write = blocking(move || into.write_all_at(start, &piece));
            write.await.map_err(|error| failed(&error))?;
        }
        Ok(file)
    }

    async fn stage_snapshot(
        &mut self,
        file: &Arc<ScratchFile>,
        key: &Key,
    ) -> Result<(), ObjectError> {
        let mut lines = GzLineReader::new(ScratchCursor::new(Arc::clone(file)), LIMITS);
        loop {
            let (rest, changes) = page(lines, key).await?;
            lines = rest;
            if changes.is_empty() {
                return Ok(());
            }
            self.take(changes).await?;
        }
    }
}

/// # Errors
/// `Corrupt` unless all lines of a snapshot can be read.
async fn check(file: &Arc<ScratchFile>, key: &Key) -> Result<(), ObjectError> {
    let mut lines = GzLineReader::new(ScratchCursor::new(Arc::clone(file)), LIMITS);
    loop {
        let (rest, changes) = page(lines, key).await?;
        lines = rest;
        if changes.is_empty() {
            return Ok(());
        }
    }
}

/// The next lines of a snapshot; none at its end.
async fn page(
    mut lines: SnapshotLines,
    key: &Key,
) -> Result<(SnapshotLines, Vec<ObjectChange>), ObjectError> {
    let key = key.clone();
    let read = blocking(move || {
        let mut changes = Vec::new();
        let read = loop {
            if changes.len() == CHANGES_AT_ONCE {
                break Ok(());
            }
            let line = match lines.next_line() {
                Ok(Some(line)) => line,
                Ok(None) => break Ok(()),
                Err(fault) => break Err(damaged(&key, &fault)),
            };
            match std::str::from_utf8(line).map(ObjectChange::from_line) {
                Ok(Ok(change)) => changes.push(change),
                Ok(Err(error)) => break Err(damaged(&key, &error)),
                Err(error) => break Err(damaged(&key, &error)),
            }
        };
        Ok(read.map(|()| (lines, changes)))
    });
    read.await.map_err(|error| failed(&error))?
}

fn failed(error: &std::io::Error) -> ObjectError {
    ObjectError::of_disk(error, "cannot keep a snapshot on the disk")
}
