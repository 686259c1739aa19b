//! One visit to an hour of one store: what was read, what is written, what was done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cannery_formats::Key;
use cannery_formats::feed::{ArchiveName, Codec, ContentSet, FoundName, Holding};
use cannery_lake::{Body, Lake, PutNew, present};
use futures::FutureExt as _;
use futures::stream::{self, StreamExt as _};

use super::step::Step;
use crate::error::Error;
use crate::fetched::{Fetch, Fetched, Fetcher, Subject};
use crate::hour_folder::HourFolder;
use crate::scratch::ScratchFile;

/// Archives that are brought here and looked through at the same time.
const READS_AT_ONCE: usize = 4;

/// Whether there is more to do.
#[derive(Debug)]
pub(crate) enum Round {
    /// Something changed, by us or by others: look again.
    Again,
    /// Nothing is left to do; the archive beside the primary that holds everything, if there is one.
    Settled(Option<Arc<Fetched>>),
}

/// What is at the key of the primary.
#[derive(Debug)]
pub(crate) enum Primary {
    Absent,
    There(Arc<Fetched>),
    /// Left alone.
    Unusable,
}

#[derive(Debug)]
pub(crate) struct Visit<'a> {
    pub(crate) fetcher: &'a Fetcher,
    pub(crate) lake: &'a Lake,
    pub(crate) subject: &'a Subject,
    pub(crate) steps: &'a mut Vec<Step>,
    /// Archives that are named for their content, which does not change under a name.
    known: BTreeMap<Key, Arc<Fetched>>,
    unusable: BTreeSet<Key>,
}

impl<'a> Visit<'a> {
    pub(crate) fn new(
        fetcher: &'a Fetcher,
        lake: &'a Lake,
        subject: &'a Subject,
        steps: &'a mut Vec<Step>,
    ) -> Self {
        Self {
            fetcher,
            lake,
            subject,
            steps,
            known: BTreeMap::new(),
            unusable: BTreeSet::new(),
        }
    }

    /// Names that are marked as set aside are not used, whatever lies there by now: nobody would find it.
    pub(crate) fn avoid(&mut self, folder: &HourFolder) {
        self.unusable.extend(folder.marked.iter().cloned());
    }

    pub(crate) fn note(&mut self, step: Step) {
        self.steps.push(step);
    }

    pub(crate) fn name_of(&self, holding: Holding) -> Key {
        Key::feed_archive(&ArchiveName {
            feed: self.subject.feed.clone(),
            hour: self.subject.hour,
            holding,
        })
    }

    /// Whether the hour was deleted on purpose. Looked for before and after every put.
    pub(crate) async fn is_deleted(&self) -> Result<bool, Error> {
        let tombstone = Key::feed_tombstone(&self.subject.feed, self.subject.hour);
        Ok(present(self.lake.head(&tombstone).await)?.is_some())
    }

    /// Reads archives, some at once; nothing when one of them is gone by now. What cannot be used is left out and noted once.
    pub(crate) async fn gather(
        &mut self,
        keys: &[Key],
    ) -> Result<Option<Vec<Arc<Fetched>>>, Error> {
        let mut found = BTreeMap::new();
        let mut unread = Vec::new();
        for key in keys {
            match self.known.get(key) {
                Some(known) => drop(found.insert(key, Arc::clone(known))),
                None if self.unusable.contains(key) => {}
                None => unread.push(key),
            }
        }
        let (fetcher, lake, subject) = (self.fetcher, self.lake, self.subject);
        let reads = unread
            .into_iter()
            .map(|key| async move { (key, fetcher.fetch(lake, subject, key).await) }.boxed());
        let reads: Vec<_> = reads.collect();
        let mut reads = stream::iter(reads).buffered(READS_AT_ONCE);
        while let Some((key, read)) = reads.next().await {
            match read? {
                Fetch::Archive(archive) => {
                    self.remember(&archive);
                    found.insert(key, archive);
                }
                Fetch::Unusable(fault) => self.leave(key, fault.why),
                Fetch::Vanished => {
                    self.note(Step::Conflict { key: key.clone() });
                    return Ok(None);
                }
            }
        }
        Ok(Some(found.into_values().collect()))
    }

