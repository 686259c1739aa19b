//! Journals in a PostgreSQL database.
//!
//! The database keeps the entries, the rules stay in `rules.rs`: what happens all the time (a new key, a claim, a lease
//! ended well, a heartbeat) is one statement each; whatever meets another entry reads rows under lock, asks the rules, and
//! writes what they say in the same transaction.
//!
//! | look here | for |
//! |---|---|
//! | `schema.rs` | the tables |
//! | `sql.rs` | the statements |
//! | `add.rs`, `claim.rs`, `ends.rs`, `returns.rs`, `inspect.rs`, `declare.rs` | the operations |
//! | `desk.rs` | how small requests of many callers become one statement |
//! | `marks.rs` | why a claim does not become slower while an old transaction is open |
//! | `listen.rs`, `timer.rs` | how processes wake each other, and the second that passes between two polls |
//! | `tidy.rs` | what is done every ten seconds |
//! | `pool.rs`, `fault.rs` | connections, and what goes wrong with them |
//!
//! An expired entry that nobody has swept yet counts as deleted, a lease that ran out as lost. Sweeping is done by the
//! processes that have the journal open, at the deadlines that they know of, and every ten seconds for those of others;
//! [`crate::Op::Sweep`] does everything that is due at once.
//!
//! Pages of a listing are cut at [`crate::Op::BYTES_MAX`], which the journal in memory has no need of.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use cannery_database::postgres::Server;
use cannery_runtime::{Clock, Rng, Tasks};
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::date::Date;
use crate::declaration::Declaration;
use crate::engine::Engine as _;
use crate::error::{Error, ErrorKind};

mod add;
mod claim;
mod declare;
mod desk;
mod ends;
mod fault;
mod inspect;
mod journal;
mod leases;
mod listen;
mod marks;
mod pool;
mod returns;
mod row;
mod schema;
mod sql;
mod tally;
mod tidy;
mod timer;
mod trail;

use fault::Fault;
pub use journal::PgJournal;
use journal::{View, lock};
use listen::News;
use pool::Pool;

/// How long closing waits for other processes to be told of the last changes.
const TELL_LIMIT: Duration = Duration::from_secs(1);

/// How long closing waits for the tasks of a database.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// Whose time decides what is due, expired or timed out.
#[derive(Clone, Debug)]
pub enum EngineClock {
    /// The server's own clock, which all processes share: production.
    Server,
    /// A given clock: tests with simulated time.
    Given(Clock),
}

/// A database with journals: one pool of connections, one connection that listens, and one poll a second for all of its
/// journals that this process has open.
///
/// It ends when it and all its journals are dropped; [`Database::close`] also waits.
pub struct Database {
    shared: Arc<Shared>,
    tasks: Tasks,
    _stop: DropGuard,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Database")
            .field(self.shared.pool.address())
            .finish()
    }
}

/// What the journals of a database and its tasks share.
pub(crate) struct Shared {
    pool: Arc<Pool>,
    clock: EngineClock,
    timer: Clock,
    rng: Rng,
    /// Which opening of the database this is; part of every token.
    incarnation: i64,
    journals: Mutex<BTreeMap<String, Weak<PgJournal>>>,
    /// What other processes have to hear of.
    news: Mutex<BTreeMap<i32, News>>,
    news_waiting: Notify,
    /// They are being told.
    telling: AtomicBool,
    /// The next date to wake up at may have changed.
    rearm: Notify,
    /// The server's clock, as of a moment of ours.
    server_time: Mutex<Option<(i64, Duration)>>,
}

impl Database {
    /// Connects, brings the schema up to date, and starts the tasks.
    ///
    /// `url` is `postgres://user:password@host/database`, with several hosts separated by commas for fail-over, and
    /// `sslmode` one of `disable`, `prefer`, `require`, `verify-full`. `timer` is for sleeping and must move by itself.
    ///
    /// # Errors
    /// `Invalid` for an address that is none and for a schema that is newer than this program, `Denied`, `Unavailable`.
    pub async fn connect(
        url: &str,
        clock: EngineClock,
        timer: Clock,
        rng: Rng,
    ) -> Result<Arc<Self>, Error> {
        let pool = Pool::new(Server::parse(url, "cannery journal")?, timer.clone());
        let mut session = pool.get().await?;
        schema::migrate(&mut session)
            .await
            .map_err(|error| error.while_doing(pool.address()))?;
        let rows = session
            .query("select nextval('cannery_journal.incarnations')", &[])
            .await?;
        drop(session);
        let incarnation = match rows.first() {
            Some(row) => row::cell(row, 0)?,
            None => return Err(row::corrupt("a sequence did not answer".to_owned())),
        };
        let shared = Arc::new(Shared {
            pool,
            clock,
            timer: timer.clone(),
            rng,
            incarnation,
            journals: Mutex::default(),
            news: Mutex::default(),
            news_waiting: Notify::new(),
            telling: AtomicBool::new(false),
            rearm: Notify::new(),
            server_time: Mutex::default(),
        });
        let stop = CancellationToken::new();
        let tasks = Tasks::new(timer, stop.clone());
        tasks.spawn(
            "journal listener",
            listen::run(Arc::clone(&shared), stop.clone()),
        );
        tasks.spawn(
            "journal timer",
            timer::run(Arc::clone(&shared), stop.clone()),
        );
        Ok(Arc::new(Self {
            shared,
            tasks,
            _stop: stop.drop_guard(),
        }))
    }

