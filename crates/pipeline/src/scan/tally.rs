//! Which hours of a listing need work, by their names alone.

use std::collections::BTreeMap;

use cannery_formats::feed::{Codec, FeedId, Hour};
use cannery_formats::large_object::COMMIT_BYTES_MAX;
use cannery_lake::Entry;

use super::Found;
use crate::hour_folder::HourFolder;
use crate::store::{Store, Way};

/// When an hour of a store needs work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need(pub(crate) Way);

impl Need {
    /// As the store's algorithm, and what the store honours, say.
    #[must_use]
    pub fn of(store: &Store) -> Self {
        Self(store.way())
    }

    /// Whether there is something to merge, to copy, or to remove. Names do not tell everything: archives that cannot be
    /// used are only found by reading them.
    #[must_use]
    pub fn is_there(self, folder: &HourFolder) -> bool {
        let parts = folder.secondaries.len() + folder.foreign.len();
        if folder.tombstone {
            return !folder.removable().is_empty();
        }
        match self.0.of(folder.primary.is_some()) {
            Way::Swapped | Way::Projected if folder.is_primary_lost => parts > 1,
            Way::Hashed(_) => parts > 1,
            Way::Swapped => parts > 0,
            Way::Projected => parts > 1 || is_stale_copy(folder),
        }
    }
}

/// Whether the primary is not what it should be a copy of, as far as can be seen from outside.
fn is_stale_copy(folder: &HourFolder) -> bool {
    let Some(primary) = &folder.primary else {
        return !folder.parts().is_empty();
    };
    let Some(part) = folder.parts().first().copied() else {
        return true;
    };
    let is_gzip = folder
        .secondaries
        .iter()
        .any(|found| found.codec == Codec::Gzip);
    // What is small may stand for something large, and says nothing of its length.
    let has_length = |entry: &Entry| entry.stored_bytes > COMMIT_BYTES_MAX;
    let differs = is_gzip
        && has_length(primary)
        && has_length(part)
        && primary.stored_bytes != part.stored_bytes;
    differs || primary.modified < part.modified
}

/// The hours of a whole listing that need work, in order.
#[must_use]
pub fn unmerged(listing: impl IntoIterator<Item = Entry>, need: Need) -> Vec<(FeedId, Hour)> {
    let mut by_hour = ByHour::remembering(need);
    for entry in listing {
        // It remembers everything, so no order is wrong.
        by_hour.take(entry).ok();
    }
    by_hour.finish().unmerged
}

/// The store does not list the objects of an hour together.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OutOfOrder;

/// Puts the objects of a listing together by their hours.
pub(super) struct ByHour {
    need: Need,
    streams: bool,
    open: BTreeMap<(FeedId, Hour), Vec<Entry>>,
    found: Found,
}

impl ByHour {
    /// For a listing in order: an hour is forgotten when the next one begins.
    pub(super) fn streaming(need: Need) -> Self {
        Self {
            need,
            streams: true,
            open: BTreeMap::new(),
            found: Found::default(),
        }
    }

    /// For a listing in any order.
    pub(super) fn remembering(need: Need) -> Self {
        Self {
            streams: false,
            ..Self::streaming(need)
        }
    }

    pub(super) fn take(&mut self, entry: Entry) -> Result<(), OutOfOrder> {
        let Some((feed, hour, _)) = entry.key.as_feed_object() else {
            return Ok(());
        };
        let place = (feed, hour);
        if self.streams && !self.open.contains_key(&place) {
            let last = self.open.pop_first();
            let same_feed = last.as_ref().filter(|((feed, _), _)| *feed == place.0);
            let in_order = match same_feed {
                Some(((_, last), _)) => *last < place.1,
                None => !self.found.feeds.contains(&place.0),
            };
            if !in_order {
                return Err(OutOfOrder);
            }
            if let Some((place, entries)) = last {
                self.close(place, entries);
            }
        }
        if !self.found.feeds.contains(&place.0) {
            self.found.feeds.insert(place.0.clone());
        }
        self.open.entry(place).or_default().push(entry);
        Ok(())
    }

    fn close(&mut self, place: (FeedId, Hour), entries: Vec<Entry>) {
        self.found.hours += 1;
        let folder = HourFolder::of(&place.0, place.1, entries);
        if self.need.is_there(&folder) {
            self.found.unmerged.push(place);
        }
    }

    pub(super) fn finish(mut self) -> Found {
        for (place, entries) in std::mem::take(&mut self.open) {
            self.close(place, entries);
        }
        self.found.unmerged.sort();
        self.found
    }
}
