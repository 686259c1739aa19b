//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::permission::Permission;
use crate::config::units::Bytes;

pub(crate) mod archive;
pub(crate) mod feed;
pub(crate) mod history;
pub(crate) mod journal;
pub(crate) mod spool;
pub(crate) mod stor;
pub(crate) mod user;
pub(crate) mod words;

use archive::{
    ArchiveListArgs, BackfillArgs, BucketArgs, CheckArgs, ExportCommand, RebuildArgs, RedactArgs,
    WorkArgs,
};
use feed::{AuditArgs, ConsolidateArgs, DeleteArgs, FeedCommand, GapsArgs, RetrieveArgs};
use history::HistoryArgs;
use journal::JournalCommand;
use spool::{CollectArgs, ImportArgs, ObjectHomeArgs, SchemaArgs, SpoolCommand};
use stor::StorArgs;
use user::{TokenCommand, UserCommand};

const EXAMPLES: &str = "Examples:
  cannery up                         run everything on this machine
  cannery collect                    collect the configured spools and feeds
  cannery ls ndt/foo1/2026/11/15     see what was collected
  cannery doctor                     check configuration, lake, disk and limits
  cannery lake put a/b.json b.json   store an object
  cannery lake ls                    see what is stored
  cannery stor put stor/a.json a.json   store an object of a user, replace it, link it, share it
  cannery journal add default        add work, one JSON object a line
  cannery journal work default --exec ./handle.sh

Exit codes:
  0 ok, 1 error, 2 usage or configuration, 3 partial, 10 absent, 11 locked,
  12 refused credentials, 13 disk full, 20 findings, 130 interrupted";

