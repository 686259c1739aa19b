//! One journal in a database.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use async_trait::async_trait;

use super::claim::{CLAIMED_AT_ONCE, ClaimCall};
use super::desk::Desk;
use super::ends::EndCall;
use super::leases::Leases;
use super::marks::Marks;
use super::pool::{Doing, Session};
use super::row::{self, Place};
use super::sql::Sql;
use super::trail::Trail;
use super::{Database, Fault, Shared};
use crate::data::Data;
use crate::date::Date;
use crate::declaration::Declaration;
use crate::engine::{Engine, Health};
use crate::error::{Error, ErrorKind};
use crate::key::Key;
use crate::op::{Cancelled, Fate, Op, Reply};
use crate::rules::Return;
use crate::wake::{Alarm, Wakes};

/// How often a request that collides with others is made again.
const TRIES_MAX: u32 = 12;

/// What is declared, as far as this process knows, and the statements that follow from it.
#[derive(Debug)]
pub(super) struct View {
    pub(super) version: u32,
    pub(super) declarations: BTreeMap<u32, Declaration>,
    pub(super) sql: Sql,
}

impl View {
    pub(super) fn new(id: i32, declarations: BTreeMap<u32, Declaration>) -> Result<Self, Error> {
        let Some((version, declaration)) = declarations.last_key_value() else {
            return Err(row::corrupt(
                "a stored journal has no declaration".to_owned(),
            ));
        };
        Ok(Self {
            version: *version,
            sql: Sql::new(id, declaration.merge),
            declarations,
        })
    }

    /// The declaration in force.
    pub(super) fn declaration(&self) -> &Declaration {
        self.declared(self.version)
    }

    /// The declaration that an entry was written with.
    pub(super) fn declared(&self, version: u32) -> &Declaration {
        self.declarations
            .get(&version)
            .or_else(|| self.declarations.values().next_back())
            .expect("a view has a declaration")
    }

    /// Entries may be of a declaration that another process made a moment ago; then it is read first.
    pub(super) fn knows(&self, mut versions: impl Iterator<Item = u32>) -> Result<(), Fault> {
        if versions.any(|version| version > self.version) {
            return Err(Fault::collided("the declaration"));
        }
        Ok(())
    }
}

/// A journal in a PostgreSQL database.
pub struct PgJournal {
    pub(super) id: i32,
    name: String,
    pub(super) shared: Arc<Shared>,
    /// Keeps the tasks of the database alive.
    _database: Arc<Database>,
    view: RwLock<Arc<View>>,
    marks: Mutex<Marks>,
    leases: Mutex<Leases>,
    /// Nothing once the journal is closed.
    alarm: Mutex<Option<Alarm>>,
    /// Room for large claims.
    pub(super) room: tokio::sync::Semaphore,
    pub(super) claims: Desk<ClaimCall>,
    pub(super) ends: Desk<EndCall>,
    me: Weak<Self>,
    /// Whether the last batch met waiting entries.
    pub(super) merging: AtomicBool,
    /// Whether anything was asked of it since it was last tidied.
    pub(super) touched: AtomicBool,
    /// Up to which date wake-ups were given.
    pub(super) rung: AtomicI64,
    /// No sweep before this date: the last one failed.
    pub(super) sweep_after: AtomicI64,
    /// Held while what has run out is swept.
    pub(super) sweeping: tokio::sync::Mutex<()>,
    /// The lowest counters in use, and the lowest rows of the tally, a while ago.
    pub(super) counters: Mutex<Trail>,
    pub(super) tallies: Mutex<Trail>,
}

