//! What a report is a report of. Cans hold reports of one kind, so that a new question is asked of the files that can
//! answer it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::feed::FeedId;
use crate::spool::Datatype;

/// No name of a test is longer, so that the names of its files fit into one component of a key.
const TEST_BYTES_MAX: usize = 100;

const UNKNOWN: &str = "unknown";
const SPOOL: &str = "spool-";
const FEED: &str = "feed-";

/// The kind of a report: safe as a part of a key, and no two kinds are spelled the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `<test_name>`: report files.
    Test(TestName),
    /// `spool-<datatype>`: bundles.
    Spool(Datatype),
    /// `feed-<id>`: downloads.
    Feed(FeedId),
    /// `unknown`: report files whose names say nothing.
    Unknown,
}

/// The name of a test: letters, digits and `_`, at most 100, and not `unknown`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TestName(String);

/// Why a text is no kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid kind `{}`: it must be a test name of letters, digits and `_`, `spool-<datatype>`, `feed-<id>` or `unknown`", .kind.escape_debug())]
pub struct InvalidKind {
    /// The text, shortened.
    pub kind: String,
}

impl TestName {
    /// Checks `text`.
    ///
    /// # Errors
    /// [`InvalidKind`] when it breaks a rule.
    pub fn new(text: &str) -> Result<Self, InvalidKind> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let fits = (1..=TEST_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_allowed);
        // A disk that knows no upper case would mix up `Unknown` and `unknown`.
        match fits && !text.eq_ignore_ascii_case(UNKNOWN) {
            true => Ok(Self(text.to_owned())),
            false => Err(InvalidKind::of(text)),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl InvalidKind {
    fn of(text: &str) -> Self {
        let kind = text.chars().take(120).collect();
        Self { kind }
    }
}

impl fmt::Display for TestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Test(name) => write!(f, "{name}"),
            Self::Spool(datatype) => write!(f, "{SPOOL}{datatype}"),
            Self::Feed(feed) => write!(f, "{FEED}{feed}"),
            Self::Unknown => f.write_str(UNKNOWN),
        }
    }
}

impl FromStr for Kind {
    type Err = InvalidKind;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidKind::of(text);
        if text == UNKNOWN {
            return Ok(Self::Unknown);
        }
        if let Some(datatype) = text.strip_prefix(SPOOL) {
            return Datatype::new(datatype)
                .map(Self::Spool)
                .map_err(|_| invalid());
        }
        if let Some(feed) = text.strip_prefix(FEED) {
            return FeedId::new(feed).map(Self::Feed).map_err(|_| invalid());
        }
        TestName::new(text).map(Self::Test)
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn kinds_are_told_apart_by_their_spelling() {
        for (text, is_right) in [
            (
                "web_connectivity",
                (|kind| matches!(kind, Kind::Test(_))) as fn(Kind) -> bool,
            ),
            ("spool", |kind| matches!(kind, Kind::Test(_))),
            ("spool-ndt7", |kind| matches!(kind, Kind::Spool(_))),
            ("feed-a.0001-b", |kind| matches!(kind, Kind::Feed(_))),
            ("unknown", |kind| matches!(kind, Kind::Unknown)),
        ] {
            assert!(is_right(text.parse().unwrap()), "{text}");
        }
        let long = "x".repeat(101);
        for text in [
            "",
            "a/b",
            "..",
            "a.b",
            "a-b",
            "spool-",
            "spool-A",
            "feed-",
            "feed-canned",
            "Unknown",
            "ü",
            "a\0",
            long.as_str(),
        ] {
            assert!(text.parse::<Kind>().is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_parsed_prints_the_same(text in "(spool-|feed-|)[A-Za-z0-9_.-]{0,12}") {
            if let Ok(kind) = text.parse::<Kind>() {
                prop_assert_eq!(kind.to_string(), text);
            }
        }
    }
}
