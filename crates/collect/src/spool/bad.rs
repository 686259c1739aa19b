//! What becomes of things in a spool that cannot be collected.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cannery_runtime::disk::{Disk, Kind};

use super::progress::{Progress, Quarantined};
use super::settings::{BadFiles, SpoolSettings};
use crate::quarantine::Quarantine;

/// Treats them as the configuration says.
pub(super) struct Bad {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    experiment: String,
    way: BadFiles,
    quarantine: Arc<Mutex<Quarantine>>,
    progress: Arc<Progress>,
}

impl Bad {
    pub(super) fn new(
        settings: &SpoolSettings,
        disk: &Arc<dyn Disk>,
        quarantine: Arc<Mutex<Quarantine>>,
        progress: Arc<Progress>,
    ) -> Self {
        Self {
            disk: Arc::clone(disk),
            root: settings.root(),
            experiment: settings.experiment.as_str().to_owned(),
            way: settings.bad_files,
            quarantine,
            progress,
        }
    }

    /// What lies there now; nothing when it is gone.
    pub(super) fn kind_of(&self, below: &Path) -> Option<Kind> {
        let found = self.disk.metadata(&self.root.join(below));
        found.ok().map(|found| found.kind)
    }

    /// Treats what lies `below` the root. What cannot be moved stays, and is met again by the next scan. Gives back how many
    /// bytes went with it when nothing is there any more.
    pub(super) fn treat(&mut self, below: &Path, reason: &str, text: &str) -> Option<u64> {
        let shown = format!("{}/{}", self.experiment, below.display());
        let path = self.root.join(below);
        let bytes = file_bytes(&*self.disk, &path);
        let treated = match self.way {
            BadFiles::Quarantine => self.put(&path, &shown, reason, text).map(|()| true),
            BadFiles::Delete => delete(&*self.disk, &path),
            BadFiles::Keep => Ok(false),
        };
        match treated {
            Ok(gone) => {
                tracing::warn!(file = shown, reason, text, "cannot be collected");
                gone.then_some(bytes)
            }
            Err(error) => {
                tracing::error!(file = shown, reason, text, %error, "cannot be collected, and cannot be moved away");
                None
            }
        }
    }

    fn put(&self, path: &Path, shown: &str, reason: &str, text: &str) -> io::Result<()> {
        let mut quarantine = self
            .quarantine
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let put = quarantine.put(path, shown, reason, text);
        self.progress.quarantined(Quarantined::of(&quarantine));
        put.map(drop)
    }
}

fn file_bytes(disk: &dyn Disk, path: &Path) -> u64 {
    match disk.metadata(path) {
        Ok(found) if found.kind == Kind::File => found.len,
        Ok(_) | Err(_) => 0,
    }
}

/// True when it is gone. A folder is nothing that a producer leaves behind by mistake a million times: it stays.
fn delete(disk: &dyn Disk, path: &Path) -> io::Result<bool> {
    match disk.metadata(path)?.kind {
        Kind::Dir => Ok(false),
        Kind::File | Kind::Other => disk.remove_file(path).map(|()| true),
    }
}