impl fmt::Debug for PgJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgJournal")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PgJournal {
    pub(super) fn open(database: Arc<Database>, id: i32, name: &str, view: View) -> Arc<Self> {
        Arc::new_cyclic(|me| Self::new(database, id, name, view, me))
    }

    fn new(database: Arc<Database>, id: i32, name: &str, view: View, me: &Weak<Self>) -> Self {
        Self {
            id,
            name: name.to_owned(),
            shared: Arc::clone(&database.shared),
            _database: database,
            view: RwLock::new(Arc::new(view)),
            marks: Mutex::default(),
            leases: Mutex::default(),
            alarm: Mutex::new(Some(Alarm::new())),
            room: tokio::sync::Semaphore::new(CLAIMED_AT_ONCE as usize),
            claims: Desk::default(),
            ends: Desk::default(),
            me: Weak::clone(me),
            merging: AtomicBool::new(false),
            touched: AtomicBool::new(true),
            rung: AtomicI64::new(i64::MIN),
            sweep_after: AtomicI64::new(i64::MIN),
            sweeping: tokio::sync::Mutex::default(),
            counters: Mutex::default(),
            tallies: Mutex::default(),
        }
    }

    /// For a task that works for several callers.
    pub(super) fn me(&self) -> Result<Arc<Self>, Fault> {
        self.me.upgrade().ok_or_else(Fault::unanswered)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set_view(&self, view: View) {
        let mut current = self.view.write().unwrap_or_else(PoisonError::into_inner);
        if view.version >= current.version {
            *current = Arc::new(view);
        }
    }

    pub(super) fn marks(&self) -> MutexGuard<'_, Marks> {
        lock(&self.marks)
    }

    pub(super) fn leases(&self) -> MutexGuard<'_, Leases> {
        lock(&self.leases)
    }

    pub(super) async fn session(&self) -> Result<Session, Error> {
        self.shared.pool.get().await
    }

    /// No row of the processing table that is alive is below this.
    pub(super) fn lowest_counter(&self) -> i64 {
        lock(&self.counters).settled()
    }

    pub(super) fn ring(&self) {
        if let Some(alarm) = &*lock(&self.alarm) {
            alarm.ring();
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        lock(&self.alarm).is_none()
    }

    /// Something can be handed out at these places that could not before, here and in other processes.
    pub(super) fn arrived(&self, places: &[Place], now: Date) {
        if places.is_empty() {
            return;
        }
        let now = now.as_millis();
        self.shared.saw_before(now);
        let (first, unknown) = {
            let mut marks = self.marks();
            // What is due already says nothing about when others look next.
            let first = marks.next_due().filter(|first| *first > now);
            let is_new = |place: &&Place| !marks.knows(place.priority);
            let unknown: Vec<i16> = places
                .iter()
                .filter(is_new)
                .map(|place| place.priority)
                .collect();
            for place in places {
                marks.lower(place.priority, place.position);
            }
            (first, unknown)
        };
        // Of what is due later than what everybody waits for, the claim at that time tells.
        let news = |place: &&Place| {
            let date = place.position.process;
            date <= now
                || first.is_none_or(|first| date < first)
                || unknown.contains(&place.priority)
        };
        let news: Vec<&Place> = places.iter().filter(news).collect();
        if news.is_empty() {
            return;
        }
        self.shared.announce(self.id, news.iter().copied());
        if news.iter().any(|place| place.position.process <= now) {
            self.ring();
        }
        self.shared.rearm();
    }

    /// Takes the waiting and the processing entries of a key out.
    async fn cancel(&self, key: &Key) -> Result<Cancelled, Fault> {
        let view = self.view();
        let hash = row::hash(key);
        let bytes = key.as_str().as_bytes();
        let mut session = self.session().await?;
        let rows = session
            .query(&view.sql.cancel, &[&self.shared.now(), &&hash[..], &bytes])
            .await?;
        let Some(row) = rows.first() else {
            return Ok(Cancelled::default());
        };
        let counters: Vec<i64> = row::cell(row, 2)?;
        let mut leases = self.leases();
        for counter in counters {
            leases.end(counter);
        }
        let count = |column| row::cell::<i64>(row, column).map(i64::cast_unsigned);
        Ok(Cancelled {
            waiting: count(0)?,
            processing: count(1)?,
        })
    }

    async fn attempt(&self, op: &Op) -> Result<Reply<Data>, Fault> {
        if !matches!(op, Op::Sweep) {
            self.sweep_if_late().await?;
        }
        Ok(match op {
            Op::Add(adds) => Reply::Added(self.add(adds).await?),
            Op::Claim { worker, count } => Reply::Claimed(self.claim(worker, *count).await?),
            Op::DoneAndClaim {
                done,
                worker,
                count,
            } => {
                let (fates, claimed) = self.done_and_claim(Some(done), worker, *count).await?;
                Reply::DoneAndClaimed(fates, claimed)
            }
            Op::Heartbeat(tokens) => Reply::Beats(self.heartbeat(tokens).await?),
            Op::Done(tokens) => Reply::Fates(self.done(tokens).await?),
            Op::Release { tokens, at } => Reply::Fates(self.release(tokens, *at).await?),
            Op::Fail {
                tokens,
                reason,
                retry,
            } => Reply::Fates(
                self.give_back(tokens, Return::Failed(*retry), reason)
                    .await?,
            ),
            Op::Cancel(key) => {
                self.sweep().await?;
                Reply::Cancelled(self.cancel(key).await?)
            }
            Op::Requeue(key) => Reply::Moved(self.requeue(key).await?),
            Op::Forget(key) => Reply::Moved(self.forget(key).await?),
            Op::Get(key) => Reply::Entries(self.get(key).await?),
            Op::List(query) => Reply::Page(self.list(query).await?),
            Op::Stats => Reply::Stats(Box::new(self.stats().await?)),
            Op::Sweep => {
                let swept = self.sweep().await?;
                self.tidy().await?;
                Reply::Swept(swept)
            }
            Op::Declare(declaration) => {
                self.sweep().await?;
                Reply::Declared(self.declare(declaration).await?)
            }
        })
    }

    /// Before a request is made again.
    async fn prepare_again(&self, tries: u32) -> Result<(), Error> {
        self.reload().await?;
        if tries > 4 {
            let most = Duration::from_millis(2 << tries.min(8));
            let pause = self.shared.rng.jitter(most);
            self.shared.timer.sleep(pause).await;
        }
        Ok(())
    }
}

