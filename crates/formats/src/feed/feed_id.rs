//! The name of a feed, which is a folder in the lake.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::key::RESERVED;

const BYTES_MAX: usize = 100;

/// Letters, digits, `_`, `.` and `-`, at most 100, the first a letter or digit; none of the lake's own names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct FeedId(String);

/// Why a text is no feed id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid feed id `{}`: {reason}", .id.escape_debug())]
pub struct InvalidFeedId {
    /// The text, shortened.
    pub id: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl FeedId {
    /// Checks `text`.
    ///
    /// # Errors
    /// [`InvalidFeedId`] says which rule it breaks.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidFeedId> {
        let text = text.into();
        match fault_of(&text) {
            None => Ok(Self(text)),
            Some(reason) => Err(InvalidFeedId {
                id: text.chars().take(120).collect(),
                reason,
            }),
        }
    }

    /// The text of the id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn fault_of(text: &str) -> Option<&'static str> {
    let Some(first) = text.bytes().next() else {
        return Some("it is empty");
    };
    if text.len() > BYTES_MAX {
        return Some("it is longer than 100 characters");
    }
    if !first.is_ascii_alphanumeric() {
        return Some("it begins with something else than a letter or a digit");
    }
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if !text.bytes().all(is_allowed) {
        return Some("only letters, digits, `_`, `.` and `-` are allowed");
    }
    // A lake on a disk that knows no upper case would mix them up.
    let is_reserved = |name: &str| name.eq_ignore_ascii_case(text);
    if RESERVED.iter().any(|name| is_reserved(name)) {
        return Some("the lake uses this name itself");
    }
    None
}

impl fmt::Display for FeedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for FeedId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_are_a_folder_of_their_own_are_feeds() {
        for id in ["a", "1", "nycsubway_L", "a.b-c_d", &"x".repeat(100)] {
            assert_eq!(FeedId::new(id).unwrap().as_str(), id);
        }
        for (id, reason) in [
            ("", "empty"),
            (".a", "begins with"),
            ("-rf", "begins with"),
            ("_a", "begins with"),
            ("a/b", "only letters"),
            ("a b", "only letters"),
            ("ä", "begins with"),
            ("a\u{202e}", "only letters"),
            ("a\n", "only letters"),
            ("autoload", "uses this name"),
            ("Users", "uses this name"),
            ("cannery.json", "uses this name"),
            (&"x".repeat(101), "longer"),
        ] {
            let error = FeedId::new(id).unwrap_err();
            assert!(error.reason.contains(reason), "{id:?}: {error}");
        }
    }
}
