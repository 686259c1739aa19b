//! Features: tables of rows that a filter makes of measurements.

use cannery_database::{Column, Dialect, Row, Session, Value, settle, stored};
use serde::{Deserialize, Serialize};

use crate::catalog::{Catalog, refuse_newer};
use crate::error::Error;
use crate::name;

/// A feature, as the catalog needs it: which filter makes its rows is the pipeline's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feature {
    /// Its name; the table is `feature_<name>`.
    pub name: String,
    /// Its version, from 1: raised with every change of what it yields.
    pub version: u64,
    /// Rows made by this version or a later one need not be made again.
    pub min_compatible: u64,
    /// What its rows have, after the measurement and the number of the row.
    pub columns: Vec<Column>,
}

impl Feature {
    /// Checks names and numbers.
    ///
    /// # Errors
    /// `Invalid` with what is wrong.
    pub fn check(&self) -> Result<(), Error> {
        name::feature_table(&self.name)?;
        check_columns(&self.name, &self.columns)?;
        if self.version == 0 || self.min_compatible > self.version {
            return Err(Error::invalid(format!(
                "feature `{}`: the version is at least 1, and `min_compatible` is not above it",
                self.name
            )));
        }
        Ok(())
    }

    pub(crate) fn from_row(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            name: row.text(0)?,
            version: row.size(1)?,
            min_compatible: row.size(2)?,
            columns: columns_from(&row.text(3)?)?,
        })
    }
}

pub(crate) fn check_columns(table: &str, columns: &[Column]) -> Result<(), Error> {
    if columns.is_empty() || columns.len() > 200 {
        return Err(Error::invalid(format!(
            "`{table}` needs 1 to 200 columns, not {}",
            columns.len()
        )));
    }
    let mut seen = std::collections::BTreeSet::new();
    for column in columns {
        name::column(&column.name)?;
        if !seen.insert(&column.name) {
            return Err(Error::invalid(format!(
                "`{table}` has two columns `{}`",
                column.name
            )));
        }
    }
    Ok(())
}

pub(crate) fn columns_from(text: &str) -> Result<Vec<Column>, Error> {
    serde_json::from_str(text)
        .map_err(|error| Error::corrupt(format!("a declaration in the catalog: {error}")))
}

pub(crate) fn columns_text(columns: &[Column]) -> String {
    serde_json::to_string(columns).expect("names and types are always JSON")
}

/// The columns as SQL, `"a" text, "b" bigint`.
pub(crate) fn columns_sql(dialect: Dialect, columns: &[Column]) -> Result<String, Error> {
    let parts: Result<Vec<String>, Error> = columns
        .iter()
        .map(|column| {
            let sql_type = dialect.column(column.column_type);
            Ok(format!("{} {sql_type}", name::column(&column.name)?))
        })
        .collect();
    Ok(parts?.join(", "))
}

/// Their names as SQL.
pub(crate) fn names_sql(columns: &[Column]) -> Result<String, Error> {
    let names: Result<Vec<String>, Error> = columns.iter().map(|c| name::column(&c.name)).collect();
    Ok(names?.join(", "))
}

const LIST: &str = "select name, version, min_compatible, columns from feature";

/// All declared features, by name.
pub(crate) async fn all(session: &mut dyn Session) -> Result<Vec<Feature>, Error> {
    let rows = session
        .query(&format!("{LIST} order by name"), Vec::new())
        .await?;
    rows.iter().map(Feature::from_row).collect()
}

/// One feature.
pub(crate) async fn find(session: &mut dyn Session, name: &str) -> Result<Option<Feature>, Error> {
    let rows = session
        .query(&format!("{LIST} where name = $1"), vec![name.into()])
        .await?;
    rows.first().map(Feature::from_row).transpose()
}

impl Catalog {
    /// Declares a feature. The same again changes nothing; another set of columns makes the table anew, empty, and every
    /// file then asks for reprocessing.
    ///
    /// # Errors
    /// `Invalid`; `Newer` when the catalog has a later version of it.
    pub async fn declare_feature(&self, feature: &Feature) -> Result<(), Error> {
        feature.check()?;
        let mut session = self.begin().await?;
        let done = declare(session.as_mut(), self.dialect(), feature).await;
        settle(session, done).await
    }

    /// The features declared so far, by name.
    ///
    /// # Errors
    /// By kind.
    pub async fn features(&self) -> Result<Vec<Feature>, Error> {
        all(self.reader().await?.as_mut()).await
    }
}

async fn declare(
    session: &mut dyn Session,
    dialect: Dialect,
    feature: &Feature,
) -> Result<(), Error> {
    let known = find(session, &feature.name).await?;
    if let Some(known) = &known {
        refuse_newer("feature", &feature.name, known.version, feature.version)?;
        if known == feature {
            return Ok(());
        }
    }
    let columns = columns_text(&feature.columns);
    let values = vec![
        feature.name.as_str().into(),
        stored(feature.version)?,
        stored(feature.min_compatible)?,
        Value::Text(columns),
    ];
    session
        .execute(
            "insert into feature (name, version, min_compatible, columns) values ($1, $2, $3, $4) \
             on conflict (name) do update set version = excluded.version, \
             min_compatible = excluded.min_compatible, columns = excluded.columns",
            values,
        )
        .await?;
    if known.is_none_or(|known| known.columns != feature.columns) {
        make_table(session, dialect, feature).await?;
    }
    Ok(())
}

async fn make_table(
    session: &mut dyn Session,
    dialect: Dialect,
    feature: &Feature,
) -> Result<(), Error> {
    let table = name::feature_table(&feature.name)?;
    let columns = columns_sql(dialect, &feature.columns)?;
    session
        .script(&format!(
            "drop table if exists {table}; \
             create table {table} (measurement bigint not null, \"row\" bigint not null, {columns}, \
             primary key (measurement, \"row\"))"
        ))
        .await?;
    let of_feature = "feature = (select id from feature where name = $1)";
    for table in ["file_feature", "badrow"] {
        session
            .execute(
                &format!("delete from {table} where {of_feature}"),
                vec![feature.name.as_str().into()],
            )
            .await?;
    }
    Ok(())
}
