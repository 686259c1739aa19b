//! Shipping an archive: to each mirror by itself, unless its hour was deleted on purpose; once all have it the local one goes.
//! What the disk damaged meanwhile is shipped nowhere, but set aside.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use cannery_formats::Key;
use cannery_formats::feed::{ArchiveName, FeedId, FoundName, Hour};
use cannery_formats::hour_archive::{ArchiveFault, Limits, survey};
use cannery_lake::{Body, Lake, Mirrors, PutNew, present};
use cannery_runtime::disk::{Open, read_file, write_durably};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::depot::Depot;
use super::disk_stream::FileReader;
use super::sound::{Verdict, examine};
use crate::blocking::blocking;

/// What is longer is not brought into memory.
const MEMORY_BYTES_MAX: u64 = 64 << 20;
/// What lies under our name in the lake is compared up to this length.
const COMPARE_BYTES_MAX: u64 = 1 << 30;
const RECEIPT_BYTES_MAX: u64 = 64 * 1024;

/// Who wants to know what a store has now. Called again after a crash, or not at all: whoever needs to know must look as well.
#[async_trait]
pub trait Uploads: Send + Sync + 'static {
    /// An archive of this hour is in the store.
    async fn uploaded(&self, store: &str, feed: &FeedId, hour: Hour);
}

/// Why an archive is not shipped yet.
#[derive(Debug, thiserror::Error)]
pub(super) enum ShipError {
    #[error("cannot ship `{name}` to `{lake}`: {why}")]
    Lake {
        name: ArchiveName,
        lake: String,
        why: String,
        /// Whether it is about the store, and not about this archive.
        is_of_the_store: bool,
    },
    #[error("cannot ship `{name}` to `{lake}`: another archive of this name is there: {why}")]
    Conflict {
        name: ArchiveName,
        lake: String,
        why: String,
    },
    #[error("cannot ship `{name}`: {why}")]
    Disk { name: ArchiveName, why: io::Error },
    #[error("cannot ship `{name}`: {why}; it was set aside as `{aside}`, {next}")]
    Damaged {
        name: ArchiveName,
        why: String,
        aside: String,
        next: String,
    },
}

/// What came of one upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upload {
    /// It is there.
    Stored,
    /// The hour was deleted on purpose: it is not there any more.
    Unwanted,
}

/// What is left to do of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shipped {
    /// Nothing: every mirror has it.
    Everywhere,
    /// Another mirror does not have it yet.
    Waits,
    /// These mirrors had it and were made anew since then: it is to be shipped there again.
    Again(Vec<String>),
}

/// The stores that have an archive, each with the time since when it was part of the lake: one that is another place now, or was
/// emptied and joined the lake again, has it no more.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Receipt {
    stores: BTreeMap<String, Option<Timestamp>>,
}

/// What lies on the disk under the name of an archive.
enum Cargo {
    Gone,
    Sound(Body),
    /// Because.
    Damaged(String),
}

type Told<'a> = dyn Fn(&ArchiveName, &str, Result<Upload, &ShipError>) + Sync + 'a;

impl ShipError {
    /// Whether every other archive would have met the same in this store.
    pub(super) fn is_of_the_store(&self) -> bool {
        match self {
            Self::Lake {
                is_of_the_store, ..
            } => *is_of_the_store,
            Self::Conflict { .. } | Self::Disk { .. } | Self::Damaged { .. } => false,
        }
    }
}

/// Those who write down at the same time that a store has an archive take turns: each adds to what the others wrote.
#[derive(Debug, Default)]
pub(super) struct Pens([tokio::sync::Mutex<()>; 16]);

impl Pens {
    async fn take(&self, name: &ArchiveName) -> tokio::sync::MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        name.to_string().hash(&mut hasher);
        let count = self.0.len() as u64;
        let at = usize::try_from(hasher.finish() % count).expect("it is below the count");
        self.0[at].lock().await
    }
}

pub(super) struct Ship<'a> {
    pub(super) depot: &'a Depot,
    pub(super) mirrors: &'a Mirrors,
    pub(super) pens: &'a Pens,
    pub(super) uploads: &'a dyn Uploads,
    /// Told of every upload as it ends.
    pub(super) told: &'a Told<'a>,
}

