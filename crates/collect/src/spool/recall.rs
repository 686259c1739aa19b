//! Files that the lake has already, met again after the outbox was lost: they are removed and not bundled again.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use cannery_formats::Digest;
use cannery_formats::spool::{BundleName, BundleTime, SpoolDate};
use cannery_runtime::Clock;
use jiff::SignedDuration;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::inventory::Inventory;

use super::bundle::id_of;
use super::known::{DateKnown, Known, KnownError};
use super::outbox::{FileRecord, Sealed, Stored};
use super::remove::Remover;
use super::take::Taken;

/// What is known of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// The lake does not have it.
    New,
    /// Every mirror has it.
    Shipped,
    /// The lake could not be asked: nothing of its date may be bundled now.
    Unknown,
}

/// Asks the lake, once for each date. For the thread that takes files.
pub(super) struct Recall {
    known: Known,
    inventory: Inventory,
    clock: Clock,
    runtime: Handle,
    stop: CancellationToken,
    dates: BTreeMap<(usize, SpoolDate), DateKnown>,
    /// Makes the names of removals unique.
    removals: i64,
}

impl Recall {
    pub(super) fn new(
        known: Known,
        inventory: Inventory,
        clock: Clock,
        stop: CancellationToken,
    ) -> Self {
        Self {
            known,
            inventory,
            clock,
            runtime: Handle::current(),
            stop,
            dates: BTreeMap::new(),
            removals: 0,
        }
    }

    /// Whether the lake has a file.
    pub(super) fn remember(&mut self, taken: &Taken) -> Memory {
        let which = (taken.place.datatype, taken.place.date);
        if !self.dates.contains_key(&which) {
            // A lake that does not answer must not keep a spool from ending.
            let recalled = self.runtime.block_on(async {
                tokio::select! {
                    recalled = self.recall(which) => Some(recalled),
                    () = self.stop.cancelled() => None,
                }
            });
            match recalled {
                None => return Memory::Unknown,
                Some(Ok(known)) => {
                    self.dates.insert(which, known);
                }
                Some(Err(error)) => {
                    tracing::warn!(date = %which.1, %error, "files of this date have to wait");
                    return Memory::Unknown;
                }
            }
        }
        match self.dates.get(&which) {
            Some(known) if known.has(&taken.place.name, &taken.sha256) => Memory::Shipped,
            Some(_) | None => Memory::New,
        }
    }

    /// What the inventory has forgotten with the outbox is put there first: afterwards nobody looks for it any more.
    async fn recall(&self, which: (usize, SpoolDate)) -> Result<DateKnown, KnownError> {
        let known = self.known.recall(which.0, which.1).await?;
        let bundles = self.known.everywhere(which.0, which.1).await?;
        let opened = bundles.iter().map(|(name, _)| name.opened.timestamp());
        if let Some(first) = opened.min() {
            let keys = bundles.into_iter().map(|(_, key)| key);
            self.inventory.adopt(keys.collect(), first).await?;
        }
        Ok(known)
    }

    /// Removes a file that the lake has. A crash in between is repaired by the next start, which gives back what it finds
    /// half removed.
    pub(super) fn remove(&mut self, taken: &Taken) -> io::Result<()> {
        let settings = &self.known.settings;
        self.removals += 1;
        let opened = self.clock.now() + SignedDuration::from_micros(self.removals);
        let name = BundleName {
            home: settings.object_home.clone(),
            experiment: settings.experiment.clone(),
            datatype: settings.datatypes[taken.place.datatype].name.clone(),
            date: taken.place.date,
            opened: BundleTime::from_timestamp(opened),
            node: settings.node.clone(),
        };
        let nothing = Stored {
            bytes: 0,
            sha256: Digest::of(b""),
        };
        let file = FileRecord::new(&taken.place.name, taken.mark, taken.read, taken.sha256);
        let folder = settings.root().join(name.datatype.as_str());
        let sealed = Sealed {
            id: id_of(&name),
            name,
            data: nothing.clone(),
            index: nothing,
            files: vec![file],
        };
        let remover = Remover::new(Arc::clone(&self.known.disk), folder);
        remover.remove(&sealed).map(drop)
    }
}
