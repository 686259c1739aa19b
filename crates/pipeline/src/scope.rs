//! Which hours of which feeds, and what is in their folders.

use std::collections::{BTreeMap, BTreeSet};

use cannery_formats::Key;
use cannery_formats::feed::{FeedId, Hour};
use cannery_lake::Lake;
use futures::TryStreamExt as _;

use crate::error::Error;
use crate::hour_folder::HourFolder;

/// Up to here it is cheaper to list each day than to list everything of a feed.
const DAYS_MAX: usize = 62;

/// Which hours of which feeds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// These feeds; all when left out.
    pub feeds: Option<BTreeSet<FeedId>>,
    /// From this hour on.
    pub from: Option<Hour>,
    /// Before this hour.
    pub to: Option<Hour>,
}

/// Hears how many objects of a listing were seen so far.
pub type Listed<'a> = dyn FnMut(u64) + Send + 'a;

/// The folders of hours.
pub(crate) type Folders = BTreeMap<(FeedId, Hour), HourFolder>;

impl Scope {
    /// Whether the hour is one of them.
    #[must_use]
    pub fn contains(&self, hour: Hour) -> bool {
        self.from.is_none_or(|from| hour >= from) && self.to.is_none_or(|to| hour < to)
    }

    /// The folders to list for it; the whole lake when there are none.
    fn places(&self) -> Option<Vec<Key>> {
        let places = self.feeds.as_ref()?.iter().flat_map(|feed| {
            let whole = vec![Key::feed_folder(feed)];
            let (Some(from), Some(to)) = (self.from, self.to) else {
                return whole;
            };
            let days = days(feed, from, to);
            if days.len() > DAYS_MAX { whole } else { days }
        });
        Some(places.collect())
    }

    /// Every hour of it that has an object in a lake; `listed` hears how many objects were seen, after each.
    ///
    /// # Errors
    /// Any failure of the store: a part of a listing is never taken for the whole.
    pub(crate) async fn folders(
        &self,
        lake: &Lake,
        listed: &mut Listed<'_>,
    ) -> Result<Folders, Error> {
        let (folders, _) = self.look(lake, listed).await?;
        Ok(folders)
    }

    /// The same, with the feeds that were seen, be it at other hours.
    ///
    /// # Errors
    /// As [`Scope::folders`].
    pub(crate) async fn look(
        &self,
        lake: &Lake,
        listed: &mut Listed<'_>,
    ) -> Result<(Folders, BTreeSet<FeedId>), Error> {
        let (mut count, mut feeds) = (0, BTreeSet::new());
        let mut hours = BTreeMap::<_, Vec<_>>::new();
        let places = self.places();
        let places = places.map_or_else(|| vec![None], |keys| keys.into_iter().map(Some).collect());
        for place in places {
            let mut entries = lake.list(place.as_ref());
            while let Some(entry) = entries.try_next().await? {
                count += 1;
                listed(count);
                if let Some((feed, hour, _)) = entry.key.as_feed_object() {
                    if !feeds.contains(&feed) {
                        feeds.insert(feed.clone());
                    }
                    if self.contains(hour) {
                        hours.entry((feed, hour)).or_default().push(entry);
                    }
                }
            }
        }
        let sorted = hours.into_iter().map(|((feed, hour), entries)| {
            let folder = HourFolder::of(&feed, hour, entries);
            ((feed, hour), folder)
        });
        Ok((sorted.collect(), feeds))
    }
}

/// The folders of the days from one hour to another, at most one more than [`DAYS_MAX`].
pub(crate) fn days(feed: &FeedId, from: Hour, to: Hour) -> Vec<Key> {
    let mut folders: Vec<Key> = Vec::new();
    let mut hour = Some(from);
    while let Some(at) = hour.filter(|hour| *hour <= to && folders.len() <= DAYS_MAX) {
        let folder = Key::feed_hour(feed, at);
        if let Some((day, _)) = folder.as_str().rsplit_once('/')
            && folders.last().is_none_or(|last| last.as_str() != day)
        {
            folders.push(Key::new(day).expect("the folder above one is one"));
        }
        hour = at.next();
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hour(text: &str) -> Hour {
        text.parse().unwrap()
    }

    #[test]
    fn a_range_is_listed_by_days_unless_it_is_long() {
        let feed = FeedId::new("f").unwrap();
        let scope = |from: &str, to: &str| Scope {
            feeds: Some([feed.clone()].into()),
            from: Some(hour(from)),
            to: Some(hour(to)),
        };
        let places = scope("20261130T23Z", "20261201T01Z").places().unwrap();
        let places: Vec<_> = places.iter().map(Key::as_str).collect();
        assert_eq!(places, ["f/2026/11/30", "f/2026/12/01"]);
        let places = scope("20260101T00Z", "20261201T01Z").places().unwrap();
        assert_eq!(places, [Key::feed_folder(&feed)]);
        assert_eq!(Scope::default().places(), None);
    }

    #[test]
    fn the_last_hour_is_not_in_it() {
        let scope = Scope {
            from: Some(hour("20261115T18Z")),
            to: Some(hour("20261115T20Z")),
            ..Scope::default()
        };
        let inside = [
            "20261115T17Z",
            "20261115T18Z",
            "20261115T19Z",
            "20261115T20Z",
        ]
        .map(|text| scope.contains(hour(text)));
        assert_eq!(inside, [false, true, true, false]);
    }
}
