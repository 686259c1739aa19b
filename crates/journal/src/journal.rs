//! What a program calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::add::NewEntry;
use crate::data::Data;
use crate::date::Date;
use crate::declaration::Declaration;
use crate::engine::{Engine, Health};
use crate::entry::{Entry, Page, Query};
use crate::error::{Error, ErrorKind};
use crate::key::Key;
use crate::op::{Added, Beat, Cancelled, Claimed, Fate, Op, Reply, Retry, Stats};
use crate::token::Token;
use crate::wake::Wakes;

/// How far a clock that is set or estimated may step back without being noticed.
const CLOCK_SLACK_MS: i64 = 5_000;

/// A handle to a journal; clones are the same journal.
#[derive(Clone, Debug)]
pub struct Journal {
    name: Arc<str>,
    engine: Arc<dyn Engine>,
    /// The last date that an add was given here, in milliseconds.
    last: Arc<AtomicI64>,
}

impl Journal {
    /// A journal on an engine.
    #[must_use]
    pub fn new(name: &str, engine: Arc<dyn Engine>) -> Self {
        Self {
            name: name.into(),
            engine,
            last: Arc::new(AtomicI64::new(i64::MIN)),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The engine behind it.
    #[must_use]
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// The date of an add that does not say when it was made: the engine's, and not a little before the one given last,
    /// because an add that seems older than another of its key loses its data. A clock that was wrong by more is put
    /// right at once.
    #[must_use]
    pub fn now(&self) -> Date {
        let now = self.engine.now().as_millis();
        let next = |last: i64| {
            if (1..=CLOCK_SLACK_MS).contains(&last.saturating_sub(now)) {
                last
            } else {
                now
            }
        };
        let order = Ordering::Relaxed;
        let update = self
            .last
            .fetch_update(order, order, |last| Some(next(last)));
        Date::from_millis(next(update.unwrap_or(now)))
    }

    /// Adds entries: all of them, or none when one is wrong.
    ///
    /// # Errors
    /// `Invalid` with the entry that is wrong, or as the engine says.
    pub async fn add(&self, entries: Vec<NewEntry>) -> Result<Vec<Added>, Error> {
        let now = self.now();
        let declaration = self.engine.declaration();
        let adds = entries
            .into_iter()
            .enumerate()
            .map(|(place, entry)| {
                declaration
                    .admit(entry, now)
                    .map_err(|error| error.while_doing(format!("entry {}", place + 1)))
            })
            .collect::<Result<Vec<_>, _>>()?;
        match self.call(Op::Add(adds)).await? {
            Reply::Added(added) => Ok(added),
            other => Err(strange(&other)),
        }
    }

    /// Adds one entry.
    ///
    /// # Errors
    /// As [`Journal::add`].
    pub async fn add_one(&self, entry: NewEntry) -> Result<Added, Error> {
        let added = self.add(vec![entry]).await?;
        added
            .first()
            .copied()
            .ok_or_else(|| strange::<Data>(&Reply::Added(Vec::new())))
    }

    /// Hands out up to `count` entries that are due.
    ///
    /// # Errors
    /// As the engine says.
    pub async fn claim(&self, worker: &str, count: u32) -> Result<Claimed<Data>, Error> {
        let worker = worker.to_owned();
        match self.call(Op::Claim { worker, count }).await? {
            Reply::Claimed(claimed) => Ok(claimed),
            other => Err(strange(&other)),
        }
    }

    /// Ends leases well and hands out new entries, in one commit.
    ///
    /// # Errors
    /// As the engine says; a lost lease is a [`Fate`], not an error.
    pub async fn done_and_claim(
        &self,
        done: Vec<Token>,
        worker: &str,
        count: u32,
    ) -> Result<(Vec<Fate>, Claimed<Data>), Error> {
        let worker = worker.to_owned();
        let op = Op::DoneAndClaim {
            done,
            worker,
            count,
        };
        match self.call(op).await? {
            Reply::DoneAndClaimed(fates, claimed) => Ok((fates, claimed)),
            other => Err(strange(&other)),
        }
    }

    /// Says that the holder of a lease is alive; gives back until when it holds.
    ///
    /// # Errors
    /// `LeaseLost`, or as the engine says.
    pub async fn heartbeat(&self, token: Token) -> Result<Date, Error> {
        match self.heartbeats(vec![token]).await?.as_slice() {
            [Beat::Until(deadline)] => Ok(*deadline),
            _ => Err(lost(token)),
        }
    }

    /// Says that the holders of leases are alive.
    ///
    /// # Errors
    /// As the engine says.
    pub async fn heartbeats(&self, tokens: Vec<Token>) -> Result<Vec<Beat>, Error> {
        match self.call(Op::Heartbeat(tokens)).await? {
            Reply::Beats(beats) => Ok(beats),
            other => Err(strange(&other)),
        }
    }

    /// Ends a lease well: the entry is gone.
    ///
    /// # Errors
    /// `LeaseLost`, or as the engine says.
    pub async fn done(&self, token: Token) -> Result<(), Error> {
        self.end(token, Op::Done(vec![token])).await.map(drop)
    }

    /// Gives a lease back without blame, to wait until `at` if it is said.
    ///
    /// # Errors
    /// `LeaseLost`, or as the engine says.
    pub async fn release(&self, token: Token, at: Option<Date>) -> Result<Fate, Error> {
        let tokens = vec![token];
        self.end(token, Op::Release { tokens, at }).await
    }

    /// Ends a lease badly.
    ///
    /// # Errors
    /// `LeaseLost`, or as the engine says.
    pub async fn fail(&self, token: Token, reason: &str, retry: Retry) -> Result<Fate, Error> {
        let op = Op::Fail {
            tokens: vec![token],
            reason: reason.to_owned(),
            retry,
        };
        self.end(token, op).await
    }

    /// Ends many leases with one of [`Op::Done`], [`Op::Release`] and [`Op::Fail`].
    ///
    /// # Errors
    /// As the engine says; a lost lease is a [`Fate`], not an error.
    pub async fn end_all(&self, op: Op) -> Result<Vec<Fate>, Error> {
        match self.call(op).await? {
            Reply::Fates(fates) => Ok(fates),
            other => Err(strange(&other)),
        }
    }

    async fn end(&self, token: Token, op: Op) -> Result<Fate, Error> {
        match self.end_all(op).await?.as_slice() {
            [Fate::Lost] | [] => Err(lost(token)),
            [fate, ..] => Ok(*fate),
        }
    }

    /// Takes the waiting and processing entries of a key out.
    ///
    /// # Errors
    /// As the engine says.
    pub async fn cancel(&self, key: Key) -> Result<Cancelled, Error> {
        match self.call(Op::Cancel(key)).await? {
            Reply::Cancelled(cancelled) => Ok(cancelled),
            other => Err(strange(&other)),
        }
    }

    /// Puts the dead entries of a key back into the list; says how many.
    ///
    /// # Errors
    /// As the engine says.
    pub async fn requeue(&self, key: Key) -> Result<u64, Error> {
        self.moved(Op::Requeue(key)).await
    }

    /// Takes the dead entries of a key off the dead list; says how many.
    ///
    /// # Errors
    /// As the engine says.
    pub async fn forget(&self, key: Key) -> Result<u64, Error> {
        self.moved(Op::Forget(key)).await
    }

    async fn moved(&self, op: Op) -> Result<u64, Error> {
        match self.call(op).await? {
            Reply::Moved(count) => Ok(count),
            other => Err(strange(&other)),
        }
    }

    /// The entries of a key: processing, waiting, dead. Where a key has very many, those that fit into an answer:
    /// [`Op::COUNT_MAX`] of each status, [`Op::BYTES_MAX`] of data; a listing with a prefix shows all.
    ///
    /// # Errors
    /// As the engine says.
    pub async fn get(&self, key: Key) -> Result<Vec<Entry<Data>>, Error> {
        match self.call(Op::Get(key)).await? {
            Reply::Entries(entries) => Ok(entries),
            other => Err(strange(&other)),
        }
    }

    /// Entries, page by page.
    ///
    /// # Errors
    /// As the engine says.
    pub async fn list(&self, query: Query) -> Result<Page<Data>, Error> {
        match self.call(Op::List(query)).await? {
            Reply::Page(page) => Ok(page),
            other => Err(strange(&other)),
        }
    }

    /// Numbers.
    ///
    /// # Errors
    /// As the engine says.
    pub async fn stats(&self) -> Result<Stats, Error> {
        match self.call(Op::Stats).await? {
            Reply::Stats(stats) => Ok(*stats),
            other => Err(strange(&other)),
        }
    }

    /// Does what time has brought; engines do it by themselves. Says to how many entries.
    ///
    /// # Errors
    /// As the engine says.
    pub async fn sweep(&self) -> Result<u64, Error> {
        match self.call(Op::Sweep).await? {
            Reply::Swept(count) => Ok(count),
            other => Err(strange(&other)),
        }
    }

    /// Changes the declaration for entries added from now on; gives back its version.
    ///
    /// # Errors
    /// `Invalid` with what is wrong with it, or as the engine says.
    pub async fn declare(&self, declaration: Declaration) -> Result<u32, Error> {
        match self.call(Op::Declare(Box::new(declaration))).await? {
            Reply::Declared(version) => Ok(version),
            other => Err(strange(&other)),
        }
    }

    /// The declaration in force.
    #[must_use]
    pub fn declaration(&self) -> Declaration {
        self.engine.declaration()
    }

    /// Hears when something may be due.
    #[must_use]
    pub fn wakes(&self) -> Wakes {
        self.engine.wakes()
    }

    /// How it is doing.
    #[must_use]
    pub fn health(&self) -> Health {
        self.engine.health()
    }

    /// Ends it; what was acknowledged is safe.
    pub async fn close(&self) {
        self.engine.close().await;
    }

    async fn call(&self, op: Op) -> Result<Reply<Data>, Error> {
        op.check().map_err(|error| self.named(error))?;
        let reply = self.engine.call(op).await;
        reply.map_err(|error| self.named(error))
    }

    fn named(&self, error: Error) -> Error {
        error.while_doing(format!("journal `{}`", self.name))
    }
}

fn lost(token: Token) -> Error {
    Error::new(
        ErrorKind::LeaseLost,
        format!("the lease of token `{token}` is lost"),
    )
}

fn strange<D>(_reply: &Reply<D>) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "the engine answered another question; this is a mistake in the program",
    )
}
