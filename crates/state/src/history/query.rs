//! Questions about single executions.

use std::fmt;
use std::str::FromStr;

use cannery_database::{Error, ErrorKind, Row, Value};
use jiff::{SignedDuration, Timestamp};

use super::{Execution, Outcome, SILENCE};
use crate::state::State;

/// No answer is longer.
const LIMIT_MAX: u32 = 10_000;

const COLUMNS: &str = "e.session, e.number, e.stage, e.key, e.bucket, e.kind, e.slice, e.attempt, e.worker, \
    e.started_ms, e.ended_ms, e.bytes_in, e.bytes_out, e.reason, e.report, s.ended_ms, s.heard_ms";

pub(super) const TABLES: &str = "execution e left join session s on s.id = e.session";

/// How an execution stands. `$1` is the moment since when its worker has to have been heard of.
pub(super) const RESULT: &str = "case when e.result <> 'running' then e.result \
    when s.ended_ms is null and s.heard_ms >= $1 then 'running' else 'lost' end";

const ORDER: &str = "started_ms desc, session desc, number desc";

/// Which executions. Everything that is said has to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this stage.
    pub stage: Option<String>,
    /// Of this bucket.
    pub bucket: Option<String>,
    /// Of this kind.
    pub kind: Option<String>,
    /// Of this slice.
    pub slice: Option<String>,
    /// Of the work with this key.
    pub key: Option<String>,
    /// On this node.
    pub worker: Option<String>,
    /// That stand in one of these ways; any when empty.
    pub results: Vec<Outcome>,
    /// That began then or later.
    pub since: Option<Timestamp>,
    /// That began earlier.
    pub until: Option<Timestamp>,
}

/// Some executions, newest first, and where the next ones are.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The executions.
    pub items: Vec<Execution>,
    /// After which the next page begins; nothing at the end.
    pub next: Option<Cursor>,
}

/// A place in the history. As text it fits into a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    started_ms: i64,
    session: String,
    number: i64,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.started_ms, self.session, self.number)
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || {
            let text = text.escape_debug();
            Error::new(
                ErrorKind::Invalid,
                format!("`{text}` is no place in the history"),
            )
        };
        let mut parts = text.split('.');
        let [Some(started_ms), Some(session), Some(number), None] = [(); 4].map(|()| parts.next())
        else {
            return Err(wrong());
        };
        Ok(Self {
            started_ms: started_ms.parse().map_err(|_| wrong())?,
            session: session.to_owned(),
            number: number.parse().map_err(|_| wrong())?,
        })
    }
}

/// Conditions and their parameters, the first of which is that of [`RESULT`].
pub(super) struct Asked {
    conditions: Vec<String>,
    pub(super) params: Vec<Value>,
}

impl Asked {
    pub(super) fn of(filter: &Filter, heard_since_ms: i64) -> Self {
        let mut asked = Self {
            conditions: Vec::new(),
            params: vec![heard_since_ms.into()],
        };
        for (column, text) in [
            ("stage", &filter.stage),
            ("bucket", &filter.bucket),
            ("kind", &filter.kind),
            ("slice", &filter.slice),
            ("key", &filter.key),
            ("worker", &filter.worker),
        ] {
            if let Some(text) = text {
                asked.add(&format!("e.{column} ="), text.as_str());
            }
        }
        if let Some(since) = filter.since {
            asked.add("e.started_ms >=", since.as_millisecond());
        }
        if let Some(until) = filter.until {
            asked.add("e.started_ms <", until.as_millisecond());
        }
        if !filter.results.is_empty() {
            let names: Vec<String> = filter
                .results
                .iter()
                .map(|result| format!("'{}'", result.name()))
                .collect();
            let names = names.join(", ");
            asked.conditions.push(format!("{RESULT} in ({names})"));
            if filter.results == [Outcome::Running] {
                // What an index knows.
                asked.conditions.push("e.result = 'running'".to_owned());
            }
        }
        asked
    }

    fn add(&mut self, condition: &str, value: impl Into<Value>) {
        let place = self.param(value);
        self.conditions.push(format!("{condition} {place}"));
    }

    /// A further parameter, as it stands in the statement.
    pub(super) fn param(&mut self, value: impl Into<Value>) -> String {
        self.params.push(value.into());
        format!("${}", self.params.len())
    }

    fn after(&mut self, cursor: Cursor) {
        let started = self.param(cursor.started_ms);
        let session = self.param(cursor.session);
        let number = self.param(cursor.number);
        self.conditions.push(format!(
            "(e.started_ms, e.session, e.number) < ({started}, {session}, {number})"
        ));
    }

    /// What stands after `where`.
    pub(super) fn conditions(&self) -> String {
        match self.conditions.as_slice() {
            [] => "1 = 1".to_owned(),
            conditions => conditions.join(" and "),
        }
    }
}

