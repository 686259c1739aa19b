//! Bringing the files of an inventory into every mirror.

use std::collections::BTreeMap;

use bytes::Bytes;
use cannery_formats::Key;
use cannery_formats::spool::SpoolDate;
use cannery_lake::{Lake, PutNew, Swap, Version};
use futures::future::join_all;
use tokio::sync::Mutex;

use super::day::Day;
use super::ledger::Ledger;
use super::remote::{self, Fetched, OBJECT_BYTES_MAX};
use super::{InventoryError, InventoryParts, Item, blocking, day_of};

/// A node has its inventory for itself: who loses this often has company.
const ROUNDS_MAX: u32 = 10;

/// What this process has brought where.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    sent: BTreeMap<(SpoolDate, usize), Sent>,
    warned: bool,
}

/// What a mirror has.
#[derive(Clone, Debug)]
struct Sent {
    bytes: u64,
    /// Not known of an object that was just created.
    version: Option<Version>,
}

/// How bringing the lines of a day to one mirror ended.
enum Brought {
    There(Sent),
    /// The store takes a day only once, and it is not over.
    Waits,
    /// Somebody else wrote meanwhile.
    Again,
    /// The mirror has another account of the day.
    Other(Day),
}

/// The lines of a day, as they are brought to every mirror.
struct Load {
    key: Key,
    text: Bytes,
    gzip: Bytes,
    is_over: bool,
}

impl Uploads {
    /// Brings every local file into every mirror. Goes on after an error, and returns the first.
    pub(super) async fn run(
        &mut self,
        parts: &InventoryParts,
        ledger: &Mutex<Ledger>,
    ) -> Result<(), InventoryError> {
        let local = {
            let mut ledger = ledger.lock().await;
            ledger.open().await?;
            ledger.local()
        };
        let days = blocking(move || local.days()).await?;
        let mut first = Ok(());
        for day in days {
            match self.bring_day(parts, ledger, day).await {
                Ok(true) => first = first.and(self.clear(ledger, day).await),
                Ok(false) => {}
                Err(error) => first = first.and(Err(error)),
            }
        }
        first
    }

    /// Whether every mirror has all lines of a day now.
    async fn bring_day(
        &mut self,
        parts: &InventoryParts,
        ledger: &Mutex<Ledger>,
        day: SpoolDate,
    ) -> Result<bool, InventoryError> {
        let key = Key::inventory(&parts.home, day);
        for _ in 0..ROUNDS_MAX {
            let Some(load) = self.load(parts, ledger, day, &key).await? else {
                return Ok(true);
            };
            let mirrors = parts.mirrors.iter().enumerate();
            let puts =
                mirrors.map(|(mirror, lake)| load.bring(lake, self.sent.get(&(day, mirror))));
            // All of them end before the first error is returned.
            let (mut everywhere, mut again, mut others) = (true, false, Vec::new());
            let mut first = Ok(());
            for (mirror, brought) in join_all(puts).await.into_iter().enumerate() {
                match brought {
                    Ok(Brought::There(sent)) => {
                        self.sent.insert((day, mirror), sent);
                    }
                    Ok(Brought::Waits) => {
                        everywhere = false;
                        self.warn();
                    }
                    Ok(Brought::Again) => again = true,
                    Ok(Brought::Other(other)) => others.push(other),
                    Err(error) => first = first.and(Err(error)),
                }
            }
            if !others.is_empty() {
                ledger.lock().await.reconcile(day, others).await?;
                // The lines may be others now, if not more.
                self.sent.retain(|(of, _), _| *of != day);
            } else if !again {
                return first.map(|()| everywhere);
            }
        }
        Err(InventoryError::Contended(key))
    }

    /// What is to be brought; none if every mirror has it.
    async fn load(
        &self,
        parts: &InventoryParts,
        ledger: &Mutex<Ledger>,
        day: SpoolDate,
        key: &Key,
    ) -> Result<Option<Load>, InventoryError> {
        let (local, counts) = {
            let ledger = ledger.lock().await;
            // Behind what counts a line may be half written just now.
            let counts = ledger.current().filter(|(current, _)| *current == day);
            (ledger.local(), counts.map(|(_, bytes)| bytes))
        };
        let text = blocking(move || local.beginning(day, counts)).await?;
        let text = Bytes::from(text);
        let bytes = text.len() as u64;
        let has = |mirror| {
            let sent = self.sent.get(&(day, mirror));
            sent.is_some_and(|sent| sent.bytes == bytes)
        };
        if (0..parts.mirrors.iter().count()).all(has) {
            return Ok(None);
        }
        let gzip = remote::pack(text.clone()).await?;
        if gzip.len() as u64 > OBJECT_BYTES_MAX {
            let (key, bytes) = (key.clone(), gzip.len() as u64);
            return Err(InventoryError::TooLarge { key, bytes });
        }
        Ok(Some(Load {
            key: key.clone(),
            text,
            gzip,
            is_over: day < day_of(parts.clock.now()),
        }))
    }

