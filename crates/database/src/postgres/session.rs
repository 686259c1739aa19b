//! A connection at work.

use std::pin::pin;

use async_trait::async_trait;
use deadpool_postgres::Object;
use futures::future::try_join_all;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};

use super::fault::sorted;
use super::value::wire_type;
use crate::error::Error;
use crate::session::{Session, Statement};
use crate::value::{Column, Row, Value};

/// What a temporary table's name begins with: other connections do not see it.
const PREFIX: &str = "stage_";

pub(super) struct PgSession {
    /// Taken out when the connection must not be used again.
    client: Option<Object>,
    /// Its statements are worth keeping prepared.
    reads: bool,
    /// The number of the lock that one writer at a time has.
    lock: i64,
    /// It is inside of a transaction.
    open: bool,
    /// It may have tables of its own.
    staging: bool,
}

impl PgSession {
    pub(super) fn new(client: Object, reads: bool, lock: i64) -> Self {
        Self {
            client: Some(client),
            reads,
            lock,
            open: false,
            staging: false,
        }
    }

    fn client(&self) -> Result<&Object, Error> {
        self.client
            .as_ref()
            .ok_or_else(|| Error::unavailable("the connection was given up"))
    }

    async fn rows(&self, sql: &str, params: &[Value]) -> Result<Vec<Row>, tokio_postgres::Error> {
        let Some(client) = &self.client else {
            return Ok(Vec::new());
        };
        let statement = if self.reads {
            client.prepare_cached(sql).await?
        } else {
            client.prepare(sql).await?
        };
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|p| p as _).collect();
        let rows = client.query(&statement, &params).await?;
        rows.iter()
            .map(|row| {
                let cells = (0..row.len()).map(|at| row.try_get(at));
                Ok(Row(cells.collect::<Result<_, _>>()?))
            })
            .collect()
    }
}

impl PgSession {
    async fn asked(&self, sql: &str, params: &[Value]) -> Result<Vec<Row>, Error> {
        let client = self.client()?;
        match self.rows(sql, params).await {
            // A table was made anew since the statement was prepared.
            Err(error) if self.reads && error.code() == Some(&SqlState::FEATURE_NOT_SUPPORTED) => {
                client.statement_cache.clear();
                self.rows(sql, params).await
            }
            answer => answer,
        }
        .map_err(|error| sorted(&error))
    }

    async fn executed(&self, sql: &str, params: &[Value]) -> Result<u64, Error> {
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|p| p as _).collect();
        let done = self.client()?.execute(sql, &params).await;
        done.map_err(|error| sorted(&error))
    }
}

#[async_trait]
impl Session for PgSession {
    async fn query(&mut self, sql: &str, params: Vec<Value>) -> Result<Vec<Row>, Error> {
        self.asked(sql, &params).await
    }

    async fn query_all(&mut self, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, Error> {
        let asked = statements
            .iter()
            .map(|one| self.asked(&one.sql, &one.params));
        try_join_all(asked).await
    }

    async fn execute(&mut self, sql: &str, params: Vec<Value>) -> Result<u64, Error> {
        self.executed(sql, &params).await
    }

    async fn execute_all(&mut self, statements: Vec<Statement>) -> Result<Vec<u64>, Error> {
        let done = statements
            .iter()
            .map(|one| self.executed(&one.sql, &one.params));
        try_join_all(done).await
    }

    async fn script(&mut self, sql: &str) -> Result<(), Error> {
        let done = self.client()?.batch_execute(sql).await;
        done.map_err(|error| sorted(&error))
    }

    async fn copy(&mut self, table: &str, columns: &[Column], rows: Vec<Row>) -> Result<(), Error> {
        let names: Vec<String> = columns.iter().map(|c| format!("\"{}\"", c.name)).collect();
        let types: Vec<Type> = columns.iter().map(|c| wire_type(c.column_type)).collect();
        let sql = format!(
            "copy {table} ({}) from stdin with (format binary)",
            names.join(", ")
        );
        let client = self.client()?;
        let copied = async {
            let sink = client.copy_in(&sql).await?;
            let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
            for row in &rows {
                writer.as_mut().write_raw(&row.0).await?;
            }
            writer.as_mut().finish().await
        };
        copied.await.map(drop).map_err(|error| sorted(&error))
    }

    async fn begin(&mut self) -> Result<(), Error> {
        self.begin_under(self.lock).await
    }

    async fn begin_under(&mut self, lock: i64) -> Result<(), Error> {
        self.open = true;
        self.script(&format!("begin; select pg_advisory_xact_lock({lock})"))
            .await
    }

    async fn commit(&mut self) -> Result<(), Error> {
        // In a transaction that failed, `commit` rolls back without a word.
        self.script("select 1; commit").await?;
        self.open = false;
        Ok(())
    }

    async fn rollback(&mut self) {
        if self.script("rollback").await.is_ok() {
            self.open = false;
        }
    }

    fn own_prefix(&mut self) -> String {
        self.staging = true;
        PREFIX.to_owned()
    }

    async fn clean(&mut self) -> Result<(), Error> {
        self.script("discard temp").await?;
        self.staging = false;
        Ok(())
    }
}

impl Drop for PgSession {
    fn drop(&mut self) {
        let dirty = self.open || self.staging;
        if let Some(client) = self.client.take_if(|_| dirty) {
            // The server rolls back and drops the tables when the connection ends.
            drop(Object::take(client));
        }
    }
}
