//! The date of a bucket: the day on which something arrived.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::spool::SpoolDate;

/// A real calendar date of the years 1 to 9999, written `2026-11-15`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketDate(SpoolDate);

/// The text does not name a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a calendar date of the form `<yyyy>-<mm>-<dd>`")]
pub struct InvalidBucketDate;

impl BucketDate {
    /// The bucket of a date.
    ///
    /// # Errors
    /// [`InvalidBucketDate`] when it is before the year 1.
    pub fn new(date: jiff::civil::Date) -> Result<Self, InvalidBucketDate> {
        SpoolDate::new(date)
            .map(Self)
            .map_err(|_| InvalidBucketDate)
    }

    /// For arithmetic.
    #[must_use]
    pub fn date(self) -> jiff::civil::Date {
        self.0.date()
    }
}

impl fmt::Display for BucketDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.dashed())
    }
}

impl FromStr for BucketDate {
    type Err = InvalidBucketDate;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split('-');
        match [parts.next(), parts.next(), parts.next(), parts.next()] {
            [Some(yyyy), Some(mm), Some(dd), None] => SpoolDate::from_components(yyyy, mm, dd)
                .map(Self)
                .map_err(|_| InvalidBucketDate),
            _ => Err(InvalidBucketDate),
        }
    }
}

impl Serialize for BucketDate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BucketDate {
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
    fn only_real_days_with_dashes_are_buckets() {
        let date: BucketDate = "2026-11-15".parse().unwrap();
        assert_eq!(date.to_string(), "2026-11-15");
        assert!(date < "2026-12-01".parse().unwrap());
        for text in [
            "",
            "2026-02-29",
            "2026/11/15",
            "2026-11-15-",
            "2026-11",
            "26-11-15",
        ] {
            assert_eq!(text.parse::<BucketDate>(), Err(InvalidBucketDate), "{text}");
        }
    }
}
