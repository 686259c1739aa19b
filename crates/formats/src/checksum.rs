//! The checksums of the indexes of cans and archives: a CRC-32 and a SHA-1.
//!
//! They find damage and equal content quickly. Neither proves anything against somebody who wants to deceive.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE64;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Digest as _;

/// The SHA-1 of some content: padded base64 in text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha1([u8; 20]);

/// The text is not the padded base64 of 20 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a SHA-1 in padded base64")]
pub struct InvalidSha1;

/// What is known of some content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sums {
    /// The CRC-32 of gzip, its 32 bits taken for a signed number.
    pub crc32: i32,
    /// Its SHA-1.
    pub sha1: Sha1,
    /// How many bytes it has.
    pub size: u64,
}

/// Computes [`Sums`] piece by piece.
#[derive(Clone, Debug, Default)]
pub struct Summer {
    crc32: crc32fast::Hasher,
    sha1: sha1::Sha1,
    size: u64,
}

impl Sha1 {
    /// The SHA-1 of `content`.
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        Self(sha1::Sha1::digest(content).into())
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }

    /// The SHA-1 of these bytes, which somebody else computed.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }
}

impl Sums {
    /// The sums of `content`.
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        let mut summer = Summer::default();
        summer.update(content);
        summer.finish()
    }
}

/// Computes the CRC-32 of [`Sums`] piece by piece, at a tenth of the cost.
#[derive(Clone, Debug, Default)]
pub struct Crc32 {
    crc32: crc32fast::Hasher,
    size: u64,
}

impl Crc32 {
    /// Adds the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.crc32.update(piece);
        self.size += piece.len() as u64;
    }

    /// Whether these may be the sums of what was added: the SHA-1 is not looked at.
    #[must_use]
    pub fn may_be(self, sums: &Sums) -> bool {
        self.size == sums.size && self.crc32.finalize().cast_signed() == sums.crc32
    }
}

impl Summer {
    /// Adds the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.crc32.update(piece);
        self.sha1.update(piece);
        self.size += piece.len() as u64;
    }

    /// How much was added.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The sums of all pieces.
    #[must_use]
    pub fn finish(self) -> Sums {
        Sums {
            crc32: self.crc32.finalize().cast_signed(),
            sha1: Sha1(self.sha1.finalize().into()),
            size: self.size,
        }
    }
}

impl fmt::Display for Sha1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64.encode(&self.0))
    }
}

impl fmt::Debug for Sha1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Sha1 {
    type Err = InvalidSha1;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = BASE64.decode(text.as_bytes()).map_err(|_| InvalidSha1)?;
        Ok(Self(bytes.try_into().map_err(|_| InvalidSha1)?))
    }
}

impl Serialize for Sha1 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sha1 {
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
    fn the_sums_are_those_of_the_usual_tools() {
        let mut summer = Summer::default();
        summer.update(b"1234");
        summer.update(b"56789");
        let sums = summer.finish();
        assert_eq!(sums, Sums::of(b"123456789"));
        // 0xcbf43926 is the check value of this CRC; its first bit is the sign.
        assert_eq!(sums.crc32, -873_187_034);
        assert_eq!(sums.sha1.to_string(), "98O8HYCOBHMq32eZZczDTKeuNEE=");
        assert_eq!(sums.size, 9);
    }

    #[test]
    fn only_padded_base64_of_20_bytes_is_a_sha1() {
        let sha1 = Sha1::of(b"");
        assert_eq!(sha1.to_string().parse(), Ok(sha1));
        for text in [
            "",
            "98O8HYCOBHMqBeZZUMKfcrnmNQ0",
            "98O8HYCOBHMqBeZZUMKfcrnmNQ==",
            "98O8HYCOBHMqBeZZUMKfcrnmNQ0=\n",
            "98O8HYCOBHMqBeZZUMKfcrnmNQ1=",
        ] {
            assert_eq!(text.parse::<Sha1>(), Err(InvalidSha1), "{text:?}");
        }
    }
}
