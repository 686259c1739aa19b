//! Aggregates: tables keyed by the date of the measurements, made by a query.

use cannery_database::{Column, Dialect, Row, Session, Value, settle, stored};
use serde::{Deserialize, Serialize};

use crate::catalog::{Catalog, refuse_newer};
use crate::error::Error;
use crate::feature::{check_columns, columns_from, columns_sql, columns_text, names_sql};
use crate::name;

/// An aggregate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aggregate {
    /// Its name; the table is `aggregate_<name>`, with a column `date` before the declared ones.
    pub name: String,
    /// Its version, from 1: raised with every change of the query.
    pub version: u64,
    /// The columns that the query answers with, in that order.
    pub columns: Vec<Column>,
    /// One `select` that answers with the rows of the date `$1`, a text `<yyyy>-<mm>-<dd>`.
    pub query: String,
}

impl Aggregate {
    fn check(&self) -> Result<(), Error> {
        name::aggregate_table(&self.name)?;
        check_columns(&self.name, &self.columns)?;
        name::text("the query of an aggregate", &self.query)?;
        let first = self.query.trim_start().to_ascii_lowercase();
        let reads = first.starts_with("select") || first.starts_with("with");
        if self.version == 0 || !reads || self.query.contains(';') || !self.query.contains("$1") {
            return Err(Error::invalid(format!(
                "aggregate `{}`: the version is at least 1, and the query is one `select` without `;` that uses the date `$1`",
                self.name
            )));
        }
        Ok(())
    }

    fn from_row(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            name: row.text(0)?,
            version: row.size(1)?,
            columns: columns_from(&row.text(2)?)?,
            query: row.text(3)?,
        })
    }
}

/// The dates that have measurements: one step down the index for each, rather than a walk over all measurements.
const DATES: &str = "with recursive d (date) as ( \
      select min(date) from measurement where date is not null \
      union all \
      select (select min(m.date) from measurement m where m.date > d.date) \
      from d where d.date is not null)";

const LIST: &str = "select name, version, columns, query from aggregate";

pub(crate) async fn all(session: &mut dyn Session) -> Result<Vec<Aggregate>, Error> {
    let rows = session
        .query(&format!("{LIST} order by name"), Vec::new())
        .await?;
    rows.iter().map(Aggregate::from_row).collect()
}

impl Catalog {
    /// Declares an aggregate. The same again changes nothing and answers false; anything else makes the table anew, empty,
    /// and answers true: all dates of [`Catalog::dates`] are then among the [`Catalog::touched_dates`].
    ///
    /// # Errors
    /// `Invalid`, also when the database does not understand the query; `Newer` when the catalog has a later version.
    pub async fn declare_aggregate(&self, aggregate: &Aggregate) -> Result<bool, Error> {
        aggregate.check()?;
        let mut session = self.begin().await?;
        let done = declare(session.as_mut(), self.dialect(), aggregate).await;
        let done = done.map_err(|error| error.while_doing(told(&aggregate.name)));
        settle(session, done).await
    }

    /// The aggregates declared so far, by name.
    ///
    /// # Errors
    /// By kind.
    pub async fn aggregates(&self) -> Result<Vec<Aggregate>, Error> {
        all(self.reader().await?.as_mut()).await
    }

    /// The dates whose aggregates are to be computed anew, in order: since they were computed last, a load has touched them or
    /// an aggregate was declared.
    ///
    /// # Errors
    /// By kind.
    pub async fn touched_dates(&self) -> Result<Vec<String>, Error> {
        let sql = "select date from touched_date order by date";
        let rows = self.reader().await?.query(sql, Vec::new()).await?;
        rows.iter().map(|row| Ok(row.text(0)?)).collect()
    }

