//! Words of the journal as a person writes them: dates, priorities, types.

use std::str::FromStr;

use cannery_journal::{Date, FieldType, OnEmpty, Period, Priority, Status, Token};
use jiff::Timestamp;

/// The priorities that have a name.
pub(crate) const PRIORITIES: [(&str, Priority); 8] = [
    ("now", Priority::NOW),
    ("important", Priority::IMPORTANT),
    ("new", Priority::NEW),
    ("reset", Priority::RESET),
    ("updates", Priority::UPDATES),
    ("slow", Priority::SLOW),
    ("review", Priority::REVIEW),
    ("time_allows", Priority::TIME_ALLOWS),
];

/// A date: milliseconds since 1970, or as in RFC 3339.
pub(crate) fn date(text: &str) -> Result<Date, String> {
    if let Ok(millis) = text.parse() {
        return Ok(Date::from_millis(millis));
    }
    Timestamp::from_str(text).map(Date::from).map_err(|_| {
        format!(
            "`{}` is not a date; write milliseconds since 1970, or for example 2026-11-15T18:24:03Z",
            text.escape_debug()
        )
    })
}

/// A priority: a number, or a name.
pub(crate) fn priority(text: &str) -> Result<Priority, String> {
    if let Ok(number) = text.parse() {
        return Ok(Priority(number));
    }
    let named = PRIORITIES.iter().find(|(name, _)| *name == text);
    named.map(|(_, priority)| *priority).ok_or_else(|| {
        format!(
            "`{}` is not a priority; write a number from 0 to 255, or one of: {}",
            text.escape_debug(),
            PRIORITIES.map(|(name, _)| name).join(", ")
        )
    })
}

/// A status, in the word that listings show.
pub(crate) fn status(text: &str) -> Result<Status, String> {
    one_of(
        text,
        &[
            ("waiting", Status::Waiting),
            ("processing", Status::Processing),
            ("blocked", Status::Blocked),
            ("dead", Status::Dead),
        ],
    )
}

pub(crate) fn period(text: &str) -> Result<Period, String> {
    one_of(
        text,
        &[
            ("1h", Period::Hour),
            ("1d", Period::Day),
            ("1mo", Period::Month),
            ("none", Period::None),
        ],
    )
}

pub(crate) fn on_empty(text: &str) -> Result<OnEmpty, String> {
    one_of(
        text,
        &[
            ("delete", OnEmpty::Delete),
            ("reset", OnEmpty::Reset),
            ("truncate", OnEmpty::Truncate),
        ],
    )
}

fn one_of<T: Copy>(text: &str, known: &[(&str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("choose one of: {}", names.join(", "))
    })
}

/// `path:string`
pub(crate) fn field(text: &str) -> Result<(String, FieldType), String> {
    let Some((name, kind)) = text.rsplit_once(':').filter(|(name, _)| !name.is_empty()) else {
        return Err(format!(
            "`{}` is not a field; write for example path:string",
            text.escape_debug()
        ));
    };
    let kind = kind
        .parse()
        .map_err(|error: cannery_journal::Error| error.message)?;
    Ok((name.to_owned(), kind))
}

pub(crate) fn token(text: &str) -> Result<Token, String> {
    text.parse()
        .map_err(|error: cannery_journal::Error| error.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_milliseconds_or_as_in_rfc_3339() {
        for (text, millis) in [
            ("0", 0),
            ("1794770643123", 1_794_770_643_123),
            ("1970-01-01T00:00:01.5Z", 1_500),
            ("1970-01-01T01:00:00+01:00", 0),
        ] {
            assert_eq!(date(text), Ok(Date::from_millis(millis)), "{text}");
        }
        for text in ["", "tomorrow", "2026-11-15", "1.5", "2026-11-15T18:24:03"] {
            assert!(date(text).is_err(), "{text}");
        }
    }

    #[test]
    fn priorities_are_numbers_or_names() {
        assert_eq!(priority("7"), Ok(Priority(7)));
        assert_eq!(priority("time_allows"), Ok(Priority(255)));
        for text in ["", "256", "-1", "NOW", "soon"] {
            let reason = priority(text).unwrap_err();
            assert!(reason.contains("now, important, new"), "{reason}");
        }
    }

    #[test]
    fn fields_have_a_name_and_a_type() {
        assert_eq!(
            field("a:b:u64"),
            Ok(("a:b".to_owned(), FieldType::U64)),
            "a name may hold a colon"
        );
        for text in ["", "path", ":u64", "path:int"] {
            assert!(field(text).is_err(), "{text}");
        }
    }
}
