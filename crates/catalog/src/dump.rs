//! The whole catalog in one order, without ids and times of loading: what a rebuilt catalog must be equal to.
//!
//! The rows of both engines look the same, so that a catalog in a file can be compared with one in PostgreSQL. It is read in
//! pages, never as a whole; while it is read nothing should be loaded.

use std::collections::VecDeque;

use data_encoding::HEXLOWER;
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};

use cannery_database::{Column, Row, Session, Value, time_text};
use serde::Serialize;

use crate::aggregate;
use crate::catalog::Catalog;
use crate::error::Error;
use crate::feature::{self, names_sql};
use crate::name;

const ROWS_AT_ONCE: usize = 1000;

/// What a table holds, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableDump {
    /// The table.
    pub table: String,
    /// Its rows.
    pub rows: u64,
    /// SHA-256 over them, in hex.
    pub sha256: String,
}

/// Where two catalogs begin to differ in a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The table.
    pub table: String,
    /// The first row that differs, as a JSON array; none when the left one has no more.
    pub left: Option<String>,
    /// The same on the right.
    pub right: Option<String>,
}

/// A table of a catalog, row by row in the order of the dump.
pub struct Dump {
    session: Box<dyn Session>,
    source: Source,
    after: Option<Vec<Value>>,
    rows: VecDeque<String>,
    ended: bool,
}

impl std::fmt::Debug for Dump {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dump")
            .field("table", &self.source.table)
            .finish_non_exhaustive()
    }
}

/// How a table is read.
#[derive(Clone, Debug)]
struct Source {
    table: String,
    /// What a row is known and ordered by.
    keys: Vec<String>,
    columns: String,
    tables: String,
    /// Rows may be equal in the keys: all of them are read at once and put in order here.
    groups: bool,
}

const PLACE: &str = "r.textname, {}.seq, {}.frame_off, {}.frame_size, {}.intra_off, {}.intra_size, \
    {}.time_ms, {}.date, k.name, {}.digest";

/// The catalog's own tables: name, keys, columns, tables.
fn own() -> Vec<Source> {
    let place = |letter: &str| PLACE.replace("{}", letter);
    let placed = |table: &str, x: &str| {
        format!(
            "{table} {x} join file f on f.id = {x}.file join report r on r.id = {x}.report \
             join kind k on k.id = {x}.kind"
        )
    };
    vec![
        Source::new(
            "file",
            "f.name",
            "f.generation, f.bucket, k.name, f.file_sha1, f.text_sha1, f.file_size, f.text_size, \
             f.rules_hash, f.reports, f.measurements, f.badblobs",
            "file f join kind k on k.id = f.kind",
        ),
        Source::new(
            "feature",
            "t.name",
            "t.version, t.min_compatible, t.columns",
            "feature t",
        ),
        Source::new(
            "aggregate",
            "t.name",
            "t.version, t.columns, t.query",
            "aggregate t",
        ),
        Source::new(
            "file_feature",
            "f.name, t.name",
            "v.version",
            "file_feature v join file f on f.id = v.file join feature t on t.id = v.feature",
        ),
        Source::new(
            "report",
            "f.name, r.seq",
            "r.textname, r.src_size, r.node, r.hour",
            "report r join file f on f.id = r.file",
        ),
        Source::new(
            "measurement",
            "m.uid",
            &format!("f.name, {}", place("m")),
            &placed("measurement", "m"),
        ),
        Source::new(
            "duplicate",
            "f.name, d.seq",
            &format!("d.uid, {}", place("d")),
            &placed("duplicate", "d"),
        ),
        Source::new(
            "badblob",
            "f.name, b.seq",
            "r.textname, b.src_off, b.src_size, w.text",
            "badblob b join file f on f.id = b.file join report r on r.id = b.report \
             join reason w on w.id = b.reason",
        ),
        Source::new(
            "badrow",
            "f.name, t.name, b.seq, b.\"row\"",
            "b.uid, w.text, b.data",
            "badrow b join file f on f.id = b.file join feature t on t.id = b.feature \
             join reason w on w.id = b.reason",
        ),
        Source::new(
            "residual",
            "f.name, s.hash",
            "s.text, x.count",
            "residual x join file f on f.id = x.file join skeleton s on s.id = x.skeleton",
        ),
        Source::new(
            "coverage",
            "c.subject, c.name, c.hour",
            "c.expected, c.present, c.bytes, c.state",
            "coverage c",
        ),
    ]
}

impl Source {
    fn new(table: &str, keys: &str, columns: &str, tables: &str) -> Self {
        Self {
            table: table.to_owned(),
            keys: keys.split(", ").map(str::to_owned).collect(),
            columns: columns.to_owned(),
            tables: tables.to_owned(),
            groups: false,
        }
    }

    fn of_feature(name: &str, columns: &[Column]) -> Result<Self, Error> {
        let table = name::feature_table(name)?;
        let tables = format!("{table} t join measurement m on m.id = t.measurement");
        let columns = prefixed(&names_sql(columns)?);
        Ok(Self::new(
            table.trim_matches('"'),
            "m.uid, t.\"row\"",
            &columns,
            &tables,
        ))
    }

    fn of_aggregate(name: &str, columns: &[Column]) -> Result<Self, Error> {
        let table = name::aggregate_table(name)?;
        let columns = prefixed(&names_sql(columns)?);
        let mut source = Self::new(
            table.trim_matches('"'),
            "t.date",
            &columns,
            &format!("{table} t"),
        );
        source.groups = true;
        Ok(source)
    }

