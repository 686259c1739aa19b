//! What all feeds of a process have in common.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cannery_formats::feed::{Codec, FeedId};
use cannery_formats::hour_archive::Compression;
use cannery_runtime::{Clock, Rng};

use super::busy::Busy;
use super::depot::Depot;
use super::fetch::Fetcher;
use super::monitor::Monitor;
use super::settings::FeedSettings;
use super::writer::Writer;

pub(super) struct Shared {
    pub(super) clock: Clock,
    pub(super) rng: Rng,
    pub(super) depot: Depot,
    pub(super) writer: Writer,
    pub(super) fetcher: Fetcher,
    pub(super) busy: Busy,
    pub(super) monitor: Monitor,
    /// Who this is, in the coverage of its hours.
    pub(super) replica: String,
    pub(super) habits: Habits,
}

/// How the hours of each feed are packed.
#[derive(Debug, Default)]
pub(super) struct Habits(Mutex<BTreeMap<FeedId, Habit>>);

/// How the hours of a feed are packed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habit {
    pub(super) compression: Compression,
    /// How often it is asked, where that is known.
    pub(super) periodicity: Option<Duration>,
}

impl Default for Habit {
    /// That of a feed that is not configured any more.
    fn default() -> Self {
        Self {
            compression: Compression::of(Codec::Gzip),
            periodicity: None,
        }
    }
}

impl Habits {
    pub(super) fn set(&self, feeds: &[FeedSettings]) {
        let all = feeds.iter().map(|feed| {
            let habit = Habit {
                compression: feed.compression,
                periodicity: Some(feed.periodicity),
            };
            (feed.id.clone(), habit)
        });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = all.collect();
    }

    pub(super) fn of(&self, feed: &FeedId) -> Habit {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(feed).copied().unwrap_or_default()
    }
}
