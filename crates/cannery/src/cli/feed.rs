//! The command line of feeds: their hours in the lake.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;

use cannery_formats::feed::{FeedId, Hour};
use cannery_pipeline::Scope;
use clap::{Args, Subcommand};
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

#[derive(Debug, Subcommand)]
pub(crate) enum FeedCommand {
    /// Download a feed once and show what came; stores nothing
    #[command(
        after_help = "Examples:\n  cannery feed test subway --config-file cannery.yml\n  cannery feed test subway --body > now.gtfs\n\nExit code 1 when the download fails."
    )]
    Test {
        /// The id of a feed of the configuration
        id: String,
        /// Write the body to standard output, and the rest to standard error
        #[arg(long)]
        body: bool,
    },
    /// Show the feeds: what was downloaded, packed and shipped, and what waits, on this machine's disk
    #[command(
        after_help = "Examples:\n  cannery feed status\n  cannery feed status subway --json\n\nReads the folders only; works beside a running `cannery collect` and without one."
    )]
    Status {
        /// Only these feeds [default: all]
        ids: Vec<String>,
    },
}

/// Which feeds.
#[derive(Debug, Args)]
pub(crate) struct FeedIdsArg {
    /// Only these feeds [default: all]
    #[arg(long, value_name = "ID,...", value_delimiter = ',', value_parser = feed_id)]
    pub(crate) feed_ids: Vec<FeedId>,
}

/// Which object storages.
#[derive(Debug, Args)]
pub(crate) struct StorageIdsArg {
    /// Only these object storages [default: all]
    #[arg(long, value_name = "ID,...", value_delimiter = ',')]
    pub(crate) object_storage_ids: Vec<String>,
}

/// Which hours, where all of them are meant if nothing is said.
#[derive(Debug, Args)]
pub(crate) struct HoursArgs {
    #[command(flatten)]
    pub(crate) feeds: FeedIdsArg,
    /// From this time on, rounded down to the hour [default: the beginning]
    #[arg(long, value_name = "TIME")]
    pub(crate) start_time: Option<Time>,
    /// Until this time, rounded up to the hour [default: the end]
    #[arg(long, value_name = "TIME")]
    pub(crate) end_time: Option<Time>,
}

/// Which hours, where both ends must be said.
#[derive(Debug, Args)]
pub(crate) struct RangeArgs {
    #[command(flatten)]
    pub(crate) feeds: FeedIdsArg,
    /// From this time on, rounded down to the hour: 2026-11-15, 2026-11-15T18 or 2026-11-15T18:24:03Z; UTC
    #[arg(long, value_name = "TIME")]
    pub(crate) start_time: Time,
    /// Until this time, rounded up to the hour
    #[arg(long, value_name = "TIME")]
    pub(crate) end_time: Time,
}

#[derive(Debug, Args)]
pub(crate) struct ConsolidateArgs {
    #[command(flatten)]
    pub(crate) hours: HoursArgs,
    #[command(flatten)]
    pub(crate) storages: StorageIdsArg,
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    pub(crate) hours: HoursArgs,
    #[command(flatten)]
    pub(crate) storages: StorageIdsArg,
    /// Merge what is not merged, give a mirror what it lacks, and set aside what cannot be read
    #[arg(long)]
    pub(crate) fix: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RetrieveArgs {
    /// Where the files go
    #[arg(long, value_name = "FOLDER")]
    pub(crate) target_directory: PathBuf,
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// Put the files of all feeds together
    #[arg(long)]
    pub(crate) collapse_feeds: bool,
    /// Put the files of all hours together
    #[arg(long)]
    pub(crate) collapse_time: bool,
    /// Fetch the archives as they are
    #[arg(long)]
    pub(crate) no_extract: bool,
    /// Leave out bodies that the same feed had before
    #[arg(long)]
    pub(crate) dedupe: bool,
    /// Also fetch what each replica says of its polls, into `.coverage`
    #[arg(long, conflicts_with = "no_extract")]
    pub(crate) with_coverage: bool,
    /// Say what would be fetched, and fetch nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// From these object storages, one after the other [default: the first]
    #[arg(long, value_name = "ID,...", value_delimiter = ',')]
    pub(crate) object_storage_ids: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// From these object storages
    #[arg(long, value_name = "ID,...", value_delimiter = ',', required = true)]
    pub(crate) object_storage_ids: Vec<String>,
    /// Say what would be deleted, and delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Leave hours alone that have no archive: a replica that comes late may still bring them
    #[arg(long, conflicts_with = "lift")]
    pub(crate) archived_only: bool,
    /// End an earlier delete: from now on the hours may be collected again
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) lift: bool,
}

