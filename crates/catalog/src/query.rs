//! Questions: one measurement, and pages of everything.
//!
//! Pages go by key, so that the thousandth costs as much as the first, and what is added meanwhile neither shifts nor repeats
//! anything.

use std::fmt;
use std::str::FromStr;

use cannery_database::{Row, Value};
use serde::{Serialize, Serializer};

use crate::catalog::Catalog;
use crate::decide::FileFacts;
use crate::error::Error;
use crate::load::Place;

mod condition;
mod pages;

use condition::Conditions;

/// A measurement, and where it lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Its uid.
    pub uid: String,
    /// The file, `<date>/<file>`.
    pub file: String,
    /// The folder of its rules.
    pub generation: String,
    /// The file's date.
    pub bucket: String,
    /// What kind it is of.
    pub kind: String,
    /// Its report.
    pub report: String,
    /// The frame and the slice.
    pub place: Place,
    /// When it was made, in milliseconds since 1970.
    pub time_ms: Option<i64>,
    /// Some bits of a digest of its text; nothing for what was loaded by a program without.
    #[serde(skip)]
    pub digest: Option<i64>,
}

/// What to list. All conditions that are given hold at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The date of the file.
    pub bucket: Option<String>,
    /// The kind.
    pub kind: Option<String>,
    /// Measurements from this moment on, in milliseconds.
    pub from_ms: Option<i64>,
    /// Measurements before this moment.
    pub to_ms: Option<i64>,
    /// The name of the report.
    pub report: Option<String>,
}

/// Where the next page begins; a text for URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cursor {
    first: i64,
    second: i64,
}

impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.first, self.second)
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parts = text.split_once('.');
        let cursor = parts.and_then(|(first, second)| {
            Some(Self {
                first: first.parse().ok()?,
                second: second.parse().ok()?,
            })
        });
        cursor.ok_or_else(|| Error::invalid(format!("`{text}` is no cursor of a page")))
    }
}

/// A page, and where the next one begins: none after the last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next one begins.
    pub next: Option<Cursor>,
}

/// A file of the catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileInfo {
    /// What it is.
    pub facts: FileFacts,
    /// Its reports.
    pub reports: u64,
    /// Its measurements, duplicates included.
    pub measurements: u64,
    /// Its bad pieces.
    pub bad_blobs: u64,
    /// When it was loaded, in milliseconds since 1970.
    pub ingested_ms: i64,
}

/// A report of the catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReportInfo {
    /// Its name.
    pub textname: String,
    /// Its file.
    pub file: String,
    /// What kind it is of.
    pub kind: String,
    /// Its bytes before the sanitiser.
    pub src_size: u64,
}

/// A piece that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BadBlob {
    /// Its file.
    pub file: String,
    /// Its report.
    pub report: String,
    /// Its first byte in the source.
    pub src_off: u64,
    /// Its bytes.
    pub src_size: u64,
    /// What is wrong with it.
    pub reason: String,
}

/// A row that did not fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BadRow {
    /// The file.
    pub file: String,
    /// The feature that was to get it.
    pub feature: String,
    /// The measurement that it was made of.
    pub uid: String,
    /// The number of the row.
    pub row: u64,
    /// What is wrong with it.
    pub reason: String,
    /// The row.
    pub data: String,
}

/// What a bucket has of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// The date.
    pub bucket: String,
    /// The kind.
    pub kind: String,
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub file_bytes: u64,
    /// Their bytes, decompressed.
    pub text_bytes: u64,
    /// Reports.
    pub reports: u64,
    /// Measurements, duplicates included.
    pub measurements: u64,
    /// Those of them that another place holds.
    pub duplicates: u64,
    /// Bad pieces.
    pub bad_blobs: u64,
    /// Bad rows.
    pub bad_rows: u64,
    /// Files with rows of a feature by another version than the declared one.
    pub files_outdated: u64,
}

/// How often a skeleton of what no feature reads was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResidualCount {
    /// The kind of the files.
    pub kind: String,
    /// The skeleton.
    pub skeleton: String,
    /// How often.
    pub count: u64,
}

pub(crate) const FILE_TABLES: &str = "file f join kind k on k.id = f.kind";
pub(crate) const FILE_COLUMNS: &str = "f.name, f.generation, f.bucket, k.name, f.file_sha1, f.text_sha1, \
    f.file_size, f.text_size, f.rules_hash";

pub(crate) fn facts_from(row: &Row) -> Result<FileFacts, Error> {
    Ok(FileFacts {
        name: row.text(0)?,
        generation: row.text(1)?,
        bucket: row.text(2)?,
        kind: row.text(3)?,
        file_sha1: row.text(4)?,
        text_sha1: row.text(5)?,
        file_size: row.size(6)?,
        text_size: row.size(7)?,
        rules_hash: row.text(8)?,
    })
}

const FOUND_COLUMNS: &str = "m.uid, f.name, f.generation, f.bucket, k.name, r.textname, \
    m.frame_off, m.frame_size, m.intra_off, m.intra_size, m.time_ms, m.digest";

