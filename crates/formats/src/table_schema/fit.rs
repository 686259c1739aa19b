//! Whether BigQuery would take a value as `raw`.
//!
//! One row that it does not take fails the load of a whole day, for all nodes. So a row is refused here when it is wrong,
//! and also when it is not certain to be right. The rules, for a load of newline-delimited JSON that tolerates no bad
//! record and no unknown field:
//!
//! | type | what fits |
//! |---|---|
//! | any, `NULLABLE` | `null`, no value, or what fits below |
//! | any, `REQUIRED` | what fits below, but not `null` |
//! | any, `REPEATED` | an array of what fits below, without `null` in it; `null` or no value, which are read as an empty array (programs in Go write `null`) |
//! | `RECORD` | an object whose names are fields, ignoring ASCII case, each at most once |
//! | `STRING` | a string that is text (no half surrogate pair) without U+0000 |
//! | `INTEGER` | a number, or a string of one, of digits only, in 64 bits with sign |
//! | `FLOAT` | a number that is neither too large for 64 bits nor so small that it becomes 0 |
//! | `BOOLEAN` | `true` or `false` |
//! | `BYTES` | a string of padded base64 with `+` and `/` |
//! | `NUMERIC` | a number, or a string of one, with at most 29 digits before the point and 9 behind it |
//! | `BIGNUMERIC` | the same with 38 and 38 |
//! | `DATE` | `2026-11-15`, of the years 1 to 9999 |
//! | `TIME` | `18:24:03`, and up to 6 digits behind a point |
//! | `DATETIME` | a date, a space or `T`, and a time |
//! | `TIMESTAMP` | the same with up to 9 digits (Go writes them, and the services that are autoloaded today are written in Go), and nothing, `Z`, ` UTC` or `+01:00` behind |
//! | `INTERVAL` | `1-2 3 4:5:6.789`: years, months, days, and a time span, each group with a sign if need be |
//! | `GEOGRAPHY` | `POINT(7.4 51.5)` or `MULTIPOINT(7.4 51.5, 8 52)`; whether a line or polygon is valid takes geometry on a sphere: declare it `STRING` |
//! | `JSON` | any value of text without U+0000 whose numbers are kept: in 64 bits with or without sign, or equal to what a 64-bit float prints |
//! | `RANGE` | nothing but `null` or no value: BigQuery's load of JSON fails with an internal error |

mod civil;
mod geography;
mod interval;
mod number;

use std::borrow::Cow;
use std::collections::HashMap;

use super::field::{Field, Kind, Mode};
use crate::json_scan::{JsonFault, Quoted, Scan, Start};

/// Checks values against the fields of a datatype. Made once, used for every file.
#[derive(Clone, Debug)]
pub struct RowCheck {
    raw: Record,
}

/// Why a value does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` does not fit the schema: {reason}", .path.escape_debug())]
pub struct Misfit {
    /// Where, such as `raw.a[3].b`.
    pub path: String,
    /// What is wrong there.
    pub reason: Cow<'static, str>,
}

#[derive(Clone, Debug)]
struct Record {
    columns: Vec<Column>,
    /// By the name as it is spelled, and in lower case.
    positions: HashMap<String, usize>,
}

#[derive(Clone, Debug)]
struct Column {
    name: String,
    kind: Kind,
    mode: Mode,
    record: Record,
}

impl RowCheck {
    /// A check for rows whose `raw` has these fields.
    #[must_use]
    pub fn new(datatype: &[Field]) -> Self {
        Self {
            raw: Record::new(datatype),
        }
    }

    /// Whether the JSON value `raw` fits.
    ///
    /// # Errors
    /// [`Misfit`] names the first place where it does not.
    pub fn fits(&self, raw: &[u8]) -> Result<(), Misfit> {
        self.check(raw).map_err(|misfit| misfit.below("raw"))
    }

    fn check(&self, raw: &[u8]) -> Result<(), Misfit> {
        let mut scan = Scan::new(raw)?;
        if scan.peek()? != Start::Object {
            return Err(misfit("it is not an object"));
        }
        self.raw.check(&mut scan)?;
        Ok(scan.end()?)
    }
}

