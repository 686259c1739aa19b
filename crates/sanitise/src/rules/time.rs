//! Times in documents.

use jiff::Timestamp;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::path::Path;

/// A place where a measurement may say its time.
#[derive(Debug, Serialize)]
pub(crate) struct TimeSource {
    pub(crate) at: Path,
    pub(crate) format: TimeFormat,
}

/// How a time is written.
#[derive(Debug, Serialize)]
pub enum TimeFormat {
    /// Seconds since 1970, maybe with a fraction.
    Epoch,
    /// Milliseconds since 1970.
    EpochMs,
    /// As in `2026-11-15T18:24:03Z`.
    Rfc3339,
    /// As for `strptime`; in UTC unless it says otherwise.
    Pattern(String),
}

impl TimeFormat {
    /// The format of this name: `epoch`, `epoch_ms`, `rfc3339` or a pattern.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "epoch" => Self::Epoch,
            "epoch_ms" => Self::EpochMs,
            "rfc3339" => Self::Rfc3339,
            pattern if pattern.contains('%') => {
                format_time(pattern, 0).ok_or_else(|| wrong_pattern(pattern))?;
                Self::Pattern(pattern.to_owned())
            }
            other => {
                return Err(format!(
                    "`{other}` is not a format of times; write `epoch`, `epoch_ms`, `rfc3339` or a pattern such as `%Y-%m-%d %H:%M:%S`"
                ));
            }
        })
    }

    /// The time in milliseconds that a value says, if it is one. `text` is what a string says, or a number as it is written.
    #[must_use]
    pub fn read(&self, text: &str, is_string: bool) -> Option<i64> {
        match self {
            Self::Epoch if !is_string => milliseconds(text, 1000.0),
            Self::EpochMs if !is_string => milliseconds(text, 1.0),
            Self::Epoch | Self::EpochMs => None,
            Self::Rfc3339 => text
                .parse::<Timestamp>()
                .ok()
                .map(Timestamp::as_millisecond),
            Self::Pattern(pattern) => {
                let broken = BrokenDownTime::parse(pattern, text).ok()?;
                let time = match broken.to_timestamp() {
                    Ok(time) => time,
                    Err(_) => {
                        let civil = broken.to_datetime().ok()?;
                        civil.to_zoned(TimeZone::UTC).ok()?.timestamp()
                    }
                };
                Some(time.as_millisecond())
            }
        }
    }
}

/// The milliseconds that a number says which counts `factor` of them; the fraction is left out.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the range is checked before"
)]
pub(crate) fn milliseconds(number: &str, factor: f64) -> Option<i64> {
    let value = (number.parse::<f64>().ok()? * factor).floor();
    (value.abs() < 9e15).then_some(value as i64)
}

/// A time in UTC as a pattern says; `None` when either is out of range or wrong.
pub(crate) fn format_time(pattern: &str, milliseconds: i64) -> Option<String> {
    let time = Timestamp::from_millisecond(milliseconds).ok()?;
    jiff::fmt::strtime::format(pattern, time).ok()
}

pub(crate) fn wrong_pattern(pattern: &str) -> String {
    format!("`{pattern}` is not a pattern of times; write one such as `%Y-%m-%d %H:%M:%S`")
}
