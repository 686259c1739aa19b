//! The mark of a measurement that no archive may hold any more. That it is there is what counts.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{BucketDate, Uid};

/// Longer reasons are refused: they stand in public indexes.
pub const REASON_CHARS_MAX: usize = 200;

/// Stands before the reason in the index of an archive.
const INFO: &str = "redacted: ";

/// What the object says; `docs/formats.md`, section "Redactions". It is created if absent and never changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redaction {
    /// Which measurement.
    pub uid: Uid,
    /// Why; everybody can read it.
    pub reason: String,
    /// The buckets that had it then.
    pub buckets: BTreeSet<BucketDate>,
    /// When somebody asked for it.
    pub redacted: Timestamp,
    /// The program that did it.
    pub by: String,
}

/// The object is no mark of this measurement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no redaction of `{uid}`: {why}")]
pub struct InvalidRedaction {
    uid: Uid,
    why: String,
}

impl Redaction {
    /// The object.
    #[must_use]
    pub fn to_object(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec(self).expect("names and times are always JSON");
        text.push(b'\n');
        text
    }

    /// Reads the object of a measurement. Keys that are not known are passed over.
    ///
    /// # Errors
    /// [`InvalidRedaction`] when it is none, or of another one.
    pub fn from_object(uid: Uid, bytes: &[u8]) -> Result<Self, InvalidRedaction> {
        let wrong = |why: String| InvalidRedaction { uid, why };
        let redaction: Self =
            serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        match redaction.uid == uid {
            true => Ok(redaction),
            false => Err(wrong(format!("it is of `{}`", redaction.uid))),
        }
    }

    /// What is wrong with a reason; nothing when it may stand in an index.
    #[must_use]
    pub fn fault_of(reason: &str) -> Option<&'static str> {
        if reason.trim().is_empty() {
            return Some("it is empty");
        }
        if reason.chars().count() > REASON_CHARS_MAX {
            return Some("it is longer than 200 characters");
        }
        let is_control = reason.chars().any(char::is_control);
        is_control.then_some("it has a control character")
    }

    /// How the index of an archive says it, in place of the measurement.
    #[must_use]
    pub fn info(&self) -> String {
        format!("{INFO}{}", self.reason)
    }

    /// Whether the index of an archive says so of a piece.
    #[must_use]
    pub fn is_info(info: &str) -> bool {
        info.starts_with(INFO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    #[test]
    fn it_reads_as_it_is_written() {
        let uid = Uid::from_bytes([7; 20]);
        let redaction = Redaction {
            uid,
            reason: "asked by the person".to_owned(),
            buckets: ["2026-11-15".parse().unwrap()].into(),
            redacted: "2026-11-17T12:00:00Z".parse().unwrap(),
            by: "cannery 0.1.0".to_owned(),
        };
        let object = redaction.to_object();
        assert_eq!(
            String::from_utf8(object.clone()).unwrap(),
            format!(
                "{{\"uid\":\"{uid}\",\"reason\":\"asked by the person\",\"buckets\":[\"2026-11-15\"],\
                 \"redacted\":\"2026-11-17T12:00:00Z\",\"by\":\"cannery 0.1.0\"}}\n"
            )
        );
        assert_eq!(Redaction::from_object(uid, &object), Ok(redaction));
        let other = Uid::from_bytes([8; 20]);
        assert!(Redaction::from_object(other, &object).is_err());
        assert!(Redaction::from_object(uid, b"{}").is_err());
    }

    #[test]
    fn its_key_says_which_one_and_is_nothing_public() {
        let uid = Uid::from_bytes([7; 20]);
        let key = Key::redaction(&uid);
        assert_eq!(key.as_str(), format!(".cannery/redactions/{uid}.json"));
        assert_eq!(key.as_redaction(), Some(uid));
        assert!(key.is_internal());
        for other in [
            ".cannery/redactions/x.json",
            ".cannery/redactions/a/b.json",
            "x",
        ] {
            assert_eq!(Key::new(other).unwrap().as_redaction(), None, "{other}");
        }
    }

    #[test]
    fn a_reason_is_one_short_line() {
        let long = "x".repeat(201);
        for bad in ["", "  ", "a\nb", "\u{1b}[31m", &long] {
            assert!(Redaction::fault_of(bad).is_some(), "{bad:?}");
        }
        assert_eq!(Redaction::fault_of(&long[1..]), None);
    }
}
