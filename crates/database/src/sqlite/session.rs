//! Turns at the threads.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Batch, Connection, StatementStatus, ToSql};
use tokio::sync::OwnedMutexGuard;

use super::Desk;
use super::fault::sorted;
use super::thread::Threads;
use crate::error::Error;
use crate::session::{Session, Statement};
use crate::value::{Column, Row, Value, time_text};

/// Rows of one `insert`; with the widest table well below the limit of 32,766 parameters.
const ROWS_AT_ONCE: usize = 32;

/// Reads on any of the reading threads; every statement sees the newest commit.
pub(super) struct ReadSession {
    threads: Threads,
}

impl ReadSession {
    pub(super) fn new(threads: Threads) -> Self {
        Self { threads }
    }
}

#[async_trait]
impl Session for ReadSession {
    async fn query(&mut self, sql: &str, params: Vec<Value>) -> Result<Vec<Row>, Error> {
        let sql = numbered(sql);
        self.threads
            .call(move |connection| query(connection, &sql, &params))
            .await
    }

    async fn query_all(&mut self, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, Error> {
        self.threads
            .call(move |connection| {
                // All of one moment; and the locks of the file are taken once.
                run(connection, "begin")?;
                let rows = query_all(connection, &statements);
                run(connection, "commit")?;
                rows
            })
            .await
    }

    async fn execute(&mut self, _sql: &str, _params: Vec<Value>) -> Result<u64, Error> {
        Err(read_only())
    }

    async fn execute_all(&mut self, _statements: Vec<Statement>) -> Result<Vec<u64>, Error> {
        Err(read_only())
    }

    async fn script(&mut self, _sql: &str) -> Result<(), Error> {
        Err(read_only())
    }

    async fn copy(&mut self, _: &str, _: &[Column], _: Vec<Row>) -> Result<(), Error> {
        Err(read_only())
    }

    async fn begin(&mut self) -> Result<(), Error> {
        Err(read_only())
    }

    async fn begin_under(&mut self, _lock: i64) -> Result<(), Error> {
        Err(read_only())
    }

    async fn commit(&mut self) -> Result<(), Error> {
        Err(read_only())
    }

    async fn rollback(&mut self) {}

    fn own_prefix(&mut self) -> String {
        String::new()
    }

    async fn clean(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

fn read_only() -> Error {
    Error::invalid("this connection only reads")
}

/// Writes on the one writing thread: inside of a transaction it keeps its turn.
pub(super) struct WriteSession {
    desk: Arc<Desk>,
    prefix: String,
    /// It may have tables of its own.
    staging: bool,
    turn: Option<OwnedMutexGuard<()>>,
}

impl WriteSession {
    pub(super) fn new(desk: Arc<Desk>, prefix: String) -> Self {
        Self {
            desk,
            prefix,
            staging: false,
            turn: None,
        }
    }

    async fn call<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        // A statement outside of a transaction must not become part of another session's.
        let _turn = match self.turn {
            Some(_) => None,
            None => Some(self.turn().await?),
        };
        self.desk.writer.call(work).await
    }

    async fn turn(&self) -> Result<OwnedMutexGuard<()>, Error> {
        let turn = Arc::clone(&self.desk.turn).lock_owned().await;
        for prefix in self.desk.take_litter() {
            let swept = self
                .desk
                .writer
                .call(move |connection| drop_tables(connection, &prefix));
            swept.await?;
        }
        Ok(turn)
    }
}

#[async_trait]
impl Session for WriteSession {
    async fn query(&mut self, sql: &str, params: Vec<Value>) -> Result<Vec<Row>, Error> {
        let sql = numbered(sql);
        self.call(move |connection| query(connection, &sql, &params))
            .await
    }

    async fn query_all(&mut self, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, Error> {
        self.call(move |connection| query_all(connection, &statements))
            .await
    }

    async fn execute(&mut self, sql: &str, params: Vec<Value>) -> Result<u64, Error> {
        let sql = numbered(sql);
        self.call(move |connection| execute(connection, &sql, &params))
            .await
    }

    async fn execute_all(&mut self, statements: Vec<Statement>) -> Result<Vec<u64>, Error> {
        self.call(move |connection| {
            let done = statements
                .iter()
                .map(|one| execute(connection, &numbered(&one.sql), &one.params));
            done.collect()
        })
        .await
    }

    async fn script(&mut self, sql: &str) -> Result<(), Error> {
        let sql = sql.to_owned();
        self.call(move |connection| {
            let mut batch = Batch::new(connection, &sql);
            while let Some(mut statement) = batch.next().map_err(|error| sorted(&error))? {
                let mut rows = statement.raw_query();
                while rows.next().map_err(|error| sorted(&error))?.is_some() {}
                drop(rows);
                tell_steps(&statement, &sql);
            }
            Ok(())
        })
        .await
    }

    async fn copy(&mut self, table: &str, columns: &[Column], rows: Vec<Row>) -> Result<(), Error> {
        let names: Vec<String> = columns.iter().map(|c| format!("\"{}\"", c.name)).collect();
        let head = format!("insert into {table} ({}) values ", names.join(", "));
        let width = columns.len();
        let inside = self.turn.is_some();
        self.call(move |connection| insert(connection, &head, width, &rows, inside))
            .await
    }

    async fn begin(&mut self) -> Result<(), Error> {
        let turn = self.turn().await?;
        self.turn = Some(turn);
        let begun = self.script("begin immediate").await;
        if begun.is_err() {
            self.turn = None;
        }
        begun
    }

    async fn begin_under(&mut self, _lock: i64) -> Result<(), Error> {
        self.begin().await
    }

    async fn begin_asking(
        &mut self,
        _lock: i64,
        statements: Vec<Statement>,
    ) -> Result<Vec<Vec<Row>>, Error> {
        // A session that is dropped after an error rolls back what was begun, if anything was.
        self.turn = Some(self.turn().await?);
        self.call(move |connection| {
            run(connection, "begin immediate")?;
            query_all(connection, &statements)
        })
        .await
    }

    async fn finish(&mut self, statements: Vec<Statement>) -> Result<(), Error> {
        self.call(move |connection| {
            for one in &statements {
                execute(connection, &numbered(&one.sql), &one.params)?;
            }
            run(connection, "commit")
        })
        .await?;
        self.turn = None;
        Ok(())
    }

    async fn commit(&mut self) -> Result<(), Error> {
        self.script("commit").await?;
        self.turn = None;
        Ok(())
    }

    async fn rollback(&mut self) {
        if self.turn.is_some() {
            self.desk.writer.post(roll_back);
            self.turn = None;
        }
    }

    fn own_prefix(&mut self) -> String {
        self.staging = true;
        self.prefix.clone()
    }

    async fn clean(&mut self) -> Result<(), Error> {
        let prefix = self.prefix.clone();
        self.call(move |connection| drop_tables(connection, &prefix))
            .await?;
        self.staging = false;
        Ok(())
    }
}

impl Drop for WriteSession {
    fn drop(&mut self) {
        if self.turn.is_some() {
            // Queued before the turn is given on.
            self.desk.writer.post(roll_back);
        }
        if self.staging {
            self.desk.leave(std::mem::take(&mut self.prefix));
        }
    }
}

fn roll_back(connection: &mut Connection) {
    if connection.is_autocommit() {
        return;
    }
    if let Err(error) = connection.execute_batch("rollback") {
        tracing::warn!(%error, "cannot roll back");
    }
}

fn drop_tables(connection: &mut Connection, prefix: &str) -> Result<(), Error> {
    let sql = "select name from temp.sqlite_master where type = 'table' and substr(name, 1, length(?1)) = ?1";
    let tables = query(connection, sql, &[Value::from(prefix)])?;
    if tables.is_empty() {
        return Ok(());
    }
    // Statements that are kept prepared would hold on to the tables.
    connection.flush_prepared_statement_cache();
    for table in tables {
        connection
            .execute_batch(&format!("drop table temp.\"{}\"", table.text(0)?))
            .map_err(|error| sorted(&error))?;
    }
    Ok(())
}

/// All or nothing, several rows a statement.
fn insert(
    connection: &mut Connection,
    head: &str,
    width: usize,
    rows: &[Row],
    inside: bool,
) -> Result<(), Error> {
    if inside {
        return insert_rows(connection, head, width, rows);
    }
    let transaction = connection.transaction().map_err(|error| sorted(&error))?;
    insert_rows(&transaction, head, width, rows)?;
    transaction.commit().map_err(|error| sorted(&error))
}

fn insert_rows(
    connection: &Connection,
    head: &str,
    width: usize,
    rows: &[Row],
) -> Result<(), Error> {
    let one = format!("({})", vec!["?"; width].join(", "));
    for some in rows.chunks(ROWS_AT_ONCE) {
        let sql = format!("{head}{}", vec![one.as_str(); some.len()].join(", "));
        let mut statement = connection
            .prepare_cached(&sql)
            .map_err(|error| sorted(&error))?;
        for (place, row) in some.iter().enumerate() {
            bind(&mut statement, place * width, &row.0)?;
        }
        statement.raw_execute().map_err(|error| sorted(&error))?;
    }
    Ok(())
}

fn bind(
    statement: &mut rusqlite::Statement<'_>,
    before: usize,
    params: &[Value],
) -> Result<(), Error> {
    for (place, value) in params.iter().enumerate() {
        statement
            .raw_bind_parameter(before + place + 1, value)
            .map_err(|error| sorted(&error))?;
    }
    Ok(())
}

/// A statement without parameters that answers nothing.
fn run(connection: &Connection, sql: &str) -> Result<(), Error> {
    execute(connection, sql, &[]).map(drop)
}

fn execute(connection: &Connection, sql: &str, params: &[Value]) -> Result<u64, Error> {
    let mut statement = connection
        .prepare_cached(sql)
        .map_err(|error| sorted(&error))?;
    bind(&mut statement, 0, params)?;
    let changed = statement.raw_execute().map_err(|error| sorted(&error))?;
    tell_steps(&statement, sql);
    Ok(u64::try_from(changed).unwrap_or(u64::MAX))
}

fn query_all(connection: &Connection, statements: &[Statement]) -> Result<Vec<Vec<Row>>, Error> {
    let rows = statements
        .iter()
        .map(|one| query(connection, &numbered(&one.sql), &one.params));
    rows.collect()
}

fn query(connection: &Connection, sql: &str, params: &[Value]) -> Result<Vec<Row>, Error> {
    let mut statement = connection
        .prepare_cached(sql)
        .map_err(|error| sorted(&error))?;
    bind(&mut statement, 0, params)?;
    let width = statement.column_count();
    let mut found = Vec::new();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(|error| sorted(&error))? {
        let cells: Result<Vec<Value>, Error> = (0..width)
            .map(|at| {
                let cell = row.get_ref(at).map_err(|error| sorted(&error))?;
                read(cell)
            })
            .collect();
        found.push(Row(cells?));
    }
    drop(rows);
    tell_steps(&statement, sql);
    Ok(found)
}

/// How much a statement took, in the steps of SQLite's machine: the same wherever it runs, so that a test can tell whether it
/// reads more the more there is.
fn tell_steps(statement: &rusqlite::Statement<'_>, sql: &str) {
    let steps = statement.reset_status(StatementStatus::VmStep);
    tracing::trace!(target: "cannery_database::steps", steps, sql);
}

fn read(cell: ValueRef<'_>) -> Result<Value, Error> {
    Ok(match cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Real(number) => Value::Float(number),
        ValueRef::Text(text) => Value::Text(
            String::from_utf8(text.to_vec())
                .map_err(|_| Error::corrupt("a text in the database is not UTF-8"))?,
        ),
        ValueRef::Blob(_) => return Err(Error::corrupt("a cell of the database holds bytes")),
    })
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Null => ToSqlOutput::Borrowed(ValueRef::Null),
            Self::Text(text) | Self::Json(text) => {
                ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes()))
            }
            Self::Int(number) => ToSqlOutput::Borrowed(ValueRef::Integer(*number)),
            Self::Float(number) => ToSqlOutput::Borrowed(ValueRef::Real(*number)),
            Self::Bool(truth) => ToSqlOutput::from(*truth),
            Self::Time(millis) => ToSqlOutput::from(time_text(*millis)),
        })
    }
}

/// `$1` is a name to SQLite, `?1` the first parameter.
fn numbered(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len());
    let mut rest = sql.chars().peekable();
    while let Some(c) = rest.next() {
        let number = c == '$' && rest.peek().is_some_and(char::is_ascii_digit);
        text.push(if number { '?' } else { c });
    }
    text
}
