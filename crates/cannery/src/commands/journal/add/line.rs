//! One entry as one line of JSON.

use std::fmt;

use cannery_journal::{Data, Date, NewEntry, Priority};
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::cli::words;

#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "an object with the fields of an entry"
)]
struct Line {
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    priority: Option<PriorityWord>,
    #[serde(default)]
    insertion_date: Option<DateWord>,
    #[serde(default)]
    process_date: Option<DateWord>,
    #[serde(default)]
    expiration_date: Option<DateWord>,
    #[serde(default)]
    data: Option<Box<RawValue>>,
}

/// Reads a line.
pub(super) fn read(text: &[u8]) -> Result<NewEntry, String> {
    // A list of values would be taken for the fields in their order.
    if text.trim_ascii_start().first() == Some(&b'[') {
        return Err("it is a list, not an object with the fields of an entry".to_owned());
    }
    let line: Line = serde_json::from_slice(text).map_err(|error| reason(&error))?;
    let data = line
        .data
        .map(|data| Data::from_json(String::from(Box::<str>::from(data))))
        .transpose()
        .map_err(|error| error.message)?;
    Ok(NewEntry {
        key: line.key,
        priority: line.priority.map(|word| word.0),
        insertion_date: line.insertion_date.map(|word| word.0),
        process_date: line.process_date.map(|word| word.0),
        expiration_date: line.expiration_date.map(|word| word.0),
        data,
    })
}

/// The parser counts lines of its own, and there is only one.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or_default();
    let kind = if error.is_data() {
        ""
    } else {
        "it is not JSON: "
    };
    match error.column() {
        0 => format!("{kind}{what}"),
        column => format!("{kind}{what} (column {column})"),
    }
}

struct DateWord(Date);

impl<'de> Deserialize<'de> for DateWord {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = DateWord;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a date: milliseconds since 1970, or a text as in RFC 3339")
            }

            fn visit_i64<E: serde::de::Error>(self, millis: i64) -> Result<DateWord, E> {
                Ok(DateWord(Date::from_millis(millis)))
            }

            fn visit_u64<E: serde::de::Error>(self, millis: u64) -> Result<DateWord, E> {
                let millis = i64::try_from(millis).map_err(|_| E::custom("the date is too far"))?;
                self.visit_i64(millis)
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<DateWord, E> {
                words::date(text).map(DateWord).map_err(E::custom)
            }
        }
        from.deserialize_any(Either)
    }
}

struct PriorityWord(Priority);

impl<'de> Deserialize<'de> for PriorityWord {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(from)?;
        let text = match &value {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        words::priority(&text).map(Self).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_read() {
        let text = r#"{"key":"k","priority":"slow","insertion_date":5,"process_date":"1970-01-01T00:00:01Z",
            "expiration_date":9007199254740993,"data":{"b":1.0, "a": 1e999}}"#;
        let entry = read(text.replace('\n', "").as_bytes()).unwrap();
        assert_eq!(entry.key.as_deref(), Some("k"));
        assert_eq!(entry.priority, Some(Priority::SLOW));
        assert_eq!(entry.insertion_date, Some(Date::from_millis(5)));
        assert_eq!(entry.process_date, Some(Date::from_millis(1_000)));
        let expiration = entry.expiration_date.unwrap();
        assert_eq!(expiration.as_millis(), 9_007_199_254_740_993);
        let data = entry.data.unwrap();
        assert_eq!(
            &data.as_bytes()[..],
            br#"{"b":1.0, "a": 1e999}"#,
            "verbatim"
        );
        assert_eq!(read(b"{}").unwrap(), NewEntry::default());
        assert_eq!(
            read(br#"{"priority":7}"#).unwrap().priority,
            Some(Priority(7))
        );
    }

    #[test]
    fn a_wrong_line_says_what_is_wrong() {
        for (text, wanted) in [
            ("", "EOF while parsing a value"),
            ("x", "expected value (column 1)"),
            ("[\"k\"]", "an object with the fields of an entry"),
            ("5", "an object with the fields of an entry"),
            (
                "{\"key\":1}",
                "invalid type: integer `1`, expected a string",
            ),
            (
                "{\"ky\":\"a\"}",
                "unknown field `ky`, expected one of `key`",
            ),
            ("{\"key\":\"a\",\"key\":\"b\"}", "duplicate field `key`"),
            ("{\"key\":\"a\"} {}", "trailing characters"),
            ("{\"process_date\":\"soon\"}", "`soon` is not a date"),
            ("{\"process_date\":1.5}", "expected a date: milliseconds"),
            ("{\"priority\":256}", "`256` is not a priority"),
            ("{\"priority\":\"soon\"}", "`soon` is not a priority"),
            ("{\"data\":NaN}", "expected value"),
            ("{\"key\":\"\\ud800\"}", "unexpected end of hex escape"),
        ] {
            let reason = read(text.as_bytes()).err().unwrap_or_default();
            assert!(reason.contains(wanted), "{text}: {reason}");
            assert!(!reason.contains("at line"), "{reason}");
        }
        assert!(read(b"{\"key\":\"\xff\"}").is_err());
    }

    #[test]
    fn deep_data_is_no_trouble() {
        let deep = format!(
            "{{\"data\":{}{}}}",
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        assert!(read(deep.as_bytes()).is_ok());
    }
}
