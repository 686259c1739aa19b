//! Connections: made when needed, kept for the next request, thrown away when anything about them is in doubt.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cannery_database::postgres::Server;
use cannery_runtime::Clock;
use futures::future::{self, join, join_all};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::error::DbError;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Notification, Row, Statement};

use super::fault::Fault;
use crate::engine::Health;
use crate::error::{Error, ErrorKind};

/// How long the server may take for one answer. `statement_timeout` is a little shorter, so that the server usually
/// gives up first and says why; it does not end a wait for standbys, so this clock is the one that counts.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// The same for what reads a whole table.
pub(super) const LONG_LIMIT: Duration = Duration::from_secs(60);
/// Enough for commits to be made in groups.
const CONNECTIONS_MAX: usize = 16;
/// Statements kept prepared on one connection.
const STATEMENTS_MAX: usize = 400;

/// Every hot statement is a walk down an index for a few rows. The planner is told so, because what it knows of a table
/// that fills and empties all day is always wrong.
const SETTINGS: &str = "\
    set search_path = cannery_journal, pg_catalog; \
    set default_transaction_isolation = 'read committed'; \
    set default_transaction_read_only = off; \
    set statement_timeout = '9s'; \
    set lock_timeout = '8s'; \
    set idle_in_transaction_session_timeout = '30s'; \
    set plan_cache_mode = force_generic_plan; \
    set enable_seqscan = off; set enable_bitmapscan = off; \
    set enable_hashjoin = off; set enable_mergejoin = off; \
    set jit = off; \
    select set_config('synchronous_commit', 'on', false) \
        where current_setting('synchronous_commit') = 'off'";

pub(super) type Params<'a> = Vec<Box<dyn ToSql + Sync + Send + 'a>>;

/// One statement of a transaction.
pub(super) struct Step<'a> {
    pub(super) sql: &'a str,
    pub(super) params: Params<'a>,
}

#[derive(Debug)]
pub(super) struct Pool {
    address: Server,
    timer: Clock,
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
    condition: Mutex<Condition>,
}

/// What a request does, as far as a server without its standbys cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    Reading,
    Writing,
}

#[derive(Debug)]
struct Condition {
    health: Health,
    writes_in_doubt: bool,
    probing: bool,
}

impl Pool {
    pub(super) fn new(address: Server, timer: Clock) -> Arc<Self> {
        Arc::new(Self {
            address,
            timer,
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            condition: Mutex::new(Condition {
                health: Health::Good,
                writes_in_doubt: false,
                probing: false,
            }),
        })
    }

