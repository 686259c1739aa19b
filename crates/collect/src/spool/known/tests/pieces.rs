//! Lines and rows.

use super::*;
use crate::gzip_lines::{Line, Lines, check_whole};
use crate::row::{Row, name_in};
use cannery_formats::spool::{Archiver, RowWriter};
use proptest::prelude::*;

fn all(gzip: &[u8], bytes_max: usize) -> io::Result<Vec<Option<Vec<u8>>>> {
    let mut found = Vec::new();
    let mut lines = Lines::new(gzip, bytes_max);
    while let Some(line) = lines.next_line()? {
        found.push(match line {
            Line::Text(text) => Some(text.to_vec()),
            Line::TooLong => None,
        });
    }
    Ok(found)
}

#[test]
fn lines_end_where_they_end_and_are_never_too_long() {
    let some = |text: &str| Some(text.as_bytes().to_vec());
    let exact = "x".repeat(100_000);
    let text = format!("a\n\n{exact}\n{exact}x\nlast");
    let expected = vec![some("a"), some(""), some(&exact), None, some("last")];
    assert_eq!(all(&gzip(text.as_bytes()), 100_000).unwrap(), expected);
    let two = [gzip(b"a\nb"), gzip(b"c\n")].concat();
    assert_eq!(all(&two, 10).unwrap(), [some("a"), some("bc")]);
    assert_eq!(all(&gzip(b""), 10).unwrap(), []);
}

#[test]
fn no_end_is_reached_in_what_is_damaged() {
    let whole = gzip(&b"{\"a\":1}\n".repeat(1_000));
    assert!(check_whole(&whole).is_ok());
    for end in 0..whole.len() {
        assert!(all(&whole[..end], 10).is_err(), "{end}");
        assert!(check_whole(&whole[..end]).is_err(), "{end}");
    }
}

#[test]
fn names_lie_in_the_folder_of_the_date() {
    assert_eq!(name_in("2026/11/15/a b", date()), Some("a b"));
    assert_eq!(name_in("2026/11/15/...", date()), Some("..."));
    for filename in [
        "2026/11/14/a",
        "2026/11/15",
        "2026/11/15/",
        "2026/11/15/.",
        "2026/11/15/..",
        "2026/11/15/a/b",
        "2026/11/15//a",
        "2026/11/15a",
        "2026/11/15/a\0b",
        "/2026/11/15/a",
        "a",
        "",
    ] {
        assert_eq!(name_in(filename, date()), None, "{filename:?}");
    }
}

fn written(id_column: bool, name: &str, raw: &str) -> Vec<u8> {
    let archiver = Archiver {
        version: "cannery@0.1.0".to_owned(),
        git_commit: "3ac4528".to_owned(),
        archive_url: "gs://b\"},\"raw\":u/x".to_owned(),
    };
    let mut out = Vec::new();
    RowWriter::new(date(), &archiver, id_column).append(&mut out, name, raw.as_bytes());
    out.pop();
    out
}

#[test]
fn the_json_of_a_row_is_taken_as_it_stands() {
    let deep = "[".repeat(100) + &"]".repeat(100);
    for raw in [
        "1e999",
        "-0.0",
        "null",
        "\"\\ud800\\u0041\"",
        "{\"a\" : 1, \"a\":\t2 }",
        "{\"raw\":{}}",
        "{\"archiver\":{\"Filename\":\"2026/11/15/other\"}}",
        &deep,
    ] {
        let line = written(true, "a", raw);
        let row = Row::parse(&line, date()).unwrap();
        assert_eq!((&*row.name, row.raw), ("a", raw.as_bytes()));
    }
}

proptest! {
    #[test]
    fn every_name_comes_back(name in "[^/\u{0}]{1,60}", id_column: bool) {
        prop_assume!(name != "." && name != "..");
        let line = written(id_column, &name, "{\"a\":1}");
        let row = Row::parse(&line, date()).unwrap();
        prop_assert_eq!((row.name, row.raw), (name, &b"{\"a\":1}"[..]));
    }
}
