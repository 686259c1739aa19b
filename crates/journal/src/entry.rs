//! An entry as it is kept and shown.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::date::{Date, Expiration};
use crate::key::Key;
use crate::priority::Priority;
use crate::token::Token;

/// What is known of an entry beside its key, its data and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// The date of the first add, as the client gave it.
    pub insertion: Date,
    /// The largest insertion date merged so far: an older add is stale.
    pub newest: Date,
    /// When the first add arrived, by the engine's clock.
    pub arrived: Date,
    /// When it expires.
    pub expiration: Expiration,
    /// Not before this.
    pub process: Date,
    /// What is done first.
    pub priority: Priority,
    /// Attempts that did not end well since the last merge.
    pub timeouts: u8,
    /// Attempts that did not end well since the key was last done: no merge resets it.
    pub strikes: u16,
    /// Which version of the declaration its data was written with.
    pub version: u32,
}

/// The claim of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Proof of the claim.
    pub token: Token,
    /// When it was claimed or last heard of.
    pub start: Date,
    /// Who claimed it.
    pub worker: Arc<str>,
}

/// Why and when an entry was given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    /// When.
    pub date: Date,
    /// Why, for the person who looks.
    pub reason: Box<str>,
}

/// Where an entry stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// In the list, to be handed out.
    Waiting,
    /// Handed out.
    Processing(Box<Lease>),
    /// Given up and kept for a person to look at.
    Dead(Box<Death>),
}

/// Where an entry stands, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Handed out.
    Processing,
    /// To be handed out when it is due.
    Waiting,
    /// Waiting for the processing entry of the same key to end.
    Blocked,
    /// On the dead list.
    Dead,
}

/// An entry, with its data as `D`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry<D> {
    /// Its number, in the order of arrival.
    pub seq: u64,
    /// Its key.
    pub key: Key,
    /// Its dates, priority and counters.
    pub meta: Meta,
    /// Where it stands.
    pub status: Status,
    /// Its claim, while it is processing.
    pub lease: Option<Lease>,
    /// When the claim times out unless it is heard of.
    pub deadline: Option<Date>,
    /// Its end, on the dead list.
    pub death: Option<Death>,
    /// The user's data.
    pub data: D,
}

impl<D> Entry<D> {
    /// The same entry with its data as something else.
    ///
    /// # Errors
    /// As `change`.
    pub fn try_map<E, X>(self, change: impl FnOnce(D) -> Result<E, X>) -> Result<Entry<E>, X> {
        Ok(Entry {
            seq: self.seq,
            key: self.key,
            meta: self.meta,
            status: self.status,
            lease: self.lease,
            deadline: self.deadline,
            death: self.death,
            data: change(self.data)?,
        })
    }
}

/// Which entries to list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Query {
    /// Only these; empty means all, in the order of [`Status`].
    #[serde(default)]
    pub statuses: Vec<Status>,
    /// Only keys that begin so.
    #[serde(default)]
    pub prefix: String,
    /// Only this priority.
    #[serde(default)]
    pub priority: Option<Priority>,
    /// At most so many, and at most [`Query::LIMIT_MAX`].
    pub limit: u32,
    /// Go on after this place.
    #[serde(default)]
    pub after: Option<Cursor>,
}

impl Query {
    /// The largest page.
    pub const LIMIT_MAX: u32 = 1_000;

    /// Everything, page by page.
    #[must_use]
    pub fn all() -> Self {
        Self {
            statuses: Vec::new(),
            prefix: String::new(),
            priority: None,
            limit: Self::LIMIT_MAX,
            after: None,
        }
    }

    /// Whether an entry of this key and priority is wanted.
    #[must_use]
    pub fn wants(&self, key: &Key, priority: Priority) -> bool {
        self.priority.is_none_or(|wanted| wanted == priority)
            && key.as_str().starts_with(&self.prefix)
    }

    /// The statuses that are left to list, in order.
    #[must_use]
    pub fn stages(&self) -> Vec<Status> {
        [
            Status::Processing,
            Status::Waiting,
            Status::Blocked,
            Status::Dead,
        ]
        .into_iter()
        .filter(|stage| self.statuses.is_empty() || self.statuses.contains(stage))
        .filter(|stage| self.after.is_none_or(|after| *stage >= after.status))
        .collect()
    }
}

/// A place in a listing. Waiting entries are listed in the order of claims, the others in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cursor {
    /// Among these.
    pub status: Status,
    /// After this priority (waiting only).
    pub priority: Priority,
    /// After this process date (waiting only).
    pub process: Date,
    /// After this number.
    pub seq: u64,
}

/// A part of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page<D> {
    /// The entries; may be few although more follow.
    pub entries: Vec<Entry<D>>,
    /// Where to go on; nothing at the end.
    pub next: Option<Cursor>,
}
