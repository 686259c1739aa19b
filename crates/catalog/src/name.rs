//! Names that are safe in SQL, and texts that a catalog accepts.

use crate::error::Error;

/// The first letters of every table that a declaration makes: a declared name never meets a table of the catalog itself.
const FEATURE_PREFIX: &str = "feature_";
const AGGREGATE_PREFIX: &str = "aggregate_";
/// PostgreSQL cuts longer names off.
const NAME_MAX: usize = 48;
/// Columns that every declared table has.
const TAKEN: [&str; 3] = ["measurement", "row", "date"];

/// The table of a feature, quoted.
pub(crate) fn feature_table(name: &str) -> Result<String, Error> {
    Ok(format!("\"{FEATURE_PREFIX}{}\"", checked(name)?))
}

/// The table of an aggregate, quoted.
pub(crate) fn aggregate_table(name: &str) -> Result<String, Error> {
    Ok(format!("\"{AGGREGATE_PREFIX}{}\"", checked(name)?))
}

/// A column, quoted.
pub(crate) fn column(name: &str) -> Result<String, Error> {
    if TAKEN.contains(&name) {
        return Err(Error::invalid(format!(
            "a declared table has a column `{name}` already; choose another name"
        )));
    }
    Ok(format!("\"{}\"", checked(name)?))
}

fn checked(name: &str) -> Result<&str, Error> {
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    let rest = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if begins && name.len() <= NAME_MAX && name.chars().all(rest) {
        return Ok(name);
    }
    Err(Error::invalid(format!(
        "`{name}` is no name for a table or column: lower case letters, digits and `_`, beginning with a letter, at most {NAME_MAX}"
    )))
}

/// A uid: 32 characters of base32 in lower case.
pub(crate) fn uid(uid: &str) -> Result<(), Error> {
    let base32 = |c: char| c.is_ascii_lowercase() || ('2'..='7').contains(&c);
    if uid.len() == 32 && uid.chars().all(base32) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "`{uid}` is no uid: 32 characters `a-z2-7`"
    )))
}

/// A bucket: a date.
pub(crate) fn date(date: &str) -> Result<(), Error> {
    let parsed: Result<jiff::civil::Date, _> = date.parse();
    match parsed {
        Ok(parsed) if parsed.to_string() == date => Ok(()),
        _ => Err(Error::invalid(format!(
            "`{date}` is no date `<yyyy>-<mm>-<dd>`"
        ))),
    }
}

/// An hour `<yyyy>-<mm>-<dd>T<hh>`: when it begins.
pub(crate) fn hour(text: &str) -> Result<jiff::civil::DateTime, Error> {
    let parsed = text.split_once('T').and_then(|(day, hour)| {
        let digits = hour.len() == 2 && hour.chars().all(|c| c.is_ascii_digit());
        date(day).ok().filter(|()| digits)?;
        let day: jiff::civil::Date = day.parse().ok()?;
        let hour = hour.parse().ok().filter(|hour| (0..24).contains(hour))?;
        Some(day.at(hour, 0, 0, 0))
    });
    parsed.ok_or_else(|| Error::invalid(format!("`{text}` is no hour `<yyyy>-<mm>-<dd>T<hh>`")))
}

/// A text that both databases keep.
pub(crate) fn text(what: &str, text: &str) -> Result<(), Error> {
    if text.contains('\0') {
        return Err(Error::invalid(format!("{what} has the character NUL")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_reach_sql() {
        assert_eq!(
            feature_table("http_requests").unwrap(),
            "\"feature_http_requests\""
        );
        for bad in ["", "A", "1a", "a\"b", "a b", "a;b", "ä", "_a"] {
            assert!(feature_table(bad).is_err(), "{bad}");
        }
        assert!(column("row").is_err());
        assert!(aggregate_table(&"a".repeat(49)).is_err());
    }

    #[test]
    fn uids_and_dates() {
        assert!(uid(&"a2".repeat(16)).is_ok());
        assert!(uid(&"A2".repeat(16)).is_err());
        assert!(uid(&"a1".repeat(16)).is_err());
        assert!(uid("").is_err());
        assert!(date("2026-11-15").is_ok());
        for bad in ["2026-13-01", "2026-1-1", "20261115", "-2026-11-15"] {
            assert!(date(bad).is_err(), "{bad}");
        }
    }
}