    /// Computes all aggregates anew for these dates, each date in a transaction of its own, which are touched no more then.
    /// May be repeated.
    ///
    /// # Errors
    /// `Invalid` for what is no date, and when a query fails; by kind.
    pub async fn recompute<'a>(
        &self,
        dates: impl IntoIterator<Item = &'a str> + Send,
    ) -> Result<(), Error> {
        let dates: Vec<&str> = dates.into_iter().collect();
        for date in dates {
            name::date(date)?;
            let mut session = self.begin().await?;
            let done = recompute(session.as_mut(), date).await;
            settle(session, done).await?;
        }
        Ok(())
    }

    /// The dates that have measurements, in order.
    ///
    /// # Errors
    /// By kind.
    pub async fn dates(&self) -> Result<Vec<String>, Error> {
        let sql = format!("{DATES} select date from d where date is not null order by date");
        let rows = self.reader().await?.query(&sql, Vec::new()).await?;
        rows.iter().map(|row| Ok(row.text(0)?)).collect()
    }
}

fn told(name: &str) -> String {
    format!("aggregate `{name}`")
}

async fn declare(
    session: &mut dyn Session,
    dialect: Dialect,
    aggregate: &Aggregate,
) -> Result<bool, Error> {
    let name: Value = aggregate.name.as_str().into();
    let rows = session
        .query(&format!("{LIST} where name = $1"), vec![name.clone()])
        .await?;
    if let Some(row) = rows.first() {
        let known = Aggregate::from_row(row)?;
        refuse_newer("aggregate", &known.name, known.version, aggregate.version)?;
        if &known == aggregate {
            return Ok(false);
        }
    }
    let values = vec![
        name,
        stored(aggregate.version)?,
        columns_text(&aggregate.columns).into(),
        aggregate.query.as_str().into(),
    ];
    session
        .execute(
            "insert into aggregate (name, version, columns, query) values ($1, $2, $3, $4) \
             on conflict (name) do update set version = excluded.version, \
             columns = excluded.columns, query = excluded.query",
            values,
        )
        .await?;
    make_table(session, dialect, aggregate).await?;
    // A date that nothing has: the database says here whether it understands the query.
    fill(session, aggregate, "0001-01-01").await?;
    let sql = format!(
        "{DATES} insert into touched_date (date) select date from d where date is not null \
         on conflict (date) do nothing"
    );
    session.execute(&sql, Vec::new()).await?;
    Ok(true)
}

/// Notes that the aggregates of these dates are to be computed, if there are any.
pub(crate) async fn touch<'a>(
    session: &mut dyn Session,
    dates: impl IntoIterator<Item = &'a String>,
) -> Result<(), Error> {
    for date in dates {
        session
            .execute(
                "insert into touched_date (date) select cast($1 as text) \
                 where exists (select 1 from aggregate) on conflict (date) do nothing",
                vec![date.as_str().into()],
            )
            .await?;
    }
    Ok(())
}

async fn make_table(
    session: &mut dyn Session,
    dialect: Dialect,
    aggregate: &Aggregate,
) -> Result<(), Error> {
    let table = name::aggregate_table(&aggregate.name)?;
    let columns = columns_sql(dialect, &aggregate.columns)?;
    let text = dialect.column(cannery_database::ColumnType::Text);
    let index = format!("\"aggregate_{}_date\"", aggregate.name);
    session
        .script(&format!(
            "drop table if exists {table}; \
             create table {table} (date {text} not null, {columns}); \
             create index {index} on {table} (date)"
        ))
        .await?;
    Ok(())
}

async fn recompute(session: &mut dyn Session, date: &str) -> Result<(), Error> {
    for aggregate in all(session).await? {
        let filled = fill(session, &aggregate, date).await;
        filled.map_err(|error| error.while_doing(told(&aggregate.name)))?;
    }
    session
        .execute(
            "delete from touched_date where date = $1",
            vec![date.into()],
        )
        .await?;
    Ok(())
}

async fn fill(session: &mut dyn Session, aggregate: &Aggregate, date: &str) -> Result<(), Error> {
    let table = name::aggregate_table(&aggregate.name)?;
    let names = names_sql(&aggregate.columns)?;
    let params = || vec![Value::from(date)];
    session
        .execute(&format!("delete from {table} where date = $1"), params())
        .await?;
    let sql = format!(
        "insert into {table} (date, {names}) select cast($1 as text), answer.* from ({}) answer",
        aggregate.query
    );
    session.execute(&sql, params()).await?;
    Ok(())
}
