//! What all feeds of a process have in common.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

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
    pub(super) compressions: Compressions,
}

/// How the hours of each feed are packed; those of a feed that is not configured any more as by default.
#[derive(Debug, Default)]
pub(super) struct Compressions(Mutex<BTreeMap<FeedId, Compression>>);

impl Compressions {
    pub(super) fn set(&self, feeds: &[FeedSettings]) {
        let all = feeds.iter();
        let all = all.map(|feed| (feed.id.clone(), feed.compression));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = all.collect();
    }

    pub(super) fn of(&self, feed: &FeedId) -> Compression {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.get(feed).copied();
        known.unwrap_or_else(|| Compression::of(Codec::Gzip))
    }
}
