//! The hours between two that are known, of which there is nothing.

use cannery_database::{Session, Value};
use jiff::civil::DateTime;
use jiff::{SignedDuration, ToSpan as _, Unit};

use super::{Coverage, CoverageState, write};
use crate::error::Error;
use crate::name;

/// Of a feed or node that was away for longer, nobody expected anything: it was switched off, or its clock was wrong.
const GAP_HOURS_MAX: i32 = 31 * 24;

/// Before and after every hour.
const FIRST: &str = "";
const LAST: &str = "~";

/// An hour that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    hour: String,
    expected: u64,
}

/// `feed` or `node`, and which one.
pub(super) type Subject<'s> = (&'s str, &'s str);

/// Makes what is between an hour and the known ones beside it as it should be, whether the hour itself is known or not.
pub(super) async fn around(
    session: &mut dyn Session,
    subject: Subject<'_>,
    hour: &str,
) -> Result<(), Error> {
    let own = neighbour(session, subject, "hour = $3", hour).await?;
    let before = neighbour(session, subject, "hour < $3 order by hour desc", hour).await?;
    let after = neighbour(session, subject, "hour > $3 order by hour", hour).await?;
    if own.is_none() {
        return between(session, subject, before.as_ref(), after.as_ref()).await;
    }
    between(session, subject, before.as_ref(), own.as_ref()).await?;
    between(session, subject, own.as_ref(), after.as_ref()).await
}

async fn neighbour(
    session: &mut dyn Session,
    (subject, name): Subject<'_>,
    which: &str,
    hour: &str,
) -> Result<Option<Known>, Error> {
    let sql = format!(
        "select hour, expected from coverage where subject = $1 and name = $2 \
         and state <> 'absent' and {which} limit 1"
    );
    let params = vec![subject.into(), name.into(), hour.into()];
    let rows = session.query(&sql, params).await?;
    let known = rows.first().map(|row| {
        Ok(Known {
            hour: row.text(0)?,
            expected: row.size(1)?,
        })
    });
    known.transpose()
}

async fn between(
    session: &mut dyn Session,
    (subject, name): Subject<'_>,
    before: Option<&Known>,
    after: Option<&Known>,
) -> Result<(), Error> {
    let missing = match (before, after) {
        (Some(before), Some(after)) => missing(&before.hour, &after.hour)?,
        _ => Some(Vec::new()),
    };
    // One follows the other.
    let Some(missing) = missing else {
        return Ok(());
    };
    let end = |known: Option<&Known>, end: &str| -> Value {
        known.map_or(end, |known| known.hour.as_str()).into()
    };
    let sql = "delete from coverage where subject = $1 and name = $2 and state = 'absent' \
               and hour > $3 and hour < $4";
    let params = vec![
        subject.into(),
        name.into(),
        end(before, FIRST),
        end(after, LAST),
    ];
    session.execute(sql, params).await?;
    let expected = before.map_or(0, |before| before.expected);
    for hour in missing {
        let absent = Coverage {
            subject: subject.to_owned(),
            name: name.to_owned(),
            hour,
            expected,
            present: 0,
            bytes: 0,
            state: CoverageState::Absent,
        };
        write(session, &absent).await?;
    }
    Ok(())
}

/// The hours between two; nothing when there can be none, and none when they are too many.
fn missing(before: &str, after: &str) -> Result<Option<Vec<String>>, Error> {
    let (before, after) = (name::hour(before)?, name::hour(after)?);
    let hours = hours_between(before, after);
    if hours <= 1 {
        return Ok(None);
    }
    if hours > i64::from(GAP_HOURS_MAX) {
        return Ok(Some(Vec::new()));
    }
    let next = |at: &DateTime| at.checked_add(1.hour()).ok().filter(|at| *at < after);
    let missing = std::iter::successors(next(&before), next);
    Ok(Some(
        missing
            .map(|at| at.strftime("%Y-%m-%dT%H").to_string())
            .collect(),
    ))
}

fn hours_between(before: DateTime, after: DateTime) -> i64 {
    let length = before.duration_until(after);
    let rounded = length.round(Unit::Hour).unwrap_or(SignedDuration::MAX);
    rounded.as_hours()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_between_two_are_missing_unless_they_are_too_many() {
        let missing = |before, after| missing(before, after).unwrap();
        assert_eq!(missing("2026-11-15T22", "2026-11-15T23"), None);
        assert_eq!(
            missing("2026-11-15T22", "2026-11-16T01"),
            Some(vec!["2026-11-15T23".to_owned(), "2026-11-16T00".to_owned()])
        );
        let month = missing("2026-01-01T00", "2026-02-01T00").unwrap();
        assert_eq!(month.len(), 743);
        assert_eq!(missing("2026-01-01T00", "2026-02-01T01"), Some(Vec::new()));
        assert_eq!(missing("0001-01-01T00", "9999-12-31T23"), Some(Vec::new()));
    }
}