    /// Opens a journal; twice the same name is the same journal. With a declaration it is created when it is not there,
    /// and declared anew when it differs.
    ///
    /// # Errors
    /// `Unknown` without a declaration when there is no such journal, `Invalid` with what is wrong with the name or the
    /// declaration, and as [`crate::Engine::call`].
    pub async fn open(
        self: &Arc<Self>,
        name: &str,
        declaration: Option<Declaration>,
    ) -> Result<Arc<PgJournal>, Error> {
        declare::check_name(name)?;
        let journal = match self.shared.opened(name) {
            Some(journal) => journal,
            None => self.load(name, declaration.as_ref()).await?,
        };
        if let Some(declaration) = declaration
            && declaration != journal.declaration()
        {
            declaration.check()?;
            let op = crate::op::Op::Declare(Box::new(declaration));
            journal.call(op).await?;
        }
        Ok(journal)
    }

    async fn load(
        self: &Arc<Self>,
        name: &str,
        declaration: Option<&Declaration>,
    ) -> Result<Arc<PgJournal>, Error> {
        let mut session = self.shared.pool.get().await?;
        let known = match declaration {
            Some(declaration) => declare::find_or_create(&mut session, name, declaration).await?,
            None => declare::find(&mut session, name).await?.ok_or_else(|| {
                Error::new(
                    ErrorKind::Unknown,
                    format!("there is no journal `{name}` in the database"),
                )
            })?,
        };
        drop(session);
        let view = View::new(known.id, known.declarations)?;
        let journal = PgJournal::open(Arc::clone(self), known.id, name, view);
        journal.tidy().await?;
        Ok(self.shared.enter(journal))
    }

    /// The names of all journals in the database.
    ///
    /// # Errors
    /// `Denied` or `Unavailable`.
    pub async fn names(&self) -> Result<Vec<String>, Error> {
        let mut session = self.shared.pool.get().await?;
        let rows = session
            .query("select name from journals order by name", &[])
            .await?;
        rows.iter().map(|row| row::cell(row, 0)).collect()
    }

    /// Closes all journals and the connections; what was acknowledged is safe. May be called twice.
    pub async fn close(&self) {
        for journal in self.shared.open_journals() {
            journal.close().await;
        }
        self.shared.told().await;
        let stopped = self.tasks.stop(CLOSE_LIMIT).await;
        if !stopped.unfinished.is_empty() {
            tracing::debug!(tasks = ?stopped.unfinished, "tasks of a database were cut off");
        }
        self.shared.pool.close();
    }
}

impl Shared {
    /// Waits a little until other processes were told of everything: who adds one entry and ends is heard as well.
    async fn told(&self) {
        let began = self.timer.elapsed();
        while self.timer.since(began) < TELL_LIMIT {
            if lock(&self.news).is_empty() && !self.telling.load(Ordering::Acquire) {
                return;
            }
            self.timer.sleep(Duration::from_millis(2)).await;
        }
    }

    /// The date for a statement: nothing lets the server decide.
    fn now(&self) -> Option<i64> {
        match &self.clock {
            EngineClock::Server => None,
            EngineClock::Given(clock) => Some(Date::from(clock.now()).as_millis()),
        }
    }

    /// The engine's date, as well as it is known here.
    fn estimate(&self) -> i64 {
        let seen = *lock(&self.server_time);
        match (self.now(), seen) {
            (Some(now), _) => now,
            (None, Some((server, at))) => {
                let since = self.timer.since(at).as_millis();
                server.saturating_add(i64::try_from(since).unwrap_or(i64::MAX))
            }
            (None, None) => Date::from(self.timer.now()).as_millis(),
        }
    }

    /// The server said what time it is, just now.
    fn saw(&self, now: i64) {
        *lock(&self.server_time) = Some((now, self.timer.elapsed()));
    }

    /// The server said what time it was at the beginning of something, which may have taken long.
    fn saw_before(&self, then: i64) {
        if then > self.estimate() {
            self.saw(then);
        }
    }

    fn nonce(&self) -> i64 {
        let mut nonce = [0; 8];
        self.rng.fill(&mut nonce);
        i64::from_le_bytes(nonce)
    }

    fn rearm(&self) {
        self.rearm.notify_one();
    }

    fn opened(&self, name: &str) -> Option<Arc<PgJournal>> {
        lock(&self.journals).get(name).and_then(Weak::upgrade)
    }

    /// The journal under its name: the one that is open already, if somebody else was faster.
    fn enter(&self, journal: Arc<PgJournal>) -> Arc<PgJournal> {
        let mut journals = lock(&self.journals);
        if let Some(earlier) = journals.get(journal.name()).and_then(Weak::upgrade) {
            return earlier;
        }
        journals.insert(journal.name().to_owned(), Arc::downgrade(&journal));
        drop(journals);
        self.rearm();
        journal
    }

    fn forget(&self, name: &str) {
        lock(&self.journals).remove(name);
    }

    fn open_journals(&self) -> Vec<Arc<PgJournal>> {
        let mut journals = lock(&self.journals);
        journals.retain(|_, journal| journal.strong_count() > 0);
        journals.values().filter_map(Weak::upgrade).collect()
    }
}
