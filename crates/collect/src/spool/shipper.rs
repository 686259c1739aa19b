//! What is done with a sealed bundle, whenever the journal says so: shipped, confirmed, recorded in the inventory, its files
//! removed, forgotten.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cannery_formats::Key;
use cannery_journal::Date;
use cannery_journal::worker::{Handler, Outcome, Work};
use cannery_lake::Mirrors;
use cannery_runtime::{Clock, Rng};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::blocking::blocking;
use crate::inventory::{Inventory, InventoryError, Item};
use crate::turns::Turns;

use super::held::Held;
use super::outbox::{Outbox, Sealed, Stored};
use super::place::FilePlace;
use super::progress::Progress;
use super::remove::{Removed, Remover};
use super::ship::{ShipError, ship};

const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// What became of a bundle.
#[derive(Debug)]
pub(super) enum Event {
    /// It is in every mirror, its files are gone, and so is its folder.
    Done { id: String, back: Vec<FilePlace> },
}

/// Ships bundles, one at a time or several at once.
pub(super) struct Shipper {
    pub(super) outbox: Outbox,
    pub(super) mirrors: Mirrors,
    pub(super) inventory: Inventory,
    pub(super) root: PathBuf,
    pub(super) datatypes: Vec<String>,
    pub(super) held: Arc<Held>,
    pub(super) clock: Clock,
    pub(super) rng: Rng,
    pub(super) progress: Arc<Progress>,
    pub(super) turns: Turns,
    /// The time for flushing is over: who waits for the lake gives up.
    pub(super) give_up: CancellationToken,
    pub(super) events: mpsc::UnboundedSender<Event>,
}

/// Why a bundle is not done yet.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfinished {
    #[error(transparent)]
    Ship(#[from] ShipError),
    #[error(transparent)]
    Inventory(#[from] InventoryError),
    #[error("the time for it is over")]
    Stopped,
    #[error("cannot finish bundle `{id}`: {why}")]
    Disk { id: String, why: io::Error },
}

/// A shipper for each of several lists.
#[derive(Clone)]
pub(super) struct Hand(pub(super) Arc<Shipper>);

#[async_trait]
impl Handler for Hand {
    async fn handle(&self, work: Work) -> Outcome {
        self.0.handle(work).await
    }
}

impl Shipper {
    async fn handle(&self, work: Work) -> Outcome {
        let id = work.entry.key.as_str();
        let Some(_turn) = self.turns.take(id) else {
            // The lease was lost and the work goes on, as after the machine slept: whoever does it will end it.
            let at = Date::from(self.clock.now()).plus(PAUSE_FIRST);
            return Outcome::Release { at: Some(at) };
        };
        match self.finish(id).await {
            Ok(()) => Outcome::Done,
            Err(error) => {
                let pause = self.pause(&work);
                tracing::warn!(bundle = id, %error, ?pause, "not shipped yet; trying on");
                // For ever and without blame: the files stay until it is done.
                Outcome::Release {
                    at: Some(Date::from(self.clock.now()).plus(pause)),
                }
            }
        }
    }

    /// Does what is left to do of a bundle. Every step may be repeated.
    pub(super) async fn finish(&self, id: &str) -> Result<(), Unfinished> {
        let failed = |why| Unfinished::Disk {
            id: id.to_owned(),
            why,
        };
        let Some(sealed) = self.blocking(id, Outbox::sealed).await.map_err(failed)? else {
            // It was done before, and only the journal did not hear of it, or its folder could not be removed whole.
            self.blocking(id, Outbox::remove_rest)
                .await
                .map_err(failed)?;
            return Ok(());
        };
        let confirmed = self.blocking(id, Outbox::is_confirmed).await;
        let confirmed = confirmed.map_err(failed)?;
        if !confirmed {
            let shipped = tokio::select! {
                shipped = ship(&sealed, &self.outbox, &self.mirrors) => shipped,
                () = self.give_up.cancelled() => return Err(Unfinished::Stopped),
            };
            if let Err(ShipError::Damaged(key)) = &shipped {
                return self.set_aside(&sealed, key).await.map_err(failed);
            }
            shipped?;
            let now = self.clock.now();
            let confirm = move |outbox: &Outbox, id: &str| outbox.confirm(id, now);
            self.blocking(id, confirm).await.map_err(failed)?;
            self.progress.shipped(&sealed, now);
        }
        tokio::select! {
            recorded = self.record(&sealed, confirmed) => recorded?,
            () = self.give_up.cancelled() => return Err(Unfinished::Stopped),
        }
        let removed = self.remove(&sealed).await.map_err(failed)?;
        let forgotten = self.blocking(id, Outbox::forget).await;
        self.progress.finished(&sealed, &removed);
        self.tell(&sealed, &removed);
        forgotten.map_err(failed)
    }

    /// What was sealed is damaged, and its files are still there. They stay held: the next start asks the lake which of them
    /// it has, and collects the others again.
    async fn set_aside(&self, sealed: &Sealed, key: &Key) -> io::Result<()> {
        tracing::error!(bundle = sealed.id, %key, "a sealed bundle is damaged; it was set aside, and the next start collects its files again");
        self.blocking(&sealed.id, Outbox::set_aside_damaged).await?;
        let (id, back) = (sealed.id.clone(), Vec::new());
        // Nobody listens any more when the spool ends.
        self.events.send(Event::Done { id, back }).ok();
        Ok(())
    }

    /// Runs something on the outbox where it may block.
    async fn blocking<T: Send + 'static>(
        &self,
        id: &str,
        work: impl FnOnce(&Outbox, &str) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (outbox, id) = (self.outbox.clone(), id.to_owned());
        blocking(move || work(&outbox, &id)).await
    }

    /// A receipt of an earlier attempt may have its lines already.
    async fn record(&self, sealed: &Sealed, again: bool) -> Result<(), InventoryError> {
        let item = |key, stored: &Stored| Item {
            key,
            bytes: stored.bytes,
            sha256: stored.sha256,
        };
        let items = vec![
            item(sealed.name.data_key(), &sealed.data),
            item(sealed.name.index_key(), &sealed.index),
        ];
        let opened = sealed.name.opened.timestamp();
        self.inventory.record(items, opened, again).await
    }

    async fn remove(&self, sealed: &Sealed) -> io::Result<Removed> {
        let folder = self.root.join(sealed.name.datatype.as_str());
        let remover = Remover::new(Arc::clone(self.outbox.disk()), folder);
        let sealed = sealed.clone();
        blocking(move || remover.remove(&sealed)).await
    }

    fn tell(&self, sealed: &Sealed, removed: &Removed) {
        let name = sealed.name.datatype.as_str();
        let Some(datatype) = self.datatypes.iter().position(|known| known == name) else {
            return;
        };
        let place = |name: &str| FilePlace {
            datatype,
            date: sealed.name.date,
            name: name.into(),
        };
        let places: Vec<_> = sealed.files.iter().map(|file| place(&file.name)).collect();
        self.held.release(&places);
        let back = removed.back.iter().map(|name| place(name)).collect();
        let id = sealed.id.clone();
        // Nobody listens any more when the spool ends.
        self.events.send(Event::Done { id, back }).ok();
    }

    fn pause(&self, work: &Work) -> Duration {
        let age = Date::from(self.clock.now()).since(work.entry.meta.arrived);
        // As long again as it has been tried already.
        let ceiling = age.clamp(PAUSE_FIRST, PAUSE_MAX);
        ceiling / 2 + self.rng.jitter(ceiling / 2)
    }
}
