//! What is not as it should be: hours that are not merged, hours that a mirror lacks, archives that cannot be used; and
//! mending what can be mended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cannery_formats::feed::{ContentSet, FeedId, Hour};
use cannery_lake::Lake;

use crate::consolidate::Consolidator;
use crate::error::Error;
use crate::fetched::{Fetch, Fetched, Subject, Unusable, Verdict};
use crate::hour_folder::HourFolder;
use crate::scan::Need;
use crate::scope::{Folders, Scope};
use crate::store::{Store, Way};

mod aside;
mod finding;
mod fix;

pub(crate) use finding::counted;
pub use finding::{Finding, Mended};

/// How often an hour is looked at again because somebody merged it meanwhile.
const ROUNDS_MAX: u32 = 16;

/// Looks at hours of all mirrors, and reads every archive. Nothing is changed by looking.
#[derive(Clone, Debug)]
pub struct Auditor {
    consolidator: Consolidator,
}

/// How far an audit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The stores are being listed.
    Listing {
        /// Objects of the store that were seen so far.
        objects: u64,
    },
    /// Hours are being read.
    Hours {
        /// Hours that were looked at.
        done: usize,
        /// Hours to look at.
        of: usize,
    },
}

/// An hour of one store, read.
#[derive(Debug)]
struct Seen {
    folder: HourFolder,
    archives: Vec<Arc<Fetched>>,
    set: ContentSet,
    /// Whether an archive could not be read at all, so that it is unknown what is missing.
    has_unread: bool,
}

impl Auditor {
    /// One that mends with `consolidator`.
    #[must_use]
    pub fn new(consolidator: Consolidator) -> Self {
        Self { consolidator }
    }

    /// Looks at the hours of `scope` in all stores. `seen` hears how far it is, and every finding as it is made.
    ///
    /// # Errors
    /// When a store cannot be listed: then nothing can be said of it.
    pub async fn audit(
        &self,
        stores: &[Store],
        scope: &Scope,
        seen: &mut (dyn FnMut(Progress, &[Finding]) + Send),
    ) -> Result<Vec<Finding>, Error> {
        let mut listings = Vec::new();
        for store in stores {
            store.know_way().await?;
            let mut listed = |objects| seen(Progress::Listing { objects }, &[]);
            listings.push(scope.folders(&store.lake, &mut listed).await?);
        }
        let hours = hours_of(&listings);
        let mut findings = Vec::new();
        let of = hours.len();
        for (done, (feed, hour)) in hours.into_iter().enumerate() {
            let place = (feed.clone(), hour);
            let listed = listings.iter().map(|listing| listing.get(&place).cloned());
            let listed: Vec<_> = listed.map(Option::unwrap_or_default).collect();
            let subject = Subject { feed, hour };
            let found = self.hour(stores, &subject, listed).await?;
            let done = done + 1;
            seen(Progress::Hours { done, of }, &found);
            findings.extend(found);
        }
        Ok(findings)
    }

    async fn hour(
        &self,
        stores: &[Store],
        subject: &Subject,
        listed: Vec<HourFolder>,
    ) -> Result<Vec<Finding>, Error> {
        let mut findings = Vec::new();
        let mut all = Vec::new();
        for (store, folder) in stores.iter().zip(listed) {
            let mut found = Vec::new();
            let seen = self.read(&store.lake, subject, folder, &mut found);
            let seen = seen.await?;
            if Need::of(store).is_there(&seen.folder) && !self.is_full(store, &seen) {
                findings.push(Finding::Unmerged {
                    store: store.id().to_owned(),
                    feed: subject.feed.clone(),
                    hour: subject.hour,
                    archives: seen.folder.archives().len(),
                });
            }
            findings.extend(found);
            all.push(seen);
        }
        for (store, entries) in missing(stores, &all) {
            findings.push(Finding::Missing {
                store: store.id().to_owned(),
                feed: subject.feed.clone(),
                hour: subject.hour,
                entries,
            });
        }
        Ok(findings)
    }

