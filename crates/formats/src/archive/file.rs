//! Frames become a file with its indexes.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::{Origin, Record, Rules, TextEnd, TextFrame};
use crate::Digest;
use crate::can::BucketFile;
use crate::checksum::{Summer, Sums};
use crate::frames::FrameFile;
use crate::gz_lines::GzLines;

/// What is known of an archive once it is written.
pub struct FinishedArchive<W> {
    /// Where it was written to, flushed.
    pub out: W,
    /// The sums of the file.
    pub file: Sums,
    /// The sums of its text.
    pub text: Sums,
    /// The object of its public index.
    pub index: Vec<u8>,
    /// The part of the bucket's private index: several of them in a row are one.
    pub private_index: Vec<u8>,
}

/// Writes frames in order, sums up the file and its text, and writes the indexes beside it.
pub struct ArchiveFile<W: Write> {
    file: FrameFile<W>,
    text: Summer,
    index: GzLines<Vec<u8>>,
    private_index: GzLines<Vec<u8>>,
    /// For a few lines; one for all.
    lines: Vec<u8>,
}

impl<W: Write> ArchiveFile<W> {
    /// A file of no frames. Its name says what its frames are compressed with.
    ///
    /// # Errors
    /// Those of the output.
    pub fn new(out: W, filename: BucketFile) -> io::Result<Self> {
        let mut file = Self {
            file: FrameFile::new(out, filename.name.codec()),
            text: Summer::default(),
            index: GzLines::new(Vec::new()),
            private_index: GzLines::new(Vec::new()),
            lines: Vec::new(),
        };
        file.records(&[(Record::File(filename), None)])?;
        Ok(file)
    }

    /// Writes the next frame; `compressed` is what [`crate::frames::FrameEncoder::encode`] made of its text.
    ///
    /// # Errors
    /// Those of the output. The file is useless then.
    pub fn push(&mut self, frame: &TextFrame, compressed: &[u8]) -> io::Result<()> {
        self.text.update(frame.text());
        let span = self.file.push(compressed, frame.text().len() as u64)?;
        self.records(&frame.before)?;
        self.records(&[(Record::Frame(span), None)])?;
        self.records(&frame.within)?;
        self.records(&[(Record::EndFrame, None)])
    }

    /// Ends the file. All frames must have been pushed, those of `end` too. What it was made with is written to the index.
    ///
    /// # Errors
    /// Those of the output; `InvalidInput` when a frame is missing.
    pub fn finish(
        mut self,
        end: &TextEnd,
        rules_version: &str,
        rules_sha256: Digest,
        lookups: &BTreeMap<String, String>,
    ) -> io::Result<FinishedArchive<W>> {
        if self.text.size() != end.text_size {
            let what = "a frame of the archive was not written";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        self.records(&end.after)?;
        let text = std::mem::take(&mut self.text).finish();
        let rules = Rules {
            rules_version: rules_version.to_owned(),
            rules_sha256,
            lookups: lookups.clone(),
            text,
        };
        self.records(&[(Record::Rules(rules), None)])?;
        let (out, file) = self.file.finish()?;
        let mut lines = Vec::new();
        Record::EndFile(file).write_public(&mut lines);
        self.index.write(&lines)?;
        lines.clear();
        Record::EndFile(file).write_private(None, &mut lines);
        self.private_index.write(&lines)?;
        Ok(FinishedArchive {
            out,
            file,
            text,
            index: self.index.finish()?,
            private_index: self.private_index.finish()?,
        })
    }

    fn records(&mut self, records: &[(Record, Option<Origin>)]) -> io::Result<()> {
        self.lines.clear();
        for (record, _) in records {
            record.write_public(&mut self.lines);
        }
        self.index.write(&self.lines)?;
        self.lines.clear();
        for (record, origin) in records {
            record.write_private(*origin, &mut self.lines);
        }
        self.private_index.write(&self.lines)
    }
}
