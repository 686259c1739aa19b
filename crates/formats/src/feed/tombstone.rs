//! The mark of an hour that somebody deleted: without it, a replica that comes late would bring the hour back.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::feed_id::FeedId;
use super::hour::Hour;

/// Its name in the folder of the hour.
pub const TOMBSTONE_NAME: &str = ".deleted.json";

/// What the object says. That it is there is what counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// Which feed.
    pub feed: FeedId,
    /// Which hour.
    pub hour: Hour,
    /// When somebody asked for it.
    pub deleted: Timestamp,
    /// The program that did it.
    pub by: String,
}

impl Tombstone {
    /// The object.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec(self).expect("names and times are always JSON");
        text.push(b'\n');
        text
    }
}
