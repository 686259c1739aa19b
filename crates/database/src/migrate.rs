//! Brings a database up to date: numbered SQL files, only ever added.

use crate::database::{Schema, settle};
use crate::error::{Error, ErrorKind};
use crate::session::{Dialect, Engine, Session};
use crate::value::Value;

/// Applies what is missing; any number of processes may do so at once. Refuses a database that is newer.
pub(crate) async fn migrate(engine: &dyn Engine, schema: &Schema) -> Result<(), Error> {
    let mut session = engine.writer().await?;
    session.begin().await?;
    let done = apply(session.as_mut(), engine.dialect(), schema).await;
    settle(session, done).await
}

async fn apply(session: &mut dyn Session, dialect: Dialect, schema: &Schema) -> Result<(), Error> {
    if dialect == Dialect::Postgres {
        // Who may only use the schema must not fail on creating it.
        let namespace = schema.namespace;
        let create = format!(
            "do $$ begin if to_regnamespace('{namespace}') is null then \
             create schema {namespace}; end if; end $$"
        );
        session.script(&create).await?;
    }
    session
        .script("create table if not exists migration (number bigint primary key)")
        .await?;
    let reached = reached(session).await?;
    let known = schema.migrations(dialect);
    if reached > known.len() {
        return Err(newer(schema.name, reached, known.len()));
    }
    for (place, migration) in known.iter().enumerate().skip(reached) {
        session.script(migration).await?;
        let number = i64::try_from(place + 1).unwrap_or(i64::MAX);
        session
            .execute(
                "insert into migration (number) values ($1)",
                vec![Value::Int(number)],
            )
            .await?;
    }
    Ok(())
}

/// The number of the last migration.
pub(crate) async fn reached(session: &mut dyn Session) -> Result<usize, Error> {
    let rows = session
        .query("select coalesce(max(number), 0) from migration", Vec::new())
        .await?;
    let reached = rows.first().map_or(Ok(0), |row| row.int(0))?;
    usize::try_from(reached)
        .map_err(|_| Error::corrupt("the database has a migration of a negative number"))
}

fn newer(name: &str, reached: usize, known: usize) -> Error {
    Error::new(
        ErrorKind::Newer,
        format!(
            "the {name} has version {reached}, this program knows {known}; use the newer program"
        ),
    )
}
