//! What is to be retrieved, and how it is laid out.

use std::path::PathBuf;

use cannery_formats::feed::{FeedId, Hour};
use jiff::Timestamp;
use serde::Serialize;

use super::error::Error;
use crate::scope::Scope;

/// What is to be retrieved, where to, and in what form; equal to the flags of the command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RetrieveOptions {
    /// The folder that gets the tree; it is made if needed.
    pub target: PathBuf,
    /// From when, rounded down to the hour.
    pub start: Timestamp,
    /// Until when, rounded up to the hour.
    pub end: Timestamp,
    /// These feeds; all when left out.
    pub feeds: Option<Vec<FeedId>>,
    /// No folder for each feed.
    pub collapse_feeds: bool,
    /// No folders for the date and the hour.
    pub collapse_time: bool,
    /// The archives as they are, and not what is in them.
    pub no_extract: bool,
    /// Of bodies that are the same within a feed, only the first by time. It has no effect on archives.
    pub dedupe: bool,
    /// Also `.coverage/`, which says of each replica what it polled; otherwise only what was downloaded. Manifests are
    /// never extracted.
    pub with_coverage: bool,
}

impl RetrieveOptions {
    /// Everything of these times, each hour in a folder of its own.
    #[must_use]
    pub fn new(target: impl Into<PathBuf>, start: Timestamp, end: Timestamp) -> Self {
        Self {
            target: target.into(),
            start,
            end,
            feeds: None,
            collapse_feeds: false,
            collapse_time: false,
            no_extract: false,
            dedupe: false,
            with_coverage: false,
        }
    }

    /// Which hours of which feeds.
    pub(super) fn scope(&self) -> Result<Scope, Error> {
        let from = Hour::of(self.start);
        let last = Hour::of(self.end);
        let is_exact = last.begin() == self.end;
        let to = if is_exact { Some(last) } else { last.next() };
        if self.end < self.start || to.is_some_and(|to| to <= from) {
            let (start, end) = (self.start, self.end);
            return Err(Error::Range { start, end });
        }
        Ok(Scope {
            feeds: self.feeds.clone().map(|feeds| feeds.into_iter().collect()),
            from: Some(from),
            to,
        })
    }

    /// The folder of an hour below the target, as components; none when everything goes to the target itself.
    pub(super) fn folder(&self, feed: &FeedId, hour: Hour) -> Vec<String> {
        let mut folder = Vec::new();
        if !self.collapse_feeds {
            folder.push(feed.to_string());
        }
        if !self.collapse_time {
            folder.extend(hour.folder().split('/').map(str::to_owned));
        }
        folder
    }

    /// Whether several hours share a folder.
    pub(super) fn is_collapsed(&self) -> bool {
        self.collapse_feeds || self.collapse_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(start: &str, end: &str) -> RetrieveOptions {
        let (start, end) = (start.parse().unwrap(), end.parse().unwrap());
        RetrieveOptions::new("out", start, end)
    }

    #[test]
    fn times_are_rounded_to_the_hour() {
        for (start, end, from, to) in [
            ("2026-11-15T18:00:00Z", "2026-11-15T19:00:00Z", 18, 19),
            ("2026-11-15T18:59:59Z", "2026-11-15T19:00:00.001Z", 18, 20),
            ("2026-11-15T18:10:00Z", "2026-11-15T18:20:00Z", 18, 19),
            ("2026-11-15T18:10:00Z", "2026-11-15T18:10:00Z", 18, 19),
            ("2026-11-15T23:10:00+05:00", "2026-11-15T19:30:00Z", 18, 20),
        ] {
            let scope = options(start, end).scope().unwrap();
            let hour = |hour: i32| Some(format!("20261115T{hour}Z").parse().unwrap());
            assert_eq!((scope.from, scope.to), (hour(from), hour(to)), "{start}");
        }
    }

    #[test]
    fn an_end_that_is_not_after_the_start_is_refused() {
        for (start, end) in [
            ("2026-11-15T18:00:00Z", "2026-11-15T18:00:00Z"),
            ("2026-11-15T18:20:00Z", "2026-11-15T18:10:00Z"),
            ("2026-11-15T18:20:00Z", "2026-11-14T18:10:00Z"),
        ] {
            let refused = options(start, end).scope();
            assert!(matches!(refused, Err(Error::Range { .. })), "{start} {end}");
        }
    }
}
