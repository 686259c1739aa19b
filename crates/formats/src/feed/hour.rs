//! An hour of the calendar in UTC: what an archive is about.

use std::fmt;
use std::str::FromStr;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, civil};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An hour of the years 1 to 9999, written `20261115T18Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hour(Timestamp);

/// The text is not of that form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an hour of the form `20261115T18Z`")]
pub struct InvalidHour;

impl Hour {
    /// How long every hour is.
    pub const LENGTH: SignedDuration = SignedDuration::from_hours(1);

    /// The hour that `time` lies in. One before the year 1, which only a broken clock shows, becomes the first.
    #[must_use]
    pub fn of(time: Timestamp) -> Self {
        let first = civil::date(1, 1, 1).to_zoned(TimeZone::UTC);
        let first = first.expect("the year 1 is representable").timestamp();
        let seconds = time.as_second().div_euclid(3_600) * 3_600;
        Self(Timestamp::from_second(seconds).unwrap_or(first).max(first))
    }

    /// When it begins.
    #[must_use]
    pub fn begin(self) -> Timestamp {
        self.0
    }

    /// When it is over, which is when the next one begins.
    #[must_use]
    pub fn end(self) -> Timestamp {
        self.0.checked_add(Self::LENGTH).unwrap_or(Timestamp::MAX)
    }

    /// The one after it; none after the last.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        let next = self.0.checked_add(Self::LENGTH).ok()?;
        Some(Self(next))
    }

    /// `2026/11/15/18`: the folder of the hour.
    #[must_use]
    pub fn folder(self) -> String {
        let at = TimeZone::UTC.to_datetime(self.0);
        format!("{}/{:02}", self.day_folder(), at.hour())
    }

    /// `2026/11/15`: the folder of its day.
    #[must_use]
    pub fn day_folder(self) -> String {
        let at = TimeZone::UTC.to_datetime(self.0);
        format!("{:04}/{:02}/{:02}", at.year(), at.month(), at.day())
    }

    /// The hour of the folders `2026/11/15/18`, with all their zeros.
    ///
    /// # Errors
    /// [`InvalidHour`] when they name none.
    pub fn from_folder(path: &str) -> Result<Self, InvalidHour> {
        let mut parts = path.split('/');
        let [Some(y), Some(m), Some(d), Some(h), None] = [(); 5].map(|()| parts.next()) else {
            return Err(InvalidHour);
        };
        Self::from_digits([y, m, d, h])
    }

    fn from_digits([y, m, d, h]: [&str; 4]) -> Result<Self, InvalidHour> {
        let year = number(y, 4)?;
        let small = |text| i8::try_from(number(text, 2)?).map_err(|_| InvalidHour);
        if year < 1 {
            return Err(InvalidHour);
        }
        civil::DateTime::new(year, small(m)?, small(d)?, small(h)?, 0, 0, 0)
            .and_then(|at| at.to_zoned(TimeZone::UTC))
            .map(|at| Self(at.timestamp()))
            .map_err(|_| InvalidHour)
    }

    /// The hour of `20261115T18`, with or without the `Z` at its end.
    pub(super) fn parse_with_or_without_z(text: &str) -> Result<Self, InvalidHour> {
        let text = text.strip_suffix('Z').unwrap_or(text);
        match (text.len(), text.is_ascii()) {
            (11, true) if text.as_bytes()[8] == b'T' => {
                Self::from_digits([&text[..4], &text[4..6], &text[6..8], &text[9..]])
            }
            _ => Err(InvalidHour),
        }
    }
}

fn number(text: &str, count: usize) -> Result<i16, InvalidHour> {
    if text.len() != count || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(InvalidHour);
    }
    text.parse().map_err(|_| InvalidHour)
}

impl fmt::Display for Hour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = TimeZone::UTC.to_datetime(self.0);
        write!(
            f,
            "{:04}{:02}{:02}T{:02}Z",
            at.year(),
            at.month(),
            at.day(),
            at.hour()
        )
    }
}

impl FromStr for Hour {
    type Err = InvalidHour;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.ends_with('Z') {
            true => Self::parse_with_or_without_z(text),
            false => Err(InvalidHour),
        }
    }
}

impl Serialize for Hour {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hour {
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
    fn the_form_is_exact() {
        let hour = Hour::of("2026-11-15T18:59:59.999Z".parse().unwrap());
        assert_eq!(hour.to_string(), "20261115T18Z");
        assert_eq!(hour.folder(), "2026/11/15/18");
        assert_eq!(hour.day_folder(), "2026/11/15");
        assert_eq!(hour.end().to_string(), "2026-11-15T19:00:00Z");
        assert_eq!(hour.next().unwrap().to_string(), "20261115T19Z");
        for text in [
            "20261115T18",
            "20261115T24Z",
            "20261315T18Z",
            "20260229T18Z",
            "00001115T18Z",
            "2026111518Z",
            "20261115t18Z",
            "+0261115T18Z",
            "ä0261115T1Z",
            "",
        ] {
            assert_eq!(text.parse::<Hour>(), Err(InvalidHour), "{text}");
        }
        for path in [
            "2026/11/15",
            "2026/11/15/18/",
            "2026/1/15/18",
            "2026/11/15/1",
        ] {
            assert_eq!(Hour::from_folder(path), Err(InvalidHour), "{path}");
        }
    }

    #[test]
    fn a_time_before_the_epoch_lies_in_the_hour_that_began_before_it() {
        let hour = Hour::of("1969-12-31T23:30:00Z".parse().unwrap());
        assert_eq!(hour.to_string(), "19691231T23Z");
        assert_eq!(Hour::of(Timestamp::MIN).to_string(), "00010101T00Z");
    }

    proptest! {
        #[test]
        fn every_hour_reads_as_it_is_written(seconds in -62_135_596_800_i64..253_402_300_800) {
            let hour = Hour::of(Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX));
            prop_assert_eq!(hour.to_string().parse(), Ok(hour));
            prop_assert_eq!(Hour::from_folder(&hour.folder()), Ok(hour));
            prop_assert!(hour.begin() <= hour.end());
        }
    }
}