/// Collects small records for years, keeps every one of them provably, and opens any of them in milliseconds.
#[derive(Debug, Parser)]
#[command(name = "cannery", version = crate::version::LONG, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Read the configuration from this file
    #[arg(long, global = true, value_name = "FILE", env = "CANNERY_CONFIG_FILE")]
    pub(crate) config_file: Option<PathBuf>,
    /// Read the configuration from this URL; wins over --config-file. A copy is kept for when the URL is down
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "CANNERY_CONFIG_URL",
        hide_env_values = true
    )]
    pub(crate) config_url: Option<String>,
    /// Environment variables that a configuration from a URL may read
    #[arg(long, global = true, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) config_env: Vec<String>,
    /// Let a configuration from a URL name files of this machine (files), or collect from private addresses (private)
    #[arg(
        long,
        global = true,
        value_name = "WHAT,...",
        value_delimiter = ',',
        hide_possible_values = true
    )]
    pub(crate) config_allow: Vec<Permission>,
    /// Accept a configuration over plain http from another machine
    #[arg(long, global = true)]
    pub(crate) config_insecure: bool,
    /// The folder for everything local; wins over the configuration [default: ./cannery-data]
    #[arg(long, global = true, value_name = "FOLDER", env = "CANNERY_WORKSPACE")]
    pub(crate) workspace: Option<PathBuf>,
    /// Print JSON, one object a line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Log more: -v what happens, -vv why, -vvv also what libraries do
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run everything in one process, with a dashboard
    #[command(
        after_help = "Example:\n  cannery up --workspace /srv/cannery\n\nCtrl-C stops it; SIGHUP reads the configuration again."
    )]
    Up(UpArgs),
    /// Collect small files from folders, and feeds from URLs, into the lake, until it is told to stop
    #[command(
        after_help = "Examples:\n  cannery collect --config-file cannery.yml\n  cannery collect --experiment ndt --datatype foo1 --home /var/spool\n\nWithout --experiment, all spools and feeds of the configuration. Ctrl-C or SIGTERM flushes; exit code 3 when something is left for the next start."
    )]
    Collect(CollectArgs),
    /// Collect a backlog from another folder once, and end
    #[command(
        after_help = "Example:\n  cannery import /mnt/old/spool --experiment ndt --datatype foo1\n\nFiles that the lake has already are recognised. A file leaves the folder once it is provably in the lake."
    )]
    Import(ImportArgs),
    /// Ship everything that is on this machine's disk, also of an hour that is not over, and end
    #[command(
        after_help = "Example:\n  cannery clean --config-file cannery.yml\n\nTries until `flush_timeout`; exit code 3 with what is left. `cannery collect` does the same when it ends."
    )]
    Clean,
    /// Try a feed, and see what this machine has of feeds
    #[command(subcommand)]
    Feed(FeedCommand),
    /// Make the archives that replicas uploaded for an hour one
    #[command(
        after_help = "Examples:\n  cannery consolidate\n  cannery consolidate --feed-ids subway --start-time 2026-11-15\n\nNeeds the lake alone. A running `cannery collect` does it by itself; both at once are safe."
    )]
    Consolidate(ConsolidateArgs),
    /// Find hours that are not merged, that a mirror lacks, or whose archives are damaged
    #[command(
        after_help = "Examples:\n  cannery audit --start-time 2026-11-01\n  cannery audit --fix\n\nReads every archive. With --fix, a damaged archive stays where it is and gets a mark beside it: nobody counts on it or reports it any more. Put a sound copy in its place, and --fix takes the mark away. Exit code 20 when something was found and not mended."
    )]
    Audit(AuditArgs),
    /// Copy what feeds had in a time to this machine
    #[command(
        after_help = "Examples:\n  cannery retrieve --start-time 2026-11-15T06 --end-time 2026-11-15T09 --feed-ids subway --target-directory ./subway\n  cannery retrieve --start-time 2026-11-15 --end-time 2026-11-16 --target-directory ./day --collapse-feeds --collapse-time\n\nFiles go to FOLDER/FEED/YYYY/MM/DD/HH/. Exit code 10 when there is nothing, 3 when an archive was damaged."
    )]
    Retrieve(RetrieveArgs),
    /// Remove what feeds had in a time from the lake, for good
    #[command(
        after_help = "Examples:\n  cannery delete --start-time 2026-11-15T06 --end-time 2026-11-15T09 --feed-ids subway --object-storage-ids main --dry-run\n  cannery delete --start-time 2026-11-15 --end-time 2026-11-16 --object-storage-ids main --lift\n\nEvery hour of the range that has begun is marked, also one without an archive, at most 10000 of those at once: a replica that uploads such an hour later does not bring it back, until --lift."
    )]
    Delete(DeleteArgs),
    /// Show when nothing was collected of feeds, and why
    #[command(
        after_help = "Examples:\n  cannery gaps\n  cannery gaps --feed-ids subway --start-time 2026-11-01 --json\n\nThe last 24 hours that are over, unless a time is said; the hour that is not over is looked at when `--end-time` is after its beginning. Polls that are not due yet are no gap, and neither is what was deleted on purpose. Exit code 20 when there are gaps."
    )]
    Gaps(GapsArgs),
    /// Put the reports of a date into cans
    #[command(
        after_help = "Example:\n  cannery can 2026-11-15\n\nReads FOLDER/2026-11-15/ where `pipeline.inputs` says, by default reports-raw in the workspace. The cans go to the lake, and the date is sealed: what arrives later belongs to a later date."
    )]
    Can(BucketArgs),
    /// Make archives of the cans of a date: sanitised, seekable, fit to be public
    #[command(
        after_help = "Example:\n  cannery autoclave 2026-11-15 --config-file cannery.yml\n\nApplies `pipeline.rules`. `tar -I lz4 -xf` reads what it writes."
    )]
    Autoclave(BucketArgs),
    /// Load the archives of a date into the catalog
    #[command(
        after_help = "Example:\n  cannery centrifuge 2026-11-15 --config-file cannery.yml\n\nExtracts `pipeline.features`. What is loaded already is not read again."
    )]
    Centrifuge(BucketArgs),
    /// Show what the stages did: when, with what, how long, and how it ended
    #[command(
        after_help = "Examples:\n  cannery history\n  cannery history --failed --since 24h\n  cannery history --stage autoclave --bucket 2026-11-15 --json\n  cannery history --summary --since 7d\n\nReads the database of `state`; works beside a running worker and without one. An execution whose worker was not heard of for three minutes is lost. A summary is of the last 24 hours, unless --since is said; what began more than 90 days ago is forgotten."
    )]
    History(HistoryArgs),
    /// Take reports, bundles and hours through all stages, as they come, until it is told to stop
    #[command(
        after_help = "Examples:\n  cannery work\n  cannery work --once --config-file cannery.yml\n\nFinds what is in no can, cans it, makes archives, loads them into the catalog, seals the dates that are over, and removes what was replaced. `cannery up` does it, too; any number of workers may run at once, on any machine. The work is in the journal `pipeline`."
    )]
    Work(WorkArgs),
    /// Have stages done again for a range of dates
    #[command(
        after_help = "Examples:\n  cannery backfill --from 2026-11-01 --to 2026-11-15 --stage autoclave --dry-run\n  cannery backfill --from 2026-11-01 --to 2026-11-15 --stage centrifuge --kind web_connectivity\n\nAdds work to the journal `pipeline`, behind what is new; workers do it. What is as it should be is not made again. Exit code 10 when there is nothing in the range."
    )]
    Backfill(BackfillArgs),
    /// Write the table schemas of datatypes, to look at; uploads nothing
    #[command(
        after_help = "Example:\n  cannery schema --datatype foo1 --datatype bar1 --datatype-file bar1:/path/bar1.json"
    )]
    Schema(SchemaArgs),
    /// Look at spools: what waits, what could not be collected, what was shipped
    #[command(subcommand)]
    Spool(SpoolCommand),
    /// Show the way of a measurement: its source, can, archive and rows
    #[command(
        after_help = "Example:\n  cannery trace mfrggzdfmztwq2lknnwg23tpobyxe43u\n\nSays of every object on the way whether it is still there, and where in it the measurement stands. Exit code 20 when it cannot be read from its archive."
    )]
    Trace {
        /// The uid of the measurement
        #[arg(value_parser = archive::uid)]
        uid: cannery_formats::Uid,
    },
    /// Take one measurement out of every archive and of the catalog, for good
    #[command(
        after_help = "Examples:\n  cannery redact mfrggzdfmztwq2lknnwg23tpobyxe43u --dry-run\n  cannery redact mfrggzdfmztwq2lknnwg23tpobyxe43u --reason \"asked by the person\"\n\nThe archives that hold it are made anew of their cans, without its text; the other measurements keep their uids. Run it again if it was interrupted. Cans and report files, which are not public, keep it. Exit code 10 when there is no such measurement."
    )]
    Redact(RedactArgs),
    /// Find cans and archives that are missing, damaged or not in the catalog
    #[command(
        after_help = "Examples:\n  cannery check\n  cannery check --read-data-subset 5%\n  cannery check --read-data-subset 3/20 --json\n\nCompares every index with the objects and with the catalog, and changes nothing. With --read-data-subset 5% it also reads a twentieth of the files from end to end, another one each day. Exit code 20 when something was found."
    )]
    Check(CheckArgs),
    /// Make the catalog anew, and the names of users' objects where the database has lost them, from the lake alone
    #[command(
        after_help = "Examples:\n  cannery rebuild\n  cannery rebuild --verify\n  cannery rebuild --objects\n\nThe names of users' objects are made anew when the lake has changes that the database does not know: it is new, or an old backup. No server may run meanwhile. Keys and tokens of users are not in the lake, and are added again by hand.\n\nThe new catalog takes the place of the old one at once, when it is whole; until then the old one is used. With --verify both are compared and the old one stays; one that holds nothing is made first. Exit code 20 when they differ, or when archives cannot be read."
    )]
    Rebuild(RebuildArgs),
    /// Let other programs read the lake
    #[command(subcommand)]
    Export(ExportCommand),
    /// List what was collected: experiments, datatypes, dates, records; or the files, reports and measurements of archives
    #[command(
        after_help = "Examples:\n  cannery ls\n  cannery ls ndt/foo1\n  cannery ls ndt/foo1/2026/11/15\n  cannery ls --bucket 2026-11-15\n  cannery ls --files --kind web_connectivity\n  cannery ls --reports --from 2026-11-15 --to 2026-11-16T06"
    )]
    Ls {
        /// EXPERIMENT, EXPERIMENT/DATATYPE, or EXPERIMENT/DATATYPE/YYYY/MM/DD
        place: Option<String>,
        #[command(flatten)]
        archives: ArchiveListArgs,
        #[command(flatten)]
        objects: ObjectHomeArgs,
        #[command(flatten)]
        storage: StorageArg,
    },
    /// Print a record that was collected, or a measurement of an archive
    #[command(
        after_help = "Examples:\n  cannery get ndt/foo1/2026/11/15/a.json\n  cannery get --row ndt/foo1/2026/11/15/a.json\n  cannery get mfrggzdfmztwq2lknnwg23tpobyxe43u"
    )]
    Get {
        /// EXPERIMENT/DATATYPE/YYYY/MM/DD/FILE, or the uid of a measurement
        record: String,
        /// The whole row, with date and archiver
        #[arg(long)]
        row: bool,
        #[command(flatten)]
        objects: ObjectHomeArgs,
        #[command(flatten)]
        storage: StorageArg,
    },
    /// Check, show and describe the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Look into the lake, and put objects in and out by hand
    #[command(subcommand)]
    Lake(LakeCommand),
    /// Keep a list of work: add entries, claim them, work on them
    #[command(subcommand)]
    Journal(JournalCommand),
    /// Store, list and get the objects of users, through a running `cannery up`
    Stor(StorArgs),
    /// Add, list and remove users and their SSH keys
    #[command(subcommand)]
    User(UserCommand),
    /// Make, list and revoke tokens, by which programs prove to act for a user
    #[command(subcommand)]
    Token(TokenCommand),
    /// Check that this machine and its lake are fit for use
    #[command(
        after_help = "Examples:\n  cannery doctor --config-file cannery.yml\n  cannery doctor --frames\n\nExit code 20 when something must be mended; warnings alone are 0."
    )]
    Doctor(DoctorArgs),
    /// Print the completion script of a shell
    #[command(after_help = "Example:\n  cannery completions bash > /etc/bash_completion.d/cannery")]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages
    #[command(after_help = "Example:\n  cannery man --dir /usr/local/share/man/man1")]
    Man {
        /// Write one page for each command into this folder instead of the main page to standard output
        #[arg(long, value_name = "FOLDER")]
        dir: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// The address of the dashboard; wins over the configuration
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    /// Also serve read-only monitoring on this port of all addresses
    #[arg(long, value_name = "PORT")]
    pub(crate) monitoring_port: Option<u16>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Say whether the configuration is valid
    #[command(after_help = "Example:\n  cannery config check --config-file cannery.yml")]
    Check,
    /// Show the configuration with all defaults, without secrets
    #[command(after_help = "Example:\n  cannery config show --json")]
    Show,
    /// Print the JSON Schema of the configuration, for editors
    #[command(after_help = "Example:\n  cannery config schema > cannery.schema.json")]
    Schema,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LakeCommand {
    /// List objects
    #[command(
        after_help = "Examples:\n  cannery lake ls\n  cannery lake ls reports/2026\n\nExit code 3 when the listing broke off half-way."
    )]
    Ls {
        /// List only below this folder
        folder: Option<String>,
        #[command(flatten)]
        storage: StorageArg,
    },
    /// Print an object
    #[command(
        after_help = "Examples:\n  cannery lake cat a/b.json\n  cannery lake cat --range 0-99 a/b.json"
    )]
    Cat {
        /// The key of the object
        key: String,
        /// Only these bytes, first and last
        #[arg(long, value_name = "FIRST-LAST", value_parser = parse_range)]
        range: Option<std::ops::Range<u64>>,
        #[command(flatten)]
        storage: StorageArg,
    },
    /// Store a file as a new object, in every mirror; what is there is never replaced
    #[command(
        after_help = "Examples:\n  cannery lake put a/b.json b.json\n  date | cannery lake put notes/date.txt -"
    )]
    Put {
        /// The key of the object
        key: String,
        /// The file, or - for standard input (up to 64 MiB)
        file: PathBuf,
        #[command(flatten)]
        storage: StorageArg,
    },
    /// Delete objects, from every mirror
    #[command(after_help = "Example:\n  cannery lake rm a/b.json a/c.json")]
    Rm {
        /// The keys of the objects
        #[arg(required = true)]
        keys: Vec<String>,
        #[command(flatten)]
        storage: StorageArg,
    },
    /// Say that an object storage is empty on purpose: it becomes a mirror of this workspace's lake
    #[command(
        after_help = "Example:\n  cannery lake join mirror1\n\nA store that had the lake and has it no longer is refused, since it may be another place. This makes it\npart of the lake again; `cannery audit --fix` copies what feeds have elsewhere."
    )]
    Join {
        /// The id of the object storage
        id: String,
    },
    /// Find out what the store really honours
    #[command(
        after_help = "Example:\n  cannery lake probe --json\n\nWrites and removes a few small objects. Exit code 20 when the store is weaker than it should be."
    )]
    Probe {
        #[command(flatten)]
        storage: StorageArg,
    },
}

