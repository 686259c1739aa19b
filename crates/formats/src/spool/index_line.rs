//! A line of a bundle's index: which file a row was, and how to recognise it.

use jiff::{Timestamp, tz::TimeZone};
use serde::{Deserialize, Serialize};

use super::{BundleTime, RowWriter};
use crate::Digest;

/// One file of a bundle. The lines of an index are in the order of the rows of the data.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct IndexLine {
    /// `2026/11/15/a.json`: below the folder of the datatype, as in the row.
    #[serde(rename = "Filename")]
    pub filename: String,
    /// How many bytes the file had.
    #[serde(rename = "Size")]
    pub size: u64,
    /// The digest of these bytes: of the file, not of the row made of it.
    #[serde(rename = "SHA256")]
    pub sha256: Digest,
    /// When the file was added to the bundle. Written in microseconds, rounded down.
    #[serde(rename = "TimeAdded")]
    pub time_added: Timestamp,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Written<'a> {
    filename: &'a str,
    size: u64,
    #[serde(rename = "SHA256")]
    sha256: Digest,
    time_added: String,
}

/// A line that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("damaged line of an index: {0}")]
pub struct DamagedIndexLine(String);

/// The wrapped form; the other columns say nothing that the line does not.
#[derive(Deserialize)]
struct Wrapped {
    raw: IndexLine,
}

impl IndexLine {
    /// Appends the line, as an index has it that no loader reads.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        self.append_json(out);
        out.push(b'\n');
    }

    /// Appends the line as a row of the table `index1`. `rows` must have been made for the index object, and without an
    /// `id` column: that table has none.
    pub fn append_wrapped(&self, rows: &RowWriter, out: &mut Vec<u8>) {
        let mut raw = Vec::with_capacity(256);
        self.append_json(&mut raw);
        let name = self.filename.rsplit('/').next().unwrap_or_default();
        rows.append(out, name, &raw);
    }

    fn append_json(&self, out: &mut Vec<u8>) {
        let written = Written {
            filename: &self.filename,
            size: self.size,
            sha256: self.sha256,
            time_added: in_micros(self.time_added),
        };
        serde_json::to_writer(out, &written).expect("a line is plain data, and memory takes it");
    }

    /// Reads a line of either form, with or without its end. Unknown fields are passed over.
    ///
    /// # Errors
    /// [`DamagedIndexLine`] says what is wrong.
    pub fn parse(line: &[u8]) -> Result<Self, DamagedIndexLine> {
        let plain = match serde_json::from_slice::<Self>(line) {
            Ok(plain) => return Ok(plain),
            Err(error) => error,
        };
        serde_json::from_slice(line)
            .map(|Wrapped { raw }| raw)
            .map_err(|_| DamagedIndexLine(plain.to_string()))
    }
}

/// Always six digits, so that the text sorts like the time.
fn in_micros(time: Timestamp) -> String {
    let at = TimeZone::UTC.to_datetime(BundleTime::from_timestamp(time).timestamp());
    format!("{at:.6}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::{Archiver, SpoolDate};
    use proptest::prelude::*;

    const LINE: &str = "{\"Filename\":\"2026/11/15/a.json\",\"Size\":3,\
        \"SHA256\":\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\",\
        \"TimeAdded\":\"2026-11-15T18:24:03.851236Z\"}";

    fn line() -> IndexLine {
        IndexLine {
            filename: "2026/11/15/a.json".to_owned(),
            size: 3,
            sha256: Digest::of(b"abc"),
            time_added: "2026-11-15T18:24:03.851236Z".parse().unwrap(),
        }
    }

    fn text_of(line: &IndexLine) -> String {
        let mut out = Vec::new();
        line.append_to(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_is_spelled_exactly_so_and_read_for_ever() {
        assert_eq!(text_of(&line()), format!("{LINE}\n"));
        assert_eq!(IndexLine::parse(LINE.as_bytes()), Ok(line()));
        let whole_second = IndexLine {
            time_added: "2026-11-15T18:24:03Z".parse().unwrap(),
            ..line()
        };
        assert!(text_of(&whole_second).contains("18:24:03.000000Z"));
        let later = LINE.replace("\"Size\"", "\"Color\":[],\"Size\"");
        assert_eq!(IndexLine::parse(later.as_bytes()), Ok(line()));
    }

    #[test]
    fn the_wrapped_form_is_a_row_and_is_read_as_well() {
        let archiver = Archiver {
            version: "cannery@0.1.0".to_owned(),
            git_commit: "3ac4528".to_owned(),
            archive_url: "file:///lake/index".to_owned(),
        };
        let date = SpoolDate::from_path("2026/11/15").unwrap();
        let mut out = Vec::new();
        line().append_wrapped(&RowWriter::new(date, &archiver, false), &mut out);
        let text = String::from_utf8(out.clone()).unwrap();
        assert!(
            text.starts_with("{\"date\":\"2026-11-15\",\"archiver\":{"),
            "{text}"
        );
        assert!(
            text.contains("\"Filename\":\"2026/11/15/a.json\"},\"raw\":{\"Filename\""),
            "{text}"
        );
        assert!(text.ends_with(&format!("\"raw\":{LINE}}}\n")), "{text}");
        assert_eq!(IndexLine::parse(&out), Ok(line()));
    }

    #[test]
    fn damage_is_named() {
        for (text, reason) in [
            ("", "EOF"),
            ("{}", "missing field `Filename`"),
            (&LINE.replace("ba7816", "BA7816"), "not a SHA-256"),
            (&LINE.replace(":3", ":-3"), "invalid value"),
            (&LINE[..40], "EOF"),
            (&format!("{LINE}{LINE}"), "trailing"),
        ] {
            let error = IndexLine::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    proptest! {
        #[test]
        fn every_line_is_read_back(name in "\\PC{1,40}|[\u{0}-\u{7f}]{1,40}", size: u64, micros in 0_i64..253_402_200_000_000_000) {
            let line = IndexLine {
                filename: name,
                size,
                time_added: Timestamp::from_microsecond(micros).unwrap(),
                ..line()
            };
            let text = text_of(&line);
            prop_assert_eq!(text.matches('\n').count(), 1);
            prop_assert_eq!(IndexLine::parse(text.as_bytes()), Ok(line));
        }
    }
}
