//! What an engine can do: everything above it speaks one SQL through this.
//!
//! Statements are written once, in the words that SQLite and PostgreSQL share, with parameters `$1`, `$2`; what differs is
//! asked of the [`Dialect`].

use std::fmt;

use async_trait::async_trait;

use crate::error::Error;
use crate::value::{Column, ColumnType, Row, Value};

/// A database.
#[async_trait]
pub(crate) trait Engine: fmt::Debug + Send + Sync {
    fn dialect(&self) -> Dialect;

    /// For reading: statements are kept prepared.
    async fn reader(&self) -> Result<Box<dyn Session>, Error>;

    /// For writing, and for tables of its own until it is dropped.
    async fn writer(&self) -> Result<Box<dyn Session>, Error>;

    /// Anything wrong with the files or the server, in words.
    async fn check(&self) -> Result<Vec<String>, Error>;

    /// Ends threads and connections; what was committed is safe. May be called twice.
    async fn close(&self);
}

/// A statement with its parameters.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Its text.
    pub sql: String,
    /// `$1`, `$2`.
    pub params: Vec<Value>,
}

/// A connection, or a turn at one.
///
/// A session that is dropped inside of a transaction rolls it back; its own tables go with it.
#[async_trait]
pub trait Session: Send {
    /// The rows that a statement answers with.
    async fn query(&mut self, sql: &str, params: Vec<Value>) -> Result<Vec<Row>, Error>;

    /// The number of rows changed.
    async fn execute(&mut self, sql: &str, params: Vec<Value>) -> Result<u64, Error>;

    /// What each of several statements answers with, asked together: one way to the database and back, where one will do.
    async fn query_all(&mut self, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, Error>;

    /// The number of rows that each of several statements changed, likewise. None of them may need what another one does.
    async fn execute_all(&mut self, statements: Vec<Statement>) -> Result<Vec<u64>, Error>;

    /// Several statements without parameters.
    async fn script(&mut self, sql: &str) -> Result<(), Error>;

    /// Many rows into a table, as fast as the database can.
    async fn copy(&mut self, table: &str, columns: &[Column], rows: Vec<Row>) -> Result<(), Error>;

    /// Begins a transaction that no other writer runs beside.
    async fn begin(&mut self) -> Result<(), Error>;

    /// Begins a transaction that no other one with the same lock runs beside; in SQLite, no other one at all.
    async fn begin_under(&mut self, lock: i64) -> Result<(), Error>;

    /// Begins such a transaction and asks what it must know first, in one way to the database where one will do.
    async fn begin_asking(
        &mut self,
        lock: i64,
        statements: Vec<Statement>,
    ) -> Result<Vec<Vec<Row>>, Error> {
        self.begin_under(lock).await?;
        self.query_all(statements).await
    }

    /// Runs the last statements of the transaction, none of which may need what another one does, and ends it, likewise.
    async fn finish(&mut self, statements: Vec<Statement>) -> Result<(), Error> {
        self.execute_all(statements).await?;
        self.commit().await
    }

    /// Ends the transaction; what it did is durable then.
    async fn commit(&mut self) -> Result<(), Error>;

    /// Ends the transaction without a trace.
    async fn rollback(&mut self);

    /// What the names of its own tables begin with.
    fn own_prefix(&mut self) -> String;

    /// Drops its own tables.
    async fn clean(&mut self) -> Result<(), Error>;
}

/// What the two databases spell differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// SQLite.
    Sqlite,
    /// PostgreSQL.
    Postgres,
}

impl Dialect {
    /// The type of a column. Texts are compared by their bytes, so that every order is the same everywhere.
    #[must_use]
    pub fn column(self, column_type: ColumnType) -> &'static str {
        match (self, column_type) {
            (Self::Postgres, ColumnType::Text) => "text collate \"C\"",
            (Self::Sqlite, ColumnType::Text | ColumnType::Time | ColumnType::Json) => "text",
            (Self::Postgres, ColumnType::Time) => "timestamptz",
            (Self::Postgres, ColumnType::Json) => "json",
            (_, ColumnType::Int) => "bigint",
            (_, ColumnType::Float) => "double precision",
            (_, ColumnType::Bool) => "boolean",
        }
    }
}
