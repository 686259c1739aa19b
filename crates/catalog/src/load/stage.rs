//! Where a load waits for its commit: tables of the session's own, and what is not in them yet.

use cannery_database::{Column, ColumnType, Dialect, Row, Session, Value};

use crate::error::Error;
use crate::feature::Feature;

/// So much is kept in memory, about.
const BYTES_MAX: usize = 1024 * 1024;

/// A table and the rows that are not in it yet.
struct Pile {
    table: String,
    columns: Vec<Column>,
    rows: Vec<Row>,
}

pub(super) struct Stage {
    prefix: String,
    dialect: Dialect,
    bytes: usize,
    /// Reports, measurements, bad pieces, bad rows, residual; then the features.
    piles: Vec<Pile>,
}

const REPORT: usize = 0;
const MEASUREMENT: usize = 1;
const BADBLOB: usize = 2;
const BADROW: usize = 3;
const RESIDUAL: usize = 4;
const FEATURES: usize = 5;

impl Stage {
    pub(super) async fn make(
        session: &mut dyn Session,
        dialect: Dialect,
        features: &[Feature],
    ) -> Result<Self, Error> {
        let prefix = session.own_prefix();
        let mut piles = own_piles(&prefix);
        for (at, feature) in features.iter().enumerate() {
            let mut columns = vec![int("seq"), int("row")];
            columns.extend(feature.columns.iter().cloned());
            piles.push(Pile::new(format!("{prefix}f{at}"), columns));
        }
        let script: Vec<String> = piles.iter().map(|pile| pile.create(dialect)).collect();
        session.script(&script.join("; ")).await?;
        Ok(Self {
            prefix,
            dialect,
            bytes: 0,
            piles,
        })
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.dialect
    }

    pub(super) fn report(&mut self, row: Vec<Value>) {
        self.put(REPORT, row);
    }

    pub(super) fn measurement(&mut self, row: Vec<Value>) {
        self.put(MEASUREMENT, row);
    }

    pub(super) fn badblob(&mut self, row: Vec<Value>) {
        self.put(BADBLOB, row);
    }

    pub(super) fn badrow(&mut self, row: Vec<Value>) {
        self.put(BADROW, row);
    }

    pub(super) fn residual(&mut self, row: Vec<Value>) {
        self.put(RESIDUAL, row);
    }

    /// A row of the feature at this place.
    pub(super) fn row(&mut self, at: usize, row: Vec<Value>) {
        self.put(FEATURES + at, row);
    }

    fn put(&mut self, at: usize, row: Vec<Value>) {
        self.bytes += row.iter().map(Value::weight).sum::<usize>();
        self.piles[at].rows.push(Row(row));
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes >= BYTES_MAX
    }

    pub(super) async fn flush(&mut self, session: &mut dyn Session) -> Result<(), Error> {
        for pile in &mut self.piles {
            if !pile.rows.is_empty() {
                let rows = std::mem::take(&mut pile.rows);
                session.copy(&pile.table, &pile.columns, rows).await?;
            }
        }
        self.bytes = 0;
        Ok(())
    }

    /// All is there: a planner that knows nothing of the new tables guesses wrong.
    pub(super) async fn loaded(&self, session: &mut dyn Session) -> Result<(), Error> {
        if self.dialect == Dialect::Postgres {
            let tables: Vec<&str> = self.piles.iter().map(|pile| pile.table.as_str()).collect();
            session
                .script(&format!("analyze {}", tables.join(", ")))
                .await?;
        }
        Ok(())
    }
}

impl Pile {
    fn new(table: String, columns: Vec<Column>) -> Self {
        Self {
            table,
            columns,
            rows: Vec::new(),
        }
    }

    fn create(&self, dialect: Dialect) -> String {
        let columns: Vec<String> = self
            .columns
            .iter()
            .map(|column| format!("\"{}\" {}", column.name, dialect.column(column.column_type)))
            .collect();
        format!("create temp table {} ({})", self.table, columns.join(", "))
    }
}

fn own_piles(prefix: &str) -> Vec<Pile> {
    let pile = |name: &str, columns: Vec<Column>| Pile::new(format!("{prefix}{name}"), columns);
    vec![
        pile(
            "report",
            vec![
                int("seq"),
                text("textname"),
                int("src_size"),
                text("node"),
                text("hour"),
            ],
        ),
        pile("measurement", measurement_columns()),
        pile(
            "badblob",
            vec![
                int("seq"),
                int("report"),
                int("src_off"),
                int("src_size"),
                text("info"),
            ],
        ),
        pile(
            "badrow",
            vec![
                text("feature"),
                int("seq"),
                int("row"),
                text("uid"),
                text("reason"),
                text("data"),
            ],
        ),
        pile(
            "residual",
            vec![text("hash"), text("skeleton"), int("count")],
        ),
    ]
}

fn measurement_columns() -> Vec<Column> {
    let mut columns = vec![int("seq"), text("uid"), int("report")];
    columns.extend(
        [
            "frame_off",
            "frame_size",
            "intra_off",
            "intra_size",
            "time_ms",
        ]
        .map(int),
    );
    columns.push(text("date"));
    columns.push(int("digest"));
    columns
}

fn int(name: &str) -> Column {
    Column::new(name, ColumnType::Int)
}

fn text(name: &str) -> Column {
    Column::new(name, ColumnType::Text)
}
