//! A database that is open, whichever engine it stands on.

use std::sync::Arc;

use crate::address::Address;
use crate::error::Error;
use crate::migrate;
use crate::postgres::Postgres;
use crate::session::{Dialect, Engine, Session, Statement};
use crate::sqlite::Sqlite;
use crate::value::Row;

/// What a database is for, and the numbered SQL files that make its tables. Files are only ever added at the end.
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    /// Its name to people, and in the names of threads: `catalog`.
    pub name: &'static str,
    /// The schema of PostgreSQL that holds its tables: lower case letters and `_`.
    pub namespace: &'static str,
    /// The number of the lock that one writer at a time has, in PostgreSQL; another one for each schema.
    pub lock: i64,
    /// The migrations for SQLite.
    pub sqlite: &'static [&'static str],
    /// The migrations for PostgreSQL, as many.
    pub postgres: &'static [&'static str],
}

impl Schema {
    pub(crate) fn migrations(&self, dialect: Dialect) -> &'static [&'static str] {
        match dialect {
            Dialect::Sqlite => self.sqlite,
            Dialect::Postgres => self.postgres,
        }
    }
}

/// An open database. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Database {
    engine: Arc<dyn Engine>,
    schema: Schema,
}

impl Database {
    /// Opens a database and brings its tables up to date; a file is created when it is not there, but not its folder. Any
    /// number of processes may do so at once.
    ///
    /// # Errors
    /// `Newer` for one that a newer program has written; `Denied`, `Unavailable`, and `Corrupt` for a file that is no
    /// database.
    pub async fn open(address: &Address, schema: Schema) -> Result<Self, Error> {
        let engine: Arc<dyn Engine> = match address {
            Address::Postgres(server) => Arc::new(Postgres::open(server, &schema)?),
            Address::Sqlite(path) => Arc::new(Sqlite::open(path, &schema).await?),
        };
        migrate::migrate(engine.as_ref(), &schema).await?;
        Ok(Self { engine, schema })
    }

    /// What the database spells in its own way.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.engine.dialect()
    }

    /// For reading: statements are kept prepared.
    ///
    /// # Errors
    /// `Denied`, `Unavailable`.
    pub async fn reader(&self) -> Result<Box<dyn Session>, Error> {
        self.engine.reader().await
    }

    /// For writing, and for tables of its own until it is dropped.
    ///
    /// # Errors
    /// `Denied`, `Unavailable`.
    pub async fn writer(&self) -> Result<Box<dyn Session>, Error> {
        self.engine.writer().await
    }

    /// A transaction that no other writer runs beside; it is ended with [`settle`].
    ///
    /// # Errors
    /// `Denied`, `Unavailable`.
    pub async fn begin(&self) -> Result<Box<dyn Session>, Error> {
        let mut session = self.engine.writer().await?;
        session.begin().await?;
        Ok(session)
    }

    /// A transaction that no other one with the same lock runs beside; it is ended with [`settle`].
    ///
    /// # Errors
    /// `Denied`, `Unavailable`.
    pub async fn begin_under(&self, lock: i64) -> Result<Box<dyn Session>, Error> {
        let mut session = self.engine.writer().await?;
        session.begin_under(lock).await?;
        Ok(session)
    }

    /// The same, with the answers to what it must know first.
    ///
    /// # Errors
    /// By kind.
    pub async fn begin_asking(
        &self,
        lock: i64,
        statements: Vec<Statement>,
    ) -> Result<(Box<dyn Session>, Vec<Vec<Row>>), Error> {
        let mut session = self.engine.writer().await?;
        let rows = session.begin_asking(lock, statements).await?;
        Ok((session, rows))
    }

    /// Anything wrong with the file or the server or the version of the tables, in words. Empty is good.
    ///
    /// # Errors
    /// By kind.
    pub async fn check(&self) -> Result<Vec<String>, Error> {
        let mut findings = self.engine.check().await?;
        let mut session = self.reader().await?;
        let reached = migrate::reached(session.as_mut()).await?;
        let known = self.schema.migrations(self.dialect()).len();
        if reached != known {
            let name = self.schema.name;
            findings.push(format!(
                "the {name} has version {reached}, this program knows {known}"
            ));
        }
        Ok(findings)
    }

    /// Ends threads and connections; what was committed is safe. May be called twice.
    pub async fn close(&self) {
        self.engine.close().await;
    }
}

/// Ends a transaction: commits what went well, rolls back what did not.
///
/// # Errors
/// That of `done`, or of the commit.
pub async fn settle<T, E: From<Error>>(
    mut session: Box<dyn Session>,
    done: Result<T, E>,
) -> Result<T, E> {
    match done {
        Ok(value) => {
            session.commit().await?;
            Ok(value)
        }
        Err(error) => {
            session.rollback().await;
            Err(error)
        }
    }
}
