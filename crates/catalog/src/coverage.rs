//! Absence is data: what came of each feed and node in each hour.
//!
//! Rows of feeds are given by who reads their hours; rows of nodes follow from the reports of bundles, in the transaction
//! that loads them. The hours between two that are known, of which nothing is there at all, are filled in here. All of it
//! follows from what is known alone, whatever the order in which it came.

use std::ops::Range;

use cannery_database::{Row, Session, Value, settle, stored};
use serde::Serialize;

use crate::catalog::Catalog;
use crate::error::Error;
use crate::name;

mod fill;
pub(crate) mod nodes;

use fill::Subject;

/// What came of one feed or node in one hour.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Coverage {
    /// `feed` or `node`.
    pub subject: String,
    /// Which one.
    pub name: String,
    /// `<yyyy>-<mm>-<dd>T<hh>`, in UTC.
    pub hour: String,
    /// How many times something should have come.
    pub expected: u64,
    /// How many times it did.
    pub present: u64,
    /// How much.
    pub bytes: u64,
    /// What is known of it.
    pub state: CoverageState,
}

/// What is known of an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CoverageState {
    /// How much should have come is known.
    Known,
    /// Something came; how much should have is not known.
    Unknown,
    /// It was deleted on purpose.
    Deleted,
    /// Nothing came, but something did before and afterwards. The catalog itself finds out.
    Absent,
}

impl CoverageState {
    const ALL: [Self; 4] = [Self::Known, Self::Unknown, Self::Deleted, Self::Absent];

    fn name(self) -> &'static str {
        match self {
            Self::Known => "known",
            Self::Unknown => "unknown",
            Self::Deleted => "deleted",
            Self::Absent => "absent",
        }
    }
}

/// Which coverage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoverageFilter {
    /// `feed` or `node`.
    pub subject: Option<String>,
    /// One of them.
    pub name: Option<String>,
    /// From the first hour up to the second, which is not in it.
    pub hours: Option<Range<String>>,
}

const COLUMNS: &str = "subject, name, hour, expected, present, bytes, state";

impl Catalog {
    /// Writes the coverage of hours; what was known of them is replaced. Hours without anything before and after them are
    /// written as well, unless they are very many.
    ///
    /// # Errors
    /// `Invalid` for an hour that is none, or absent; by kind.
    pub async fn cover(&self, hours: &[Coverage]) -> Result<(), Error> {
        for hour in hours {
            check(hour)?;
        }
        let mut session = self.begin().await?;
        let done = cover(session.as_mut(), hours).await;
        settle(session, done).await
    }

    /// Takes an hour out: nothing is known of it any more. One that is not there is no error.
    ///
    /// # Errors
    /// `Invalid` for an hour that is none; by kind.
    pub async fn uncover(&self, subject: &str, name: &str, hour: &str) -> Result<(), Error> {
        name::hour(hour)?;
        let mut session = self.begin().await?;
        let done = remove(session.as_mut(), (subject, name), hour).await;
        settle(session, done).await
    }

    /// The coverage, by subject, name and hour, at most `limit` hours.
    ///
    /// # Errors
    /// By kind.
    pub async fn coverage(
        &self,
        filter: &CoverageFilter,
        limit: u32,
    ) -> Result<Vec<Coverage>, Error> {
        let mut params: Vec<Value> = Vec::new();
        let mut conditions = vec!["1 = 1".to_owned()];
        let mut ask = |condition: &str, value: Option<&String>| {
            if let Some(value) = value {
                params.push(value.as_str().into());
                conditions.push(format!("{condition} ${}", params.len()));
            }
        };
        ask("subject =", filter.subject.as_ref());
        ask("name =", filter.name.as_ref());
        ask("hour >=", filter.hours.as_ref().map(|hours| &hours.start));
        ask("hour <", filter.hours.as_ref().map(|hours| &hours.end));
        let sql = format!(
            "select {COLUMNS} from coverage where {} order by subject, name, hour limit ${}",
            conditions.join(" and "),
            params.len() + 1
        );
        params.push(Value::Int(limit.into()));
        let rows = self.reader().await?.query(&sql, params).await?;
        rows.iter().map(from_row).collect()
    }
}

fn check(coverage: &Coverage) -> Result<(), Error> {
    name::text("a name", &coverage.name)?;
    name::hour(&coverage.hour)?;
    let is_subject = ["feed", "node"].contains(&coverage.subject.as_str());
    if !is_subject || coverage.state == CoverageState::Absent {
        return Err(Error::invalid(format!(
            "`{}` of {} `{}` is no hour of a feed or node that can be written",
            coverage.hour, coverage.subject, coverage.name
        )));
    }
    Ok(())
}

async fn cover(session: &mut dyn Session, hours: &[Coverage]) -> Result<(), Error> {
    for hour in hours {
        write(session, hour).await?;
        fill::around(session, (&hour.subject, &hour.name), &hour.hour).await?;
    }
    Ok(())
}

async fn remove(
    session: &mut dyn Session,
    (subject, name): Subject<'_>,
    hour: &str,
) -> Result<(), Error> {
    let sql = "delete from coverage where subject = $1 and name = $2 and hour = $3";
    let params = vec![subject.into(), name.into(), hour.into()];
    session.execute(sql, params).await?;
    fill::around(session, (subject, name), hour).await
}

async fn write(session: &mut dyn Session, hour: &Coverage) -> Result<(), Error> {
    let values = vec![
        hour.subject.as_str().into(),
        hour.name.as_str().into(),
        hour.hour.as_str().into(),
        stored(hour.expected)?,
        stored(hour.present)?,
        stored(hour.bytes)?,
        hour.state.name().into(),
    ];
    session
        .execute(
            &format!(
                "insert into coverage ({COLUMNS}) values ($1, $2, $3, $4, $5, $6, $7) \
                 on conflict (subject, name, hour) do update set expected = excluded.expected, \
                 present = excluded.present, bytes = excluded.bytes, state = excluded.state"
            ),
            values,
        )
        .await?;
    Ok(())
}

fn from_row(row: &Row) -> Result<Coverage, Error> {
    let state = row.text(6)?;
    let mut states = CoverageState::ALL.into_iter();
    let state = states.find(|known| known.name() == state).ok_or_else(|| {
        Error::corrupt(format!(
            "the coverage of an hour is `{state}`, which is nothing"
        ))
    })?;
    Ok(Coverage {
        subject: row.text(0)?,
        name: row.text(1)?,
        hour: row.text(2)?,
        expected: row.size(3)?,
        present: row.size(4)?,
        bytes: row.size(5)?,
        state,
    })
}
