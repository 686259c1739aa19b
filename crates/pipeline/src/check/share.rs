//! Which files are read: a share of all, by the hashes of their names.

use std::fmt;
use std::str::FromStr;

use cannery_formats::Digest;
use jiff::Timestamp;

const SECONDS_A_DAY: i64 = 86_400;
const PARTS_MAX: u64 = 100_000;

/// One of several shares of all files; every file is in one of them, whatever else there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// The share of this number, from 1, of so many.
    Part {
        /// Which.
        number: u64,
        /// Of how many.
        of: u64,
    },
    /// Another one each day, of so many that everything had its turn after as many days.
    OfDay {
        /// How many there are.
        of: u64,
    },
}

/// The text is no share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a share is a percentage such as `5%`, or a part such as `3/20`")]
pub struct InvalidShare;

impl Share {
    /// Whether a file is in it at this time.
    #[must_use]
    pub fn has(&self, file: &str, now: Timestamp) -> bool {
        let (number, of) = match *self {
            Self::Part { number, of } => (number - 1, of),
            Self::OfDay { of } => {
                let day = now.as_second().div_euclid(SECONDS_A_DAY);
                (u64::try_from(day).unwrap_or(0) % of, of)
            }
        };
        let digits = Digest::of(file.as_bytes()).to_string();
        let hash = u64::from_str_radix(&digits[..16], 16).expect("a digest has 64 hex digits");
        hash % of == number
    }
}

impl FromStr for Share {
    type Err = InvalidShare;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some((number, of)) = text.split_once('/') {
            let number: u64 = number.parse().map_err(|_| InvalidShare)?;
            let of: u64 = of.parse().map_err(|_| InvalidShare)?;
            return match (1..=of).contains(&number) && of <= PARTS_MAX {
                true => Ok(Self::Part { number, of }),
                false => Err(InvalidShare),
            };
        }
        let percent = text.strip_suffix('%').ok_or(InvalidShare)?;
        let percent: f64 = percent.parse().map_err(|_| InvalidShare)?;
        if !(percent > 0.0 && percent <= 100.0) {
            return Err(InvalidShare);
        }
        // At least as much as was asked for: as many parts as make each that large.
        let mut of = 1;
        while of < PARTS_MAX
            && percent * f64::from(u32::try_from(of + 1).unwrap_or(u32::MAX)) <= 100.0
        {
            of += 1;
        }
        Ok(Self::OfDay { of })
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part { number, of } => write!(f, "{number}/{of}"),
            Self::OfDay { of: 1 } => f.write_str("all"),
            Self::OfDay { of } => write!(f, "1/{of}, another each day"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(share: Share, day: i64) -> Vec<u32> {
        let now = Timestamp::from_second(day * SECONDS_A_DAY + 7).unwrap();
        let names = 0..500;
        names
            .filter(|number| share.has(&format!("2026-11-15/{number}"), now))
            .collect()
    }

    #[test]
    fn as_many_days_as_there_are_shares_cover_everything() {
        let share: Share = "5%".parse().unwrap();
        assert_eq!(share, Share::OfDay { of: 20 });
        let mut all: Vec<u32> = (20_000..20_020).flat_map(|day| files(share, day)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..500).collect::<Vec<_>>(), "each of them once");
        assert_eq!(files(share, 20_000), files(share, 20_020));
    }

    #[test]
    fn parts_cover_everything_whatever_the_day() {
        let part = |number: u64| format!("{number}/3").parse::<Share>().unwrap();
        let mut all: Vec<u32> = (1..=3).flat_map(|number| files(part(number), 1)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..500).collect::<Vec<_>>());
        assert_eq!(files(part(2), 1), files(part(2), 2));
    }

    #[test]
    fn a_share_is_at_least_what_was_asked_for() {
        for (text, of) in [
            ("100%", 1),
            ("51%", 1),
            ("50%", 2),
            ("30%", 3),
            ("0.5%", 200),
        ] {
            assert_eq!(text.parse(), Ok(Share::OfDay { of }), "{text}");
        }
        for text in [
            "", "5", "0%", "-1%", "101%", "x%", "NaN%", "0/3", "4/3", "1/0", "1/x",
        ] {
            assert_eq!(text.parse::<Share>(), Err(InvalidShare), "{text}");
        }
    }
}
