//! What can be asked of a journal, and what it answers.

use serde::{Deserialize, Serialize};

use crate::add::Add;
use crate::date::Date;
use crate::declaration::Declaration;
use crate::entry::{Entry, Page, Query};
use crate::error::Error;
use crate::key::Key;
use crate::priority::Priority;
use crate::token::Token;

/// One request. Each is done whole, in one commit, or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// Adds entries, in order.
    Add(Vec<Add>),
    /// Hands out up to `count` entries that are due.
    Claim {
        /// Who claims, for people.
        worker: String,
        /// At most so many.
        count: u32,
    },
    /// Ends leases well and hands out new entries.
    DoneAndClaim {
        /// What is done.
        done: Vec<Token>,
        /// Who claims, for people.
        worker: String,
        /// At most so many.
        count: u32,
    },
    /// Says that the holders of leases are alive.
    Heartbeat(Vec<Token>),
    /// Ends leases well: the entries are gone.
    Done(Vec<Token>),
    /// Gives leases back, without blame.
    Release {
        /// What is given back.
        tokens: Vec<Token>,
        /// Not to be handed out before this.
        at: Option<Date>,
    },
    /// Ends leases badly.
    Fail {
        /// What failed.
        tokens: Vec<Token>,
        /// Why, for the person who looks.
        reason: String,
        /// When to try again.
        retry: Retry,
    },
    /// Takes the waiting and the processing entries of a key out of the journal.
    Cancel(Key),
    /// Puts the dead entries of a key back into the list.
    Requeue(Key),
    /// Takes the dead entries of a key off the dead list.
    Forget(Key),
    /// The entries of a key.
    Get(Key),
    /// Entries, page by page.
    List(Query),
    /// Numbers.
    Stats,
    /// Does what time has brought: time-outs and expiries.
    Sweep,
    /// Changes the declaration; the same again changes nothing.
    Declare(Box<Declaration>),
}

impl Op {
    /// The most entries in one add, tokens in one request, or entries in one claim.
    pub const COUNT_MAX: usize = 1_000;
    /// The most bytes of keys and data in one add, and of data in one claim (which hands out at least one entry).
    pub const BYTES_MAX: usize = 8 * 1024 * 1024;
    /// How many entries of one key a cancellation, a requeue or a forgetting concerns at most, of each status; where adds do
    /// not merge there may be more, and the request is repeated.
    pub const KEY_ENTRIES_MAX: usize = 10_000;
    /// The longest name of a worker and the longest reason; a reason is cut, a name refused.
    pub const TEXT_BYTES_MAX: usize = 1_024;

    /// Checks what a stranger may have got wrong: counts and sizes.
    ///
    /// # Errors
    /// `Invalid` with the bound.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Self::Add(adds) => check_adds(adds),
            Self::Claim { worker, count } => check_claim(worker, *count),
            Self::DoneAndClaim {
                done,
                worker,
                count,
            } => check_tokens(done).and_then(|()| check_claim(worker, *count)),
            Self::Heartbeat(tokens) | Self::Done(tokens) => check_tokens(tokens),
            Self::Release { tokens, at } => check_tokens(tokens).and_then(|()| check_wait(*at)),
            Self::Fail { tokens, retry, .. } => {
                let at = match retry {
                    Retry::At(at) => Some(*at),
                    Retry::Never => None,
                };
                check_tokens(tokens).and_then(|()| check_wait(at))
            }
            Self::Declare(declaration) => declaration.check(),
            Self::Cancel(_)
            | Self::Requeue(_)
            | Self::Forget(_)
            | Self::Get(_)
            | Self::List(_)
            | Self::Stats
            | Self::Sweep => Ok(()),
        }
    }
}

fn check_adds(adds: &[Add]) -> Result<(), Error> {
    if adds.len() > Op::COUNT_MAX {
        return Err(Error::invalid(format!(
            "{} entries in one add; at most {} are allowed",
            adds.len(),
            Op::COUNT_MAX
        )));
    }
    let bytes: usize = adds
        .iter()
        .map(|add| add.key.as_str().len() + add.data.as_bytes().len())
        .sum();
    if bytes > Op::BYTES_MAX {
        return Err(Error::invalid(format!(
            "{bytes} bytes in one add; at most {} are allowed",
            Op::BYTES_MAX
        )));
    }
    adds.iter().try_for_each(check_add)
}

fn check_add(add: &Add) -> Result<(), Error> {
    let dates = [
        Some(add.insertion),
        Some(add.process),
        add.expiration.date(),
    ];
    if let Some(date) = dates.into_iter().flatten().find(|date| !date.is_usable()) {
        return Err(Error::invalid(format!(
            "{} ms is no date of an entry; it must lie between 1970 and 9999",
            date.as_millis()
        )));
    }
    if add.process < add.insertion {
        return Err(Error::invalid(format!(
            "the process date {} of key `{}` is before its insertion date {}",
            add.process, add.key, add.insertion
        )));
    }
    Ok(())
}

