//! The names of users, which are the first part of the addresses of their objects: `/<user>/stor/…`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

/// No name is longer.
pub const USER_NAME_BYTES_MAX: usize = 63;

/// First parts of addresses that belong to the server, or may one day: no user has such a name. The server checks when it starts
/// that all of its own are here.
pub const RESERVED_USER_NAMES: [&str; 29] = [
    "admin",
    "api",
    "archive",
    "assets",
    "config",
    "events",
    "favicon.ico",
    "feeds",
    "healthz",
    "jobs",
    "journals",
    "lake",
    "login",
    "logout",
    "metrics",
    "objects",
    "openapi.json",
    "operator",
    "public",
    "readyz",
    "robots.txt",
    "shutdown",
    "spools",
    "status",
    "status.json",
    "stor",
    "tokens",
    "users",
    "workers",
];

/// The name of a user: a lower-case letter, then lower-case letters, digits, `_`, `.` and `-`; at most 63 bytes, and none of
/// [`RESERVED_USER_NAMES`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct UserName(String);

/// Why a text cannot be the name of a user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid user name `{}`: {reason}", .name.escape_debug())]
pub struct InvalidUserName {
    /// The text, shortened.
    pub name: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl UserName {
    /// Checks `text`.
    ///
    /// # Errors
    /// [`InvalidUserName`] says which rule it breaks.
    pub fn new(text: &str) -> Result<Self, InvalidUserName> {
        match fault_of(text) {
            None => Ok(Self(text.to_owned())),
            Some(reason) => Err(InvalidUserName {
                name: text.chars().take(80).collect(),
                reason,
            }),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn fault_of(text: &str) -> Option<&'static str> {
    let is_plain =
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.' | '-');
    if !text.starts_with(|c: char| c.is_ascii_lowercase()) || !text.chars().all(is_plain) {
        return Some(
            "it must be a lower-case letter, followed by lower-case letters, digits, `_`, `.` and `-`",
        );
    }
    if text.len() > USER_NAME_BYTES_MAX {
        return Some("it is longer than 63 bytes");
    }
    if RESERVED_USER_NAMES.contains(&text) {
        return Some("it is an address of the server; choose another one");
    }
    None
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for UserName {
    type Err = InvalidUserName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

impl<'de> Deserialize<'de> for UserName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_stand_in_an_address_and_is_no_address_of_the_server() {
        for good in ["a", "local", "mark.cavage", "a-b_c9", &"a".repeat(63)] {
            assert_eq!(UserName::new(good).unwrap().as_str(), good);
        }
        let long = "a".repeat(64);
        for bad in [
            "", "A", "9a", ".a", "-a", "_a", "a/b", "a b", "a%", "ä", "a\n", "..", "\0", "a@b",
            "stor", "lake", "status", "jobs", &long,
        ] {
            assert!(UserName::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn reserved_names_are_sorted_and_distinct() {
        assert!(RESERVED_USER_NAMES.is_sorted_by(|a, b| a < b));
    }
}
