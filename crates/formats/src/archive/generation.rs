//! Which rules made an archive. Other rules make another generation of all archives, beside the one before.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Digest;

/// A generation of archives, `r` and 8 hex digits: the first 32 bits of the SHA-256 of everything that rules depend on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(u32);

/// The text is no generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a generation of archives: `r` and 8 lower-case hex digits")]
pub struct InvalidGeneration;

impl Generation {
    /// The generation of these rules.
    #[must_use]
    pub fn of(rules: Digest) -> Self {
        let [a, b, c, d, ..] = *rules.as_bytes();
        Self(u32::from_be_bytes([a, b, c, d]))
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{:08x}", self.0)
    }
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Generation {
    type Err = InvalidGeneration;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix('r').ok_or(InvalidGeneration)?;
        let number = u32::from_str_radix(digits, 16).map_err(|_| InvalidGeneration)?;
        let generation = Self(number);
        match generation.to_string() == text {
            true => Ok(generation),
            false => Err(InvalidGeneration),
        }
    }
}

impl Serialize for Generation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Generation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_is_the_beginning_of_a_hash() {
        let generation = Generation::of(Digest::of(b"abc"));
        assert_eq!(generation.to_string(), "rba7816bf");
        assert_eq!("rba7816bf".parse(), Ok(generation));
        for text in [
            "",
            "r",
            "rBA7816BF",
            "r+a7816bf",
            "rba7816b",
            "0ba7816bf",
            "r0ba7816bf",
        ] {
            assert_eq!(text.parse::<Generation>(), Err(InvalidGeneration), "{text}");
        }
    }
}