fn check_claim(worker: &str, count: u32) -> Result<(), Error> {
    if worker.len() > Op::TEXT_BYTES_MAX {
        return Err(Error::invalid(format!(
            "the name of the worker has {} bytes; at most {} are allowed",
            worker.len(),
            Op::TEXT_BYTES_MAX
        )));
    }
    if usize::try_from(count).is_ok_and(|count| count <= Op::COUNT_MAX) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{count} entries in one claim; at most {} are allowed",
        Op::COUNT_MAX
    )))
}

/// A date that a worker asks for; a past one means at once.
fn check_wait(at: Option<Date>) -> Result<(), Error> {
    match at {
        Some(date) if date > Date::LAST => Err(Error::invalid(format!(
            "{} ms is no date of an entry; it must lie before the year 10000",
            date.as_millis()
        ))),
        Some(_) | None => Ok(()),
    }
}

fn check_tokens(tokens: &[Token]) -> Result<(), Error> {
    if tokens.len() <= Op::COUNT_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{} tokens in one request; at most {} are allowed",
        tokens.len(),
        Op::COUNT_MAX
    )))
}

/// When a failed entry is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Retry {
    /// Not before this date; at once when it is past.
    At(Date),
    /// Not at all: it goes to the dead list.
    Never,
}

/// What became of an add.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Added {
    /// A new entry.
    Inserted,
    /// The waiting entry of the same key took it over.
    Merged,
    /// The same, but a newer add was there: its data was ignored.
    Stale,
}

/// What became of a lease that was heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Beat {
    /// It goes on until this date.
    Until(Date),
    /// It was lost before; nothing was changed.
    Lost,
}

/// What became of an entry whose lease was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// It is done and gone.
    Done,
    /// It waits again.
    Waiting,
    /// A waiting entry of the same key took it over.
    Absorbed,
    /// It is on the dead list.
    Dead,
    /// It had expired, and is gone.
    Expired,
    /// The lease was lost before; nothing was changed.
    Lost,
}

/// What a claim hands out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed<D> {
    /// The entries, each with its lease, in order.
    pub entries: Vec<Entry<D>>,
    /// When to claim again at the latest; nothing while nothing waits or is processed.
    pub next_wake: Option<Date>,
}

/// What a cancellation took out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancelled {
    /// Waiting entries.
    pub waiting: u64,
    /// Processing entries; their leases are lost.
    pub processing: u64,
}

/// What happened in a journal since it was created.
/// `adds = merged + stale + absorbed + done + expired + cancelled + forgotten + lost + what is in the journal`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Entries added.
    pub adds: u64,
    /// Adds that became part of a waiting entry.
    pub merged: u64,
    /// The same with data that was older than what waited.
    pub stale: u64,
    /// Entries that came back and became part of a waiting one.
    pub absorbed: u64,
    /// Entries done.
    pub done: u64,
    /// Entries expired.
    pub expired: u64,
    /// Entries cancelled.
    pub cancelled: u64,
    /// Dead entries taken off the list.
    pub forgotten: u64,
    /// Entries that came to the dead list, among them those that left it again.
    pub died: u64,
    /// Entries handed out.
    pub claims: u64,
    /// Leases that ran out.
    pub timeouts: u64,
    /// Leases given back.
    pub releases: u64,
    /// Leases ended badly.
    pub failures: u64,
    /// Insertion dates that were too far in the future.
    pub clamped: u64,
    /// Entries whose records were damaged beyond reading.
    pub lost: u64,
}

impl Counts {
    /// The fields with their names, in an order that never changes: the log keeps them by position.
    pub fn fields_mut(&mut self) -> [(&'static str, &mut u64); 15] {
        [
            ("adds", &mut self.adds),
            ("merged", &mut self.merged),
            ("stale", &mut self.stale),
            ("absorbed", &mut self.absorbed),
            ("done", &mut self.done),
            ("expired", &mut self.expired),
            ("cancelled", &mut self.cancelled),
            ("forgotten", &mut self.forgotten),
            ("died", &mut self.died),
            ("claims", &mut self.claims),
            ("timeouts", &mut self.timeouts),
            ("releases", &mut self.releases),
            ("failures", &mut self.failures),
            ("clamped", &mut self.clamped),
            ("lost", &mut self.lost),
        ]
    }

    /// The values in the order of [`Counts::fields_mut`].
    #[must_use]
    pub fn values(mut self) -> [u64; 15] {
        self.fields_mut().map(|(_, value)| *value)
    }

    /// Counts from values in the order of [`Counts::fields_mut`]; what is missing is 0.
    #[must_use]
    pub fn from_values(values: &[u64]) -> Self {
        let mut counts = Self::default();
        for ((_, field), value) in counts.fields_mut().into_iter().zip(values) {
            *field = *value;
        }
        counts
    }

    /// How many entries must be in the journal, waiting, processing or dead.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.adds.saturating_sub(self.gone())
    }

