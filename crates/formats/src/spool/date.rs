//! The date of a spool folder: the day its producer filed a measurement under.

use std::fmt;

use jiff::civil;

/// A real calendar date of the years 1 to 9999, which are those of a BigQuery `DATE`. Written `2026/11/15`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpoolDate(civil::Date);

/// The folders do not name a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a calendar date of the form `<yyyy>/<mm>/<dd>`")]
pub struct InvalidSpoolDate;

impl SpoolDate {
    /// The date of the folders `<yyyy>/<mm>/<dd>`, with all their zeros.
    ///
    /// # Errors
    /// [`InvalidSpoolDate`] when they are not four, two and two digits that name a day.
    pub fn from_components(yyyy: &str, mm: &str, dd: &str) -> Result<Self, InvalidSpoolDate> {
        let year = digits(yyyy, 4)?;
        let (month, day) = (digits(mm, 2)?, digits(dd, 2)?);
        let small = |number: i16| i8::try_from(number).map_err(|_| InvalidSpoolDate);
        let date = civil::Date::new(year, small(month)?, small(day)?);
        Self::new(date.map_err(|_| InvalidSpoolDate)?)
    }

    /// The same from one text, `2026/11/15`.
    ///
    /// # Errors
    /// [`InvalidSpoolDate`], as above.
    pub fn from_path(path: &str) -> Result<Self, InvalidSpoolDate> {
        let mut parts = path.split('/');
        match [parts.next(), parts.next(), parts.next(), parts.next()] {
            [Some(yyyy), Some(mm), Some(dd), None] => Self::from_components(yyyy, mm, dd),
            _ => Err(InvalidSpoolDate),
        }
    }

    /// The spool's form of a date.
    ///
    /// # Errors
    /// [`InvalidSpoolDate`] when it is before the year 1.
    pub fn new(date: civil::Date) -> Result<Self, InvalidSpoolDate> {
        if date.year() < 1 {
            return Err(InvalidSpoolDate);
        }
        Ok(Self(date))
    }

    /// For arithmetic.
    #[must_use]
    pub fn date(self) -> civil::Date {
        self.0
    }

    /// `2026-11-15`.
    #[must_use]
    pub fn dashed(self) -> String {
        let date = self.0;
        format!("{:04}-{:02}-{:02}", date.year(), date.month(), date.day())
    }
}

fn digits(text: &str, count: usize) -> Result<i16, InvalidSpoolDate> {
    if text.len() != count || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(InvalidSpoolDate);
    }
    text.parse().map_err(|_| InvalidSpoolDate)
}

impl fmt::Display for SpoolDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date = self.0;
        write!(
            f,
            "{:04}/{:02}/{:02}",
            date.year(),
            date.month(),
            date.day()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_real_days_in_their_full_form_are_dates() {
        let date = SpoolDate::from_components("2026", "11", "15").unwrap();
        assert_eq!(date.to_string(), "2026/11/15");
        assert_eq!(date.dashed(), "2026-11-15");
        assert_eq!(SpoolDate::from_path("2026/11/15"), Ok(date));
        assert!(date < SpoolDate::from_path("2026/12/01").unwrap());
        assert!(SpoolDate::from_path("2024/02/29").is_ok());
        assert!(SpoolDate::from_path("0001/01/01").is_ok());
        for path in [
            "2026/02/29",
            "2026/13/01",
            "2026/00/01",
            "2026/01/00",
            "0000/01/01",
            "2026/1/15",
            "02026/11/15",
            "+026/11/15",
            "2026/11/15/",
            "2026/11",
            "2026/11/1\u{665}",
            "",
        ] {
            assert_eq!(SpoolDate::from_path(path), Err(InvalidSpoolDate), "{path}");
        }
    }
}
