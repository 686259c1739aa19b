//! The lines of an index: JSON with its keys in order. What is read may be the original's.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::can::{BucketFile, TextName};
use crate::checksum::{Sha1, Sums};
use crate::frames::FrameSpan;
use crate::hour_archive::ArchiveFault;
use crate::{Digest, Uid};

/// Where something stood in its raw report, and what it was. It is written to the private index only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Where it began.
    pub src_off: u64,
    /// How long it was.
    pub src_size: u64,
    /// Its SHA-1.
    pub orig_sha1: Sha1,
}

/// A report of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its name.
    pub textname: TextName,
    /// How long it was before it was sanitised.
    pub src_size: u64,
    /// The SHA-1 of what it was then: in the private index, and in the original's.
    pub orig_sha1: Option<Sha1>,
}

/// A measurement of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datum {
    /// Its id. The original's have none.
    pub id: Option<Uid>,
    /// Where it begins in the text of the file.
    pub text_off: u64,
    /// How long it is, without the newline behind it.
    pub text_size: u64,
    /// The SHA-1 of what it was before: in the private index, and in the original's.
    pub orig_sha1: Option<Sha1>,
}

/// A part of a report that is no measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadBlob {
    /// What is wrong with it, without anything of its content.
    pub info: String,
    /// Where it begins in the raw report.
    pub src_off: u64,
    /// How long it is there.
    pub src_size: u64,
    /// Its SHA-1: in the private index, and in the original's.
    pub orig_sha1: Option<Sha1>,
}

/// What an archive was made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The version of the rules of the sanitiser, as their file says.
    pub rules_version: String,
    /// The SHA-256 of the rules.
    pub rules_sha256: Digest,
    /// The version of each lookup table, by its name.
    pub lookups: BTreeMap<String, String>,
    /// The sums of the text of the file.
    pub text: Sums,
}

/// A line of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Begins a file.
    File(BucketFile),
    /// Begins a frame.
    Frame(FrameSpan),
    /// Begins a report.
    Report(Report),
    /// A measurement of the report, within the frame.
    Datum(Datum),
    /// A part of the report that is no measurement.
    BadBlob(BadBlob),
    /// Ends the report, within a frame or between two.
    EndReport,
    /// Ends the frame.
    EndFrame,
    /// Of the file; stands before its end. The original's have none.
    Rules(Rules),
    /// Ends the file, with its sums.
    EndFile(Sums),
    /// A line that a later version wrote.
    Unknown,
}

/// All fields of all lines, in the order of their names.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    file_crc32: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_off: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_sha1: Option<Sha1>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filename: Option<BucketFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Uid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    info: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lookups: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    orig_sha1: Option<Sha1>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rules_sha256: Option<Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rules_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    src_off: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    src_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text_crc32: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text_off: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text_sha1: Option<Sha1>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    textname: Option<TextName>,
    r#type: String,
}

impl Record {
    /// Writes the line of the public index, with its newline: without any hash of what was not sanitised.
    pub fn write_public(&self, out: &mut Vec<u8>) {
        let mut line = self.line();
        line.orig_sha1 = None;
        line.write(out);
    }

    /// Writes the line of the private index, if it has one. It says what follows from the raw reports alone, so it is the
    /// same whatever rules made the archive.
    pub(super) fn write_private(&self, origin: Option<Origin>, out: &mut Vec<u8>) {
        let mut line = match self {
            Self::File(_) | Self::Report(_) | Self::EndReport => self.line(),
            Self::Datum(datum) => Line {
                id: datum.id,
                ..Line::of("datum")
            },
            Self::BadBlob(_) => Line {
                info: None,
                ..self.line()
            },
            Self::EndFile(_) => Line::of("/file"),
            Self::Frame(_) | Self::EndFrame | Self::Rules(_) | Self::Unknown => return,
        };
        if let Some(origin) = origin {
            line.src_off = Some(origin.src_off);
            line.src_size = Some(origin.src_size);
            line.orig_sha1 = Some(origin.orig_sha1);
        }
        line.write(out);
    }