    fn remember(&mut self, archive: &Arc<Fetched>) {
        let Subject { feed, hour } = self.subject;
        let name = FoundName::of(feed, *hour, archive.key.file_name());
        if matches!(name, FoundName::Ours(name) if name.holding != Holding::Primary) {
            self.known.insert(archive.key.clone(), Arc::clone(archive));
        }
    }

    pub(crate) fn leave(&mut self, key: &Key, why: impl Into<String>) {
        if self.unusable.insert(key.clone()) {
            let (key, why) = (key.clone(), why.into());
            self.note(Step::LeftAlone { key, why });
        }
    }

    pub(crate) async fn primary(&mut self) -> Result<Primary, Error> {
        let key = self.name_of(Holding::Primary);
        let fetch = self
            .fetcher
            .fetch_with_version(self.lake, self.subject, &key);
        Ok(match fetch.await? {
            Fetch::Archive(archive) => Primary::There(archive),
            Fetch::Vanished => Primary::Absent,
            Fetch::Unusable(fault) => {
                self.leave(&key, fault.why);
                Primary::Unusable
            }
        })
    }

    /// Writes an archive of everything in `inputs`, which is `set`.
    pub(crate) async fn unite(
        &self,
        inputs: &[Arc<Fetched>],
        set: &ContentSet,
        codec: Codec,
    ) -> Result<ScratchFile, Error> {
        let inputs = inputs.to_vec();
        let (made, file) = self.fetcher.unite(self.subject, inputs, codec).await?;
        if made == *set {
            return Ok(file);
        }
        Err(Error::Merge {
            feed: self.subject.feed.clone(),
            hour: self.subject.hour,
            why: "the result does not hold what the inputs hold".to_owned(),
        })
    }

    /// Puts an archive of `set` and reads it back; nothing when others changed the hour meanwhile. It is gzip, unless
    /// something that cannot be used has that name.
    pub(crate) async fn put_whole(
        &mut self,
        inputs: &[Arc<Fetched>],
        set: &ContentSet,
    ) -> Result<Option<Arc<Fetched>>, Error> {
        for codec in Codec::ALL {
            let key = self.name_of(Holding::Set(set.hash(), codec));
            if self.unusable.contains(&key) {
                continue;
            }
            let file = self.unite(inputs, set, codec).await?;
            let Some(put) = self.put(&key, &file).await? else {
                return Ok(None);
            };
            match self.fetcher.fetch(self.lake, self.subject, &key).await? {
                Fetch::Archive(archive) if archive.set() == set => {
                    self.note(Step::Merged {
                        archives: inputs.len(),
                        into: key,
                        entries: set.len(),
                    });
                    self.remember(&archive);
                    return Ok(Some(archive));
                }
                Fetch::Vanished => {
                    self.note(Step::Conflict { key });
                    return Ok(None);
                }
                Fetch::Unusable(fault) if put == PutNew::Different => self.leave(&key, fault.why),
                Fetch::Unusable(fault) => return Err(self.not_as_put(key, fault.why)),
                Fetch::Archive(_) => return Err(self.not_as_put(key, "it holds another set")),
            }
        }
        Err(Error::NamesTaken {
            store: self.lake.id().to_owned(),
            feed: self.subject.feed.clone(),
            hour: self.subject.hour,
        })
    }

    /// Creates an object unless the hour was deleted; nothing when it was, before or meanwhile.
    pub(crate) async fn put(&self, key: &Key, file: &ScratchFile) -> Result<Option<PutNew>, Error> {
        if self.is_deleted().await? {
            return Ok(None);
        }
        let body = Body::File(file.path().to_owned());
        let put = self.lake.put_new(key, body).await?;
        Ok((!self.is_deleted().await?).then_some(put))
    }

    pub(crate) fn not_as_put(&self, key: Key, why: impl Into<String>) -> Error {
        Error::ReadBack {
            store: self.lake.id().to_owned(),
            key,
            why: why.into(),
        }
    }

    /// Deletes what is proven to be elsewhere, or what nobody is to have.
    pub(crate) async fn delete(&mut self, keys: &[Key]) -> Result<(), Error> {
        for key in keys {
            self.lake.delete(key).await?;
            self.known.remove(key);
            self.note(Step::Deleted { key: key.clone() });
        }
        Ok(())
    }
}
