//! A script for DuckDB: views over objects of the lake, and the catalog attached.
//!
//! Every view names its files one by one: a pattern would also match what was replaced, and what is being written.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What a script is made of. Places are paths or URLs that DuckDB opens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DuckDb {
    /// Bundles of lines of JSON in gzip, by kind: each kind is a view `bundle_<kind>`.
    pub bundles: BTreeMap<String, Vec<String>>,
    /// Archives of lines of JSON in zstd, by kind: each kind is a view `archive_<kind>`.
    pub archives: BTreeMap<String, Vec<String>>,
    /// Indexes of archives: the view `archive_index`.
    pub indexes: Vec<String>,
    /// The catalog, if it is to be attached.
    pub catalog: Option<Attached>,
    /// What a reader of the script should know, a line each.
    pub remarks: Vec<String>,
}

/// A catalog that DuckDB attaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attached {
    /// A file.
    Sqlite(String),
    /// A database, by what libpq takes; without a password.
    Postgres(String),
}

/// The longest line of JSON that a view reads.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// The columns of an index, so that a view has them all whatever its files have.
const INDEX_COLUMNS: &str = "{type: 'VARCHAR', filename: 'VARCHAR', textname: 'VARCHAR', id: 'VARCHAR', \
    file_off: 'BIGINT', file_size: 'BIGINT', text_off: 'BIGINT', text_size: 'BIGINT', src_off: 'BIGINT', \
    src_size: 'BIGINT', info: 'VARCHAR', file_sha1: 'VARCHAR', text_sha1: 'VARCHAR', rules_version: 'VARCHAR'}";

impl DuckDb {
    /// The script. Views come first: where an extension of DuckDB cannot be had, they are there all the same.
    #[must_use]
    pub fn script(&self) -> String {
        let mut script = String::from("-- Views over the lake, for DuckDB.\n");
        for remark in &self.remarks {
            // A remark must not end before its line does.
            line(
                &mut script,
                &format!("-- {}", remark.replace(['\n', '\r'], " ")),
            );
        }
        for (kind, files) in &self.bundles {
            view(
                &mut script,
                &format!("bundle_{kind}"),
                &lines("gzip", files),
            );
        }
        for (kind, files) in &self.archives {
            view(
                &mut script,
                &format!("archive_{kind}"),
                &lines("zstd", files),
            );
        }
        if !self.indexes.is_empty() {
            let read = format!(
                "read_json({}, format = 'newline_delimited', compression = 'gzip', columns = {INDEX_COLUMNS}, \
                 filename = 'index_file', maximum_object_size = {LINE_BYTES_MAX})",
                list(&self.indexes)
            );
            view(&mut script, "archive_index", &read);
        }
        match &self.catalog {
            None => {}
            Some(Attached::Sqlite(path)) => line(
                &mut script,
                &format!(
                    "attach {} as catalog (type sqlite, read_only);",
                    quoted(path)
                ),
            ),
            Some(Attached::Postgres(address)) => line(
                &mut script,
                &format!(
                    "attach {} as catalog (type postgres, schema 'cannery_catalog', read_only);",
                    quoted(address)
                ),
            ),
        }
        script
    }
}

fn lines(compression: &str, files: &[String]) -> String {
    format!(
        "read_json({}, format = 'newline_delimited', compression = '{compression}', union_by_name = true, \
         maximum_object_size = {LINE_BYTES_MAX})",
        list(files)
    )
}

fn view(script: &mut String, name: &str, read: &str) {
    let name = name.replace('"', "\"\"");
    line(
        script,
        &format!("create or replace view \"{name}\" as select * from {read};"),
    );
}

fn line(script: &mut String, text: &str) {
    writeln!(script, "{text}").expect("memory takes every text");
}

fn list(files: &[String]) -> String {
    let files: Vec<String> = files.iter().map(|file| quoted(file)).collect();
    format!("[\n  {}\n]", files.join(",\n  "))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_named_and_no_name_ends_a_text() {
        let script = DuckDb {
            bundles: [("spool-a\"b".to_owned(), vec!["it's.gz".to_owned()])].into(),
            indexes: vec!["/a".to_owned(), "/b".to_owned()],
            catalog: Some(Attached::Sqlite("it's.db".to_owned())),
            remarks: vec!["one\ndrop table x;".to_owned()],
            ..DuckDb::default()
        }
        .script();
        assert!(script.contains("\"bundle_spool-a\"\"b\""), "{script}");
        assert!(script.contains("'it''s.gz'"), "{script}");
        assert!(script.contains("[\n  '/a',\n  '/b'\n]"), "{script}");
        assert!(script.contains("attach 'it''s.db' as catalog"), "{script}");
        assert!(script.contains("-- one drop table x;\n"), "{script}");
    }

    #[test]
    fn nothing_gives_no_view() {
        let script = DuckDb::default().script();
        assert!(!script.contains("view"), "{script}");
    }
}
