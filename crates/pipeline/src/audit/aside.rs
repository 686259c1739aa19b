//! Setting aside what cannot be read or is too large, and taking it back. Nothing is moved or deleted: a mark beside the archive says that nobody
//! counts on it, and an audit reads it again each time.

use cannery_formats::Key;
use cannery_formats::feed::SetAside;
use jiff::Timestamp;

use super::fix::not;
use super::{Auditor, Mended};
use crate::consolidate::Visit;
use crate::error::Error;
use crate::fetched::{Fetch, Subject, Unusable, Verdict};
use crate::hour_folder::HourFolder;
use crate::store::Store;

/// The program that sets archives aside, in their marks.
const BY: &str = concat!("cannery ", env!("CARGO_PKG_VERSION"));

impl Auditor {
    /// Looks at an archive once more, and marks it, or takes its mark away.
    pub(super) async fn judge(&self, store: &Store, key: &Key, now: Timestamp) -> Vec<Mended> {
        let Some((feed, hour, _)) = key.as_feed_object() else {
            return Vec::new();
        };
        let subject = Subject { feed, hour };
        match self.judged(store, &subject, key, now).await {
            Ok(mended) => mended.into_iter().collect(),
            Err(error) => vec![not(store, &subject.feed, hour, &error.to_string())],
        }
    }

    async fn judged(
        &self,
        store: &Store,
        subject: &Subject,
        key: &Key,
        now: Timestamp,
    ) -> Result<Option<Mended>, Error> {
        let mark = Key::feed_set_aside(key).expect("it is an object of a feed");
        let (store_id, lake) = (store.id().to_owned(), &store.lake);
        let fetcher = &self.consolidator.fetcher;
        match fetcher.fetch(lake, subject, key).await? {
            Fetch::Archive(_) => {
                lake.delete(&mark).await?;
                let key = key.clone();
                Ok(Some(Mended::TakenBack {
                    store: store_id,
                    key,
                }))
            }
            Fetch::Unusable(fault) if fault.verdict != Verdict::Beyond => {
                let rescued = match self.rescue(store, subject, &fault).await? {
                    Rescue::Done(rescued) => rescued,
                    Rescue::Disturbed => return Ok(None),
                };
                let note = SetAside {
                    archive: key.clone(),
                    why: fault.why.clone(),
                    set_aside: now,
                    by: BY.to_owned(),
                };
                // Whoever has put it: that it is there is what counts.
                lake.put_new(&mark, note.to_json()).await?;
                Ok(Some(Mended::SetAside {
                    store: store_id,
                    key: key.clone(),
                    why: fault.why,
                    rescued,
                }))
            }
            Fetch::Vanished => {
                lake.delete(&mark).await?;
                let key = key.clone();
                Ok(Some(Mended::Unmarked {
                    store: store_id,
                    key,
                }))
            }
            // Another program reads it.
            Fetch::Unusable(_) => Ok(None),
        }
    }

    /// Puts what is in an archive with a wrong name under the right one.
    async fn rescue(
        &self,
        store: &Store,
        subject: &Subject,
        fault: &Unusable,
    ) -> Result<Rescue, Error> {
        let Some(content) = &fault.content else {
            return Ok(Rescue::Done(None));
        };
        let mut steps = Vec::new();
        let fetcher = &self.consolidator.fetcher;
        let folder = HourFolder::list(&store.lake, &subject.feed, subject.hour).await?;
        let mut visit = Visit::new(fetcher, &store.lake, subject, &mut steps);
        visit.avoid(&folder);
        let put = visit.put_whole(std::slice::from_ref(content), content.set());
        Ok(match put.await? {
            Some(archive) => Rescue::Done(Some(archive.key.clone())),
            None => Rescue::Disturbed,
        })
    }
}

enum Rescue {
    /// The archive that holds it, if there was anything to hold.
    Done(Option<Key>),
    /// The hour was changed or deleted meanwhile.
    Disturbed,
}
