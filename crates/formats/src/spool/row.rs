//! A row of a bundle: a file's JSON, wrapped in the standard columns.

use super::SpoolDate;

/// Who wrote a bundle, and where it lies. The same in all its rows, and in every mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archiver {
    /// `cannery@<version>`.
    pub version: String,
    /// The full hash of the commit it was built from.
    pub git_commit: String,
    /// The URL of the data object in the first storage.
    pub archive_url: String,
}

/// Writes the rows of one bundle. What is the same in all of them is made once.
#[derive(Clone, Debug)]
pub struct RowWriter {
    before_id: Vec<u8>,
    before_name: Vec<u8>,
    id_column: bool,
}

const BEFORE_RAW: &[u8] = b"\"},\"raw\":";

impl RowWriter {
    /// A writer for the files of `date`. With `id_column`, a row has the name of its file without extension as `id`.
    #[must_use]
    pub fn new(date: SpoolDate, archiver: &Archiver, id_column: bool) -> Self {
        let quoted = |text: &str| serde_json::to_string(text).expect("a text is plain data");
        let before_id = format!("{{\"date\":\"{}\",", date.dashed());
        let before_name = format!(
            "\"archiver\":{{\"Version\":{},\"GitCommit\":{},\"ArchiveURL\":{},\"Filename\":\"{date}/",
            quoted(&archiver.version),
            quoted(&archiver.git_commit),
            quoted(&archiver.archive_url)
        );
        Self {
            before_id: before_id.into_bytes(),
            before_name: before_name.into_bytes(),
            id_column,
        }
    }

    /// Appends the row of the file `name`, which lay in the folder of the date. `raw` must be one line of JSON, as
    /// [`super::json_line`] gives it: it is copied unseen.
    pub fn append(&self, out: &mut Vec<u8>, name: &str, raw: &[u8]) {
        debug_assert!(!raw.contains(&b'\n'), "a row is one line");
        out.extend_from_slice(&self.before_id);
        if self.id_column {
            out.extend_from_slice(b"\"id\":\"");
            append_escaped(out, id_of(name));
            out.extend_from_slice(b"\",");
        }
        out.extend_from_slice(&self.before_name);
        append_escaped(out, name);
        out.extend_from_slice(BEFORE_RAW);
        out.extend_from_slice(raw);
        out.extend_from_slice(b"}\n");
    }

    /// How many bytes [`RowWriter::append`] will append at most, so that a bundle can be closed before it is too large.
    #[must_use]
    pub fn row_bytes_max(&self, name: &str, raw: &[u8]) -> usize {
        // An escape has at most six bytes for one; a name can stand in a row twice.
        let fixed = self.before_id.len() + self.before_name.len() + BEFORE_RAW.len() + 10;
        fixed + 12 * name.len() + raw.len()
    }
}

/// The file name without its extension; a name that is nothing but an extension is kept.
fn id_of(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => name,
    }
}

/// Appends what stands between the quotes of a JSON string.
fn append_escaped(out: &mut Vec<u8>, text: &str) {
    let plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
    if text.bytes().all(plain) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    let quoted = serde_json::to_string(text).expect("a text is plain data");
    out.extend_from_slice(&quoted.as_bytes()[1..quoted.len() - 1]);
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::spool::json_line;
    use proptest::prelude::*;

    fn writer(id_column: bool) -> RowWriter {
        let archiver = Archiver {
            version: "cannery@0.1.0".to_owned(),
            git_commit: "3ac4528".to_owned(),
            archive_url: "gs://b\"u/autoload/v1/x".to_owned(),
        };
        RowWriter::new(
            SpoolDate::from_path("2026/11/15").unwrap(),
            &archiver,
            id_column,
        )
    }

    fn row(id_column: bool, name: &str, raw: &[u8]) -> String {
        let mut out = b"before\n".to_vec();
        writer(id_column).append(&mut out, name, raw);
        assert!(out.len() - 7 <= writer(id_column).row_bytes_max(name, raw));
        let text = String::from_utf8(out).unwrap();
        text.strip_prefix("before\n").unwrap().to_owned()
    }

    #[test]
    fn a_row_is_spelled_exactly_so() {
        assert_eq!(
            row(false, "a.json", br#"{"x": 9007199254740993}"#),
            "{\"date\":\"2026-11-15\",\"archiver\":{\"Version\":\"cannery@0.1.0\",\"GitCommit\":\"3ac4528\",\
             \"ArchiveURL\":\"gs://b\\\"u/autoload/v1/x\",\"Filename\":\"2026/11/15/a.json\"},\
             \"raw\":{\"x\": 9007199254740993}}\n"
        );
    }

    #[test]
    fn the_id_is_the_name_without_its_extension() {
        for (name, id) in [
            ("a.json", "a"),
            ("a.b.json", "a.b"),
            ("a", "a"),
            (".json", ".json"),
            ("a\"b.json", "a\\\"b"),
        ] {
            let row = row(true, name, b"{}");
            let start = format!("{{\"date\":\"2026-11-15\",\"id\":\"{id}\",\"archiver\":");
            assert!(row.starts_with(&start), "{row}");
        }
    }

    proptest! {
        #[test]
        fn any_name_makes_one_valid_line(name in "\\PC{1,60}|[\u{0}-\u{7f}]{1,60}", id_column: bool) {
            let row = row(id_column, &name, b"{\"a\":1}");
            let line = row.strip_suffix('\n').unwrap();
            prop_assert_eq!(json_line(line.as_bytes()), Ok(Cow::Borrowed(line.as_bytes())));
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            prop_assert_eq!(&value["archiver"]["Filename"], &format!("2026/11/15/{name}"));
            prop_assert_eq!(value.get("id").is_some(), id_column);
        }
    }
}
