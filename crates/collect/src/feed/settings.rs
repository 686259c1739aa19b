//! What a feed is.

use std::time::Duration;

use cannery_formats::feed::FeedId;
use cannery_formats::hour_archive::Compression;

use super::fetch::Ask;

/// One feed, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedSettings {
    /// Its name, and its folder in the lake.
    pub id: FeedId,
    /// What is asked for.
    pub ask: Ask,
    /// How often.
    pub periodicity: Duration,
    /// What the names of its bodies end in.
    pub postfix: String,
    /// How its hours are packed.
    pub compression: Compression,
}