impl State {
    /// Since when a worker has to have been heard of, not to be taken for dead.
    pub(super) fn heard_since_ms(&self) -> i64 {
        let silence = SignedDuration::try_from(SILENCE).unwrap_or(SignedDuration::ZERO);
        let since = self.clock.now().checked_sub(silence);
        since.unwrap_or(Timestamp::MIN).as_millisecond()
    }

    /// Executions, newest first, at most `limit` (and at most 10,000) after the place `after`.
    ///
    /// # Errors
    /// By kind.
    pub async fn executions(
        &self,
        filter: &Filter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page, Error> {
        let limit = limit.clamp(1, LIMIT_MAX);
        let mut asked = Asked::of(filter, self.heard_since_ms());
        if let Some(cursor) = after {
            asked.after(cursor);
        }
        // One more tells whether there is a next page.
        let one_more = asked.param(i64::from(limit) + 1);
        let sql = format!(
            "select {COLUMNS}, {RESULT} from {TABLES} where {} \
             order by e.started_ms desc, e.session desc, e.number desc limit {one_more}",
            asked.conditions()
        );
        let mut items = self.ask(&sql, asked.params).await?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let is_more = items.len() > limit;
        items.truncate(limit);
        let last = items.last().map(|item| item.cursor.clone());
        let next = last.filter(|_| is_more);
        Ok(Page { items, next })
    }

    /// What runs now, newest first: begun, not ended, and its worker is heard of.
    ///
    /// # Errors
    /// By kind.
    pub async fn running(&self) -> Result<Vec<Execution>, Error> {
        let filter = Filter {
            results: vec![Outcome::Running],
            ..Filter::default()
        };
        Ok(self.executions(&filter, None, LIMIT_MAX).await?.items)
    }

    /// Of those that the filter lets through, the last of each bucket and stage, newest first; at most `limit`.
    ///
    /// # Errors
    /// By kind.
    pub async fn last(&self, filter: &Filter, limit: u32) -> Result<Vec<Execution>, Error> {
        let mut asked = Asked::of(filter, self.heard_since_ms());
        let limit = asked.param(i64::from(limit.clamp(1, LIMIT_MAX)));
        let sql = format!(
            "with ranked as (select e.*, row_number() over (partition by e.bucket, e.stage order by \
             e.started_ms desc, e.session desc, e.number desc) as place from {TABLES} where {}) \
             select {COLUMNS}, {RESULT} from ranked e left join session s on s.id = e.session \
             where e.place = 1 order by e.{} limit {limit}",
            asked.conditions(),
            ORDER.replace(", ", ", e."),
        );
        self.ask(&sql, asked.params).await
    }

    async fn ask(&self, sql: &str, params: Vec<Value>) -> Result<Vec<Execution>, Error> {
        let rows = self.database.reader().await?.query(sql, params).await?;
        rows.iter().map(execution).collect()
    }
}

fn execution(row: &Row) -> Result<Execution, Error> {
    let corrupt = |what: &str| Error::new(ErrorKind::Corrupt, format!("the history has {what}"));
    let result = row.text(17)?.parse::<Outcome>();
    let result = result.map_err(|_| corrupt("a result that is none"))?;
    let time =
        |ms: i64| Timestamp::from_millisecond(ms).map_err(|_| corrupt("a time that is none"));
    let ended = row.maybe_int(10)?.map(time).transpose()?;
    let report = match row.maybe_text(14)? {
        Some(text) => {
            serde_json::from_str(&text).map_err(|_| corrupt("a report that is no JSON"))?
        }
        None => serde_json::Value::Null,
    };
    let mut reason = row.maybe_text(13)?;
    if result == Outcome::Lost && ended.is_none() {
        let heard = row.maybe_int(16)?.map(time).transpose()?;
        reason = Some(whereabouts(row.maybe_int(15)?.is_some(), heard));
    }
    let (started_ms, session, number) = (row.int(9)?, row.text(0)?, row.int(1)?);
    Ok(Execution {
        stage: row.text(2)?,
        key: row.text(3)?,
        bucket: row.maybe_text(4)?,
        kind: row.maybe_text(5)?,
        slice: row.maybe_text(6)?,
        attempt: row.size(7)?,
        worker: row.text(8)?,
        started: time(started_ms)?,
        ended,
        bytes_in: row.size(11)?,
        bytes_out: row.size(12)?,
        result,
        reason,
        report,
        cursor: Cursor {
            started_ms,
            session,
            number,
        },
    })
}

/// Why an execution without an end counts as lost.
fn whereabouts(has_ended: bool, heard: Option<Timestamp>) -> String {
    match (has_ended, heard) {
        (true, _) => "its worker ended without a word about it".to_owned(),
        (false, Some(heard)) => format!("its worker was last heard of at {heard:.0}"),
        (false, None) => "its worker was never heard of".to_owned(),
    }
}
