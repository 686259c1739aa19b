//! The name of one downloaded body: `<feed>_<yyyymmddThhmmss.mmmZ>_<hash><postfix>`.

use std::fmt;

use jiff::tz::TimeZone;
use jiff::{Timestamp, civil};

use super::feed_id::FeedId;
use super::{is_short_hash, short_hash};
use crate::Digest;

/// The longest postfix that a feed can have.
pub const POSTFIX_BYTES_MAX: usize = 40;

const TIME_BYTES: usize = "20261115T182403.850Z".len();

/// The hash of a body in its name: 26 characters of the lower-case base32 of its SHA-256.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BodyHash(String);

impl BodyHash {
    /// The hash of a body with this digest.
    #[must_use]
    pub fn of(digest: &Digest) -> Self {
        Self(short_hash(digest))
    }
}

impl fmt::Display for BodyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A body of a feed that was asked for at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DownloadName {
    /// Which feed.
    pub feed: FeedId,
    /// When it was asked for, in whole milliseconds; of the years 1 to 9999.
    pub time: Timestamp,
    /// What the body is.
    pub hash: BodyHash,
    /// What the name ends in, such as `.json`.
    pub postfix: String,
}

impl DownloadName {
    /// The name of a body that was asked for at `time`, of which the millisecond is kept.
    #[must_use]
    pub fn new(feed: FeedId, time: Timestamp, digest: &Digest, postfix: &str) -> Self {
        let time = Timestamp::from_millisecond(time.as_millisecond()).unwrap_or(time);
        Self {
            feed,
            time,
            hash: BodyHash::of(digest),
            postfix: postfix.to_owned(),
        }
    }

    /// Reads a name of this feed; nothing when it is not of that form.
    #[must_use]
    pub fn parse(feed: &FeedId, name: &str) -> Option<Self> {
        let rest = name.strip_prefix(feed.as_str())?.strip_prefix('_')?;
        let (time, rest) = rest.split_at_checked(TIME_BYTES)?;
        let rest = rest.strip_prefix('_')?;
        let (hash, postfix) = rest.split_at_checked(super::HASH_CHARACTERS)?;
        if !is_short_hash(hash) || !is_postfix(postfix) {
            return None;
        }
        Some(Self {
            feed: feed.clone(),
            time: parse_time(time)?,
            hash: BodyHash(hash.to_owned()),
            postfix: postfix.to_owned(),
        })
    }

    /// Whether this is a name that a collector of the feed gives to this content. Of several contents under one name, it is at
    /// most one: the name says which.
    #[must_use]
    pub fn is_of(feed: &FeedId, name: &str, digest: &Digest) -> bool {
        Self::parse(feed, name).is_some_and(|name| name.hash == BodyHash::of(digest))
    }

    /// Whether a text can be the postfix of a feed: short, without `/` and without control characters.
    #[must_use]
    pub fn allows_postfix(text: &str) -> bool {
        is_postfix(text)
    }
}

fn is_postfix(text: &str) -> bool {
    let is_harmless = |c: char| c.is_ascii_alphanumeric() || "._-+~=,@".contains(c);
    text.len() <= POSTFIX_BYTES_MAX && text.chars().all(is_harmless)
}

fn parse_time(text: &str) -> Option<Timestamp> {
    let shape = text.bytes().enumerate().all(|(at, byte)| match at {
        8 => byte == b'T',
        15 => byte == b'.',
        19 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    });
    if !shape {
        return None;
    }
    let small = |from: usize| text[from..from + 2].parse::<i8>().ok();
    let year: i16 = text[..4].parse().ok()?;
    let millis: i32 = text[16..19].parse().ok()?;
    let (hour, minute, second) = (small(9)?, small(11)?, small(13)?);
    let nanos = millis * 1_000_000;
    let at = civil::DateTime::new(year, small(4)?, small(6)?, hour, minute, second, nanos);
    Some(at.ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

impl fmt::Display for DownloadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = TimeZone::UTC.to_datetime(self.time);
        write!(
            f,
            "{}_{:04}{:02}{:02}T{:02}{:02}{:02}.{:03}Z_{}{}",
            self.feed,
            at.year(),
            at.month(),
            at.day(),
            at.hour(),
            at.minute(),
            at.second(),
            at.subsec_nanosecond() / 1_000_000,
            self.hash,
            self.postfix
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn feed(id: &str) -> FeedId {
        FeedId::new(id).unwrap()
    }

    #[test]
    fn the_form_is_exact() {
        let time = "2026-11-15T18:24:03.850999Z".parse().unwrap();
        let name = DownloadName::new(feed("a_b"), time, &Digest::of(b"abc"), ".json");
        let text = "a_b_20261115T182403.850Z_xj4bnp4pahh6uqkbidpf3lrceo.json";
        assert_eq!(name.to_string(), text);
        assert_eq!(DownloadName::parse(&feed("a_b"), text), Some(name));
        for other in [
            "a_20261115T182403.850Z_xj4bnp4pahh6uqkbidpf3lrceo.json",
            "a_b_20261115T182403.850_xj4bnp4pahh6uqkbidpf3lrceo.json",
            "a_b_20261115T182403.850Z_xj4bnp4pahh6uqkbidpf3lrc1o.json",
            "a_b_20261115T182403.850Z_xj4bnp4pahh6uqkbidpf3lrce",
            "a_b_20261115T182403.850Z_xj4bnp4pahh6uqkbidpf3lrceo/../x",
            "a_b_20261315T182403.850Z_xj4bnp4pahh6uqkbidpf3lrceo",
            "a_b_20261115T182403.8ä_xj4bnp4pahh6uqkbidpf3lrceo",
            "",
        ] {
            assert_eq!(DownloadName::parse(&feed("a_b"), other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn every_name_reads_as_it_is_written(
            id in "[A-Za-z0-9][A-Za-z0-9_.-]{0,20}",
            millis in 0_i64..4_102_444_800_000,
            body in any::<Vec<u8>>(),
            postfix in "(\\.[a-z0-9]{1,8}){0,2}",
        ) {
            let Ok(id) = FeedId::new(id) else { return Ok(()) };
            let time = Timestamp::from_millisecond(millis).unwrap();
            let name = DownloadName::new(id.clone(), time, &Digest::of(&body), &postfix);
            prop_assert_eq!(DownloadName::parse(&id, &name.to_string()), Some(name));
        }
    }
}
