//! The counts of a journal: one row for each transaction that counts anything, so that nobody waits for anybody, added
//! up from time to time. A row that were updated would grow a chain of dead versions while an old transaction is open.

use tokio_postgres::Row;

use super::pool::Step;
use crate::op::Counts;

/// The columns in the order of [`Counts::values`].
pub(super) fn columns() -> [&'static str; 15] {
    Counts::default().fields_mut().map(|(name, _)| name)
}

/// A statement that counts these.
pub(super) fn insert(table: &str) -> String {
    let names = columns().join(", ");
    let values: Vec<String> = (1..=columns().len())
        .map(|n| format!("${n}::bigint"))
        .collect();
    format!(
        "insert into {table} ({names}) values ({})",
        values.join(", ")
    )
}

/// The step that counts these, unless there is nothing to count.
pub(super) fn step<'a>(sql: &'a str, counts: &Counts) -> Option<Step<'a>> {
    if *counts == Counts::default() {
        return None;
    }
    let params = counts
        .values()
        .into_iter()
        .map(|count| Box::new(i64::try_from(count).ok().filter(|count| *count > 0)) as _)
        .collect();
    Some(Step { sql, params })
}

/// The sums as a list of expressions.
pub(super) fn sums() -> String {
    columns()
        .map(|name| format!("coalesce(sum({name}), 0)::bigint"))
        .join(", ")
}

/// Counts from a row of [`sums`] that begins at a column.
pub(super) fn read(row: &Row, from: usize) -> Counts {
    let values: Vec<u64> = (from..from + columns().len())
        .map(|column| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0))
        .collect();
    Counts::from_values(&values)
}
