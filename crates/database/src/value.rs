//! What stands in a cell of a table, and what a column may hold.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The type of a column that a feature or an aggregate declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnType {
    /// Any text without the character NUL.
    Text,
    /// A whole number of 64 bits.
    Int,
    /// A number of double precision.
    Float,
    /// True or false.
    Bool,
    /// A moment, to the millisecond.
    Time,
    /// Any JSON, kept as text.
    Json,
}

/// A column of a declared table. Every column may be empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Column {
    /// Its name: lower case letters, digits and `_`.
    pub name: String,
    /// What it holds.
    #[serde(rename = "type")]
    pub column_type: ColumnType,
}

impl Column {
    /// A column.
    #[must_use]
    pub fn new(name: impl Into<String>, column_type: ColumnType) -> Self {
        Self {
            name: name.into(),
            column_type,
        }
    }
}

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// Text.
    Text(String),
    /// A whole number.
    Int(i64),
    /// A finite number.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Milliseconds since 1970.
    Time(i64),
    /// JSON as text.
    Json(String),
}

impl Value {
    /// How much memory it takes, about.
    #[must_use]
    pub fn weight(&self) -> usize {
        let text = match self {
            Self::Text(text) | Self::Json(text) => text.len(),
            Self::Null | Self::Int(_) | Self::Float(_) | Self::Bool(_) | Self::Time(_) => 0,
        };
        size_of::<Self>() + text
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A row of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Row(
    /// Its cells, in the order of the columns.
    pub Vec<Value>,
);

impl Row {
    /// A text that is there.
    ///
    /// # Errors
    /// `Corrupt` for anything else.
    pub fn text(&self, at: usize) -> Result<String, Error> {
        self.maybe_text(at)?
            .ok_or_else(|| odd("a text is missing", at))
    }

    /// A text, or nothing.
    ///
    /// # Errors
    /// `Corrupt` for anything else.
    pub fn maybe_text(&self, at: usize) -> Result<Option<String>, Error> {
        match self.0.get(at) {
            Some(Value::Text(text) | Value::Json(text)) => Ok(Some(text.clone())),
            Some(Value::Null) => Ok(None),
            _ => Err(odd("a text was expected", at)),
        }
    }

    /// A whole number that is there.
    ///
    /// # Errors
    /// `Corrupt` for anything else.
    pub fn int(&self, at: usize) -> Result<i64, Error> {
        self.maybe_int(at)?
            .ok_or_else(|| odd("a number is missing", at))
    }

    /// A number that is never negative.
    ///
    /// # Errors
    /// `Corrupt` for anything else.
    pub fn size(&self, at: usize) -> Result<u64, Error> {
        u64::try_from(self.int(at)?).map_err(|_| odd("a size is negative", at))
    }

    /// A whole number, or nothing.
    ///
    /// # Errors
    /// `Corrupt` for anything else.
    pub fn maybe_int(&self, at: usize) -> Result<Option<i64>, Error> {
        match self.0.get(at) {
            Some(Value::Int(number)) => Ok(Some(*number)),
            Some(Value::Null) => Ok(None),
            _ => Err(odd("a number was expected", at)),
        }
    }
}

fn odd(what: &str, at: usize) -> Error {
    Error::corrupt(format!(
        "the database answers strangely: {what} in column {at}"
    ))
}

/// A size or offset as the databases keep it.
///
/// # Errors
/// `Invalid` above 2^63-1.
pub fn stored(size: u64) -> Result<Value, Error> {
    i64::try_from(size)
        .map(Value::Int)
        .map_err(|_| Error::invalid(format!("{size} is no size that a database can hold")))
}

/// A moment as text, the way SQLite keeps it: `2026-11-15T18:24:03.487Z`. Out of range is the nearest moment in it.
#[must_use]
pub fn time_text(millis: i64) -> String {
    format!("{:.3}", timestamp(millis))
}

/// The day in UTC, `2026-11-15`.
#[must_use]
pub fn date_text(millis: i64) -> String {
    timestamp(millis)
        .to_zoned(jiff::tz::TimeZone::UTC)
        .date()
        .to_string()
}

fn timestamp(millis: i64) -> Timestamp {
    let nearest = if millis < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    };
    Timestamp::from_millisecond(millis).unwrap_or(nearest)
}

/// Whether a moment lies in the years 1 to 9999, which both databases, and what reads them, can express.
#[must_use]
pub fn is_expressible(millis: i64) -> bool {
    // 0001-01-01T00:00:00Z and 9999-12-30T00:00:00Z.
    (-62_135_596_800_000..253_402_128_000_000).contains(&millis)
}