impl Record {
    fn new(fields: &[Field]) -> Self {
        let column = |field: &Field| Column {
            name: field.name.clone(),
            kind: field.kind,
            mode: field.mode,
            record: Self::new(&field.fields),
        };
        let mut positions = HashMap::new();
        for (position, field) in fields.iter().enumerate() {
            positions.insert(field.name.clone(), position);
            positions.insert(field.name.to_ascii_lowercase(), position);
        }
        Self {
            columns: fields.iter().map(column).collect(),
            positions,
        }
    }

    /// Which column `name` is. Producers write fields in the order of the schema, mostly: `guess` is looked at first.
    fn find(&self, name: &str, guess: usize) -> Option<usize> {
        if self.columns.get(guess).is_some_and(|it| it.name == name) {
            return Some(guess);
        }
        let as_spelled = self.positions.get(name);
        as_spelled
            .or_else(|| self.positions.get(&name.to_ascii_lowercase()))
            .copied()
    }

    fn check(&self, scan: &mut Scan<'_>) -> Result<(), Misfit> {
        let mut seen = Seen::default();
        let mut guess = 0;
        scan.members(|scan, name| {
            let Some(name) = name.decode() else {
                return Err(misfit("a name in it is half a surrogate pair"));
            };
            let Some(position) = self.find(&name, guess) else {
                let name: String = name.chars().take(80).collect();
                return Err(misfit("the field is unknown").below(&name));
            };
            let column = &self.columns[position];
            if !seen.first_time(position) {
                return Err(misfit("the field comes twice").below(&column.name));
            }
            guess = position + 1;
            column
                .check(scan)
                .map_err(|misfit| misfit.below(&column.name))
        })?;
        let absent = |(position, column): &(usize, &Column)| {
            column.mode == Mode::Required && seen.first_time(*position)
        };
        match self.columns.iter().enumerate().find(absent) {
            None => Ok(()),
            Some((_, column)) => Err(misfit("it is REQUIRED and missing").below(&column.name)),
        }
    }
}

impl Column {
    fn check(&self, scan: &mut Scan<'_>) -> Result<(), Misfit> {
        let start = scan.peek()?;
        match (self.mode, start) {
            (Mode::Repeated, Start::Array) => self.check_elements(scan),
            (Mode::Nullable | Mode::Repeated, Start::Null) => Ok(scan.literal(start)?),
            (Mode::Repeated, _) => Err(misfit("it is REPEATED and not an array")),
            (Mode::Required, Start::Null) => Err(misfit("it is REQUIRED and null")),
            _ => self.check_one(scan, start),
        }
    }

    fn check_elements(&self, scan: &mut Scan<'_>) -> Result<(), Misfit> {
        let mut position = 0_usize;
        scan.elements(|scan| {
            let result = match scan.peek()? {
                Start::Null => Err(misfit("an element of an array must not be null")),
                start => self.check_one(scan, start),
            };
            let result = result.map_err(|misfit| misfit.below(&format!("[{position}]")));
            position += 1;
            result
        })
    }

    fn check_one(&self, scan: &mut Scan<'_>, start: Start) -> Result<(), Misfit> {
        match (self.kind, start) {
            (Kind::Json, _) => check_json(scan),
            (Kind::Record, Start::Object) => self.record.check(scan),
            (Kind::Record, _) => Err(misfit("it is a RECORD and not an object")),
            (_, Start::Array) => Err(misfit("it is an array and not REPEATED")),
            (_, Start::Object) => Err(misfit("it is an object and no RECORD")),
            (kind, Start::String) => check_text(kind, &text(scan.string()?)?),
            (kind, Start::Number) => check_number(kind, scan.number()?),
            (Kind::Boolean, Start::True | Start::False) => Ok(scan.literal(start)?),
            (kind, _) => Err(not_a(kind)),
        }
    }
}

fn check_number(kind: Kind, number: &str) -> Result<(), Misfit> {
    let fits = match kind {
        Kind::Integer => number::is_integer(number),
        Kind::Float => number::is_float(number),
        Kind::Numeric => number::has_digits(number, 29, 9),
        Kind::Bignumeric => number::has_digits(number, 38, 38),
        _ => false,
    };
    if fits { Ok(()) } else { Err(not_a(kind)) }
}

