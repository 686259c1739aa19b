//! Mending: a mirror gets an archive of everything, named for its content, as if a replica had uploaded it; then the hour is
//! consolidated there. Nothing else but marks is ever written to a mirror, so what holds for uploads holds for this.

use std::collections::BTreeSet;
use std::sync::Arc;

use cannery_formats::feed::{FeedId, Hour};
use jiff::Timestamp;

use super::{Auditor, Finding, Mended, Seen, missing, whole};
use crate::consolidate::Visit;
use crate::error::Error;
use crate::fetched::{Fetched, Subject};
use crate::hour_folder::HourFolder;
use crate::store::Store;

impl Auditor {
    /// Mends what can be mended of `findings`, which may be old: everything is looked at again. `seen` hears of each. What is set
    /// aside is noted with the time `now`.
    /// An error in one hour does not keep the others from being mended.
    pub async fn fix(
        &self,
        stores: &[Store],
        findings: &[Finding],
        now: Timestamp,
        seen: &mut (dyn FnMut(&Mended) + Send),
    ) -> Vec<Mended> {
        let (mut lacking, mut unmerged) = (BTreeSet::new(), BTreeSet::new());
        let mut doubtful = Vec::new();
        for finding in findings {
            match finding {
                Finding::Missing { feed, hour, .. } => {
                    lacking.insert((feed.clone(), *hour));
                }
                Finding::Unmerged {
                    store, feed, hour, ..
                } => {
                    unmerged.insert((store.clone(), feed.clone(), *hour));
                }
                Finding::Damaged { store, key, .. }
                | Finding::TooLarge { store, key, .. }
                | Finding::Restored { store, key }
                | Finding::Gone { store, key } => {
                    doubtful.push((store.as_str(), key));
                }
                Finding::Beyond { .. } | Finding::Unreadable { .. } => {}
            }
        }
        let mut done = Vec::new();
        for (id, key) in doubtful {
            let Some(store) = stores.iter().find(|known| known.id() == id) else {
                continue;
            };
            for mended in self.judge(store, key, now).await {
                seen(&mended);
                done.push(mended);
            }
        }
        for (feed, hour) in lacking {
            for mended in self.heal(stores, &feed, hour).await {
                if let Mended::Healed { store, .. } = &mended {
                    unmerged.insert((store.clone(), feed.clone(), hour));
                }
                seen(&mended);
                done.push(mended);
            }
        }
        for (store, feed, hour) in unmerged {
            if let Some(store) = stores.iter().find(|known| known.id() == store) {
                let mended = self.merge(store, &feed, hour).await;
                seen(&mended);
                done.push(mended);
            }
        }
        done
    }

    async fn merge(&self, store: &Store, feed: &FeedId, hour: Hour) -> Mended {
        match self.consolidator.consolidate(store, feed, hour).await {
            Ok(report) => Mended::Consolidated { report },
            Err(error) => not(store, feed, hour, &error.to_string()),
        }
    }

    async fn heal(&self, stores: &[Store], feed: &FeedId, hour: Hour) -> Vec<Mended> {
        let subject = Subject {
            feed: feed.clone(),
            hour,
        };
        let all = match self.read_all(stores, &subject).await {
            Ok(all) => all,
            Err((store, error)) => return vec![not(store, feed, hour, &error.to_string())],
        };
        let whole = whole(&all);
        let mut done = Vec::new();
        for (store, _) in missing(stores, &all) {
            let there = stores.iter().zip(&all);
            let there = there.filter(|(known, _)| known.id() == store.id());
            let folders = there.map(|(_, seen)| &seen.folder);
            let archives = inputs(&all);
            let put = self.put((store, folders), &subject, &archives, &whole);
            let put = put.await;
            done.push(match put {
                Ok(Some(archive)) => Mended::Healed {
                    store: store.id().to_owned(),
                    key: archive.key.clone(),
                    entries: whole.len(),
                },
                Ok(None) => not(store, feed, hour, "it was changed meanwhile; try again"),
                Err(error) => not(store, feed, hour, &error.to_string()),
            });
        }
        done
    }

    async fn read_all<'a>(
        &self,
        stores: &'a [Store],
        subject: &Subject,
    ) -> Result<Vec<Seen>, (&'a Store, Error)> {
        let mut all = Vec::new();
        for store in stores {
            let failed = |error: Error| (store, error);
            let listed = HourFolder::list(&store.lake, &subject.feed, subject.hour).await;
            let folder = listed.map_err(|error| failed(error.into()))?;
            let mut findings = Vec::new();
            let seen = self.read(&store.lake, subject, folder, &mut findings);
            all.push(seen.await.map_err(failed)?);
        }
        Ok(all)
    }

    async fn put<'a>(
        &self,
        (store, folders): (&Store, impl Iterator<Item = &'a HourFolder>),
        subject: &Subject,
        inputs: &[Arc<Fetched>],
        whole: &cannery_formats::feed::ContentSet,
    ) -> Result<Option<Arc<Fetched>>, Error> {
        let mut steps = Vec::new();
        let fetcher = &self.consolidator.fetcher;
        let mut visit = Visit::new(fetcher, &store.lake, subject, &mut steps);
        folders.for_each(|folder| visit.avoid(folder));
        visit.put_whole(inputs, whole).await
    }
}

/// One archive that has everything, or all of them.
fn inputs(all: &[Seen]) -> Vec<Arc<Fetched>> {
    let everything = whole(all);
    let archives = || all.iter().flat_map(|seen| &seen.archives);
    match archives().find(|archive| *archive.set() == everything) {
        Some(one) => vec![Arc::clone(one)],
        None => archives().cloned().collect(),
    }
}

pub(super) fn not(store: &Store, feed: &FeedId, hour: Hour, why: &str) -> Mended {
    Mended::Not {
        store: store.id().to_owned(),
        feed: feed.clone(),
        hour,
        why: why.to_owned(),
    }
}
