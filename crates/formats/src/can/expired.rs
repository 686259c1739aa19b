//! The mark of a can, or of an archive, that was removed because nobody wants to keep it any longer. That it is there is
//! what counts; that of a can also keeps the pieces of reports that are no measurements, which nothing else holds.

use data_encoding::BASE64;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{BucketFile, TextName};
use crate::gz_lines::{GzLineReader, GzLines, IndexLimits};

const TYPE: &str = "expired";

/// What was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Expired {
    /// A can; its archive stays.
    Can,
    /// An archive, after its can.
    Archive,
}

/// A piece of a report that is in no archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPiece {
    /// The report.
    pub textname: TextName,
    /// Why it is no measurement.
    pub info: String,
    /// Where it began in the raw report.
    pub src_off: u64,
    /// Its bytes.
    pub text: Vec<u8>,
}

/// A line; its keys are in order.
#[derive(Serialize)]
struct Line<'l> {
    #[serde(skip_serializing_if = "Option::is_none")]
    filename: Option<&'l BucketFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    info: Option<&'l str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    marked: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    src_off: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    src_size: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    textname: Option<&'l TextName>,
    r#type: &'static str,
}

/// The first line, as it is read.
#[derive(Deserialize)]
struct Head {
    filename: BucketFile,
    marked: Timestamp,
    r#type: String,
}

/// When a file was marked, by its mark; nothing for an object that is none.
#[must_use]
pub fn marked_at(file: &BucketFile, object: &[u8]) -> Option<Timestamp> {
    let mut lines = GzLineReader::new(object, IndexLimits::default());
    let head: Head = serde_json::from_slice(lines.next_line().ok()??).ok()?;
    (head.filename == *file && head.r#type == TYPE).then_some(head.marked)
}

/// The object; `docs/formats.md`, section "What is kept no longer". The same can, time and pieces make the same bytes.
#[must_use]
pub fn expired_object(file: &BucketFile, marked: Timestamp, pieces: &[BadPiece]) -> Vec<u8> {
    let head = Line {
        filename: Some(file),
        info: None,
        marked: Some(marked),
        src_off: None,
        src_size: None,
        text_base64: None,
        textname: None,
        r#type: TYPE,
    };
    let pieces = pieces.iter().map(|piece| Line {
        filename: None,
        info: Some(&piece.info),
        marked: None,
        src_off: Some(piece.src_off),
        src_size: Some(piece.text.len()),
        text_base64: Some(BASE64.encode(&piece.text)),
        textname: Some(&piece.textname),
        r#type: "badblob",
    });
    let mut out = GzLines::new(Vec::new());
    for line in std::iter::once(head).chain(pieces) {
        let mut text = serde_json::to_vec(&line).expect("names and numbers are always JSON");
        text.push(b'\n');
        out.write(&text).expect("a vector takes everything");
    }
    out.finish().expect("a vector takes everything")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_went_and_keeps_what_nothing_else_holds() {
        let file: BucketFile = "2026-11-15/ndt.0.tar.lz4".parse().unwrap();
        let piece = BadPiece {
            textname: TextName::new("2026-11-15/a").unwrap(),
            info: "it ends too early".to_owned(),
            src_off: 7,
            text: b"{\"a\xff".to_vec(),
        };
        let marked = "2026-11-17T12:00:00Z".parse().unwrap();
        let object = expired_object(&file, marked, &[piece]);
        assert_eq!(marked_at(&file, &object), Some(marked));
        let other = "2026-11-15/ndt.1.tar.lz4".parse().unwrap();
        assert_eq!(marked_at(&other, &object), None);
        assert_eq!(marked_at(&file, b"nothing"), None);
        let mut reader = GzLineReader::new(&object[..], IndexLimits::default());
        let mut lines = Vec::new();
        while let Some(line) = reader.next_line().unwrap() {
            lines.push(String::from_utf8(line.to_vec()).unwrap());
        }
        assert_eq!(
            lines,
            [
                r#"{"filename":"2026-11-15/ndt.0.tar.lz4","marked":"2026-11-17T12:00:00Z","type":"expired"}"#,
                r#"{"info":"it ends too early","src_off":7,"src_size":4,"text_base64":"eyJh/w==","textname":"2026-11-15/a","type":"badblob"}"#,
            ]
        );
    }
}