fn check_text(kind: Kind, text: &str) -> Result<(), Misfit> {
    let fits = match kind {
        Kind::String => true,
        Kind::Bytes => is_base64(text),
        Kind::Integer => number::is_number(text) && number::is_integer(text),
        Kind::Numeric => number::is_number(text) && number::has_digits(text, 29, 9),
        Kind::Bignumeric => number::is_number(text) && number::has_digits(text, 38, 38),
        Kind::Date => civil::is_date(text),
        Kind::Time => civil::is_time(text),
        Kind::Datetime => civil::is_datetime(text),
        Kind::Timestamp => civil::is_timestamp(text),
        Kind::Interval => interval::is_interval(text),
        Kind::Geography => geography::is_points(text),
        Kind::Float | Kind::Boolean | Kind::Record | Kind::Json | Kind::Range(_) => false,
    };
    if fits { Ok(()) } else { Err(not_a(kind)) }
}

fn check_json(scan: &mut Scan<'_>) -> Result<(), Misfit> {
    match scan.peek()? {
        Start::Object => scan.members(|scan, name| {
            text(name)?;
            check_json(scan)
        }),
        Start::Array => scan.elements(check_json),
        Start::String => text(scan.string()?).map(drop),
        Start::Number if number::is_kept(scan.number()?) => Ok(()),
        Start::Number => Err(misfit("it has a number that would be rounded")),
        literal => Ok(scan.literal(literal)?),
    }
}

fn text(quoted: Quoted<'_>) -> Result<Cow<'_, str>, Misfit> {
    let Some(text) = quoted.decode() else {
        return Err(misfit("it has half a surrogate pair, which is no text"));
    };
    // Only an escape can say it, and then the text is no longer borrowed.
    if matches!(&text, Cow::Owned(text) if text.contains('\0')) {
        return Err(misfit("it has the character U+0000"));
    }
    Ok(text)
}

fn is_base64(text: &str) -> bool {
    data_encoding::BASE64.decode(text.as_bytes()).is_ok()
}

fn misfit(reason: &'static str) -> Misfit {
    Misfit {
        path: String::new(),
        reason: Cow::Borrowed(reason),
    }
}

fn not_a(kind: Kind) -> Misfit {
    misfit(match kind {
        Kind::String => "it is not a STRING",
        Kind::Bytes => "it is not BYTES in base64",
        Kind::Integer => "it is not an INTEGER of 64 bits",
        Kind::Float => "it is not a FLOAT of 64 bits",
        Kind::Boolean => "it is not a BOOLEAN",
        Kind::Timestamp => "it is not a TIMESTAMP such as `2026-11-15T18:24:03.850914Z`",
        Kind::Record => "it is not a RECORD",
        Kind::Date => "it is not a DATE such as `2026-11-15`",
        Kind::Time => "it is not a TIME such as `18:24:03.850914`",
        Kind::Datetime => "it is not a DATETIME such as `2026-11-15T18:24:03.850914`",
        Kind::Numeric => "it is not a NUMERIC of 29 digits before the point and 9 behind it",
        Kind::Bignumeric => "it is not a BIGNUMERIC of 38 digits before the point and 38 behind it",
        Kind::Geography => "it is not a GEOGRAPHY such as `POINT(7.4 51.5)`; only points are taken",
        Kind::Interval => "it is not an INTERVAL such as `1-2 3 4:5:6`",
        Kind::Json => "it is not JSON",
        Kind::Range(_) => "it is a RANGE, which BigQuery does not load from JSON",
    })
}

impl Misfit {
    fn below(self, parent: &str) -> Self {
        let path = match self.path.as_bytes().first() {
            None => parent.to_owned(),
            Some(b'[') => format!("{parent}{}", self.path),
            Some(_) => format!("{parent}.{}", self.path),
        };
        Self { path, ..self }
    }
}

impl From<JsonFault> for Misfit {
    fn from(fault: JsonFault) -> Self {
        Self {
            path: String::new(),
            reason: Cow::Owned(fault.to_string()),
        }
    }
}

/// Which columns were there. Most records have few, and then nothing is allocated.
#[derive(Default)]
struct Seen {
    few: u64,
    many: Vec<u64>,
}

impl Seen {
    /// Notes `position`, and says whether it was new.
    fn first_time(&mut self, position: usize) -> bool {
        let (word, bit) = (position / 64, 1_u64 << (position % 64));
        if word >= 1 && self.many.len() < word {
            self.many.resize(word, 0);
        }
        let word = match word {
            0 => &mut self.few,
            _ => &mut self.many[word - 1],
        };
        let new = *word & bit == 0;
        *word |= bit;
        new
    }
}

#[cfg(test)]
mod tests;
