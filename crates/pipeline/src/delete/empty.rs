//! Hours of a range that have no archive: each gets a mark of its own, so there must not be too many.

use std::collections::BTreeSet;
use std::fmt;

use cannery_formats::feed::{FeedId, Hour};
use jiff::Timestamp;
use serde::Serialize;

use super::DoomedHour;
use crate::audit::counted;
use crate::error::Error;
use crate::scope::{Folders, Scope};

/// So many hours without an archive are marked by one delete in one store; a feed has 8,766 a year.
pub const EMPTY_HOURS_MAX: u64 = 10_000;

/// Hours of a feed in one store that have no archive, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EmptyHours {
    /// The id of the object storage.
    pub store: String,
    /// Which feed.
    pub feed: FeedId,
    /// The first of them.
    pub from: Hour,
    /// The hour after the last of them.
    pub to: Hour,
}

impl EmptyHours {
    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        between(self.from, self.to)
    }

    pub(super) fn hours(&self) -> impl Iterator<Item = DoomedHour> {
        let hours = std::iter::successors(Some(self.from), |hour| hour.next());
        let hours = hours.take_while(|hour| *hour < self.to);
        hours.map(|hour| DoomedHour {
            store: self.store.clone(),
            feed: self.feed.clone(),
            hour,
            archives: Vec::new(),
            left: Vec::new(),
        })
    }
}

impl fmt::Display for EmptyHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            store,
            feed,
            from,
            to,
        } = self;
        let count = usize::try_from(self.count()).unwrap_or(usize::MAX);
        let hours = counted(count, "hour", "hours");
        write!(
            f,
            "{feed} {from} to {to} in `{store}`: {hours} without an archive"
        )
    }
}

fn between(from: Hour, to: Hour) -> u64 {
    let hours = to.begin().duration_since(from.begin()).as_hours();
    u64::try_from(hours).unwrap_or_default()
}

/// The hours of a range that have begun and have neither an archive nor a mark.
pub(super) fn find(
    store: &str,
    scope: &Scope,
    feeds: &BTreeSet<FeedId>,
    folders: &Folders,
    now: Timestamp,
) -> Result<Vec<EmptyHours>, Error> {
    let (Some(from), Some(to)) = (scope.from, scope.to) else {
        return Ok(Vec::new());
    };
    // What has not begun, nobody can have collected; to mark it would forbid to.
    let to = Hour::of(now).next().map_or(to, |end| to.min(end));
    let settled = folders.values().filter(|folder| {
        let has_archive = !folder.removable().is_empty();
        has_archive || folder.tombstone
    });
    let hours = between(from, to).saturating_mul(feeds.len() as u64);
    let hours = hours.saturating_sub(settled.count() as u64);
    if hours > EMPTY_HOURS_MAX {
        return Err(Error::TooManyHours {
            store: store.to_owned(),
            hours,
            max: EMPTY_HOURS_MAX,
        });
    }
    let mut found = Vec::new();
    for feed in feeds {
        let mut next = Some(from);
        while let Some(hour) = next.filter(|hour| *hour < to) {
            next = hour.next();
            let folder = folders.get(&(feed.clone(), hour));
            if folder.is_none_or(|folder| folder.removable().is_empty() && !folder.tombstone) {
                join(&mut found, store, feed, hour);
            }
        }
    }
    Ok(found)
}

fn join(found: &mut Vec<EmptyHours>, store: &str, feed: &FeedId, hour: Hour) {
    let Some(to) = hour.next() else { return };
    match found.last_mut() {
        Some(last) if last.feed == *feed && last.to == hour => last.to = to,
        Some(_) | None => found.push(EmptyHours {
            store: store.to_owned(),
            feed: feed.clone(),
            from: hour,
            to,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::hour_folder::HourFolder;

    fn feed(id: &str) -> FeedId {
        FeedId::new(id).unwrap()
    }

    fn found(from: &str, to: &str, feeds: &[&str], marked: &[&str]) -> Result<String, String> {
        let scope = Scope {
            feeds: None,
            from: Some(from.parse().unwrap()),
            to: Some(to.parse().unwrap()),
        };
        let folders: Folders = marked
            .iter()
            .map(|hour| ((feed("a"), hour.parse().unwrap()), tombstoned()))
            .collect::<BTreeMap<_, _>>();
        let feeds = feeds.iter().map(|id| feed(id)).collect();
        let now = "2026-11-15T18:24:00Z".parse().unwrap();
        let found = find("main", &scope, &feeds, &folders, now);
        let text = |hours: &EmptyHours| format!("{} {}-{}", hours.feed, hours.from, hours.to);
        found
            .map(|found| found.iter().map(text).collect::<Vec<_>>().join(" "))
            .map_err(|error| error.to_string())
    }

    fn tombstoned() -> HourFolder {
        HourFolder {
            tombstone: true,
            ..HourFolder::default()
        }
    }

    #[test]
    fn hours_are_joined_and_those_that_are_settled_or_have_not_begun_are_left_out() {
        for (from, to, feeds, marked, expected) in [
            (
                "20261115T10Z",
                "20261115T12Z",
                &["a"][..],
                &[][..],
                "a 20261115T10Z-20261115T12Z",
            ),
            (
                "20261115T10Z",
                "20261115T13Z",
                &["a", "b"],
                &["20261115T11Z"],
                "a 20261115T10Z-20261115T11Z a 20261115T12Z-20261115T13Z b 20261115T10Z-20261115T13Z",
            ),
            (
                "20261115T17Z",
                "20990101T00Z",
                &["a"],
                &[],
                "a 20261115T17Z-20261115T19Z",
            ),
            ("20261116T00Z", "20990101T00Z", &["a"], &[], ""),
            ("20261115T10Z", "20261115T12Z", &[], &[], ""),
        ] {
            assert_eq!(
                found(from, to, feeds, marked).unwrap(),
                expected,
                "{from} {to}"
            );
        }
    }

    #[test]
    fn too_many_are_an_error_that_says_what_to_do() {
        let error = found("00010101T00Z", "20990101T00Z", &["a", "b"], &[]).unwrap_err();
        assert!(error.contains("at most 10000 at once"), "{error}");
        assert!(error.contains("choose a shorter range"), "{error}");
        let most = found("20250925T03Z", "20261115T19Z", &["a"], &[]).unwrap();
        assert_eq!(most, "a 20250925T03Z-20261115T19Z");
        found("20250925T02Z", "20261115T19Z", &["a"], &[]).unwrap_err();
        let one_is_marked = &["20261115T11Z"];
        found("20250925T02Z", "20261115T19Z", &["a"], one_is_marked).unwrap();
    }
}
