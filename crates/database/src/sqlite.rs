//! A database in a file on the local disk.
//!
//! One thread writes, a few read; the write-ahead log lets them do so at once. Callers wait without blocking a thread of
//! the async runtime.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::Mutex as AsyncMutex;

use crate::database::Schema;
use crate::error::Error;
use crate::session::{Dialect, Engine, Session};

mod fault;
mod session;
mod thread;

use session::{ReadSession, WriteSession};
use thread::Threads;

const READERS: usize = 4;
/// Statements kept prepared on one connection.
const STATEMENTS_MAX: usize = 256;

/// How a connection works: another process may be writing for a moment; a commit is durable when it is answered; the log of commits
/// is worked into the file every 16 MiB; what is staged goes to a file rather than to memory.
const SETTINGS: &str = "\
    pragma busy_timeout = 30000; \
    pragma journal_mode = wal; \
    pragma synchronous = full; \
    pragma wal_autocheckpoint = 4000; \
    pragma temp_store = file; \
    pragma foreign_keys = off; \
    pragma cache_size = -16384";

/// The engine.
#[derive(Debug)]
pub(crate) struct Sqlite {
    name: &'static str,
    path: PathBuf,
    readers: Threads,
    desk: Arc<Desk>,
}

/// The one writer, and whose turn it is.
#[derive(Debug)]
pub(crate) struct Desk {
    writer: Threads,
    turn: Arc<AsyncMutex<()>>,
    sessions: AtomicU64,
    /// Prefixes of tables that nobody needs any more. They are dropped outside of transactions: inside of another's, a
    /// rollback would bring them back.
    litter: Mutex<Vec<String>>,
}

impl Sqlite {
    /// Opens the file, which is created when it is not there.
    pub(crate) async fn open(path: &Path, schema: &Schema) -> Result<Self, Error> {
        let name = schema.name;
        let file = path.to_owned();
        let opened = tokio::task::spawn_blocking(move || open_all(&file)).await;
        let (writer, readers) = opened
            .map_err(|_| Error::unavailable("the opening was cut off"))?
            .map_err(|error| error.while_doing(shown(name, path)))?;
        Ok(Self {
            name,
            path: path.to_owned(),
            readers: Threads::start(&format!("{name}-read"), readers)?,
            desk: Arc::new(Desk {
                writer: Threads::start(&format!("{name}-write"), vec![writer])?,
                turn: Arc::default(),
                sessions: AtomicU64::new(0),
                litter: Mutex::default(),
            }),
        })
    }
}

impl Desk {
    fn enter(self: &Arc<Self>) -> WriteSession {
        let number = self.sessions.fetch_add(1, Ordering::Relaxed);
        WriteSession::new(Arc::clone(self), format!("stage{number}_"))
    }

    fn leave(&self, prefix: String) {
        lock(&self.litter).push(prefix);
    }

    fn take_litter(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.litter))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shown(name: &str, path: &Path) -> String {
    format!("{name} `{}`", path.display())
}

fn open_all(path: &Path) -> Result<(Connection, Vec<Connection>), Error> {
    let writer = open_one(path)?;
    let readers: Result<Vec<Connection>, Error> = (0..READERS)
        .map(|_| {
            let reader = open_one(path)?;
            reader
                .execute_batch("pragma query_only = on")
                .map_err(|error| fault::sorted(&error))?;
            Ok(reader)
        })
        .collect();
    Ok((writer, readers?))
}

fn open_one(path: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(path, flags).map_err(|error| fault::sorted(&error))?;
    connection
        .execute_batch(SETTINGS)
        .map_err(|error| fault::sorted(&error))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

#[async_trait]
impl Engine for Sqlite {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    async fn reader(&self) -> Result<Box<dyn Session>, Error> {
        Ok(Box::new(ReadSession::new(self.readers.clone())))
    }

    async fn writer(&self) -> Result<Box<dyn Session>, Error> {
        Ok(Box::new(self.desk.enter()))
    }

    async fn check(&self) -> Result<Vec<String>, Error> {
        let mut session = ReadSession::new(self.readers.clone());
        let rows = session.query("pragma quick_check(20)", Vec::new()).await?;
        let mut findings = Vec::new();
        for row in rows {
            let finding = row.text(0)?;
            if finding != "ok" {
                findings.push(format!("{}: {finding}", shown(self.name, &self.path)));
            }
        }
        Ok(findings)
    }

    async fn close(&self) {
        // Nobody is in the middle of a transaction then.
        let _turn = self.desk.turn.lock().await;
        self.readers.stop().await;
        self.desk.writer.stop().await;
    }
}