#[derive(Debug, Args)]
pub(crate) struct StorageArg {
    /// The id of the object storage [default: the first to read, all to write]
    #[arg(long, value_name = "ID")]
    pub(crate) storage: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Warn when less than this is free on the workspace's disk
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub(crate) min_free: Bytes,
    /// Measure ranged reads of the lake instead, 40 of them, and say which `pipeline.frame_bytes` fits it
    #[arg(long)]
    pub(crate) frames: bool,
}

/// `0-99`: both ends included, as in HTTP.
fn parse_range(text: &str) -> Result<std::ops::Range<u64>, String> {
    let wrong = || format!("`{text}` is not a range; write for example 0-99");
    let (first, last) = text.split_once('-').ok_or_else(wrong)?;
    let (first, last): (u64, u64) = (
        first.parse().map_err(|_| wrong())?,
        last.parse().map_err(|_| wrong())?,
    );
    let end = last.checked_add(1).ok_or_else(wrong)?;
    if first < end {
        Ok(first..end)
    } else {
        Err(wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound_and_every_command_has_an_example() {
        Cli::command().debug_assert();
        check(&Cli::command());
    }

    fn check(command: &clap::Command) {
        for sub in command.get_subcommands() {
            if sub.has_subcommands() {
                check(sub);
            } else {
                let help = sub
                    .get_after_help()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                assert!(
                    help.contains("Example"),
                    "`{}` has no example",
                    sub.get_name()
                );
            }
        }
    }

    #[test]
    fn ranges_include_both_ends() {
        assert_eq!(parse_range("0-99"), Ok(0..100));
        for text in ["", "5", "5-4", "a-b", "0-18446744073709551615"] {
            assert!(parse_range(text).is_err(), "{text}");
        }
    }
}
