//! Whether the disks of this machine have room for what is to be stored: that of the workspace, and those of lakes in folders.
//!
//! What is kept free is for deleting, for the log and for the databases: a disk that users have filled could not even be cleared.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cannery_lake::Mirrors;
use cannery_runtime::Clock;
use cannery_runtime::disk::space;
use tokio::sync::Mutex;

use crate::error::{ObjectError, ObjectErrorKind};

/// How long a look at the disks is good.
const LOOK_FOR: Duration = Duration::from_secs(1);

pub(crate) struct DiskRoom {
    uploads: PathBuf,
    /// The folders of lakes; each gets its own copy of what is stored.
    lakes: Vec<PathBuf>,
    reserve: u64,
    clock: Clock,
    seen: Mutex<Option<SeenDisks>>,
}

struct SeenDisks {
    at: Duration,
    disks: Vec<SeenDisk>,
}

#[derive(Clone, Debug)]
struct SeenDisk {
    device: u64,
    folder: PathBuf,
    has_uploads: bool,
    lakes: u64,
    /// What was free, without what has been let through since.
    free_bytes: u64,
}

impl DiskRoom {
    pub(crate) fn new(uploads: &Path, mirrors: &Mirrors, reserve: u64, clock: &Clock) -> Self {
        let folders = mirrors.iter().filter_map(cannery_lake::Lake::folder);
        Self {
            uploads: uploads.to_owned(),
            lakes: folders.collect(),
            reserve,
            clock: clock.clone(),
            seen: Mutex::new(None),
        }
    }

    /// Whether so many bytes may go to the folder of uploads, and so many to every lake; nothing but the reserve is asked for
    /// with 0 and 0.
    ///
    /// # Errors
    /// `NoSpace`. Where nobody knows, the disk itself will say.
    pub(crate) async fn take(&self, uploaded: u64, stored: u64) -> Result<(), ObjectError> {
        self.admit(uploaded, stored, true).await
    }

    /// The same for what may come later: nothing is counted.
    pub(crate) async fn look(&self, uploaded: u64, stored: u64) -> Result<(), ObjectError> {
        self.admit(uploaded, stored, false).await
    }

    async fn admit(&self, uploaded: u64, stored: u64, counts: bool) -> Result<(), ObjectError> {
        let mut seen = self.seen.lock().await;
        let now = self.clock.elapsed();
        let disks = match &mut *seen {
            Some(seen) if now.saturating_sub(seen.at) < LOOK_FOR => &mut seen.disks,
            _ => {
                let (uploads, lakes) = (self.uploads.clone(), self.lakes.clone());
                let looked = tokio::task::spawn_blocking(move || see(&uploads, &lakes)).await;
                let disks = looked.map_err(|error| ObjectError::unavailable(error.to_string()))?;
                &mut seen.insert(SeenDisks { at: now, disks }).disks
            }
        };
        for disk in disks.iter() {
            if disk.free_bytes < disk.need(uploaded, stored).saturating_add(self.reserve) {
                return Err(self.full(disk));
            }
        }
        for disk in disks.iter_mut().filter(|_| counts) {
            disk.free_bytes -= disk.need(uploaded, stored);
        }
        Ok(())
    }

    fn full(&self, disk: &SeenDisk) -> ObjectError {
        let (folder, free, reserve) = (disk.folder.display(), disk.free_bytes, self.reserve);
        let message = format!(
            "the disk of `{folder}` has {free} bytes left, of which {reserve} are kept free; nothing was stored; free some space on the server"
        );
        ObjectError::new(ObjectErrorKind::NoSpace, message)
    }
}

impl SeenDisk {
    fn need(&self, uploaded: u64, stored: u64) -> u64 {
        let uploaded = if self.has_uploads { uploaded } else { 0 };
        uploaded.saturating_add(stored.saturating_mul(self.lakes))
    }
}

fn see(uploads: &Path, lakes: &[PathBuf]) -> Vec<SeenDisk> {
    let mut disks: Vec<SeenDisk> = Vec::new();
    let folders = lakes.iter().map(|folder| (folder.as_path(), false));
    for (folder, is_uploads) in [(uploads, true)].into_iter().chain(folders) {
        let (Ok(found), Ok(space)) = (std::fs::metadata(folder), space(folder)) else {
            continue;
        };
        let known = disks.iter().position(|disk| disk.device == found.dev());
        let at = known.unwrap_or_else(|| {
            disks.push(SeenDisk {
                device: found.dev(),
                folder: folder.to_owned(),
                has_uploads: false,
                lakes: 0,
                free_bytes: space.free_bytes,
            });
            disks.len() - 1
        });
        let disk = &mut disks[at];
        disk.has_uploads |= is_uploads;
        disk.lakes += u64::from(!is_uploads);
    }
    disks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_disk_has_every_copy() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().to_owned(), folder.path().to_owned()];
        let disks = see(folder.path(), &folders);
        assert_eq!(disks.len(), 1);
        assert_eq!(disks[0].need(10, 100), 210);
        assert_eq!(disks[0].need(0, 0), 0);
    }

    #[tokio::test]
    async fn what_is_let_through_counts_until_the_next_look() {
        let folder = tempfile::tempdir().unwrap();
        let simulated =
            cannery_runtime::clock::SimulatedClock::starting_at(jiff::Timestamp::UNIX_EPOCH);
        let room = DiskRoom {
            uploads: folder.path().to_owned(),
            lakes: Vec::new(),
            reserve: 100,
            clock: simulated.clock(),
            seen: Mutex::new(None),
        };
        room.take(0, 0).await.unwrap();
        room.seen.lock().await.as_mut().unwrap().disks[0].free_bytes = 1_000;
        room.take(600, 5_000).await.unwrap();
        let refused = room.take(301, 0).await.unwrap_err();
        assert_eq!(refused.kind, ObjectErrorKind::NoSpace);
        assert!(refused.message.contains("has 400 bytes left, of which 100"));
        room.take(300, 0).await.unwrap();
        room.take(0, 0).await.unwrap();
        simulated.advance(LOOK_FOR).await;
        room.take(301, 0).await.unwrap();
    }
}
