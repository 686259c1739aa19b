//! The id of a measurement: computed from its content, with a key that the lake keeps to itself.
//!
//! A plain hash of a measurement before it is sanitised would let anybody test a guess of what was left out.

use std::fmt;
use std::str::FromStr;

use data_encoding::{BASE32_NOPAD, HEXLOWER};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Sha256;

/// The id of a measurement: 20 bytes, 32 characters of `a-z2-7` in text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid([u8; 20]);

/// The text is no [`Uid`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the id of a measurement: 32 characters of `a-z2-7`")]
pub struct InvalidUid;

/// The secret of a lake. Made once, from chance, and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct LakeKey([u8; 32]);

/// The object does not hold a [`LakeKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a lake key: 64 lower-case hex digits and a newline")]
pub struct InvalidLakeKey;

/// Computes a [`Uid`] piece by piece, so that a text that lies in pieces need not be copied together.
#[derive(Clone)]
pub struct UidHasher {
    mac: Hmac<Sha256>,
    left: u64,
}

impl LakeKey {
    /// The key of these bytes, which must be from a source of chance that nobody can guess.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// What the object [`crate::Key::lake_key`] holds.
    #[must_use]
    pub fn to_object(&self) -> Vec<u8> {
        let mut text = HEXLOWER.encode(&self.0).into_bytes();
        text.push(b'\n');
        text
    }

    /// The key that such an object holds.
    ///
    /// # Errors
    /// [`InvalidLakeKey`] when it does not.
    pub fn from_object(content: &[u8]) -> Result<Self, InvalidLakeKey> {
        let digits = content.strip_suffix(b"\n").ok_or(InvalidLakeKey)?;
        let bytes = HEXLOWER.decode(digits).map_err(|_| InvalidLakeKey)?;
        Ok(Self(bytes.try_into().map_err(|_| InvalidLakeKey)?))
    }
}

impl fmt::Debug for LakeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LakeKey(secret)")
    }
}

impl UidHasher {
    /// Begins a uid: the time of the measurement in milliseconds since 1970 (0 if nobody knows it), its `report_id` or
    /// else the name of its text, and the length of the text whose pieces follow.
    #[must_use]
    pub fn new(key: &LakeKey, time_ms: i64, source: &[u8], text_bytes: u64) -> Self {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&key.0).expect("an HMAC takes a key of any length");
        for part in [time_ms.to_string().as_bytes(), source] {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac.update(&text_bytes.to_be_bytes());
        let left = text_bytes;
        Self { mac, left }
    }

    /// Adds the next piece of the text.
    ///
    /// # Panics
    /// When the pieces are longer than was said: the id would be wrong.
    pub fn update(&mut self, piece: &[u8]) {
        let left = self.left.checked_sub(piece.len() as u64);
        self.left = left.expect("the text of a uid is as long as its length says");
        self.mac.update(piece);
    }

    /// The uid of all pieces.
    ///
    /// # Panics
    /// When the pieces are shorter than was said.
    #[must_use]
    pub fn finish(self) -> Uid {
        assert_eq!(
            self.left, 0,
            "the text of a uid is as long as its length says"
        );
        let hash = self.mac.finalize().into_bytes();
        let (first, _) = hash.split_at(20);
        Uid(first.try_into().expect("20 bytes were split off"))
    }
}

impl Uid {
    /// The uid of a text that is taken as it is.
    #[must_use]
    pub fn of_bytes(key: &LakeKey, time_ms: i64, source: &[u8], text: &[u8]) -> Self {
        let mut hasher = UidHasher::new(key, time_ms, source, text.len() as u64);
        hasher.update(text);
        hasher.finish()
    }

    /// The uid of a JSON text, for which the white space between its parts does not count. The text must be JSON.
    #[must_use]
    pub fn of_json(key: &LakeKey, time_ms: i64, source: &[u8], json: &[u8]) -> Self {
        let length = json_pieces(json).map(|piece| piece.len() as u64).sum();
        let mut hasher = UidHasher::new(key, time_ms, source, length);
        match length == json.len() as u64 {
            true => hasher.update(json),
            false => json_pieces(json).for_each(|piece| hasher.update(piece)),
        }
        hasher.finish()
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }

    /// The uid of these bytes, as a catalog keeps them.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }
}

/// The pieces of a JSON text that are left without the white space between its parts, in order.
pub fn json_pieces(json: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = json;
    std::iter::from_fn(move || {
        let begin = rest.iter().position(|byte| !is_space(*byte))?;
        rest = &rest[begin..];
        let mut end = 0;
        while end < rest.len() && !is_space(rest[end]) {
            end += match rest[end] {
                b'"' => string_bytes(&rest[end..]),
                _ => 1,
            };
        }
        let (piece, later) = rest.split_at(end);
        rest = later;
        Some(piece)
    })
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// The length of the string at the start, with its quotes; all of it when it does not end.
fn string_bytes(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(found) = text.get(at..).and_then(|t| memchr::memchr2(b'"', b'\\', t)) {
        at += found;
        if text[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    text.len()
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE32_NOPAD.encode(&self.0).to_ascii_lowercase())
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Uid {
    type Err = InvalidUid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'2'..=b'7');
        if text.len() != 32 || !text.bytes().all(is_allowed) {
            return Err(InvalidUid);
        }
        let bytes = BASE32_NOPAD.decode(text.to_ascii_uppercase().as_bytes());
        let bytes = bytes.map_err(|_| InvalidUid)?;
        Ok(Self(bytes.try_into().map_err(|_| InvalidUid)?))
    }
}

impl Serialize for Uid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Uid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
