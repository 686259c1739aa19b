//! Pages.

use cannery_database::{Row, Value};

use super::condition::Conditions;
use super::{
    BadBlob, BadRow, Cursor, FILE_COLUMNS, FILE_TABLES, FOUND_COLUMNS, FileInfo, Filter, Found,
    Page, ReportInfo, facts_from, found_from, found_tables,
};
use crate::catalog::Catalog;
use crate::error::Error;

/// The largest page.
const LIMIT_MAX: u32 = 10_000;

/// What a page is made of. The query answers with the two parts of the key first.
struct Listing<'a> {
    columns: &'a str,
    tables: String,
    /// The key by which the pages go, two columns.
    key: (&'a str, &'a str),
    conditions: Conditions,
}

impl Catalog {
    /// Files, in the order in which they first came. The whole filter counts: a file is listed when it has the report, and
    /// holds a measurement of the time.
    ///
    /// # Errors
    /// By kind.
    pub async fn files(
        &self,
        filter: &Filter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<FileInfo>, Error> {
        let mut conditions = of_file(filter);
        conditions.exists("report x where x.file = f.id", |within| {
            within.equal("x.textname", filter.report.as_deref());
        });
        conditions.exists("measurement x where x.file = f.id", |within| {
            of_time(within, filter);
        });
        let columns =
            format!("{FILE_COLUMNS}, f.reports, f.measurements, f.badblobs, f.ingested_ms");
        let listing = Listing {
            columns: &columns,
            tables: FILE_TABLES.to_owned(),
            key: ("f.id", "f.id"),
            conditions,
        };
        self.page(listing, after, limit, file_from).await
    }

    /// Reports, by file. The whole filter counts: a report is listed when its file holds a measurement of it of the time.
    ///
    /// # Errors
    /// By kind.
    pub async fn reports(
        &self,
        filter: &Filter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<ReportInfo>, Error> {
        let mut conditions = of_file(filter);
        conditions.equal("r.textname", filter.report.as_deref());
        conditions.exists("measurement x where x.report = r.id", |within| {
            of_time(within, filter);
        });
        let listing = Listing {
            columns: "r.textname, f.name, k.name, r.src_size",
            tables: "report r join file f on f.id = r.file join kind k on k.id = f.kind".to_owned(),
            key: ("r.file", "r.id"),
            conditions,
        };
        self.page(listing, after, limit, report_from).await
    }

    /// Measurements: of a report or a bucket in the order of their files, else by time. The whole filter counts.
    ///
    /// # Errors
    /// By kind.
    pub async fn measurements(
        &self,
        filter: &Filter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Found>, Error> {
        let mut conditions = Conditions::default();
        // In a list of numbers a database finds its way with an index; through a join it may not.
        // What the pages before went through is not gone through again.
        let from = after.map_or(0, |cursor| cursor.first);
        let (by_report, by_bucket) = match (&filter.report, &filter.bucket) {
            (Some(_), _) => (from, 0),
            (None, Some(_)) => (0, from),
            (None, None) => (0, 0),
        };
        conditions.among(
            "m.report",
            "report where textname",
            filter.report.as_deref(),
            by_report,
        );
        conditions.among(
            "m.file",
            "file where bucket",
            filter.bucket.as_deref(),
            by_bucket,
        );
        conditions.equal("k.name", filter.kind.as_deref());
        conditions.compare("coalesce(m.time_ms, 0) >=", filter.from_ms);
        conditions.compare("coalesce(m.time_ms, 0) <", filter.to_ms);
        if filter.from_ms.or(filter.to_ms).is_some() {
            conditions.always("m.time_ms is not null");
        }
        let key = match (&filter.report, &filter.bucket) {
            (Some(_), _) => ("m.report", "m.id"),
            (None, Some(_)) => ("m.file", "m.id"),
            (None, None) => ("coalesce(m.time_ms, 0)", "m.id"),
        };
        let listing = Listing {
            columns: FOUND_COLUMNS,
            tables: found_tables("measurement"),
            key,
            conditions,
        };
        self.page(listing, after, limit, found_from).await
    }

    /// A file; nothing when the catalog does not have it.
    ///
    /// # Errors
    /// By kind.
    pub async fn file(&self, name: &str) -> Result<Option<FileInfo>, Error> {
        let mut conditions = Conditions::default();
        conditions.equal("f.name", Some(name));
        let columns =
            format!("{FILE_COLUMNS}, f.reports, f.measurements, f.badblobs, f.ingested_ms");
        let listing = Listing {
            columns: &columns,
            tables: FILE_TABLES.to_owned(),
            key: ("f.id", "f.id"),
            conditions,
        };
        let page = self.page(listing, None, 1, file_from).await?;
        Ok(page.items.into_iter().next())
    }

    /// The measurements that a file holds, in its order.
    ///
    /// # Errors
    /// By kind.
    pub async fn measurements_of(
        &self,
        file: &str,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Found>, Error> {
        let mut conditions = Conditions::default();
        conditions.among("m.file", "file where name", Some(file), 0);
        let listing = Listing {
            columns: FOUND_COLUMNS,
            tables: found_tables("measurement"),
            key: ("m.file", "m.id"),
            conditions,
        };
        self.page(listing, after, limit, found_from).await
    }

    /// The pieces of a file that could not be read, in its order.
    ///
    /// # Errors
    /// By kind.
    pub async fn bad_blobs_of(
        &self,
        file: &str,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<BadBlob>, Error> {
        let mut conditions = Conditions::default();
        conditions.equal("f.name", Some(file));
        self.page(bad_blobs(conditions), after, limit, badblob_from)
            .await
    }

    /// Pieces that could not be read, by file. `bucket`, `kind` and `report` of the filter count.
    ///
    /// # Errors
    /// By kind.
    pub async fn bad_blobs(
        &self,
        filter: &Filter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<BadBlob>, Error> {
        let mut conditions = of_file(filter);
        conditions.equal("r.textname", filter.report.as_deref());
        self.page(bad_blobs(conditions), after, limit, badblob_from)
            .await
    }

    /// Rows that did not fit, by file. `bucket` and `kind` of the filter count.
    ///
    /// # Errors
    /// By kind.
    pub async fn bad_rows(
        &self,
        filter: &Filter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<BadRow>, Error> {
        let listing = Listing {
            columns: BAD_ROW_COLUMNS,
            tables: BAD_ROW_TABLES.to_owned(),
            key: ("b.file", "b.id"),
            conditions: of_file(filter),
        };
        self.page(listing, after, limit, bad_row_from).await
    }

    /// The rows of a uid that did not fit.
    pub(crate) async fn bad_rows_of(&self, uid: &str) -> Result<Vec<BadRow>, Error> {
        let sql = format!(
            "select {BAD_ROW_COLUMNS} from {BAD_ROW_TABLES} where b.uid = $1 \
             order by t.name, b.\"row\""
        );
        let rows = self.reader().await?.query(&sql, vec![uid.into()]).await?;
        rows.iter().map(bad_row_from).collect()
    }

    async fn page<T>(
        &self,
        mut listing: Listing<'_>,
        after: Option<Cursor>,
        limit: u32,
        read: impl Fn(&Row) -> Result<T, Error>,
    ) -> Result<Page<T>, Error> {
        let limit = limit.clamp(1, LIMIT_MAX);
        let (first, second) = listing.key;
        listing.conditions.after(first, second, after);
        // One more than asked for says whether there is a next page.
        let sql = format!(
            "select {first}, {second}, {} from {} where {} order by {first}, {second} limit {}",
            listing.columns,
            listing.tables,
            listing.conditions.sql(),
            listing.conditions.next()
        );
        let mut params = listing.conditions.params();
        params.push(Value::Int(i64::from(limit) + 1));
        let rows = self.reader().await?.query(&sql, params).await?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = rows.len() > limit;
        let (mut items, mut next) = (Vec::new(), None);
        for row in rows.into_iter().take(limit) {
            let cursor = Cursor {
                first: row.int(0)?,
                second: row.int(1)?,
            };
            next = more.then_some(cursor);
            let rest: Vec<Value> = row.0.into_iter().skip(2).collect();
            items.push(read(&Row(rest))?);
        }
        Ok(Page { items, next })
    }
}

const BAD_ROW_COLUMNS: &str = "f.name, t.name, b.uid, b.\"row\", w.text, b.data";
const BAD_ROW_TABLES: &str = "badrow b join file f on f.id = b.file join kind k on k.id = f.kind \
    join feature t on t.id = b.feature join reason w on w.id = b.reason";

fn bad_blobs(conditions: Conditions) -> Listing<'static> {
    Listing {
        columns: "f.name, r.textname, b.src_off, b.src_size, w.text",
        tables: "badblob b join file f on f.id = b.file join kind k on k.id = f.kind \
                 join report r on r.id = b.report join reason w on w.id = b.reason"
            .to_owned(),
        key: ("b.file", "b.id"),
        conditions,
    }
}

fn of_file(filter: &Filter) -> Conditions {
    let mut conditions = Conditions::default();
    conditions.equal("f.bucket", filter.bucket.as_deref());
    conditions.equal("k.name", filter.kind.as_deref());
    conditions
}

fn of_time(conditions: &mut Conditions, filter: &Filter) {
    conditions.compare("x.time_ms >=", filter.from_ms);
    conditions.compare("x.time_ms <", filter.to_ms);
}

fn file_from(row: &Row) -> Result<FileInfo, Error> {
    Ok(FileInfo {
        facts: facts_from(row)?,
        reports: row.size(9)?,
        measurements: row.size(10)?,
        bad_blobs: row.size(11)?,
        ingested_ms: row.int(12)?,
    })
}

fn report_from(row: &Row) -> Result<ReportInfo, Error> {
    Ok(ReportInfo {
        textname: row.text(0)?,
        file: row.text(1)?,
        kind: row.text(2)?,
        src_size: row.size(3)?,
    })
}

fn badblob_from(row: &Row) -> Result<BadBlob, Error> {
    Ok(BadBlob {
        file: row.text(0)?,
        report: row.text(1)?,
        src_off: row.size(2)?,
        src_size: row.size(3)?,
        reason: row.text(4)?,
    })
}

fn bad_row_from(row: &Row) -> Result<BadRow, Error> {
    Ok(BadRow {
        file: row.text(0)?,
        feature: row.text(1)?,
        uid: row.text(2)?,
        row: row.size(3)?,
        reason: row.text(4)?,
        data: row.text(5)?,
    })
}
