//! Moments in milliseconds, and the moment after which an entry counts as deleted.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment: milliseconds since 1970, UTC.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Date(i64);

impl Date {
    /// `9999-12-30T22:00:00.000Z`: the largest date that an entry may carry, and that can be shown in every time zone.
    pub const LAST: Self = Self(253_402_207_200_000);

    /// A moment from milliseconds since 1970.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// This moment and a duration later, at most the largest moment there is.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)),
        )
    }

    /// How long after `earlier` this is; nothing when it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Whether an entry may carry this date: from 1970 to 9999.
    #[must_use]
    pub fn is_usable(self) -> bool {
        (0..=Self::LAST.0).contains(&self.0)
    }
}

impl From<Timestamp> for Date {
    fn from(timestamp: Timestamp) -> Self {
        Self(timestamp.as_millisecond())
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_millisecond(self.0) {
            Ok(timestamp) => write!(f, "{timestamp:.3}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

/// When an entry expires. The order is that of dates, and never is the latest: the later of two is their maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expiration(i64);

impl Expiration {
    /// It does not expire.
    pub const NEVER: Self = Self(i64::MAX);

    /// After this date.
    #[must_use]
    pub const fn at(date: Date) -> Self {
        Self(date.0)
    }

    /// The date, unless it is never.
    #[must_use]
    pub fn date(self) -> Option<Date> {
        (self != Self::NEVER).then_some(Date(self.0))
    }

    /// Whether an entry with this expiration counts as deleted.
    #[must_use]
    pub fn is_past(self, now: Date) -> bool {
        now.0 > self.0
    }
}

impl From<Option<Date>> for Expiration {
    fn from(date: Option<Date>) -> Self {
        date.map_or(Self::NEVER, Self::at)
    }
}

impl Serialize for Expiration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.date().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Expiration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<Date>::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_is_later_than_any_date() {
        assert!(Expiration::NEVER > Expiration::at(Date::LAST));
        assert!(!Expiration::NEVER.is_past(Date::LAST));
    }

    #[test]
    fn an_entry_lives_through_its_last_millisecond() {
        let expiration = Expiration::at(Date::from_millis(5));
        assert!(!expiration.is_past(Date::from_millis(5)));
        assert!(expiration.is_past(Date::from_millis(6)));
    }

    #[test]
    fn dates_are_shown_for_people_and_kept_as_numbers() {
        let date = Date::from_millis(1_500);
        assert_eq!(date.to_string(), "1970-01-01T00:00:01.500Z");
        assert_eq!(serde_json::to_string(&date).unwrap(), "1500");
        assert_eq!(serde_json::to_string(&Expiration::NEVER).unwrap(), "null");
        assert_eq!(Date::LAST.to_string(), "9999-12-30T22:00:00.000Z");
    }
}
