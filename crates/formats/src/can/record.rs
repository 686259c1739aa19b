//! What the index says of a can: one line of JSON, its keys in order.

use serde::{Deserialize, Serialize};

use super::{BucketFile, TextName, tar};
use crate::checksum::{Sha1, Sums};
use crate::hour_archive::ArchiveFault;

/// A report in a can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CannedText {
    /// Its name, also in the tar.
    pub textname: TextName,
    /// The sums of its text.
    pub text: Sums,
}

/// What a can holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Canned {
    /// A tar of these reports, in its order.
    Tar {
        /// How long the tar is.
        text_size: u64,
        /// The reports.
        texts: Vec<CannedText>,
    },
    /// One report.
    Plain(CannedText),
}

/// A can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CannedFile {
    /// Its bucket and name.
    pub filename: BucketFile,
    /// The sums of the compressed file.
    pub file: Sums,
    /// What it holds.
    pub canned: Canned,
}

#[derive(Serialize, Deserialize)]
struct TextLine {
    text_crc32: i32,
    text_sha1: Sha1,
    text_size: u64,
    textname: TextName,
}

/// Both shapes. The fields are in the order of their names.
#[derive(Serialize, Deserialize)]
struct FileLine {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    canned: Option<Vec<TextLine>>,
    file_crc32: i32,
    file_sha1: Sha1,
    file_size: u64,
    filename: BucketFile,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text_crc32: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text_sha1: Option<Sha1>,
    text_size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    textname: Option<TextName>,
}

impl CannedFile {
    /// The reports, in their order.
    #[must_use]
    pub fn texts(&self) -> &[CannedText] {
        match &self.canned {
            Canned::Tar { texts, .. } => texts,
            Canned::Plain(text) => std::slice::from_ref(text),
        }
    }

    /// How long the text of the file is, with everything that belongs to a tar.
    #[must_use]
    pub fn text_size(&self) -> u64 {
        match &self.canned {
            Canned::Tar { text_size, .. } => *text_size,
            Canned::Plain(text) => text.text.size,
        }
    }

    /// Where a report begins in the text of the file; nothing for one that is not in it.
    #[must_use]
    pub fn text_off(&self, report: &TextName) -> Option<u64> {
        let mut at = 0;
        for CannedText { textname, text } in self.texts() {
            if matches!(self.canned, Canned::Tar { .. }) {
                at += tar::head(textname.as_str(), text.size, 0).len() as u64;
            }
            if textname == report {
                return Some(at);
            }
            at += text.size + tar::padding(text.size) as u64;
        }
        None
    }

    /// The line, with its newline.
    #[must_use]
    pub fn to_line(&self) -> Vec<u8> {
        let Sums { crc32, sha1, size } = self.file;
        let mut line = FileLine {
            canned: None,
            file_crc32: crc32,
            file_sha1: sha1,
            file_size: size,
            filename: self.filename.clone(),
            text_crc32: None,
            text_sha1: None,
            text_size: self.text_size(),
            textname: None,
        };
        match &self.canned {
            Canned::Tar { texts, .. } => {
                line.canned = Some(texts.iter().map(TextLine::of).collect());
            }
            Canned::Plain(CannedText { textname, text }) => {
                line.text_crc32 = Some(text.crc32);
                line.text_sha1 = Some(text.sha1);
                line.textname = Some(textname.clone());
            }
        }
        let mut bytes = serde_json::to_vec(&line).expect("numbers and strings are JSON");
        bytes.push(b'\n');
        bytes
    }

    /// Reads a line, without its newline. Fields that are not known are passed over.
    ///
    /// # Errors
    /// [`ArchiveFault::Damaged`] when it is no such line.
    pub fn parse(line: &[u8]) -> Result<Self, ArchiveFault> {
        let damaged = |what: String| ArchiveFault::Damaged(format!("a line of the index: {what}"));
        let line: FileLine =
            serde_json::from_slice(line).map_err(|error| damaged(error.to_string()))?;
        let text_size = line.text_size;
        let plain = (line.text_crc32, line.text_sha1, line.textname);
        let canned = match (line.canned, plain) {
            (Some(texts), (None, None, None)) => Canned::Tar {
                text_size,
                texts: texts.into_iter().map(CannedText::from).collect(),
            },
            (None, (Some(text_crc32), Some(text_sha1), Some(textname))) => {
                Canned::Plain(CannedText::from(TextLine {
                    text_crc32,
                    text_sha1,
                    text_size,
                    textname,
                }))
            }
            _ => return Err(damaged("it is neither of a tar nor of one report".into())),
        };
        Ok(Self {
            filename: line.filename,
            file: Sums {
                crc32: line.file_crc32,
                sha1: line.file_sha1,
                size: line.file_size,
            },
            canned,
        })
    }
}

impl TextLine {
    fn of(CannedText { textname, text }: &CannedText) -> Self {
        Self {
            text_crc32: text.crc32,
            text_sha1: text.sha1,
            text_size: text.size,
            textname: textname.clone(),
        }
    }
}

impl From<TextLine> for CannedText {
    fn from(line: TextLine) -> Self {
        Self {
            textname: line.textname,
            text: Sums {
                crc32: line.text_crc32,
                sha1: line.text_sha1,
                size: line.text_size,
            },
        }
    }
}
