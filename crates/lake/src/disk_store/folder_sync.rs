//! Syncs of folders that many writers share: one sync makes durable what all of them have renamed before it began.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use cannery_runtime::disk::DiskDir;

/// The folders that are being synced now.
#[derive(Debug, Default)]
pub(super) struct FolderSyncs(Mutex<HashMap<PathBuf, Arc<FolderSync>>>);

/// The syncs of one folder, one after the other.
#[derive(Debug, Default)]
struct FolderSync {
    counts: Mutex<SyncCounts>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct SyncCounts {
    begun: u64,
    /// The last one that succeeded.
    succeeded: u64,
    is_running: bool,
    /// What it failed with: a failed sync is never repeated.
    failed: Option<(io::ErrorKind, String)>,
}

impl FolderSyncs {
    /// Makes durable what was done in the folder before the call: by a sync of its own, or by one that another caller begins
    /// after this call.
    ///
    /// # Errors
    /// As the sync says, to everybody whom it was for.
    pub(super) fn sync(&self, path: &Path, folder: &dyn DiskDir) -> io::Result<()> {
        let shared = Arc::clone(self.folders().entry(path.to_owned()).or_default());
        let synced = shared.sync(folder);
        let mut folders = self.folders();
        // This one and that of the map: nobody else waits.
        if Arc::strong_count(&shared) == 2 {
            folders.remove(path);
        }
        synced
    }

    fn folders(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<FolderSync>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FolderSync {
    fn sync(&self, folder: &dyn DiskDir) -> io::Result<()> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        // One that runs already may have begun before the caller's rename.
        let needed = counts.begun + 1;
        loop {
            if counts.succeeded >= needed {
                return Ok(());
            }
            if let Some((kind, message)) = &counts.failed {
                return Err(io::Error::new(*kind, message.clone()));
            }
            if !counts.is_running {
                break;
            }
            counts = self
                .ended
                .wait(counts)
                .unwrap_or_else(PoisonError::into_inner);
        }
        counts.begun += 1;
        counts.is_running = true;
        let number = counts.begun;
        drop(counts);
        let synced = folder.sync();
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.is_running = false;
        match &synced {
            Ok(()) => counts.succeeded = number,
            Err(error) => counts.failed = Some((error.kind(), error.to_string())),
        }
        drop(counts);
        self.ended.notify_all();
        synced
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A folder whose syncs wait until they are let go.
    #[derive(Debug, Default)]
    struct SlowFolder {
        is_open: Mutex<bool>,
        opened: Condvar,
        syncs: AtomicUsize,
        is_broken: bool,
    }

    impl SlowFolder {
        fn open(&self) {
            *self.is_open.lock().unwrap() = true;
            self.opened.notify_all();
        }
    }

    impl DiskDir for SlowFolder {
        fn sync(&self) -> io::Result<()> {
            self.syncs.fetch_add(1, Ordering::SeqCst);
            let mut is_open = self.is_open.lock().unwrap();
            while !*is_open {
                is_open = self.opened.wait(is_open).unwrap();
            }
            match self.is_broken {
                true => Err(io::Error::other("broken")),
                false => Ok(()),
            }
        }
    }

    /// Lets 16 callers wait for a folder whose first sync has begun before most of them came; says how they fared.
    fn crowd(folder: &SlowFolder) -> Vec<io::Result<()>> {
        let syncs = FolderSyncs::default();
        let path = Path::new("/lake/users");
        std::thread::scope(|scope| {
            let callers: Vec<_> = (0..16)
                .map(|_| scope.spawn(|| syncs.sync(path, folder)))
                .collect();
            let waits = || syncs.folders().get(path).map_or(0, Arc::strong_count);
            while waits() < 17 || folder.syncs.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            // Each has its place by now, but may not have asked yet; the count below holds for any order.
            folder.open();
            let results = callers.into_iter().map(|caller| caller.join().unwrap());
            let results: Vec<_> = results.collect();
            assert!(syncs.folders().is_empty());
            results
        })
    }

    #[test]
    fn a_sync_that_had_begun_is_not_enough_and_the_next_one_is_for_all() {
        let folder = SlowFolder::default();
        assert!(crowd(&folder).iter().all(Result::is_ok));
        let syncs = folder.syncs.load(Ordering::SeqCst);
        assert!((2..=16).contains(&syncs), "{syncs}");
    }

    #[test]
    fn a_failed_sync_is_not_repeated() {
        let folder = SlowFolder {
            is_broken: true,
            ..SlowFolder::default()
        };
        assert!(crowd(&folder).iter().all(Result::is_err));
        assert_eq!(folder.syncs.load(Ordering::SeqCst), 1);
    }
}
