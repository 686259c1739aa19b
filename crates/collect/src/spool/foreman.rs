//! Tells others what the bundler did, and the bundler when it may go on.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cannery_formats::spool::SpoolDate;
use cannery_runtime::Clock;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::bundle::OpenBundle;
use super::bundler::Listener;
use super::lock;
use super::outbox::Sealed;
use super::progress::Progress;
use super::room::Room;

/// How long files wait after the disk refused a bundle.
const DISK_PAUSE: Duration = Duration::from_secs(5);

/// Tells others what the bundler did.
pub(super) struct Foreman {
    pub(super) runtime: Handle,
    pub(super) clock: Clock,
    pub(super) room: Arc<Room>,
    pub(super) sealed: mpsc::UnboundedSender<String>,
    pub(super) look_again: Arc<AtomicBool>,
    /// Nothing begins any more.
    pub(super) stop: CancellationToken,
    /// Nothing is found any more; what was taken is still bundled.
    pub(super) ending: CancellationToken,
    /// The outbox is gone.
    pub(super) lost: CancellationToken,
    pub(super) progress: Arc<Progress>,
}

impl Listener for Foreman {
    fn has_room(&self) -> bool {
        self.room.free.available_permits() > 0
    }

    fn may_begin(&self) -> bool {
        let free = Arc::clone(&self.room.free);
        let permit = self.runtime.block_on(async {
            tokio::select! {
                biased;
                permit = free.acquire_owned() => permit.ok(),
                () = self.stop.cancelled() => None,
            }
        });
        let may = permit.is_some();
        lock(&self.room.begun).extend(permit);
        may
    }

    fn grew(&self, datatype: usize, bundle: &OpenBundle) {
        self.progress.grew(datatype, bundle);
    }

    fn sealed(&self, sealed: &Sealed) {
        self.progress.sealed(sealed);
        self.room.name(&sealed.id);
        self.sealed.send(sealed.id.clone()).ok();
    }

    fn gave_up(&self, (datatype, date): (usize, SpoolDate), files: u64, error: &io::Error) {
        self.progress.gave_up(datatype, date, files);
        tracing::error!(%error, "cannot write a bundle; its files stay and are tried again");
        if error.kind() == io::ErrorKind::NotFound {
            self.lost.cancel();
        }
        drop(lock(&self.room.begun).pop());
        self.runtime.block_on(async {
            tokio::select! {
                () = self.clock.sleep(DISK_PAUSE) => {}
                () = self.ending.cancelled() => {}
            }
        });
        self.look_again.store(true, Ordering::Relaxed);
    }
}