    /// Whether the primary is too large to take in the one archive beside it, which stays there.
    fn is_full(&self, store: &Store, seen: &Seen) -> bool {
        let bytes = seen.archives.iter().map(|archive| archive.file.len());
        let bytes: u64 = bytes.map(Result::unwrap_or_default).sum();
        let is_swapped = store.way().of(seen.folder.primary.is_some()) == Way::Swapped;
        is_swapped
            && seen.folder.primary.is_some()
            && seen.folder.parts().len() == 1
            && bytes > self.consolidator.fetcher.swap_bytes_max
    }

    /// Reads the archives of an hour, as they are now if they are not as listed any more.
    async fn read(
        &self,
        lake: &Lake,
        subject: &Subject,
        mut folder: HourFolder,
        findings: &mut Vec<Finding>,
    ) -> Result<Seen, Error> {
        for _ in 0..ROUNDS_MAX {
            let mut found = Vec::new();
            if let Some(seen) = self.look(lake, subject, &folder, &mut found).await? {
                findings.extend(found);
                return Ok(seen);
            }
            folder = HourFolder::list(lake, &subject.feed, subject.hour).await?;
        }
        Err(Error::Restless {
            store: lake.id().to_owned(),
            feed: subject.feed.clone(),
            hour: subject.hour,
            rounds: ROUNDS_MAX,
        })
    }

    /// Nothing when an archive is gone by now.
    async fn look(
        &self,
        lake: &Lake,
        subject: &Subject,
        folder: &HourFolder,
        findings: &mut Vec<Finding>,
    ) -> Result<Option<Seen>, Error> {
        let mut seen = Seen {
            folder: folder.clone(),
            archives: Vec::new(),
            set: ContentSet::default(),
            has_unread: false,
        };
        let store = lake.id().to_owned();
        for entry in folder.archives() {
            let (store, key) = (store.clone(), entry.key.clone());
            let fetch = self.consolidator.fetcher.fetch(lake, subject, &key);
            match fetch.await {
                Ok(Fetch::Archive(archive)) => {
                    seen.set = seen.set.union(archive.set());
                    seen.archives.push(archive);
                }
                Ok(Fetch::Unusable(Unusable { why, verdict, .. })) => {
                    findings.push(match verdict {
                        Verdict::Damaged => Finding::Damaged { store, key, why },
                        Verdict::TooLarge => Finding::TooLarge { store, key, why },
                        Verdict::Beyond => Finding::Beyond { store, key, why },
                    });
                }
                Ok(Fetch::Vanished) => return Ok(None),
                Err(Error::Lake(error)) => {
                    seen.has_unread = true;
                    let why = error.to_string();
                    findings.push(Finding::Unreadable { store, key, why });
                }
                Err(error) => return Err(error),
            }
        }
        if !folder.tombstone {
            findings.extend(folder.lone_marks().map(|key| Finding::Gone {
                store: store.clone(),
                key: key.clone(),
            }));
        }
        for entry in &folder.set_aside {
            let (store, key) = (store.clone(), entry.key.clone());
            let fetch = self.consolidator.fetcher.fetch(lake, subject, &key);
            match fetch.await {
                Ok(Fetch::Archive(_)) => findings.push(Finding::Restored { store, key }),
                // Nobody counts on it: that it could not be looked at this time is no finding.
                Ok(Fetch::Unusable(_) | Fetch::Vanished) | Err(Error::Lake(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Some(seen))
    }
}

fn hours_of(listings: &[Folders]) -> BTreeSet<(FeedId, Hour)> {
    let places = listings.iter().flat_map(BTreeMap::keys);
    places.cloned().collect()
}

/// The stores that lack something another one has, and how many entries. An hour that was deleted anywhere on purpose is
/// missing nowhere.
fn missing<'a>(stores: &'a [Store], all: &[Seen]) -> Vec<(&'a Store, usize)> {
    if all.iter().any(|seen| seen.folder.tombstone) {
        return Vec::new();
    }
    let whole = whole(all);
    let lacks = |seen: &Seen| !seen.has_unread && seen.set.len() < whole.len();
    let lacking = stores.iter().zip(all).filter(|(_, seen)| lacks(seen));
    lacking
        .map(|(store, seen)| (store, whole.len() - seen.set.len()))
        .collect()
}

fn whole(all: &[Seen]) -> ContentSet {
    let sets = all.iter().map(|seen| &seen.set);
    sets.fold(ContentSet::default(), |whole, set| whole.union(set))
}
