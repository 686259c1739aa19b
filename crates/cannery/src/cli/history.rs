//! The command line of the history.

use std::str::FromStr;
use std::time::Duration;

use cannery_formats::BucketDate;
use cannery_pipeline::stage::Stage;
use clap::Args;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::config::units::Span;

/// Which executions, and how.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Only this stage: discover, can, seal, autoclave, centrifuge, verify, clear, sweep, expire, aggregate or cover
    #[arg(long, value_parser = stage)]
    pub(crate) stage: Option<Stage>,
    /// Only reports that arrived on this date, YYYY-MM-DD
    #[arg(long, value_name = "DATE", value_parser = super::archive::bucket)]
    pub(crate) bucket: Option<BucketDate>,
    /// Only what did not end well: failed, retried, put off, lost or cut off
    #[arg(long)]
    pub(crate) failed: bool,
    /// Only what runs now
    #[arg(long, conflicts_with_all = ["failed", "summary"])]
    pub(crate) running: bool,
    /// Only the last execution of each stage and bucket
    #[arg(long, conflicts_with = "summary")]
    pub(crate) last: bool,
    /// Only what began since then: 90m, 24h, 7d; or 2026-11-15, or 2026-11-15T18:24:03Z
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Since>,
    /// At most so many, the newest
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "summary")]
    pub(crate) limit: u32,
    /// Count by stage, with durations and bytes, instead of listing
    #[arg(long)]
    pub(crate) summary: bool,
}

fn stage(text: &str) -> Result<Stage, String> {
    let names = Stage::ALL.map(Stage::name).join(", ");
    text.parse().map_err(|_| format!("choose one of: {names}"))
}

/// A moment, as a person says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// So long ago.
    Ago(Duration),
    /// Then.
    At(Timestamp),
}

impl Since {
    /// The moment, seen from `now`.
    pub(crate) fn from(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Ago(ago) => now.checked_sub(ago).unwrap_or(Timestamp::MIN),
            Self::At(moment) => moment,
        }
    }
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(span) = text.parse::<Span>() {
            return Ok(Self::Ago(span.0));
        }
        if let Ok(moment) = text.parse::<Timestamp>() {
            return Ok(Self::At(moment));
        }
        // A time of day without a zone is not taken for midnight.
        let date = text.parse::<Date>().ok();
        let date = date.filter(|date| date.to_string() == text);
        let midnight = date.and_then(|date| date.to_zoned(TimeZone::UTC).ok());
        midnight
            .map(|midnight| Self::At(midnight.timestamp()))
            .ok_or_else(|| {
                let text = text.escape_debug();
                format!(
                    "`{text}` is no time; write for example 24h, 2026-11-15 or 2026-11-15T18:24:03Z"
                )
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_so_long_ago_or_a_date() {
        let now: Timestamp = "2026-11-15T18:00:00Z".parse().unwrap();
        for (text, expected) in [
            ("90m", "2026-11-15T16:30:00Z"),
            ("7d", "2026-11-08T18:00:00Z"),
            ("2026-11-15", "2026-11-15T00:00:00Z"),
            ("2026-11-15T19:00:00+01:00", "2026-11-15T18:00:00Z"),
            ("500000000d", "-009999-01-02T01:59:59Z"),
        ] {
            let since = text.parse::<Since>().unwrap().from(now);
            assert_eq!(since.to_string(), expected, "{text}");
        }
        for text in ["", "yesterday", "5", "2026-13-01", "2026-11-15T18:00:00"] {
            assert!(text.parse::<Since>().is_err(), "{text}");
        }
    }
}
