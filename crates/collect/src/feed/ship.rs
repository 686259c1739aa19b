//! Shipping an archive: to every mirror, unless its hour was deleted on purpose; then the local one goes.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use cannery_formats::Key;
use cannery_formats::feed::{ArchiveName, FeedId, FoundName, Hour};
use cannery_formats::hour_archive::{ArchiveFault, Limits, survey};
use cannery_lake::{Body, ErrorKind, Lake, Mirrors, PutNew};
use cannery_runtime::disk::{Open, read_file, write_durably};
use serde::{Deserialize, Serialize};

use super::depot::Depot;
use super::disk_stream::FileReader;
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
    },
    #[error("cannot ship `{name}` to `{lake}`: another archive of this name is there: {why}")]
    Conflict {
        name: ArchiveName,
        lake: String,
        why: String,
    },
    #[error("cannot ship `{name}`: {why}")]
    Disk { name: ArchiveName, why: io::Error },
}

/// What came of one upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upload {
    /// It is there.
    Stored,
    /// The hour was deleted on purpose: it is not there any more.
    Unwanted,
}

/// The stores that have an archive.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Receipt {
    stores: BTreeSet<String>,
}

type Told<'a> = dyn Fn(&ArchiveName, &str, Result<Upload, &ShipError>) + Sync + 'a;

pub(super) struct Ship<'a> {
    pub(super) depot: &'a Depot,
    pub(super) mirrors: &'a Mirrors,
    pub(super) uploads: &'a dyn Uploads,
    /// Told of every upload as it ends.
    pub(super) told: &'a Told<'a>,
}

impl Ship<'_> {
    /// Does what is left to do of an archive. May be repeated at any time.
    pub(super) async fn ship(&self, name: &ArchiveName) -> Result<(), ShipError> {
        let failed = |why| ShipError::Disk {
            name: name.clone(),
            why,
        };
        let Some(body) = self.body(name).await.map_err(failed)? else {
            // It was done before, and only the list did not hear of it.
            return self.forget(name).await.map_err(failed);
        };
        let mut receipt = self.receipt(name).await.map_err(failed)?;
        let mut first_error = None;
        for lake in self.mirrors.iter() {
            if receipt.stores.contains(lake.id()) {
                continue;
            }
            let uploaded = self.upload(name, lake, body.clone()).await;
            (self.told)(name, lake.id(), uploaded.as_ref().copied());
            match uploaded {
                Ok(upload) => {
                    receipt.stores.insert(lake.id().to_owned());
                    self.keep_receipt(name, &receipt).await.map_err(failed)?;
                    if upload == Upload::Stored {
                        let (feed, hour) = (&name.feed, name.hour);
                        self.uploads.uploaded(lake.id(), feed, hour).await;
                    }
                }
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        match first_error {
            Some(error) => Err(error),
            None => self.forget(name).await.map_err(failed),
        }
    }

    async fn upload(
        &self,
        name: &ArchiveName,
        lake: &Lake,
        body: Body,
    ) -> Result<Upload, ShipError> {
        let failed = |why: String| ShipError::Lake {
            name: name.clone(),
            lake: lake.id().to_owned(),
            why,
        };
        let key = Key::feed_archive(name);
        let put = lake.put_new(&key, body).await;
        match put.map_err(|error| failed(error.to_string()))? {
            PutNew::Created | PutNew::Same => {}
            PutNew::Different => self.compare(name, lake, &key).await?,
        }
        // After the put: whoever deletes the hour first marks it, then removes what he sees.
        let tombstone = Key::feed_tombstone(&name.feed, name.hour);
        match lake.head(&tombstone).await {
            Err(error) if error.kind == ErrorKind::Absent => Ok(Upload::Stored),
            Err(error) => Err(failed(error.to_string())),
            Ok(_) => {
                let deleted = lake.delete(&key).await;
                deleted.map_err(|error| failed(error.to_string()))?;
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

    /// The archive; nothing when it is gone.
    async fn body(&self, name: &ArchiveName) -> io::Result<Option<Body>> {
        let (disk, path) = (Arc::clone(self.depot.disk()), self.depot.archive(name));
        blocking(move || {
            let file = match disk.open(&path, Open::Read) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                opened => opened?,
            };
            if file.len()? > MEMORY_BYTES_MAX {
                return Ok(Some(Body::File(path)));
            }
            let content = read_file(&*file, MEMORY_BYTES_MAX)?;
            Ok(Some(Body::Bytes(Bytes::from(content))))
        })
        .await
    }

    async fn receipt(&self, name: &ArchiveName) -> io::Result<Receipt> {
        let (disk, path) = (Arc::clone(self.depot.disk()), self.depot.receipt(name));
        blocking(move || {
            match cannery_runtime::disk::read(&*disk, &path, RECEIPT_BYTES_MAX) {
                // One that cannot be read proves nothing: everything is shipped again.
                Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Receipt::default()),
                Err(error) => Err(error),
            }
        })
        .await
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
        FoundName::Foreign | FoundName::Tombstone | FoundName::Unknown => None,
    }
}