/// The tables of [`FOUND_COLUMNS`], with places from `measurement` or `duplicate`.
fn found_tables(places: &str) -> String {
    format!(
        "{places} m join file f on f.id = m.file join report r on r.id = m.report \
         join kind k on k.id = m.kind"
    )
}

fn found_from(row: &Row) -> Result<Found, Error> {
    Ok(Found {
        uid: row.text(0)?,
        file: row.text(1)?,
        generation: row.text(2)?,
        bucket: row.text(3)?,
        kind: row.text(4)?,
        report: row.text(5)?,
        place: Place {
            frame_off: row.size(6)?,
            frame_size: row.size(7)?,
            intra_off: row.size(8)?,
            intra_size: row.size(9)?,
        },
        time_ms: row.maybe_int(10)?,
        digest: row.maybe_int(11)?,
    })
}

impl Catalog {
    /// Where a measurement lies; nothing when the catalog does not have it.
    ///
    /// # Errors
    /// By kind.
    pub async fn lookup(&self, uid: &str) -> Result<Option<Found>, Error> {
        let found = self.places("measurement", uid, 1).await?;
        Ok(found.into_iter().next())
    }

    /// The first places of a uid in `measurement` or `duplicate`.
    pub(crate) async fn places(
        &self,
        table: &str,
        uid: &str,
        limit: u32,
    ) -> Result<Vec<Found>, Error> {
        let sql = format!(
            "select {FOUND_COLUMNS} from {} where m.uid = $1 order by f.name, m.seq limit $2",
            found_tables(table)
        );
        let params = vec![uid.into(), Value::Int(limit.into())];
        let rows = self.reader().await?.query(&sql, params).await?;
        rows.iter().map(found_from).collect()
    }

    /// The files that a uid stands in, by name.
    ///
    /// # Errors
    /// By kind.
    pub async fn files_with(&self, uid: &str) -> Result<Vec<String>, Error> {
        let sql = "select f.name from file f where f.id in \
                   (select file from measurement where uid = $1 \
                    union select file from duplicate where uid = $1) order by f.name";
        let rows = self.reader().await?.query(sql, vec![uid.into()]).await?;
        rows.iter().map(|row| Ok(row.text(0)?)).collect()
    }

    /// What each bucket has of each kind, the newest bucket first, at most `limit` lines. The range is of buckets, the second
    /// not in it.
    ///
    /// # Errors
    /// By kind.
    pub async fn counts(
        &self,
        buckets: Option<(&str, &str)>,
        limit: u32,
    ) -> Result<Vec<Count>, Error> {
        let (from, to) = buckets.unwrap_or(("", "~"));
        let of_file = |table: &str| {
            format!("cast(sum((select count(*) from {table} x where x.file = f.id)) as bigint)")
        };
        let sum = |column: &str| format!("cast(sum(f.{column}) as bigint)");
        let sql = format!(
            "select f.bucket, k.name, count(*), {}, {}, {}, {}, {}, {}, {}, \
             cast(sum(case when exists (select 1 from file_feature v join feature t on t.id = v.feature \
                where v.file = f.id and t.version <> v.version) then 1 else 0 end) as bigint) \
             from {FILE_TABLES} where f.bucket >= $1 and f.bucket < $2 \
             group by f.bucket, k.name order by f.bucket desc, k.name limit $3",
            sum("file_size"),
            sum("text_size"),
            sum("reports"),
            sum("measurements"),
            of_file("duplicate"),
            sum("badblobs"),
            of_file("badrow"),
        );
        let params = vec![from.into(), to.into(), Value::Int(limit.into())];
        let rows = self.reader().await?.query(&sql, params).await?;
        rows.iter().map(count_from).collect()
    }

    /// What no feature reads, the most frequent first, of one kind or all, at most `limit` lines.
    ///
    /// # Errors
    /// By kind.
    pub async fn residuals(
        &self,
        kind: Option<&str>,
        limit: u32,
    ) -> Result<Vec<ResidualCount>, Error> {
        let mut conditions = Conditions::default();
        conditions.equal("k.name", kind);
        let sql = format!(
            "select k.name, s.text, cast(sum(x.count) as bigint) as seen from residual x \
             join skeleton s on s.id = x.skeleton join file f on f.id = x.file \
             join kind k on k.id = f.kind where {} \
             group by k.name, s.id, s.text order by seen desc, k.name, s.text limit {}",
            conditions.sql(),
            conditions.next()
        );
        let mut params = conditions.params();
        params.push(Value::Int(limit.into()));
        let rows = self.reader().await?.query(&sql, params).await?;
        rows.iter()
            .map(|row| {
                Ok(ResidualCount {
                    kind: row.text(0)?,
                    skeleton: row.text(1)?,
                    count: row.size(2)?,
                })
            })
            .collect()
    }
}

fn count_from(row: &Row) -> Result<Count, Error> {
    Ok(Count {
        bucket: row.text(0)?,
        kind: row.text(1)?,
        files: row.size(2)?,
        file_bytes: row.size(3)?,
        text_bytes: row.size(4)?,
        reports: row.size(5)?,
        measurements: row.size(6)?,
        duplicates: row.size(7)?,
        bad_blobs: row.size(8)?,
        bad_rows: row.size(9)?,
        files_outdated: row.size(10)?,
    })
}
