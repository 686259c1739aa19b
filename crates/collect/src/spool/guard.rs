//! Keeps an eye on how much room a spool takes.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cannery_runtime::Clock;
use tokio_util::sync::CancellationToken;

use super::progress::{Progress, Quarantined};
use super::settings::{SpoolFull, SpoolSettings};
use crate::quarantine::Quarantine;

#[cfg(test)]
mod tests;

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Looks after each scan of everything, and a last time at the end.
pub(super) struct Guard {
    bytes_max: Option<u64>,
    policy: SpoolFull,
    quarantine: Arc<Mutex<Quarantine>>,
    progress: Arc<Progress>,
    full: bool,
    /// Scans that were over, and bytes in quarantine, when it looked last.
    seen: (u64, u64),
}

impl Guard {
    pub(super) fn new(
        settings: &SpoolSettings,
        quarantine: Arc<Mutex<Quarantine>>,
        progress: Arc<Progress>,
    ) -> Self {
        Self {
            bytes_max: settings.spool_bytes_max,
            policy: settings.spool_full,
            quarantine,
            progress,
            full: false,
            seen: (0, 0),
        }
    }

    pub(super) async fn run(mut self, clock: Clock, ended: CancellationToken) {
        loop {
            let last = ended.is_cancelled();
            let looked = tokio::task::spawn_blocking(move || {
                self.look_if_due();
                self
            });
            let Ok(guard) = looked.await else { return };
            self = guard;
            if last {
                return;
            }
            tokio::select! {
                () = clock.sleep(LOOK_EVERY) => {}
                () = ended.cancelled() => {}
            }
        }
    }

    /// After a scan, and when something was put into quarantine or taken out of it since.
    fn look_if_due(&mut self) {
        let scans = self.progress.census().counters().scans;
        if scans > self.seen.0
            && let Err(error) = self.lock().refresh()
        {
            // Others share it, and may have put something there.
            tracing::warn!(%error, "cannot weigh the quarantine; the next scan tries again");
        }
        if scans > 0 && (scans, self.lock().bytes()) != self.seen {
            self.look();
            let bytes = self.lock().bytes();
            self.seen = (scans, bytes);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Quarantine> {
        self.quarantine
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room if it may, and says how it is.
    fn look(&mut self) {
        let spool_bytes = self.progress.census().scanned_bytes();
        if let Err(error) = self.make_room(spool_bytes) {
            tracing::warn!(%error, "cannot remove from the quarantine; the next scan tries again");
        }
        let quarantined = Quarantined::of(&self.lock());
        self.progress.quarantined(quarantined);
        let bytes = spool_bytes.saturating_add(quarantined.bytes);
        let full = self.bytes_max.is_some_and(|bytes_max| bytes > bytes_max);
        self.progress.weighed(bytes, full);
        if full != self.full {
            self.full = full;
            self.say(bytes);
        }
    }

    fn make_room(&self, spool_bytes: u64) -> io::Result<()> {
        match (self.bytes_max, self.policy) {
            (Some(bytes_max), SpoolFull::DropOldestBad) => {
                let left = bytes_max.saturating_sub(spool_bytes);
                self.lock().shrink_to(left).map(drop)
            }
            (Some(_), SpoolFull::Refuse) | (None, _) => Ok(()),
        }
    }

    fn say(&self, bytes: u64) {
        let experiment = self.progress.experiment();
        let bytes_max = self.bytes_max.unwrap_or(u64::MAX);
        if self.full {
            tracing::error!(
                experiment,
                bytes,
                bytes_max,
                "the spool takes more room than `spool_bytes_max` allows; no good file is dropped: make room, or raise it"
            );
        } else {
            tracing::info!(experiment, bytes, bytes_max, "the spool has room again");
        }
    }
}