impl Ship<'_> {
    /// Does what is left to do of an archive for one mirror. May be repeated at any time, and done for several mirrors at once.
    pub(super) async fn ship(&self, name: &ArchiveName, lake: &Lake) -> Result<Shipped, ShipError> {
        let failed = |why| ShipError::Disk {
            name: name.clone(),
            why,
        };
        let since = since(name, lake).await?;
        let receipt = self.receipt(name).await.map_err(failed)?;
        if receipt.stores.get(lake.id()) == Some(&since) {
            return self.forget_if_everywhere(name, &receipt).await;
        }
        let body = match self.cargo(name).await.map_err(failed)? {
            Cargo::Sound(body) => body,
            Cargo::Damaged(why) => {
                self.set_aside(name, lake, why).await.map_err(failed)?;
                return Ok(Shipped::Everywhere);
            }
            // It was done before, and only the list did not hear of it.
            Cargo::Gone => {
                self.forget(name).await.map_err(failed)?;
                return Ok(Shipped::Everywhere);
            }
        };
        let uploaded = self.upload(name, lake, body).await;
        (self.told)(name, lake.id(), uploaded.as_ref().copied());
        let upload = uploaded?;
        let receipt = self.sign(name, lake, since).await.map_err(failed)?;
        if upload == Upload::Stored {
            let (feed, hour) = (&name.feed, name.hour);
            self.uploads.uploaded(lake.id(), feed, hour).await;
        }
        self.forget_if_everywhere(name, &receipt).await
    }

    /// Writes down durably that a mirror has an archive.
    async fn sign(
        &self,
        name: &ArchiveName,
        lake: &Lake,
        since: Option<Timestamp>,
    ) -> io::Result<Receipt> {
        let _pen = self.pens.take(name).await;
        let mut receipt = self.receipt(name).await?;
        receipt.stores.insert(lake.id().to_owned(), since);
        self.keep_receipt(name, &receipt).await?;
        Ok(receipt)
    }

    /// Removes the archive here once every mirror has it, and is still the one that it was put into.
    async fn forget_if_everywhere(
        &self,
        name: &ArchiveName,
        receipt: &Receipt,
    ) -> Result<Shipped, ShipError> {
        if !self
            .mirrors
            .iter()
            .all(|lake| receipt.stores.contains_key(lake.id()))
        {
            return Ok(Shipped::Waits);
        }
        let mut again = Vec::new();
        for lake in self.mirrors.iter() {
            if receipt.stores.get(lake.id()) != Some(&since(name, lake).await?) {
                again.push(lake.id().to_owned());
            }
        }
        if !again.is_empty() {
            return Ok(Shipped::Again(again));
        }
        let _pen = self.pens.take(name).await;
        let forgotten = self.forget(name).await;
        forgotten
            .map(|()| Shipped::Everywhere)
            .map_err(|why| ShipError::Disk {
                name: name.clone(),
                why,
            })
    }

    async fn upload(
        &self,
        name: &ArchiveName,
        lake: &Lake,
        body: Body,
    ) -> Result<Upload, ShipError> {
        let failed = |error: cannery_lake::Error| ShipError::Lake {
            name: name.clone(),
            lake: lake.id().to_owned(),
            why: error.to_string(),
            is_of_the_store: error.kind.is_of_the_store(),
        };
        let key = Key::feed_archive(name);
        match lake.put_new(&key, body).await.map_err(failed)? {
            PutNew::Created | PutNew::Same => {}
            PutNew::Different => self.compare(name, lake, &key).await?,
        }
        unmark(lake, &key).await.map_err(failed)?;
        // After the put: whoever deletes the hour first marks it, then removes what he sees.
        let tombstone = Key::feed_tombstone(&name.feed, name.hour);
        match present(lake.head(&tombstone).await).map_err(failed)? {
            None => Ok(Upload::Stored),
            Some(_) => {
                lake.delete(&key).await.map_err(failed)?;
                tracing::warn!(%key, store = lake.id(), "removed again: its hour was deleted on purpose");
                Ok(Upload::Unwanted)
            }
        }
    }

    /// Other bytes are there under a name that says what is in it: in other wrapping it is the same.
    async fn compare(&self, name: &ArchiveName, lake: &Lake, key: &Key) -> Result<(), ShipError> {
        let conflict = |why: String| ShipError::Conflict {
            name: name.clone(),
            lake: lake.id().to_owned(),
            why,
        };
        let there = lake.get(key, COMPARE_BYTES_MAX).await;
        let there = there.map_err(|error| conflict(error.to_string()))?.bytes;
        let (depot, local) = (self.depot.clone(), name.clone());
        let same = blocking(move || Ok(same_content(&depot, &local, &there))).await;
        match same {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => Err(conflict("it holds something else".to_owned())),
            Ok(Err(fault)) => Err(conflict(fault.to_string())),
            Err(error) => Err(conflict(error.to_string())),
        }
    }

    /// The archive, once it was seen to be what its name says. What fits into memory is what was looked at.
    async fn cargo(&self, name: &ArchiveName) -> io::Result<Cargo> {
        let (disk, path) = (Arc::clone(self.depot.disk()), self.depot.archive(name));
        let name = name.clone();
        blocking(move || {
            let file = match disk.open(&path, Open::Read) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Cargo::Gone),
                opened => opened?,
            };
            let (verdict, body) = if file.len()? > MEMORY_BYTES_MAX {
                (examine(FileReader::new(&*file), &name)?, Body::File(path))
            } else {
                let content = Bytes::from(read_file(&*file, MEMORY_BYTES_MAX)?);
                (examine(&*content, &name)?, Body::Bytes(content))
            };
            Ok(match verdict {
                Verdict::Sound => Cargo::Sound(body),
                Verdict::Damaged(why) => Cargo::Damaged(why),
            })
        })
        .await
    }

    /// A damaged archive goes where a person finds it, and is told of once. The mirrors that have it keep it.
    async fn set_aside(&self, name: &ArchiveName, lake: &Lake, why: String) -> io::Result<()> {
        let _pen = self.pens.take(name).await;
        let stores = self.receipt(name).await?.stores;
        let (depot, path) = (self.depot.clone(), self.depot.archive(name));
        let aside = match blocking(move || depot.set_aside(&path)).await {
            // Whoever ships it to another mirror was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            aside => aside?,
        };
        let next = match stores.first_key_value() {
            None => "and no object storage is known to have it: look at the disk".to_owned(),
            Some((store, _)) => format!("and `{store}` has it: run `cannery audit --fix`"),
        };
        let error = ShipError::Damaged {
            name: name.clone(),
            why,
            aside: aside.display().to_string(),
            next,
        };
        tracing::error!(%error, "an archive was damaged on the disk");
        (self.told)(name, lake.id(), Err(&error));
        self.forget(name).await
    }

    async fn receipt(&self, name: &ArchiveName) -> io::Result<Receipt> {
        let (depot, name) = (self.depot.clone(), name.clone());
        blocking(move || read_receipt(&depot, &name)).await
    }

    async fn keep_receipt(&self, name: &ArchiveName, receipt: &Receipt) -> io::Result<()> {
        let (disk, path) = (Arc::clone(self.depot.disk()), self.depot.receipt(name));
        let text = serde_json::to_vec(receipt).map_err(io::Error::other)?;
        blocking(move || write_durably(&*disk, &path, &text)).await
    }

    /// Every mirror has it. The archive goes before its receipt: a receipt alone is harmless.
    async fn forget(&self, name: &ArchiveName) -> io::Result<()> {
        let (depot, name) = (self.depot.clone(), name.clone());
        blocking(move || {
            let archive = depot.archive(&name);
            for path in [&archive, &depot.receipt(&name)] {
                match depot.disk().remove_file(path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    Ok(()) | Err(_) => {}
                }
            }
            archive
                .parent()
                .map_or(Ok(()), |folder| depot.prune(folder))
        })
        .await
    }
}

