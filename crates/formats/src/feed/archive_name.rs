//! The names of an hour's archives: ours, and those that Hoard made.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::content_set::SetHash;
use super::feed_id::FeedId;
use super::hour::Hour;
use super::is_base32;
use super::set_aside::marked;
use super::tombstone::TOMBSTONE_NAME;

const FOREIGN_HASH_CHARACTERS: usize = 12;

/// How an archive is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// `.tar.gz`
    Gzip,
    /// `.tar.zst`
    Zstd,
    /// `.tar.xz`
    Xz,
    /// `.tar.bz2`
    Bzip2,
}

impl Codec {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Gzip, Self::Zstd, Self::Xz, Self::Bzip2];

    /// What the names of its archives end in.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Gzip => ".tar.gz",
            Self::Zstd => ".tar.zst",
            Self::Xz => ".tar.xz",
            Self::Bzip2 => ".tar.bz2",
        }
    }

    /// The codec of content that begins with these bytes, whatever its name says.
    #[must_use]
    pub fn of_content(head: &[u8]) -> Option<Self> {
        match head {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Some(Self::Bzip2),
            _ => None,
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
            Self::Bzip2 => "bzip2",
        })
    }
}

/// What an archive is of its hour.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holding {
    /// The one at a key that everybody knows; always gzip.
    Primary,
    /// Exactly the set with this hash.
    Set(SetHash, Codec),
}

/// The name of an archive of an hour.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArchiveName {
    /// Which feed.
    pub feed: FeedId,
    /// Which hour.
    pub hour: Hour,
    /// What it is of that.
    pub holding: Holding,
}

impl fmt::Display for ArchiveName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { feed, hour, .. } = self;
        match &self.holding {
            Holding::Primary => write!(f, "{feed}_{hour}{}", Codec::Gzip.extension()),
            Holding::Set(hash, codec) => write!(f, "{feed}_{hour}_{hash}{}", codec.extension()),
        }
    }
}

/// What an object in the folder of an hour is, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundName {
    /// An archive of ours.
    Ours(ArchiveName),
    /// An archive that Hoard made: its name says nothing reliable of its content.
    Foreign,
    /// The hour was deleted on purpose.
    Tombstone,
    /// The mark of the archive with this name, which cannot be read.
    SetAside(String),
    /// Something that nobody knows here; it is left alone.
    Unknown,
}

impl FoundName {
    /// What `name` is in the folder of this feed and hour.
    #[must_use]
    pub fn of(feed: &FeedId, hour: Hour, name: &str) -> Self {
        if name == TOMBSTONE_NAME {
            return Self::Tombstone;
        }
        if let Some(archive) = marked(name) {
            return Self::SetAside(archive.to_owned());
        }
        let ours = |holding| {
            Self::Ours(ArchiveName {
                feed: feed.clone(),
                hour,
                holding,
            })
        };
        let behind_feed = name
            .strip_prefix(feed.as_str())
            .and_then(|rest| rest.strip_prefix('_'));
        let Some(rest) = behind_feed else {
            return Self::Unknown;
        };
        let end = rest.find(['_', '.']).unwrap_or(rest.len());
        let (date, rest) = rest.split_at(end);
        if Hour::parse_with_or_without_z(date) != Ok(hour) {
            return Self::Unknown;
        }
        let has_z = date.ends_with('Z');
        if rest == Codec::Gzip.extension() && has_z {
            return ours(Holding::Primary);
        }
        let exact = rest.strip_prefix('_').and_then(as_set);
        match exact {
            Some((hash, codec)) if has_z => ours(Holding::Set(hash, codec)),
            Some(_) | None if is_foreign(rest) => Self::Foreign,
            Some(_) | None => Self::Unknown,
        }
    }
}

fn as_set(rest: &str) -> Option<(SetHash, Codec)> {
    let (hash, extension) = rest.split_at(rest.find('.')?);
    let codec = Codec::ALL
        .into_iter()
        .find(|codec| codec.extension() == extension)?;
    Some((SetHash::parse(hash)?, codec))
}

/// `_<12 base32>.tar.gz` or `_<12 base32>_<level>.tar.{gz,xz,zstd}`.
fn is_foreign(rest: &str) -> bool {
    let Some((stem, extension)) = rest
        .strip_prefix('_')
        .and_then(|rest| rest.split_once(".tar."))
    else {
        return false;
    };
    let (hash, level) = stem.split_once('_').unwrap_or((stem, "0"));
    let is_hash = hash.len() == FOREIGN_HASH_CHARACTERS
        && hash
            .bytes()
            .all(|byte| is_base32(byte.to_ascii_lowercase()));
    let is_level = matches!(level.len(), 1..=3)
        && level
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'-');
    is_hash && is_level && matches!(extension, "gz" | "xz" | "zstd" | "zst" | "bz2")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::ContentSet;

    fn feed() -> FeedId {
        FeedId::new("a_b").unwrap()
    }

    fn hour() -> Hour {
        "20261115T18Z".parse().unwrap()
    }

    fn found(name: &str) -> FoundName {
        FoundName::of(&feed(), hour(), name)
    }

    #[test]
    fn names_read_as_they_are_written() {
        let hash = ContentSet::default().hash();
        let sets = Codec::ALL.map(|codec| Holding::Set(hash.clone(), codec));
        for holding in sets.into_iter().chain([Holding::Primary]) {
            let name = ArchiveName {
                feed: feed(),
                hour: hour(),
                holding,
            };
            assert_eq!(found(&name.to_string()), FoundName::Ours(name));
        }
        let primary = found("a_b_20261115T18Z.tar.gz");
        assert!(matches!(primary, FoundName::Ours(name) if name.holding == Holding::Primary));
        assert_eq!(found(".deleted.json"), FoundName::Tombstone);
    }

    #[test]
    fn what_hoard_made_is_known() {
        for name in [
            "a_b_20261115T18Z_abcdefghij23.tar.gz",
            "a_b_20261115T18_abcdefghij23.tar.gz",
            "a_b_20261115T18Z_abcdefghij23_6.tar.gz",
            "a_b_20261115T18Z_ABCDEFGHIJ23_9.tar.xz",
            "a_b_20261115T18Z_abcdefghij23_-1.tar.zstd",
        ] {
            assert_eq!(found(name), FoundName::Foreign, "{name}");
        }
    }

    #[test]
    fn anything_else_is_unknown() {
        let hash = ContentSet::default().hash();
        for name in [
            "".to_owned(),
            "a_b".to_owned(),
            "a_b_20261115T19Z.tar.gz".to_owned(),
            "a_b_20261115T18.tar.gz".to_owned(),
            "a_b_20261115T18Z.tar.xz".to_owned(),
            "a_20261115T18Z.tar.gz".to_owned(),
            format!("a_b_20261115T18_{hash}.tar.gz"),
            format!("a_b_20261115T18Z_{hash}.tar"),
            format!("a_b_20261115T18Z_{hash}.tar.gz.part"),
            "a_b_20261115T18Z_abcdefghij23_66666.tar.gz".to_owned(),
            "a_b_20261115T18Z_abcdefghij2.tar.gz".to_owned(),
        ] {
            assert_eq!(found(&name), FoundName::Unknown, "{name}");
        }
    }

    #[test]
    fn content_tells_its_codec() {
        assert_eq!(Codec::of_content(&[0x1f, 0x8b, 8]), Some(Codec::Gzip));
        assert_eq!(Codec::of_content(b"BZh9"), Some(Codec::Bzip2));
        assert_eq!(Codec::of_content(b"BZh"), None);
        assert_eq!(Codec::of_content(b"<?xml"), None);
    }
}