    /// Reads a line, without its newline. Fields that are not known are passed over.
    ///
    /// # Errors
    /// [`ArchiveFault::Damaged`] when it is no such line.
    pub fn parse(line: &[u8]) -> Result<Self, ArchiveFault> {
        let line: Line = serde_json::from_slice(line)
            .map_err(|error| ArchiveFault::Damaged(format!("a line of the index: {error}")))?;
        let kind = line.r#type.clone();
        Self::of(line).ok_or_else(|| {
            let kind = kind.escape_debug();
            let what = format!("a line of the index lacks something that `{kind}` has");
            ArchiveFault::Damaged(what)
        })
    }

    fn of(line: Line) -> Option<Self> {
        Some(match line.r#type.as_str() {
            "file" => Self::File(line.filename?),
            "frame" => Self::Frame(FrameSpan {
                file_off: line.file_off?,
                file_size: line.file_size?,
                text_off: line.text_off?,
                text_size: line.text_size?,
            }),
            "report" => Self::Report(Report {
                textname: line.textname?,
                src_size: line.src_size?,
                orig_sha1: line.orig_sha1,
            }),
            "datum" => Self::Datum(Datum {
                id: line.id,
                text_off: line.text_off?,
                text_size: line.text_size?,
                orig_sha1: line.orig_sha1,
            }),
            "badblob" => Self::BadBlob(BadBlob {
                info: line.info?,
                src_off: line.src_off?,
                src_size: line.src_size?,
                orig_sha1: line.orig_sha1,
            }),
            "/report" => Self::EndReport,
            "/frame" => Self::EndFrame,
            "rules" => Self::Rules(Rules {
                rules_version: line.rules_version?,
                rules_sha256: line.rules_sha256?,
                lookups: line.lookups?,
                text: sums(line.text_crc32, line.text_sha1, line.text_size)?,
            }),
            "/file" => Self::EndFile(sums(line.file_crc32, line.file_sha1, line.file_size)?),
            "" => return None,
            _ => Self::Unknown,
        })
    }

    fn line(&self) -> Line {
        match self {
            Self::File(filename) => Line {
                filename: Some(filename.clone()),
                ..Line::of("file")
            },
            Self::Frame(span) => Line {
                file_off: Some(span.file_off),
                file_size: Some(span.file_size),
                text_off: Some(span.text_off),
                text_size: Some(span.text_size),
                ..Line::of("frame")
            },
            Self::Report(report) => Line {
                orig_sha1: report.orig_sha1,
                src_size: Some(report.src_size),
                textname: Some(report.textname.clone()),
                ..Line::of("report")
            },
            Self::Datum(datum) => Line {
                id: datum.id,
                orig_sha1: datum.orig_sha1,
                text_off: Some(datum.text_off),
                text_size: Some(datum.text_size),
                ..Line::of("datum")
            },
            Self::BadBlob(blob) => Line {
                info: Some(blob.info.clone()),
                orig_sha1: blob.orig_sha1,
                src_off: Some(blob.src_off),
                src_size: Some(blob.src_size),
                ..Line::of("badblob")
            },
            Self::EndReport => Line::of("/report"),
            Self::EndFrame => Line::of("/frame"),
            Self::Rules(rules) => rules.line(),
            Self::EndFile(sums) => Line {
                file_crc32: Some(sums.crc32),
                file_sha1: Some(sums.sha1),
                file_size: Some(sums.size),
                ..Line::of("/file")
            },
            Self::Unknown => Line::of("unknown"),
        }
    }
}

impl Rules {
    fn line(&self) -> Line {
        Line {
            lookups: Some(self.lookups.clone()),
            rules_sha256: Some(self.rules_sha256),
            rules_version: Some(self.rules_version.clone()),
            text_crc32: Some(self.text.crc32),
            text_sha1: Some(self.text.sha1),
            text_size: Some(self.text.size),
            ..Line::of("rules")
        }
    }
}

impl Line {
    fn of(r#type: &str) -> Self {
        Self {
            r#type: r#type.to_owned(),
            ..Self::default()
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        serde_json::to_writer(&mut *out, self).expect("numbers and strings are JSON");
        out.push(b'\n');
    }
}

fn sums(crc32: Option<i32>, sha1: Option<Sha1>, size: Option<u64>) -> Option<Sums> {
    Some(Sums {
        crc32: crc32?,
        sha1: sha1?,
        size: size?,
    })
}