    /// A connection for one request.
    pub(super) async fn get(self: &Arc<Self>) -> Result<Session, Error> {
        let waiting = Arc::clone(&self.permits).acquire_owned();
        let permit = match self.timer.timeout(ANSWER_LIMIT, waiting).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return Err(Error::new(ErrorKind::Closed, "the journal is closed")),
            Err(limit) => return Err(Fault::timed_out(limit).error),
        };
        let idle = self.take_idle();
        let connection = match idle {
            Some(connection) => connection,
            None => {
                let made = Connection::open(&self.address, &self.timer, |_| {}).await;
                made.inspect_err(|error| self.failed(error, Doing::Reading))?
            }
        };
        Ok(Session {
            connection: Some(connection),
            pool: Arc::clone(self),
            clean: true,
            _permit: permit,
        })
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = lock(&self.idle);
        while let Some(connection) = idle.pop() {
            if !connection.client.is_closed() {
                return Some(connection);
            }
        }
        None
    }

    /// Remembers that something went wrong.
    pub(super) fn failed(&self, error: &Error, doing: Doing) {
        let bad = [
            ErrorKind::Unavailable,
            ErrorKind::Denied,
            ErrorKind::Full,
            ErrorKind::Corrupt,
        ];
        if bad.contains(&error.kind) {
            let mut condition = lock(&self.condition);
            condition.health = Health::Bad(error.message.clone());
            condition.writes_in_doubt |= doing == Doing::Writing;
        }
    }

    /// Remembers that something went well. Without its standbys a server still answers questions, so only a write shows
    /// that writes work again.
    pub(super) fn worked(&self, doing: Doing) {
        let mut condition = lock(&self.condition);
        if doing == Doing::Writing || !condition.writes_in_doubt {
            condition.writes_in_doubt = false;
            if condition.health != Health::Good {
                condition.health = Health::Good;
            }
        }
    }

    /// Whether somebody should find out if writes work again; said to one at a time.
    pub(super) fn should_probe(&self) -> bool {
        let mut condition = lock(&self.condition);
        let start = condition.writes_in_doubt && !condition.probing;
        condition.probing |= start;
        start
    }

    /// Writes something that nobody reads.
    pub(super) async fn probe(self: Arc<Self>) {
        let written = async {
            let mut session = self.get().await?;
            let sql = "select pg_logical_emit_message(true, 'cannery_journal', '')";
            session.query(sql, &[]).await
        };
        match written.await {
            Ok(_) => self.worked(Doing::Writing),
            Err(fault) => self.failed(&fault.error, Doing::Writing),
        }
        lock(&self.condition).probing = false;
    }

    pub(super) fn health(&self) -> Health {
        lock(&self.condition).health.clone()
    }

    pub(super) fn address(&self) -> &Server {
        &self.address
    }

    /// Refuses further requests; those under way end.
    pub(super) fn close(&self) {
        self.permits.close();
        lock(&self.idle).clear();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
pub(super) struct Connection {
    client: Client,
    statements: HashMap<String, Statement>,
    /// The server stopped waiting for its standbys although it had to.
    unreplicated: Arc<AtomicBool>,
}

impl Connection {
    /// Connects and prepares the session; `hear` gets the notifications.
    pub(super) async fn open(
        address: &Server,
        timer: &Clock,
        hear: impl Fn(Notification) + Send + 'static,
    ) -> Result<Self, Error> {
        let connecting = async {
            let (client, mut wire) = address.connect().await?;
            let unreplicated = Arc::new(AtomicBool::new(false));
            let noticed = Arc::clone(&unreplicated);
            // It ends when the client is dropped or the server goes away.
            tokio::spawn(async move {
                while let Some(Ok(message)) = future::poll_fn(|task| wire.poll_message(task)).await
                {
                    match message {
                        AsyncMessage::Notice(notice) if is_unreplicated(&notice) => {
                            noticed.store(true, Ordering::SeqCst);
                        }
                        AsyncMessage::Notification(notification) => hear(notification),
                        _ => {}
                    }
                }
            });
            client.batch_execute(SETTINGS).await?;
            Ok(Self {
                client,
                statements: HashMap::new(),
                unreplicated,
            })
        };
        match timer.timeout(ANSWER_LIMIT, connecting).await {
            Ok(made) => made.map_err(|error: Error| error.while_doing(address)),
            Err(limit) => Err(Fault::timed_out(limit).error.while_doing(address)),
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) async fn prepare(&mut self, sql: &str) -> Result<Statement, Fault> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        if self.statements.len() >= STATEMENTS_MAX {
            self.statements.clear();
        }
        let statement = self.client.prepare(sql).await?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

/// The server gave up waiting for its standbys, which it tells as a warning behind which the commit succeeds. Its words
/// may be in any language; the place in its source is not.
fn is_unreplicated(notice: &DbError) -> bool {
    notice.routine() == Some("SyncRepWaitForLSN")
}

/// A connection lent to one request. When it is dropped in the middle of something, the server is told to stop and the
/// connection is thrown away.
#[derive(Debug)]
pub(super) struct Session {
    connection: Option<Connection>,
    pool: Arc<Pool>,
    clean: bool,
    _permit: OwnedSemaphorePermit,
}

impl Session {
    fn connection(&mut self) -> &mut Connection {
        self.connection
            .as_mut()
            .expect("a session has its connection until it is dropped")
    }

    /// One statement, which is its own transaction.
    pub(super) async fn query(
        &mut self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Fault> {
        self.clean = false;
        let timer = self.pool.timer.clone();
        let connection = self.connection();
        let work = async {
            let statement = connection.prepare(sql).await?;
            Ok::<_, Fault>(connection.client.query(&statement, params).await?)
        };
        let answer = timer
            .timeout(ANSWER_LIMIT, work)
            .await
            .map_err(Fault::timed_out)?;
        // After a fail-over the server may be one that takes no writes any more.
        self.clean = !matches!(&answer, Err(fault) if fault.is_of_server());
        let rows = answer?;
        self.check_replicated()?;
        Ok(rows)
    }

    /// Begins a transaction with its first statement.
    pub(super) async fn begin(
        &mut self,
        begin: &str,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
        limit: Duration,
    ) -> Result<Vec<Row>, Fault> {
        self.clean = false;
        let timer = self.pool.timer.clone();
        let connection = self.connection();
        let work = async {
            let statement = connection.prepare(sql).await?;
            let client = &connection.client;
            let (begun, rows) = join(
                client.batch_execute(begin),
                client.query(&statement, params),
            )
            .await;
            begun?;
            Ok::<_, Fault>(rows?)
        };
        let answer = timer.timeout(limit, work).await.map_err(Fault::timed_out)?;
        match answer {
            Ok(rows) => Ok(rows),
            Err(fault) => {
                self.give_up(&fault).await;
                Err(fault)
            }
        }
    }

    /// Statements without parameters, as part of a transaction that they may begin; it is ended with
    /// [`Session::commit`] or [`Session::rollback`].
    pub(super) async fn script(&mut self, sql: &str) -> Result<(), Fault> {
        self.clean = false;
        let timer = self.pool.timer.clone();
        let work = self.connection().client.batch_execute(sql);
        timer
            .timeout(LONG_LIMIT, work)
            .await
            .map_err(Fault::timed_out)??;
        Ok(())
    }

    /// One more statement of the transaction.
    pub(super) async fn within(
        &mut self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
        limit: Duration,
    ) -> Result<Vec<Row>, Fault> {
        let timer = self.pool.timer.clone();
        let connection = self.connection();
        let work = async {
            let statement = connection.prepare(sql).await?;
            Ok::<_, Fault>(connection.client.query(&statement, params).await?)
        };
        let answer = timer.timeout(limit, work).await.map_err(Fault::timed_out)?;
        match answer {
            Ok(rows) => Ok(rows),
            Err(fault) => {
                self.give_up(&fault).await;
                Err(fault)
            }
        }
    }

    /// The last statements of the transaction and its commit, sent in one go: when one fails, the commit is a rollback.
    pub(super) async fn commit(&mut self, steps: &[Step<'_>]) -> Result<Vec<Vec<Row>>, Fault> {
        self.clean = false;
        let timer = self.pool.timer.clone();
        let connection = self.connection();
        let work = async {
            let mut statements = Vec::with_capacity(steps.len());
            for step in steps {
                statements.push(connection.prepare(step.sql).await?);
            }
            let client = &connection.client;
            let params: Vec<Vec<&(dyn ToSql + Sync)>> = steps
                .iter()
                .map(|step| step.params.iter().map(|value| &**value as _).collect())
                .collect();
            let all = join_all(
                statements
                    .iter()
                    .zip(&params)
                    .map(|(statement, params)| client.query(statement, params)),
            );
            let (answers, committed) = join(all, client.batch_execute("commit")).await;
            let rows = answers.into_iter().collect::<Result<Vec<_>, _>>()?;
            committed?;
            Ok::<_, Fault>(rows)
        };
        let answer = timer
            .timeout(ANSWER_LIMIT, work)
            .await
            .map_err(Fault::timed_out)?;
        match answer {
            Ok(rows) => {
                self.clean = true;
                self.check_replicated()?;
                Ok(rows)
            }
            Err(fault) => {
                // A statement that could not even be prepared leaves the transaction open.
                self.give_up(&fault).await;
                Err(fault)
            }
        }
    }

    async fn give_up(&mut self, fault: &Fault) {
        if !fault.is_of_server() {
            self.rollback().await;
        }
    }

    /// Ends the transaction without a trace; a connection on which that fails is not used again.
    pub(super) async fn rollback(&mut self) {
        let timer = self.pool.timer.clone();
        let work = self.connection().client.batch_execute("rollback");
        let ended = matches!(timer.timeout(ANSWER_LIMIT, work).await, Ok(Ok(())));
        self.clean = ended;
    }

    fn check_replicated(&mut self) -> Result<(), Fault> {
        if self.connection().unreplicated.swap(false, Ordering::SeqCst) {
            return Err(Fault::unreplicated());
        }
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else {
            return;
        };
        if self.clean && !connection.client.is_closed() {
            if !self.pool.permits.is_closed() {
                lock(&self.pool.idle).push(connection);
            }
            return;
        }
        abandon(connection, self.pool.address.clone());
    }
}

/// Tells the server to stop what the connection is at, so that it does not hold locks and a place for nobody.
fn abandon(connection: Connection, address: Server) {
    if connection.client.is_closed() {
        return;
    }
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(async move {
            address.cancel(&connection.client).await;
        });
    }
}
