//! The instant a bundle was opened, which tells the bundles of one node and day apart.

use std::fmt;
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp, civil, tz::TimeZone};

/// An instant in UTC microseconds of the years 1 to 9999, written `20261115T182403.850914Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BundleTime(Timestamp);

/// The text is not of that form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a time of the form `20261115T182403.850914Z`")]
pub struct InvalidBundleTime;

impl BundleTime {
    /// The microsecond that `time` lies in. A time before the year 1, which only a broken clock shows, becomes its start.
    #[must_use]
    pub fn from_timestamp(time: Timestamp) -> Self {
        let first = civil::date(1, 1, 1)
            .to_zoned(TimeZone::UTC)
            .expect("the year 1 is representable")
            .timestamp();
        let micros = time.as_nanosecond().div_euclid(1_000);
        let micros = i64::try_from(micros).expect("any timestamp fits in 64 bits of microseconds");
        // Rounding down can leave the range only at its lower end, which the clamp below would have cut anyway.
        let whole = Timestamp::from_microsecond(micros).unwrap_or(first);
        Self(whole.max(first))
    }

    /// This instant, or the one after `last` where it is not later: no two are the same, also when a clock went back.
    #[must_use]
    pub fn after(self, last: Option<Self>) -> Self {
        match last {
            Some(last) if self <= last => {
                Self::from_timestamp(last.0 + SignedDuration::from_micros(1))
            }
            Some(_) | None => self,
        }
    }

    /// The instant.
    #[must_use]
    pub fn timestamp(self) -> Timestamp {
        self.0
    }
}

impl From<Timestamp> for BundleTime {
    fn from(time: Timestamp) -> Self {
        Self::from_timestamp(time)
    }
}

impl fmt::Display for BundleTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = TimeZone::UTC.to_datetime(self.0);
        write!(
            f,
            "{:04}{:02}{:02}T{:02}{:02}{:02}.{:06}Z",
            at.year(),
            at.month(),
            at.day(),
            at.hour(),
            at.minute(),
            at.second(),
            at.subsec_nanosecond() / 1_000
        )
    }
}

impl FromStr for BundleTime {
    type Err = InvalidBundleTime;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = text.as_bytes();
        let [
            y1,
            y2,
            y3,
            y4,
            m1,
            m2,
            d1,
            d2,
            b'T',
            h1,
            h2,
            n1,
            n2,
            s1,
            s2,
            b'.',
            u1,
            u2,
            u3,
            u4,
            u5,
            u6,
            b'Z',
        ] = bytes
        else {
            return Err(InvalidBundleTime);
        };
        let year = number(&[*y1, *y2, *y3, *y4])?;
        let [month, day] = [pair(*m1, *m2)?, pair(*d1, *d2)?];
        let [hour, minute, second] = [pair(*h1, *h2)?, pair(*n1, *n2)?, pair(*s1, *s2)?];
        let micros = number(&[*u1, *u2, *u3, *u4, *u5, *u6])?;
        let year = i16::try_from(year).map_err(|_| InvalidBundleTime)?;
        if year < 1 {
            return Err(InvalidBundleTime);
        }
        civil::DateTime::new(year, month, day, hour, minute, second, micros * 1_000)
            .and_then(|at| at.to_zoned(TimeZone::UTC))
            .map(|at| Self(at.timestamp()))
            .map_err(|_| InvalidBundleTime)
    }
}

fn number(digits: &[u8]) -> Result<i32, InvalidBundleTime> {
    digits.iter().try_fold(0, |sum, digit| {
        if digit.is_ascii_digit() {
            Ok(sum * 10 + i32::from(digit - b'0'))
        } else {
            Err(InvalidBundleTime)
        }
    })
}

fn pair(tens: u8, ones: u8) -> Result<i8, InvalidBundleTime> {
    i8::try_from(number(&[tens, ones])?).map_err(|_| InvalidBundleTime)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_form_is_exact() {
        let text = "20261115T182403.850914Z";
        let time: BundleTime = text.parse().unwrap();
        assert_eq!(time.to_string(), text);
        assert_eq!(
            time,
            BundleTime::from_timestamp("2026-11-15T18:24:03.850914999Z".parse().unwrap())
        );
        for other in [
            "20261115T182403Z",
            "20261115T182403.85091Z",
            "20261115T182403.850914",
            "20261115T182403.850914z",
            "20261115t182403.850914Z",
            "20261315T182403.850914Z",
            "20261115T242403.850914Z",
            "20261115T182460.850914Z",
            "00001115T182403.850914Z",
            "2026 115T182403.850914Z",
            "+0261115T182403.850914Z",
            "",
        ] {
            assert_eq!(
                other.parse::<BundleTime>(),
                Err(InvalidBundleTime),
                "{other}"
            );
        }
    }

    #[test]
    fn a_broken_clock_still_gives_a_name() {
        let time = BundleTime::from_timestamp(Timestamp::MIN);
        assert_eq!(time.to_string(), "00010101T000000.000000Z");
        assert_eq!(time.to_string().parse(), Ok(time));
        let last = BundleTime::from_timestamp(Timestamp::MAX);
        assert_eq!(last.to_string().parse(), Ok(last));
    }

    proptest! {
        #[test]
        fn text_and_order_agree(a in 0_i64..4_102_444_800_000_000, b in 0_i64..4_102_444_800_000_000) {
            let [a, b] = [a, b].map(|micros| BundleTime::from_timestamp(Timestamp::from_microsecond(micros).unwrap()));
            prop_assert_eq!(a.to_string().parse(), Ok(a));
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
        }
    }
}
