//! What becomes of things in a spool that cannot be collected.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cannery_runtime::Clock;
use cannery_runtime::disk::{Disk, Kind};

use super::settings::{BadFiles, SpoolSettings};
use crate::quarantine::Quarantine;

/// Treats them as the configuration says.
pub(super) struct Bad {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    experiment: String,
    way: Way,
}

enum Way {
    Quarantine(Box<Quarantine>),
    Delete,
    Keep,
}

impl Bad {
    pub(super) fn new(
        settings: &SpoolSettings,
        disk: &Arc<dyn Disk>,
        clock: &Clock,
    ) -> io::Result<Self> {
        let way = match settings.bad_files {
            BadFiles::Quarantine => {
                let bytes_max = settings.quarantine_bytes_max;
                let (disk, clock) = (Arc::clone(disk), clock.clone());
                let quarantine = Quarantine::open(disk, clock, &settings.home, bytes_max)?;
                Way::Quarantine(Box::new(quarantine))
            }
            BadFiles::Delete => Way::Delete,
            BadFiles::Keep => Way::Keep,
        };
        Ok(Self {
            disk: Arc::clone(disk),
            root: settings.root(),
            experiment: settings.experiment.as_str().to_owned(),
            way,
        })
    }

    /// Treats what lies `below` the root. What cannot be moved stays, and is met again by the next scan.
    pub(super) fn treat(&mut self, below: &Path, reason: &str, text: &str) {
        let shown = format!("{}/{}", self.experiment, below.display());
        let path = self.root.join(below);
        let treated = match &mut self.way {
            Way::Quarantine(quarantine) => quarantine.put(&path, &shown, reason, text).map(drop),
            Way::Delete => delete(&*self.disk, &path),
            Way::Keep => Ok(()),
        };
        match treated {
            Ok(()) => tracing::warn!(file = shown, reason, text, "cannot be collected"),
            Err(error) => {
                tracing::error!(file = shown, reason, text, %error, "cannot be collected, and cannot be moved away");
            }
        }
    }
}

/// A folder is nothing that a producer leaves behind by mistake a million times: it stays.
fn delete(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.metadata(path)?.kind {
        Kind::Dir => Ok(()),
        Kind::File | Kind::Other => disk.remove_file(path),
    }
}
