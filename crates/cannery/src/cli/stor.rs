//! The command line of users' objects, which are reached through a running server.

use std::path::PathBuf;

use cannery_formats::UserName;
use clap::{Args, Subcommand, ValueEnum};

use crate::config::units::Span;

#[derive(Debug, Args)]
pub(crate) struct StorArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(subcommand)]
    pub(crate) command: StorCommand,
}

/// Which server, and as whom. Without any of it: the `cannery up` of the workspace, as the user `local`.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// The server [default: the `cannery up` of the workspace]
    #[arg(long, global = true, value_name = "URL", env = "CANNERY_URL")]
    pub(crate) url: Option<String>,
    /// The user of paths that do not begin with one [default: local]
    #[arg(long, global = true, value_name = "NAME", env = "CANNERY_USER")]
    pub(crate) user: Option<UserName>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StorCommand {
    /// Store a file as an object; one that is there is replaced
    #[command(
        after_help = "Examples:\n  cannery stor put stor/a.json a.json\n  date | cannery stor put stor/notes/date.txt - --parents\n  cannery stor put public/page.html page.html --header 'Content-Type: text/html' --header 'm-source: hand'\n\nWhat arrives is compared with what was sent. An upload that breaks off stores nothing."
    )]
    Put {
        /// /USER/stor/…, /USER/public/…, or stor/… and public/… of the own user
        path: String,
        /// The file, or - for standard input
        file: PathBuf,
        /// Make the directories that are missing
        #[arg(short, long)]
        parents: bool,
        /// A header to store with it: Content-Type, Content-Encoding, Cache-Control or m-…; may be repeated
        #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
        headers: Vec<(String, String)>,
        /// Refuse to replace an object
        #[arg(long)]
        if_absent: bool,
    },
    /// Print an object
    #[command(
        after_help = "Examples:\n  cannery stor get stor/a.json\n  cannery stor get /ann/public/map.png > map.png\n\nA download that breaks off goes on where it was, and what came is compared with the object's MD5."
    )]
    Get {
        /// The path of the object
        path: String,
    },
    /// List a directory
    #[command(
        after_help = "Examples:\n  cannery stor ls\n  cannery stor ls -l stor/notes\n  cannery stor ls --json public"
    )]
    Ls {
        /// The path of the directory
        #[arg(default_value = "stor")]
        path: String,
        /// Also show size and time
        #[arg(short, long)]
        long: bool,
    },
    /// List everything below a directory
    #[command(
        after_help = "Examples:\n  cannery stor find stor\n  cannery stor find stor/notes --name '*.txt' --type object"
    )]
    Find {
        /// The path of the directory
        #[arg(default_value = "stor")]
        path: String,
        /// Only names like this: `*` stands for any characters, `?` for one
        #[arg(long, value_name = "PATTERN")]
        name: Option<String>,
        /// Only objects, or only directories
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<EntryKind>,
    },
    /// Delete objects and empty directories
    #[command(
        after_help = "Examples:\n  cannery stor rm stor/a.json\n  cannery stor rm -r stor/notes"
    )]
    Rm {
        /// The paths
        #[arg(required = true)]
        paths: Vec<String>,
        /// Also what is in a directory
        #[arg(short, long)]
        recursive: bool,
    },
    /// Make a directory
    #[command(
        after_help = "Example:\n  cannery stor mkdir -p stor/notes/2026\n\nNothing happens to one that is there."
    )]
    Mkdir {
        /// The path of the directory
        path: String,
        /// Make the directories above it, too
        #[arg(short, long)]
        parents: bool,
    },
    /// Give an object another name; later changes to one name do not change the other
    #[command(after_help = "Example:\n  cannery stor ln stor/a.json public/a.json")]
    Ln {
        /// The path of the object
        source: String,
        /// The new path
        target: String,
    },
    /// Print an address that anybody may use for a while, signed with an SSH key
    #[command(
        after_help = "Example:\n  cannery stor sign stor/a.json --key ~/.ssh/id_ed25519 --expires 1d\n\nThe public half must be a key of the user (`cannery user key add`); the address dies with it. A key with a passphrase cannot be used."
    )]
    Sign {
        /// The path of the object
        path: String,
        /// The file of the private key
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
        /// How long it is good, at most 7d
        #[arg(long, value_name = "TIME", default_value = "1h")]
        expires: Span,
        /// What it may be used for
        #[arg(long, value_name = "METHOD", default_value = "GET")]
        method: SignedMethod,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EntryKind {
    Object,
    Directory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub(crate) enum SignedMethod {
    Get,
    Head,
    Put,
    Delete,
}

impl SignedMethod {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// `Name: value`.
fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or_else(|| format!("`{text}` is not a header; write for example 'm-source: hand'"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}