    /// How many adds are no entry of their own any more.
    #[must_use]
    pub fn gone(&self) -> u64 {
        self.merged
            + self.stale
            + self.absorbed
            + self.done
            + self.expired
            + self.cancelled
            + self.forgotten
            + self.lost
    }
}

/// How many entries there are of one priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Depth {
    /// The priority.
    pub priority: Priority,
    /// To be handed out, due or not.
    pub waiting: u64,
    /// Of these: due.
    pub due: u64,
    /// Waiting for the processing entry of the same key.
    pub blocked: u64,
    /// Handed out.
    pub processing: u64,
}

/// Numbers of a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// By priority, the smallest first; priorities without entries are left out.
    pub depths: Vec<Depth>,
    /// Entries on the dead list.
    pub dead: u64,
    /// The process date of the entry that is due for longest.
    pub oldest_due: Option<Date>,
    /// The next process date that is not yet reached.
    pub next_due: Option<Date>,
    /// When the oldest of the present leases began or was last heard of.
    pub oldest_lease: Option<Date>,
    /// What happened so far.
    pub counts: Counts,
    /// Which version of the declaration is in force.
    pub version: u32,
}

impl Stats {
    /// All that waits, due or not, blocked or not.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.depths
            .iter()
            .map(|depth| depth.waiting + depth.blocked)
            .sum()
    }

    /// All that could be handed out now.
    #[must_use]
    pub fn due(&self) -> u64 {
        self.depths.iter().map(|depth| depth.due).sum()
    }

    /// All that is handed out.
    #[must_use]
    pub fn processing(&self) -> u64 {
        self.depths.iter().map(|depth| depth.processing).sum()
    }
}

/// The answer to an [`Op`]; data is a `D`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply<D> {
    /// To an add: one for each entry, in order.
    Added(Vec<Added>),
    /// To a claim.
    Claimed(Claimed<D>),
    /// To a heartbeat: one for each token, in order.
    Beats(Vec<Beat>),
    /// To done, release and fail: one for each token, in order.
    Fates(Vec<Fate>),
    /// To done and claim.
    DoneAndClaimed(Vec<Fate>, Claimed<D>),
    /// To a cancellation.
    Cancelled(Cancelled),
    /// To requeue and forget: how many entries it concerned.
    Moved(u64),
    /// To get.
    Entries(Vec<Entry<D>>),
    /// To a listing.
    Page(Page<D>),
    /// To stats.
    Stats(Box<Stats>),
    /// To a sweep: how many entries timed out or expired.
    Swept(u64),
    /// To a declaration: the version in force.
    Declared(u32),
}

impl<D> Reply<D> {
    /// The same reply with the data of every entry as something else.
    ///
    /// # Errors
    /// The first error of `change`.
    pub fn try_map<E, X>(self, mut change: impl FnMut(D) -> Result<E, X>) -> Result<Reply<E>, X> {
        let mut all = |entries: Vec<Entry<D>>| {
            // Room for all at once: an iterator of results does not tell how many there are.
            let mut changed = Vec::with_capacity(entries.len());
            for entry in entries {
                changed.push(entry.try_map(&mut change)?);
            }
            Ok(changed)
        };
        let claimed = |entries, next_wake| Claimed { entries, next_wake };
        Ok(match self {
            Self::Added(added) => Reply::Added(added),
            Self::Claimed(given) => Reply::Claimed(claimed(all(given.entries)?, given.next_wake)),
            Self::Beats(beats) => Reply::Beats(beats),
            Self::Fates(fates) => Reply::Fates(fates),
            Self::DoneAndClaimed(fates, given) => {
                Reply::DoneAndClaimed(fates, claimed(all(given.entries)?, given.next_wake))
            }
            Self::Cancelled(cancelled) => Reply::Cancelled(cancelled),
            Self::Moved(count) => Reply::Moved(count),
            Self::Entries(entries) => Reply::Entries(all(entries)?),
            Self::Page(page) => Reply::Page(Page {
                entries: all(page.entries)?,
                next: page.next,
            }),
            Self::Stats(stats) => Reply::Stats(stats),
            Self::Swept(count) => Reply::Swept(count),
            Self::Declared(version) => Reply::Declared(version),
        })
    }
}
