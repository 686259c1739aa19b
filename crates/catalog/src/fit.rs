//! Whether a JSON value fits a column: nothing is guessed, and what does not fit says why.

use cannery_database::{Column, ColumnType, Value, is_expressible};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::Value as Json;

/// A whole row, or the first reason why it does not fit.
pub(crate) fn row(columns: &[Column], given: &[Json]) -> Result<Vec<Value>, String> {
    if columns.len() != given.len() {
        return Err(format!(
            "the row has {} values for {} columns",
            given.len(),
            columns.len()
        ));
    }
    let cells = columns.iter().zip(given).map(|(column, value)| {
        cell(column.column_type, value).map_err(|why| format!("column `{}`: {why}", column.name))
    });
    cells.collect()
}

fn cell(column_type: ColumnType, value: &Json) -> Result<Value, String> {
    if value.is_null() {
        return Ok(Value::Null);
    }
    let fitted = match column_type {
        ColumnType::Text => text(value)?,
        ColumnType::Int => int(value).map(Value::Int),
        ColumnType::Float => value
            .as_f64()
            .filter(|number| number.is_finite())
            // SQLite keeps no negative zero.
            .map(|number| Value::Float(if number == 0.0 { 0.0 } else { number })),
        ColumnType::Bool => value.as_bool().map(Value::Bool),
        ColumnType::Time => time(value).map(Value::Time),
        ColumnType::Json => Some(Value::Json(value.to_string())),
    };
    fitted.ok_or_else(|| format!("{} is no {}", kind(value), name(column_type)))
}

fn text(value: &Json) -> Result<Option<Value>, String> {
    let Some(text) = value.as_str() else {
        return Ok(None);
    };
    if text.contains('\0') {
        return Err("a text with the character NUL cannot be stored".to_owned());
    }
    Ok(Some(Value::from(text)))
}

/// Whole numbers, also those written as `3.0`.
fn int(value: &Json) -> Option<i64> {
    if let Some(number) = value.as_i64() {
        return Some(number);
    }
    let number = value.as_f64().filter(|_| value.is_f64())?;
    // Up to 2^53 every whole number has one spelling as a float.
    let exact = number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0;
    exact.then(|| format!("{number:.0}").parse().ok()).flatten()
}

/// RFC 3339, the same without a zone (then UTC, with `T` or a space), or seconds since 1970.
fn time(value: &Json) -> Option<i64> {
    let millis = match value {
        Json::String(text) => parse_time(text)?,
        Json::Number(number) => {
            let millis = (number.as_f64()? * 1000.0).round();
            if millis.abs() > 9e15 {
                return None;
            }
            format!("{millis:.0}").parse().ok()?
        }
        _ => return None,
    };
    is_expressible(millis).then_some(millis)
}

fn parse_time(text: &str) -> Option<i64> {
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Some(moment.as_millisecond());
    }
    let local: DateTime = text.parse().ok()?;
    let moment = local.to_zoned(TimeZone::UTC).ok()?;
    Some(moment.timestamp().as_millisecond())
}

fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "nothing",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "this number",
        Json::String(_) => "this text",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    }
}

fn name(column_type: ColumnType) -> &'static str {
    match column_type {
        ColumnType::Text => "text",
        ColumnType::Int => "whole number of 64 bits",
        ColumnType::Float => "number",
        ColumnType::Bool => "boolean",
        ColumnType::Time => "time",
        ColumnType::Json => "JSON",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fits(column_type: ColumnType, value: &Json) -> Result<Value, String> {
        cell(column_type, value)
    }

    #[test]
    fn what_fits() {
        assert_eq!(fits(ColumnType::Int, &json!(3.0)), Ok(Value::Int(3)));
        assert_eq!(
            fits(ColumnType::Int, &json!(i64::MIN)),
            Ok(Value::Int(i64::MIN))
        );
        assert_eq!(fits(ColumnType::Float, &json!(2)), Ok(Value::Float(2.0)));
        assert_eq!(fits(ColumnType::Bool, &json!(null)), Ok(Value::Null));
        let second = Ok(Value::Time(1_479_168_000_000));
        assert_eq!(
            fits(ColumnType::Time, &json!("2016-11-15T00:00:00Z")),
            second
        );
        assert_eq!(
            fits(ColumnType::Time, &json!("2016-11-15 00:00:00")),
            second
        );
        assert_eq!(fits(ColumnType::Time, &json!(1_479_168_000)), second);
        assert_eq!(
            fits(ColumnType::Json, &json!({"b": 1, "a": "\0"})),
            Ok(Value::Json("{\"b\":1,\"a\":\"\\u0000\"}".to_owned()))
        );
    }

    #[test]
    fn what_does_not() {
        for (column_type, value) in [
            (ColumnType::Text, json!(1)),
            (ColumnType::Text, json!("a\0b")),
            (ColumnType::Int, json!("1")),
            (ColumnType::Int, json!(1.5)),
            (ColumnType::Int, json!(u64::MAX)),
            (ColumnType::Int, json!(1e300)),
            (ColumnType::Float, json!("1")),
            (ColumnType::Bool, json!(0)),
            (ColumnType::Time, json!("yesterday")),
            (ColumnType::Time, json!(1e300)),
            (ColumnType::Time, json!(true)),
        ] {
            assert!(
                cell(column_type, &value).is_err(),
                "{column_type:?} {value}"
            );
        }
        let columns = [Column::new("a", ColumnType::Int)];
        assert!(row(&columns, &[]).is_err());
        assert_eq!(
            row(&columns, &[json!([])]),
            Err("column `a`: an array is no whole number of 64 bits".to_owned())
        );
    }
}
