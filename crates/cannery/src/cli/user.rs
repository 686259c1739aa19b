//! The command line of users, their keys and tokens.

use std::path::PathBuf;
use std::str::FromStr;

use cannery_formats::UserName;
use cannery_state::identity::{LOCAL_USER, Scope};
use clap::{Args, Subcommand};

use crate::config::units::{Bytes, Span};

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Add a user, who can have objects and jobs
    #[command(
        after_help = "Examples:\n  cannery user add ann --key ~/.ssh/id_ed25519.pub\n  cannery user add robot --bytes-max 10GiB\n\nThe user's objects are /ann/stor/… and /ann/public/…. A user proves to be one by an SSH key (`cannery user key add`) or a token (`cannery token create`)."
    )]
    Add {
        /// The name: a lower-case letter, then lower-case letters, digits, `_`, `.` and `-`
        name: UserName,
        /// The file of an SSH public key; may be repeated
        #[arg(long = "key", value_name = "FILE.pub")]
        keys: Vec<PathBuf>,
        /// How many bytes of objects the user may have [default: no limit]
        #[arg(long, value_name = "SIZE")]
        bytes_max: Option<Bytes>,
    },
    /// List users
    #[command(after_help = "Example:\n  cannery user ls --json")]
    Ls,
    /// Change what a user may have
    #[command(
        after_help = "Examples:\n  cannery user set ann --bytes-max 10GiB\n  cannery user set ann --bytes-max none\n\nA lower limit removes nothing: it refuses what is new until enough was deleted."
    )]
    Set {
        /// The name of the user
        name: UserName,
        /// How many bytes of objects the user may have, or `none` for no limit
        #[arg(long, value_name = "SIZE")]
        bytes_max: ByteLimit,
    },
    /// Remove a user: keys and tokens are worth nothing from now on
    #[command(
        after_help = "Examples:\n  cannery user rm ann\n  cannery user rm ann --with-objects\n\nA user who has objects is only removed with --with-objects; they are deleted for good by the next sweeps. Somebody who is added under the same name later is another user."
    )]
    Rm {
        /// The name of the user
        name: UserName,
        /// Also when the user has objects, which are then deleted
        #[arg(long)]
        with_objects: bool,
    },
    /// Add, list and remove the SSH public keys of users
    #[command(subcommand)]
    Key(UserKeyCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum UserKeyCommand {
    /// Add a public key: RSA of at least 2048 bits, ECDSA, or Ed25519
    #[command(after_help = "Example:\n  cannery user key add ann ~/.ssh/id_ed25519.pub")]
    Add {
        /// The name of the user
        name: UserName,
        /// The file of the public key, or - for standard input
        #[arg(value_name = "FILE.pub")]
        file: PathBuf,
    },
    /// List the keys of a user
    #[command(after_help = "Example:\n  cannery user key ls ann")]
    Ls {
        /// The name of the user
        name: UserName,
    },
    /// Remove a key: what it signed is worth nothing from now on
    #[command(
        after_help = "Example:\n  cannery user key rm ann 2d:4a:61:2e:92:d3:57:2f:a2:cf:0d:5a:1e:8c:7f:30"
    )]
    Rm {
        /// The name of the user
        name: UserName,
        /// The MD5 fingerprint, as `cannery user key ls` shows it
        fingerprint: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token, and print it: the only time that it is shown
    #[command(
        after_help = "Examples:\n  cannery token create\n  cannery token create --user ann --scope read --expires 30d\n\nUse it as CANNERY_TOKEN for `cannery stor`, or as `Authorization: Bearer …`."
    )]
    Create(TokenCreateArgs),
    /// List tokens, without what is secret of them
    #[command(after_help = "Examples:\n  cannery token ls\n  cannery token ls --user ann --json")]
    Ls {
        /// Only the tokens of this user
        #[arg(long, value_name = "NAME")]
        user: Option<UserName>,
    },
    /// Make a token worth nothing, from now on
    #[command(
        after_help = "Example:\n  cannery token revoke mfrggzdfmztwq2lknnwg23tpob\n\nThe id is the first part of the token after `cannery_`, and what `cannery token ls` shows. Nothing happens to one that is revoked already."
    )]
    Revoke {
        /// The id of the token
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TokenCreateArgs {
    /// The user that it stands for
    #[arg(long, value_name = "NAME", default_value = LOCAL_USER)]
    pub(crate) user: UserName,
    /// What it may do: read, write, admin (manage users), raw (read what is not sanitised in the lake)
    #[arg(
        long = "scope",
        value_name = "SCOPE,...",
        value_delimiter = ',',
        default_value = "read,write"
    )]
    pub(crate) scopes: Vec<Scope>,
    /// How long it is good [default: until it is revoked]
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    pub(crate) expires: Option<Span>,
}

/// A time that is not over at once, and that a calendar knows.
fn lifetime(text: &str) -> Result<Span, String> {
    let span: Span = text.parse()?;
    let days = span.0.as_secs() / 86_400;
    match span.0.as_secs() {
        0 => Err("it would have expired already".to_owned()),
        _ if days > 36_500 => Err("write at most 36500d, or leave it out".to_owned()),
        _ => Ok(span),
    }
}

/// A number of bytes, or `none`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteLimit(pub(crate) Option<u64>);

impl FromStr for ByteLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self(None)),
            _ => Ok(Self(Some(text.parse::<Bytes>()?.0))),
        }
    }
}