fn read_receipt(depot: &Depot, name: &ArchiveName) -> io::Result<Receipt> {
    let path = depot.receipt(name);
    match cannery_runtime::disk::read(&**depot.disk(), &path, RECEIPT_BYTES_MAX) {
        // One that cannot be read proves nothing: everything is shipped again.
        Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_else(|error| {
            let file = path.display();
            tracing::warn!(%file, %error, "a receipt is damaged; its archive is shipped again");
            Receipt::default()
        })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Receipt::default()),
        Err(error) => Err(error),
    }
}

/// The stores of which no receipt of an archive is here.
pub(super) fn lacking(depot: &Depot, name: &ArchiveName, mirrors: &Mirrors) -> BTreeSet<String> {
    // One that cannot be read proves nothing.
    let Receipt { stores } = read_receipt(depot, name).unwrap_or_default();
    let ids = mirrors.iter().map(Lake::id);
    let lacking = ids.filter(|id| !stores.contains_key(*id));
    lacking.map(ToOwned::to_owned).collect()
}

/// Since when a mirror has been part of the lake. It is asked each time: a person may have made it anew just now.
async fn since(name: &ArchiveName, lake: &Lake) -> Result<Option<Timestamp>, ShipError> {
    let manifest = lake.manifest().await.map_err(|error| ShipError::Lake {
        name: name.clone(),
        lake: lake.id().to_owned(),
        why: error.to_string(),
        is_of_the_store: error.kind.is_of_the_store(),
    })?;
    Ok(manifest.map(|manifest| manifest.since()))
}

/// Where a damaged archive of this name was set aside and removed, its mark would hide the sound one that is there now.
async fn unmark(lake: &Lake, key: &Key) -> cannery_lake::Result<()> {
    let mark = Key::feed_set_aside(key).expect("it is an object of a feed");
    if present(lake.head(&mark).await)?.is_some() {
        lake.delete(&mark).await?;
        tracing::warn!(%key, store = lake.id(), "a damaged archive of this name was set aside; the sound one takes its place");
    }
    Ok(())
}

fn same_content(depot: &Depot, name: &ArchiveName, there: &[u8]) -> Result<bool, ArchiveFault> {
    let limits = Limits::default();
    let file = depot
        .disk()
        .open(&depot.archive(name), Open::Read)
        .map_err(ArchiveFault::Io)?;
    let ours = survey(FileReader::new(&*file), &name.feed, name.hour, &limits)?;
    let theirs = survey(there, &name.feed, name.hour, &limits)?;
    Ok(ours.set == theirs.set)
}

/// What an archive is called on the list of those to be shipped.
pub(super) fn list_key(name: &ArchiveName) -> String {
    Key::feed_archive(name).to_string()
}

/// The archive of such a name.
pub(super) fn from_list_key(key: &str) -> Option<ArchiveName> {
    let key = Key::new(key).ok()?;
    let (feed, hour, name) = key.as_feed_object()?;
    match FoundName::of(&feed, hour, name) {
        FoundName::Ours(name) => Some(name),
        FoundName::Foreign | FoundName::Tombstone | FoundName::SetAside(_) | FoundName::Unknown => {
            None
        }
    }
}