    fn warn(&mut self) {
        if !std::mem::replace(&mut self.warned, true) {
            tracing::warn!(
                "a store does not honour versions: the inventory of a day goes there only once the day is over"
            );
        }
    }

    /// Removes the file of a day that every mirror has, unless it has the last line of all.
    async fn clear(
        &mut self,
        ledger: &Mutex<Ledger>,
        day: SpoolDate,
    ) -> Result<(), InventoryError> {
        let ledger = ledger.lock().await;
        if ledger.current().is_none_or(|(current, _)| current <= day) {
            return Ok(());
        }
        let local = ledger.local();
        blocking(move || local.remove(day)).await?;
        self.sent.retain(|(of, _), _| *of != day);
        Ok(())
    }
}

impl Load {
    async fn bring(&self, lake: &Lake, sent: Option<&Sent>) -> Result<Brought, InventoryError> {
        lake.ensure_probed().await?;
        if sent.is_some_and(|sent| sent.bytes == self.text.len() as u64) {
            return Ok(Brought::There(
                self.sent(sent.and_then(|s| s.version.clone())),
            ));
        }
        if !lake.honours().update {
            return self.bring_once(lake).await;
        }
        if let Some(version) = sent.and_then(|sent| sent.version.as_ref())
            && let Swap::Swapped(version) = self.swap(lake, version).await?
        {
            return Ok(Brought::There(self.sent(Some(version))));
        }
        match remote::fetch(lake, &self.key).await? {
            Fetched::Absent => Ok(match lake.put_new(&self.key, self.gzip.clone()).await? {
                PutNew::Created | PutNew::Same => Brought::There(self.sent(None)),
                PutNew::Different => Brought::Again,
            }),
            Fetched::Text(text, version) if text == self.text => {
                Ok(Brought::There(self.sent(Some(version))))
            }
            Fetched::Text(text, version) => {
                if let Some(other) = self.more_in(lake, text).await? {
                    return Ok(Brought::Other(other));
                }
                Ok(match self.swap(lake, &version).await? {
                    Swap::Swapped(version) => Brought::There(self.sent(Some(version))),
                    Swap::Conflict => Brought::Again,
                })
            }
            Fetched::Unreadable(why) => Err(self.unreadable(lake, why)),
        }
    }

    /// What a mirror says of the day, if any of it is not known here.
    async fn more_in(&self, lake: &Lake, text: Vec<u8>) -> Result<Option<Day>, InventoryError> {
        if self.text.starts_with(&text) {
            return Ok(None);
        }
        let ours = self.text.clone();
        let more = blocking(move || {
            let theirs = Day::read(&text);
            Ok((!Day::read(&ours).has_all_of(&theirs)).then_some(theirs))
        });
        let more = more.await?;
        if more.is_none() {
            tracing::error!(key = %self.key, lake = lake.id(), "somebody has changed the inventory in the lake; it is put back as this node wrote it");
        }
        Ok(more)
    }

    /// To a store that cannot replace an object safely: once, when nothing more can come.
    async fn bring_once(&self, lake: &Lake) -> Result<Brought, InventoryError> {
        if !self.is_over {
            return Ok(Brought::Waits);
        }
        match lake.put_new(&self.key, self.gzip.clone()).await? {
            PutNew::Created | PutNew::Same => return Ok(Brought::There(self.sent(None))),
            PutNew::Different => {}
        }
        match remote::fetch(lake, &self.key).await? {
            Fetched::Absent => Ok(Brought::Again),
            Fetched::Text(text, _) if self.is_all_in(&text) => Ok(Brought::There(self.sent(None))),
            Fetched::Text(..) => Err(InventoryError::NoVersions {
                key: self.key.clone(),
                lake: lake.id().to_owned(),
            }),
            Fetched::Unreadable(why) => Err(self.unreadable(lake, why)),
        }
    }

    fn is_all_in(&self, text: &[u8]) -> bool {
        let mut ours: Vec<Item> = super::day::items_in(&self.text).collect();
        Day::read(text).lacking(&mut ours);
        ours.is_empty()
    }

    async fn swap(&self, lake: &Lake, version: &Version) -> Result<Swap, InventoryError> {
        let gzip = self.gzip.clone();
        Ok(lake.put_if_version(&self.key, version, gzip).await?)
    }

    fn sent(&self, version: Option<Version>) -> Sent {
        let bytes = self.text.len() as u64;
        Sent { bytes, version }
    }

    fn unreadable(&self, lake: &Lake, why: String) -> InventoryError {
        InventoryError::Unreadable {
            key: self.key.clone(),
            lake: lake.id().to_owned(),
            why,
        }
    }
}
