//! The command line of `cannery journal`.

use std::ffi::OsString;
use std::path::PathBuf;

use cannery_journal::{Date, FieldType, OnEmpty, Period, Priority, Status, Token};
use clap::{Args, Subcommand};

use super::words;
use crate::config::journal::{OrNone, Switch};
use crate::config::units::Span;

#[derive(Debug, Subcommand)]
pub(crate) enum JournalCommand {
    /// List the journals
    #[command(after_help = "Example:\n  cannery journal names --json")]
    Names,
    /// Make a journal, or change how one behaves from now on
    #[command(
        after_help = "Examples:\n  cannery journal declare thumbnails --lease 5m --timeouts-max 3\n  cannery journal declare files --field path:string --field size:u64 --key-field path\n\nWhat is left out stays as it is, and of a new journal is as in the journal `default`. Journals of the configuration are changed there."
    )]
    Declare(Box<DeclareArgs>),
    /// Add entries: one by flags, or one JSON object a line from standard input
    #[command(
        after_help = "Examples:\n  cannery journal add default --key a.png --data '{\"width\": 200}'\n  cannery journal add default < entries.ndjson\n\nFields of a line: key, priority, process_date, expiration_date, insertion_date, data.\nA wrong line ends it; what was added before stays. Exit code 3 when a part was added, 2 when nothing was."
    )]
    Add(AddArgs),
    /// Take entries that are due; each comes with a token and a deadline
    #[command(
        after_help = "Examples:\n  cannery journal claim default\n  cannery journal claim default -n 10 --json\n\nExit code 10 when nothing is due."
    )]
    Claim {
        #[command(flatten)]
        journal: JournalArg,
        /// At most so many
        #[arg(short = 'n', long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000))]
        count: u32,
        #[command(flatten)]
        worker: WorkerArg,
    },
    /// Say that the work on an entry goes on
    #[command(after_help = "Example:\n  cannery journal heartbeat default TOKEN")]
    Heartbeat {
        #[command(flatten)]
        lease: LeaseArgs,
    },
    /// End the work on an entry well: it is gone
    #[command(after_help = "Example:\n  cannery journal done default TOKEN")]
    Done {
        #[command(flatten)]
        lease: LeaseArgs,
    },
    /// Give an entry back without blame
    #[command(
        after_help = "Examples:\n  cannery journal release default TOKEN\n  cannery journal release default TOKEN --in 30s"
    )]
    Release {
        #[command(flatten)]
        lease: LeaseArgs,
        /// Not to be handed out before this date: milliseconds since 1970, or as in RFC 3339
        #[arg(long, value_name = "DATE", value_parser = words::date, conflicts_with = "delay")]
        at: Option<Date>,
        /// Not to be handed out before this time has passed
        #[arg(id = "delay", long = "in", value_name = "DURATION")]
        delay: Option<Span>,
    },
    /// End the work on an entry badly: it is tried again, or goes to the dead list
    #[command(
        after_help = "Examples:\n  cannery journal fail default TOKEN --reason 'no such file' --dead\n  cannery journal fail default TOKEN --reason 'server busy' --retry-in 30s\n\nWithout a date it is tried again at once, as often as `timeouts_max` allows."
    )]
    Fail(FailArgs),
    /// List entries: those in work, those that wait in the order of claims, and the dead
    #[command(
        after_help = "Examples:\n  cannery journal ls default\n  cannery journal ls default --status waiting --prefix images/ --json"
    )]
    Ls {
        #[command(flatten)]
        journal: JournalArg,
        /// Only these
        #[arg(long, value_name = "STATUS,...", value_delimiter = ',', value_parser = words::status)]
        status: Vec<Status>,
        #[command(flatten)]
        filter: FilterArgs,
    },
    /// Show the entries of a key
    #[command(
        after_help = "Example:\n  cannery journal get default a.png\n\nExit code 10 when there are none."
    )]
    Get {
        #[command(flatten)]
        key: KeyArgs,
    },
    /// Take the entries of a key out; work on them is lost
    #[command(
        after_help = "Example:\n  cannery journal cancel default a.png\n\nExit code 10 when there are none."
    )]
    Cancel {
        #[command(flatten)]
        key: KeyArgs,
    },
    /// Show numbers: what waits, what is due, what happened so far
    #[command(after_help = "Example:\n  cannery journal stats default --json")]
    Stats {
        #[command(flatten)]
        journal: JournalArg,
    },
    /// Look at what was given up
    #[command(subcommand)]
    Dead(DeadCommand),
    /// Put the dead entries of a key back into the list
    #[command(
        after_help = "Example:\n  cannery journal requeue default a.png\n\nExit code 10 when there are none."
    )]
    Requeue {
        #[command(flatten)]
        key: KeyArgs,
    },
    /// Print a line whenever something becomes due or is given up
    #[command(
        after_help = "Examples:\n  cannery journal watch default\n  cannery journal watch default --count 1 && echo 'there is work'\n\nCtrl-C ends it."
    )]
    Watch {
        #[command(flatten)]
        journal: JournalArg,
        /// End after so many lines
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        count: Option<u64>,
    },
    /// Run a program for each entry that is due
    #[command(
        after_help = "Examples:\n  cannery journal work default --exec ./handle.sh\n  cannery journal work default --exec convert --concurrency 4 --once -- -resize 200\n\nThe program gets the entry as one line of JSON on standard input, and CANNERY_JOURNAL, CANNERY_KEY,\nCANNERY_TOKEN and CANNERY_ATTEMPT in its environment. No shell is involved. Its exit code decides:\n  0 done, 75 try again later without blame, 100 to the dead list, anything else has failed\nand is tried again; the last line of standard error becomes the reason. Ctrl-C ends it."
    )]
    Work(WorkArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// List the dead entries
    #[command(after_help = "Example:\n  cannery journal dead ls default")]
    Ls {
        #[command(flatten)]
        journal: JournalArg,
        #[command(flatten)]
        filter: FilterArgs,
    },
    /// Take the dead entries of a key off the list for good
    #[command(
        after_help = "Example:\n  cannery journal dead rm default a.png\n\nAlso 0 when they are gone already."
    )]
    Rm {
        #[command(flatten)]
        key: KeyArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct JournalArg {
    /// The name of the journal
    #[arg(value_name = "JOURNAL")]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    #[command(flatten)]
    pub(crate) journal: JournalArg,
    /// The key
    #[arg(value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) key: String,
}

#[derive(Debug, Args)]
pub(crate) struct LeaseArgs {
    #[command(flatten)]
    pub(crate) journal: JournalArg,
    /// The token that the claim gave
    #[arg(value_name = "TOKEN", value_parser = words::token)]
    pub(crate) token: Token,
}

#[derive(Debug, Args)]
pub(crate) struct WorkerArg {
    /// Who claims, for people who look [default: this machine and process]
    #[arg(long, value_name = "NAME")]
    pub(crate) worker: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct FilterArgs {
    /// Only keys that begin so
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) prefix: String,
    /// Only this priority: a number or a name
    #[arg(long, value_name = "PRIORITY", value_parser = words::priority)]
    pub(crate) priority: Option<Priority>,
    /// At most so many [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct DeclareArgs {
    #[command(flatten)]
    pub(crate) journal: JournalArg,
    /// How long a claim holds without a heartbeat
    #[arg(long, value_name = "DURATION")]
    pub(crate) lease: Option<Span>,
    /// How often an entry may time out or fail before it goes to the dead list
    #[arg(long, value_name = "N")]
    pub(crate) timeouts_max: Option<u64>,
    /// How long adds of the same key may put off the first one, or none
    #[arg(long, value_name = "DURATION")]
    pub(crate) max_delay: Option<OrNone>,
    /// After how long the embedded engine takes new files: 1h, 1d, 1mo or none
    #[arg(long, value_name = "PERIOD", value_parser = words::period)]
    pub(crate) period: Option<Period>,
    /// What becomes of the files of an empty journal: delete, reset or truncate
    #[arg(long, value_name = "WAY", value_parser = words::on_empty)]
    pub(crate) on_empty: Option<OnEmpty>,
    /// After how long an entry expires whose add does not say it, or none
    #[arg(long, value_name = "DURATION")]
    pub(crate) expiry: Option<OrNone>,
    /// Whether the same key waiting twice becomes one entry: on or off
    #[arg(long, value_name = "ON|OFF")]
    pub(crate) merge: Option<Switch>,
    /// Whether freed data is overwritten: on or off
    #[arg(long, value_name = "ON|OFF")]
    pub(crate) wipe: Option<Switch>,
    /// A field of the data and its type: bool, i64, u64, f64, string, bytes, time or json; may be repeated
    #[arg(long = "field", value_name = "NAME:TYPE", value_parser = words::field)]
    pub(crate) fields: Vec<(String, FieldType)>,
    /// A field that is part of the key; may be repeated
    #[arg(long = "key-field", value_name = "NAME")]
    pub(crate) key_fields: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    #[command(flatten)]
    pub(crate) journal: JournalArg,
    /// The key of one entry; standard input is then not read
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) key: Option<String>,
    /// What is done first: 0 to 255, or now, important, new, reset, updates, slow, review, time_allows [default: new]
    #[arg(long, value_name = "PRIORITY", value_parser = words::priority)]
    pub(crate) priority: Option<Priority>,
    /// Not to be handed out before this date: milliseconds since 1970, or as in RFC 3339
    #[arg(long, value_name = "DATE", value_parser = words::date)]
    pub(crate) process_date: Option<Date>,
    /// Gone after this date
    #[arg(long, value_name = "DATE", value_parser = words::date)]
    pub(crate) expiration_date: Option<Date>,
    /// When it was made, which tells the newer of two adds [default: now]
    #[arg(long, value_name = "DATE", value_parser = words::date)]
    pub(crate) insertion_date: Option<Date>,
    /// Its data, as JSON
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) data: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct FailArgs {
    #[command(flatten)]
    pub(crate) lease: LeaseArgs,
    /// Why, for the person who looks
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) reason: String,
    /// Try again when this time has passed
    #[arg(long, value_name = "DURATION", group = "when")]
    pub(crate) retry_in: Option<Span>,
    /// Try again at this date
    #[arg(long, value_name = "DATE", value_parser = words::date, group = "when")]
    pub(crate) retry_at: Option<Date>,
    /// Do not try again: to the dead list
    #[arg(long, group = "when")]
    pub(crate) dead: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WorkArgs {
    #[command(flatten)]
    pub(crate) journal: JournalArg,
    /// The program to run for each entry
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) exec: PathBuf,
    /// How many run at the same time
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) concurrency: u16,
    /// How long an entry waits that the program gave back with 75
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pub(crate) release_in: Span,
    /// End when nothing is due; exit code 3 when not every entry was done
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) worker: WorkerArg,
    /// Arguments of the program
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) arguments: Vec<OsString>,
}