    /// The query of the rows after a key, and its parameters.
    fn page(&self, after: Option<&Vec<Value>>) -> (String, Vec<Value>) {
        let keys = self.keys.join(", ");
        let (from, columns) = (&self.tables, &self.columns);
        let (condition, params) = match after {
            None => (String::new(), Vec::new()),
            Some(after) => {
                let places: Vec<String> = (1..=after.len()).map(|at| format!("${at}")).collect();
                // The first comparison is what an index can be entered with.
                let condition = format!(
                    "where {} >= $1 and ({keys}) > ({})",
                    self.keys[0],
                    places.join(", ")
                );
                (condition, after.clone())
            }
        };
        if !self.groups {
            let sql = format!(
                "select {keys}, {columns} from {from} {condition} order by {keys} limit {ROWS_AT_ONCE}"
            );
            return (sql, params);
        }
        let sql = format!(
            "select {keys}, {columns} from {from} \
             where {keys} = (select min({keys}) from {from} {condition})"
        );
        (sql, params)
    }
}

/// `"a", "b"` as `t."a", t."b"`.
fn prefixed(names: &str) -> String {
    let names: Vec<String> = names.split(", ").map(|name| format!("t.{name}")).collect();
    names.join(", ")
}

impl Dump {
    /// The table that it reads.
    #[must_use]
    pub fn table(&self) -> &str {
        &self.source.table
    }

    /// The next row, as a JSON array; none after the last.
    ///
    /// # Errors
    /// By kind.
    pub async fn next(&mut self) -> Result<Option<String>, Error> {
        if self.rows.is_empty() && !self.ended {
            let (sql, params) = self.source.page(self.after.as_ref());
            let page = self.session.query(&sql, params).await?;
            self.ended = page.is_empty() || !self.source.groups && page.len() < ROWS_AT_ONCE;
            if let Some(last) = page.last() {
                self.after = Some(last.0[..self.source.keys.len()].to_vec());
            }
            let mut rows: Vec<String> = page.iter().map(canonical).collect();
            if self.source.groups {
                rows.sort_unstable();
            }
            self.rows = rows.into();
        }
        Ok(self.rows.pop_front())
    }
}

/// A row as both engines have it.
fn canonical(row: &Row) -> String {
    let cells = row.0.iter().map(|cell| match cell {
        Value::Null => Json::Null,
        Value::Text(text) | Value::Json(text) => json!(text),
        Value::Int(number) => json!(number),
        Value::Float(number) => json!(number),
        Value::Bool(truth) => json!(i64::from(*truth)),
        Value::Time(millis) => json!(time_text(*millis)),
    });
    Json::Array(cells.collect()).to_string()
}

impl Catalog {
    /// Every table, to be read row by row: the catalog's own, then those of features and aggregates.
    ///
    /// # Errors
    /// By kind.
    pub async fn tables(&self) -> Result<Vec<String>, Error> {
        let sources = self.sources().await?;
        Ok(sources.into_iter().map(|source| source.table).collect())
    }

    /// A table, row by row.
    ///
    /// # Errors
    /// `Invalid` when there is no such table; by kind.
    pub async fn dump(&self, table: &str) -> Result<Dump, Error> {
        let mut sources = self.sources().await?.into_iter();
        let source = sources.find(|source| source.table == table);
        Ok(Dump {
            session: self.reader().await?,
            source: source.ok_or_else(|| Error::invalid(format!("there is no table `{table}`")))?,
            after: None,
            rows: VecDeque::new(),
            ended: false,
        })
    }

    /// The number and the hash of the rows of every table.
    ///
    /// # Errors
    /// By kind.
    pub async fn hashes(&self) -> Result<Vec<TableDump>, Error> {
        let mut hashes = Vec::new();
        for table in self.tables().await? {
            let mut dump = self.dump(&table).await?;
            let (mut rows, mut hash) = (0, Sha256::new());
            while let Some(row) = dump.next().await? {
                rows += 1;
                hash.update(row.as_bytes());
                hash.update(b"\n");
            }
            hashes.push(TableDump {
                table,
                rows,
                sha256: HEXLOWER.encode(&hash.finalize()),
            });
        }
        Ok(hashes)
    }

    /// Compares two catalogs table by table; none is equal. A table that one of them does not have counts as empty.
    ///
    /// # Errors
    /// By kind.
    pub async fn differences(&self, other: &Self) -> Result<Vec<Difference>, Error> {
        let mut tables = self.tables().await?;
        for table in other.tables().await? {
            if !tables.contains(&table) {
                tables.push(table);
            }
        }
        let mut differences = Vec::new();
        for table in tables {
            let mut left = self.dump_if_there(&table).await?;
            let mut right = other.dump_if_there(&table).await?;
            loop {
                let rows = (next_of(&mut left).await?, next_of(&mut right).await?);
                match rows {
                    (None, None) => break,
                    (left, right) if left == right => {}
                    (left, right) => {
                        differences.push(Difference { table, left, right });
                        break;
                    }
                }
            }
        }
        Ok(differences)
    }

    async fn dump_if_there(&self, table: &str) -> Result<Option<Dump>, Error> {
        if !self.tables().await?.iter().any(|known| known == table) {
            return Ok(None);
        }
        self.dump(table).await.map(Some)
    }

    async fn sources(&self) -> Result<Vec<Source>, Error> {
        let mut session = self.reader().await?;
        let mut sources = own();
        for feature in feature::all(session.as_mut()).await? {
            sources.push(Source::of_feature(&feature.name, &feature.columns)?);
        }
        for aggregate in aggregate::all(session.as_mut()).await? {
            sources.push(Source::of_aggregate(&aggregate.name, &aggregate.columns)?);
        }
        Ok(sources)
    }
}

async fn next_of(dump: &mut Option<Dump>) -> Result<Option<String>, Error> {
    match dump {
        Some(dump) => dump.next().await,
        None => Ok(None),
    }
}