#[derive(Debug, Args)]
#[command(
    mut_arg("start_time", |arg| arg.help("From this time on, rounded down to the hour [default: a day before the end]")),
    mut_arg("end_time", |arg| arg.help("Until this time, rounded up to the hour [default: the last hour that is over]"))
)]
pub(crate) struct GapsArgs {
    #[command(flatten)]
    pub(crate) hours: HoursArgs,
    /// In these object storages, one after the other [default: the first]
    #[arg(
        long,
        value_name = "ID,...",
        value_delimiter = ',',
        alias = "object-storage-id"
    )]
    pub(crate) object_storage_ids: Vec<String>,
}

impl FeedIdsArg {
    pub(crate) fn set(&self) -> Option<BTreeSet<FeedId>> {
        let ids: BTreeSet<FeedId> = self.feed_ids.iter().cloned().collect();
        (!ids.is_empty()).then_some(ids)
    }
}

impl HoursArgs {
    pub(crate) fn scope(&self) -> Scope {
        Scope {
            feeds: self.feeds.set(),
            from: self.start_time.map(Time::hour),
            to: self.end_time.map(Time::hour_after),
        }
    }
}

impl RangeArgs {
    pub(crate) fn scope(&self) -> Scope {
        Scope {
            feeds: self.feeds.set(),
            from: Some(self.start_time.hour()),
            to: Some(self.end_time.hour_after()),
        }
    }
}

/// A time as a person writes it; UTC where no zone is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Timestamp);

impl Time {
    /// The hour that it lies in.
    pub(crate) fn hour(self) -> Hour {
        Hour::of(self.0)
    }

    /// The hour that begins at it, or next after it.
    pub(crate) fn hour_after(self) -> Hour {
        let last = self.0.checked_sub(SignedDuration::from_nanos(1));
        let last = Hour::of(last.unwrap_or(self.0));
        last.next().unwrap_or(last)
    }
}

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let in_utc = |at: DateTime| at.to_zoned(TimeZone::UTC).ok().map(|at| at.timestamp());
        let by_hour = || {
            let (date, hour) = text.trim_end_matches('Z').split_once('T')?;
            let hour: i8 = Some(hour).filter(|hour| hour.len() == 2)?.parse().ok()?;
            let date: Date = date.parse().ok()?;
            in_utc(date.to_datetime(jiff::civil::Time::new(hour, 0, 0, 0).ok()?))
        };
        let parsed = text
            .parse::<Timestamp>()
            .ok()
            .or_else(|| text.parse::<Hour>().ok().map(Hour::begin))
            .or_else(by_hour)
            .or_else(|| in_utc(text.trim_end_matches('Z').parse::<DateTime>().ok()?));
        parsed.map(Self).ok_or_else(|| {
            let form = "write for example 2026-11-15, 2026-11-15T18 or 2026-11-15T18:24:03Z";
            let plain = text.trim_end_matches('Z');
            let date = plain.split('T').next().unwrap_or(plain);
            match date.parse::<Date>() {
                // A time of the calendar, but so near its end that no zone of the world is past it.
                Ok(_) if date.starts_with("9999-12-3") => {
                    format!(
                        "it is after the last time that can be told, {}",
                        Timestamp::MAX
                    )
                }
                Ok(_) | Err(_) => form.to_owned(),
            }
        })
    }
}

fn feed_id(text: &str) -> Result<FeedId, String> {
    FeedId::new(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Time {
        text.parse().unwrap()
    }

    #[test]
    fn times_are_what_a_person_means() {
        for (text, meant) in [
            ("2026-11-15", "2026-11-15T00:00:00Z"),
            ("2026-11-15T18", "2026-11-15T18:00:00Z"),
            ("2026-11-15T18Z", "2026-11-15T18:00:00Z"),
            ("20261115T18Z", "2026-11-15T18:00:00Z"),
            ("2026-11-15T18:24", "2026-11-15T18:24:00Z"),
            ("2026-11-15T18:24:03Z", "2026-11-15T18:24:03Z"),
            ("2026-11-15T18:24:03+02:00", "2026-11-15T16:24:03Z"),
            ("2026-11-15 18:24:03", "2026-11-15T18:24:03Z"),
        ] {
            assert_eq!(time(text).0.to_string(), meant, "{text}");
        }
        let late = "9999-12-31".parse::<Time>().unwrap_err();
        assert!(
            late.contains("after the last time that can be told, 9999-12-30T"),
            "{late}"
        );
        for text in ["", "yesterday", "2026-13-01", "2026-11-15T25", "18:24"] {
            assert!(text.parse::<Time>().is_err(), "{text}");
        }
    }

    #[test]
    fn ends_are_rounded_to_whole_hours() {
        assert_eq!(time("2026-11-15T18:24").hour().to_string(), "20261115T18Z");
        let after = |text| time(text).hour_after().to_string();
        assert_eq!(after("2026-11-15T18:24"), "20261115T19Z");
        assert_eq!(after("2026-11-15T18:00:00Z"), "20261115T18Z");
    }
}