/// What a request was to do.
fn asked(op: &Op) -> Doing {
    match op {
        Op::Get(_) | Op::List(_) | Op::Stats => Doing::Reading,
        Op::Add(_)
        | Op::Claim { .. }
        | Op::DoneAndClaim { .. }
        | Op::Heartbeat(_)
        | Op::Done(_)
        | Op::Release { .. }
        | Op::Fail { .. }
        | Op::Cancel(_)
        | Op::Requeue(_)
        | Op::Forget(_)
        | Op::Sweep
        | Op::Declare(_) => Doing::Writing,
    }
}

/// What a request did for certain: much that could write finds nothing to do.
fn written<D>(reply: &Reply<D>) -> Doing {
    let wrote = match reply {
        Reply::Added(added) => !added.is_empty(),
        Reply::Claimed(claimed) | Reply::DoneAndClaimed(_, claimed) => !claimed.entries.is_empty(),
        Reply::Fates(fates) => fates.iter().any(|fate| *fate != Fate::Lost),
        Reply::Beats(_)
        | Reply::Cancelled(_)
        | Reply::Moved(_)
        | Reply::Entries(_)
        | Reply::Page(_)
        | Reply::Stats(_)
        | Reply::Swept(_)
        | Reply::Declared(_) => false,
    };
    if wrote {
        Doing::Writing
    } else {
        Doing::Reading
    }
}

#[async_trait]
impl Engine for PgJournal {
    async fn call(&self, op: Op) -> Result<Reply<Data>, Error> {
        if self.is_closed() {
            return Err(Error::new(ErrorKind::Closed, "the journal is closed"));
        }
        self.touched.store(true, Ordering::Relaxed);
        let mut tries = 0;
        loop {
            let error = match self.attempt(&op).await {
                Ok(reply) => {
                    self.shared.pool.worked(written(&reply));
                    return Ok(reply);
                }
                Err(fault) if fault.again && tries < TRIES_MAX => {
                    tries += 1;
                    match self.prepare_again(tries).await {
                        Ok(()) => continue,
                        Err(error) => error,
                    }
                }
                Err(fault) => fault.error,
            };
            // Rows that it had in hand were skipped by others and may be there again.
            self.marks().reset();
            self.shared.pool.failed(&error, asked(&op));
            return Err(error);
        }
    }

    fn now(&self) -> Date {
        Date::from_millis(self.shared.estimate())
    }

    fn wakes(&self) -> Wakes {
        match &*lock(&self.alarm) {
            Some(alarm) => alarm.listen(),
            None => Alarm::new().listen(),
        }
    }

    fn declaration(&self) -> Declaration {
        self.view().declaration().clone()
    }

    fn health(&self) -> Health {
        self.shared.pool.health()
    }

    async fn close(&self) {
        lock(&self.alarm).take();
        self.shared.forget(&self.name);
    }
}
