//! The command line of cans and archives.

use std::net::SocketAddr;
use std::path::PathBuf;

use cannery_formats::redaction::Redaction;
use cannery_formats::{BucketDate, Kind, Uid};
use cannery_pipeline::check::Share;
use cannery_pipeline::stage::Stage;
use clap::{Args, Subcommand};

use super::feed::Time;
use crate::config::units::Span;

/// Which buckets.
#[derive(Debug, Args)]
pub(crate) struct BucketArgs {
    /// The dates on which the reports arrived, YYYY-MM-DD
    #[arg(required = true, value_name = "DATE", value_parser = bucket)]
    pub(crate) buckets: Vec<BucketDate>,
}

/// What of the catalog to list.
#[derive(Debug, Args)]
#[group(id = "archives", multiple = true, conflicts_with = "place")]
pub(crate) struct ArchiveListArgs {
    /// The archives that the catalog has
    #[arg(long, conflicts_with_all = ["reports", "measurements"])]
    pub(crate) files: bool,
    /// The reports in them
    #[arg(long, conflicts_with = "measurements")]
    pub(crate) reports: bool,
    /// The measurements in them; so it is when only a filter is given
    #[arg(long)]
    pub(crate) measurements: bool,
    /// Only of reports that arrived on this date
    #[arg(long, value_name = "DATE", value_parser = bucket)]
    pub(crate) bucket: Option<BucketDate>,
    /// Only of this kind: a test name, spool-DATATYPE or feed-ID
    #[arg(long, value_name = "KIND", value_parser = kind)]
    pub(crate) kind: Option<Kind>,
    /// Only of the report of this name
    #[arg(long, value_name = "NAME")]
    pub(crate) report: Option<String>,
    /// Only what was measured at this time or later
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<Time>,
    /// Only what was measured before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<Time>,
}

impl ArchiveListArgs {
    /// Whether archives are meant at all.
    pub(crate) fn is_asked(&self) -> bool {
        let what = self.files || self.reports || self.measurements;
        let time = self.from.is_some() || self.to.is_some();
        what || time || self.bucket.is_some() || self.kind.is_some() || self.report.is_some()
    }
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Also read this share of the files from end to end: a percentage, another one each day, or a part such as 3/20
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) read_data_subset: Option<Share>,
    /// What is younger may still be worked on: it is not reported as left behind
    #[arg(long, value_name = "DURATION", default_value = "15m")]
    pub(crate) grace: Span,
}

#[derive(Debug, Args)]
pub(crate) struct RebuildArgs {
    /// Compare the catalog with one that is made anew, and leave it as it is
    #[arg(long)]
    pub(crate) verify: bool,
    /// Make it without the archives that cannot be read; else the old catalog stays
    #[arg(long, conflicts_with = "verify")]
    pub(crate) leave_out_damaged: bool,
    /// Make the names of users' objects anew, also where the database knows them, and leave the catalog as it is
    #[arg(long, conflicts_with_all = ["verify", "leave_out_damaged"])]
    pub(crate) objects: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RedactArgs {
    /// The measurement
    #[arg(value_name = "UID", value_parser = uid)]
    pub(crate) uid: Uid,
    /// Why; it stands in the public index in the place of the measurement
    #[arg(long, value_name = "TEXT", default_value = "on request", value_parser = reason)]
    pub(crate) reason: String,
    /// Print which archives hold it, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

fn reason(text: &str) -> Result<String, String> {
    match Redaction::fault_of(text) {
        None => Ok(text.to_owned()),
        Some(fault) => Err(format!("a reason is one short line: {fault}")),
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum ExportCommand {
    /// Print SQL that makes views over the lake and attaches the catalog
    #[command(
        after_help = "Examples:\n  cannery export duckdb --out lake.sql && duckdb -init lake.sql\n  cannery export duckdb --from 2026-11-01 --to 2026-12-01 --kind spool-foo1\n\nDuckDB reads bundles, indexes of archives, and archives of one report compressed with zstd; it does not read LZ4 or tar. Every file is named: run it again for what came since."
    )]
    Duckdb(DuckdbArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DuckdbArgs {
    /// From this date on, YYYY-MM-DD
    #[arg(long, value_name = "DATE", value_parser = bucket)]
    pub(crate) from: Option<BucketDate>,
    /// Before this date
    #[arg(long, value_name = "DATE", value_parser = bucket)]
    pub(crate) to: Option<BucketDate>,
    /// Only this kind: a test name, or spool-DATATYPE
    #[arg(long, value_name = "KIND", value_parser = kind)]
    pub(crate) kind: Option<Kind>,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Do not attach the catalog: that needs an extension which DuckDB downloads
    #[arg(long)]
    pub(crate) no_catalog: bool,
}

pub(super) fn bucket(text: &str) -> Result<BucketDate, String> {
    text.parse()
        .map_err(|_| "a bucket is a date, YYYY-MM-DD".to_owned())
}

pub(super) fn uid(text: &str) -> Result<Uid, String> {
    text.parse()
        .map_err(|_| "a uid has 32 characters, a to z and 2 to 7".to_owned())
}

/// How a worker of the pipeline runs.
#[derive(Debug, Args)]
pub(crate) struct WorkArgs {
    /// Do all that is to be done now, without waiting for more, and end; exit code 3 when something could not be done
    #[arg(long)]
    pub(crate) once: bool,
    /// Also serve the dashboard of this process at this address
    #[arg(long, value_name = "ADDRESS", conflicts_with = "once")]
    pub(crate) listen: Option<SocketAddr>,
    /// Also serve read-only monitoring on this port of all addresses
    #[arg(long, value_name = "PORT", conflicts_with = "once")]
    pub(crate) monitoring_port: Option<u16>,
}

/// What is to be done again.
#[derive(Debug, Args)]
pub(crate) struct BackfillArgs {
    /// The first date, YYYY-MM-DD: that of the bucket, of the measurements for `aggregate`, or of the hours for `cover`
    #[arg(long, value_name = "DATE", value_parser = bucket)]
    pub(crate) from: BucketDate,
    /// The last date, itself included
    #[arg(long, value_name = "DATE", value_parser = bucket)]
    pub(crate) to: BucketDate,
    /// Which stage: can, seal, autoclave, centrifuge, verify, clear, sweep, expire, aggregate or cover; may be given several times
    #[arg(long = "stage", value_name = "STAGE", required = true, value_parser = stage)]
    pub(crate) stages: Vec<Stage>,
    /// Reports of this kind alone: a test name, spool-DATATYPE or feed-ID
    #[arg(long, value_name = "KIND", value_parser = kind)]
    pub(crate) kind: Option<Kind>,
    /// Print what would be added, and add nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

fn stage(text: &str) -> Result<Stage, String> {
    match text.parse() {
        Ok(Stage::Discover) | Err(_) => Err(
            "a stage is one of can, seal, autoclave, centrifuge, verify, clear, sweep, expire, aggregate, cover"
                .to_owned(),
        ),
        Ok(stage) => Ok(stage),
    }
}

fn kind(text: &str) -> Result<Kind, String> {
    text.parse()
        .map_err(|_| "a kind is a test name, spool-DATATYPE, feed-ID or unknown".to_owned())
}

fn share(text: &str) -> Result<Share, String> {
    text.parse()
        .map_err(|error: cannery_pipeline::check::InvalidShare| error.to_string())
}
