//! Questions of pages that people look at: bounded, whatever the catalog holds, and without anything that was not sanitised.

use std::collections::BTreeMap;

use cannery_database::{Row, Value};
use serde::Serialize;

use crate::catalog::Catalog;
use crate::error::Error;

/// A cell is for a person to recognise, not to read whole.
const CELL_CHARS_MAX: u32 = 300;

/// Reasons that are counted, before those that differ in a position are taken together.
const REASONS_MAX: i64 = 5_000;

/// A reason without its positions: the same at another byte is the same reason.
fn general(reason: &str) -> String {
    let mut pieces = reason.split("byte ");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.trim_start_matches(|c: char| c.is_ascii_digit());
        let position = if rest.len() < piece.len() { "…" } else { "" };
        text = text + "byte " + position + rest;
    }
    text
}

/// The rows that a feature has of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FeatureRows {
    /// The feature.
    pub feature: String,
    /// The names of its columns.
    pub columns: Vec<String>,
    /// The first rows, as text that is cut; nothing for an empty cell.
    pub rows: Vec<Vec<Option<String>>>,
}

/// How often something was bad for a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BadCount {
    /// The kind of the files.
    pub kind: String,
    /// The feature that was to get the rows; nothing for pieces that could not be read.
    pub feature: Option<String>,
    /// What is wrong; positions are left out.
    pub reason: String,
    /// How often.
    pub count: u64,
    /// The first and the last that was loaded.
    pub examples: Vec<BadExample>,
}

/// Where something bad is; not what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BadExample {
    /// The file.
    pub file: String,
    /// The report of a piece, or the measurement of a row.
    pub of: String,
    /// The first byte of a piece in the report as it came, or the number of a row.
    pub at: u64,
    /// The bytes of a piece.
    pub size: Option<u64>,
}

/// What differs between pieces and rows.
struct Bad {
    tables: &'static str,
    feature: &'static str,
    /// What is grouped by besides the kind and the reason.
    group: &'static str,
    place: &'static str,
}

const BLOBS: Bad = Bad {
    tables: "badblob b join file f on f.id = b.file join kind k on k.id = f.kind \
             join report r on r.id = b.report join reason w on w.id = b.reason",
    feature: "''",
    group: "",
    place: "r.textname, b.src_off, b.src_size",
};

const ROWS: Bad = Bad {
    tables: "badrow b join file f on f.id = b.file join kind k on k.id = f.kind \
             join feature t on t.id = b.feature join reason w on w.id = b.reason",
    feature: "t.name",
    group: ", t.name",
    place: "b.uid, b.\"row\", 0",
};

impl Catalog {
    /// The rows that each feature has of a measurement, at most `limit` each. Features without any are left out.
    ///
    /// # Errors
    /// By kind.
    pub async fn feature_rows(&self, uid: &str, limit: u32) -> Result<Vec<FeatureRows>, Error> {
        let mut found = Vec::new();
        for feature in self.features().await? {
            let table = crate::name::feature_table(&feature.name)?;
            let cells: Result<Vec<String>, Error> = feature
                .columns
                .iter()
                .map(|column| {
                    let name = crate::name::column(&column.name)?;
                    Ok(format!("substr(cast({name} as text), 1, {CELL_CHARS_MAX})"))
                })
                .collect();
            let sql = format!(
                "select {} from {table} where measurement = (select id from measurement where uid = $1) \
                 order by \"row\" limit $2",
                cells?.join(", ")
            );
            let params = vec![uid.into(), Value::Int(limit.into())];
            let rows = self.reader().await?.query(&sql, params).await?;
            if rows.is_empty() {
                continue;
            }
            let width = feature.columns.len();
            let texts = |row: &Row| (0..width).map(|at| Ok(row.maybe_text(at)?)).collect();
            let rows: Result<Vec<Vec<Option<String>>>, Error> = rows.iter().map(texts).collect();
            found.push(FeatureRows {
                columns: feature.columns.into_iter().map(|c| c.name).collect(),
                feature: feature.name,
                rows: rows?,
            });
        }
        Ok(found)
    }

    /// How often pieces and rows were bad for each reason and kind, the most frequent first, at most `limit` of each. The
    /// range is of buckets, the second not in it.
    ///
    /// # Errors
    /// By kind.
    pub async fn bad_counts(
        &self,
        buckets: (&str, &str),
        limit: u32,
    ) -> Result<Vec<BadCount>, Error> {
        let mut counts = self.counted(&BLOBS, buckets, limit).await?;
        counts.extend(self.counted(&ROWS, buckets, limit).await?);
        Ok(counts)
    }

    async fn counted(
        &self,
        bad: &Bad,
        (from, to): (&str, &str),
        limit: u32,
    ) -> Result<Vec<BadCount>, Error> {
        let Bad {
            tables,
            feature,
            group,
            ..
        } = bad;
        let sql = format!(
            "select k.name, {feature}, w.text, count(*) as seen, min(b.id), max(b.id) from {tables} \
             where f.bucket >= $1 and f.bucket < $2 group by k.name, w.text{group} \
             order by seen desc, k.name, w.text{group} limit $3"
        );
        let params = vec![from.into(), to.into(), Value::Int(REASONS_MAX)];
        let rows = self.reader().await?.query(&sql, params).await?;
        let mut sums: BTreeMap<(String, String, String), (u64, i64, i64)> = BTreeMap::new();
        for row in &rows {
            let key = (row.text(0)?, row.text(1)?, general(&row.text(2)?));
            let (seen, first, last) = (row.size(3)?, row.int(4)?, row.int(5)?);
            let sum = sums.entry(key).or_insert((0, first, last));
            *sum = (sum.0 + seen, sum.1.min(first), sum.2.max(last));
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(_, (seen, ..))| std::cmp::Reverse(*seen));
        sums.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        let mut counts = Vec::new();
        for ((kind, feature, reason), (count, first, last)) in sums {
            counts.push(BadCount {
                kind,
                feature: Some(feature).filter(|name| !name.is_empty()),
                reason,
                count,
                examples: self.examples(bad, first, last).await?,
            });
        }
        Ok(counts)
    }

    async fn examples(&self, bad: &Bad, first: i64, last: i64) -> Result<Vec<BadExample>, Error> {
        let Bad { tables, place, .. } = bad;
        let sql =
            format!("select f.name, {place} from {tables} where b.id in ($1, $2) order by b.id");
        let params = vec![first.into(), last.into()];
        let rows = self.reader().await?.query(&sql, params).await?;
        let example = |row: &Row| {
            Ok(BadExample {
                file: row.text(0)?,
                of: row.text(1)?,
                at: row.size(2)?,
                size: Some(row.size(3)?).filter(|size| *size > 0),
            })
        };
        rows.iter().map(example).collect()
    }

    /// The dates that have files, the newest first, at most `limit`.
    ///
    /// # Errors
    /// By kind.
    pub async fn newest_buckets(&self, limit: u32) -> Result<Vec<String>, Error> {
        let sql = "select bucket from file group by bucket order by bucket desc limit $1";
        let params = vec![Value::Int(limit.into())];
        let rows = self.reader().await?.query(sql, params).await?;
        rows.iter().map(|row| Ok(row.text(0)?)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::general;

    #[test]
    fn positions_are_left_out_of_reasons() {
        for (reason, same) in [
            (
                "it is cut off at byte 174: expected `,`",
                "it is cut off at byte …: expected `,`",
            ),
            ("byte 1 and byte 22", "byte … and byte …"),
            ("a byte too many in `x1`", "a byte too many in `x1`"),
            ("", ""),
        ] {
            assert_eq!(general(reason), same);
        }
    }
}
