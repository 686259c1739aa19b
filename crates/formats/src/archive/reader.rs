//! An archive is read from end to end along its index.

use std::io::{self, Read};

use super::{Entry, IndexReader};
use crate::checksum::{Summer, Sums};
use crate::frames::{FrameCodec, FrameSpan, decode_frame};
use crate::hour_archive::ArchiveFault;

const CHUNK_BYTES: usize = 64 * 1024;

/// What an archive holds next.
#[derive(Debug, PartialEq, Eq)]
pub struct ArchiveItem<'a> {
    /// What the index says.
    pub entry: Entry,
    /// Of a measurement: its text, without the newline behind it.
    pub text: Option<&'a [u8]>,
}

/// Reads one archive, frame by frame. Nothing it holds is taken for true before [`ArchiveReader::next`] has answered
/// `None`: only then the file and its text had the sums that the index says.
pub struct ArchiveReader<R: Read, I: Read> {
    file: R,
    index: IndexReader<I>,
    codec: FrameCodec,
    frame_text_max: u64,
    frame: Vec<u8>,
    text: Vec<u8>,
    file_sums: Summer,
    text_sums: Summer,
    is_at_end: bool,
    is_broken: bool,
}

impl<R: Read, I: Read> ArchiveReader<R, I> {
    /// Reads `file` along its own `index`. A frame whose text has more than `frame_text_max` bytes is refused.
    pub fn new(file: R, index: IndexReader<I>, codec: FrameCodec, frame_text_max: u64) -> Self {
        Self {
            file,
            index,
            codec,
            frame_text_max,
            frame: Vec::new(),
            text: Vec::new(),
            file_sums: Summer::default(),
            text_sums: Summer::default(),
            is_at_end: false,
            is_broken: false,
        }
    }

    /// What comes next. None at the end, when everything was verified.
    ///
    /// # Errors
    /// [`ArchiveFault`]: what is not as the index says. Nothing can be read after one.
    #[expect(
        clippy::should_implement_trait,
        reason = "what it hands out borrows the reader"
    )]
    pub fn next(&mut self) -> Result<Option<ArchiveItem<'_>>, ArchiveFault> {
        if self.is_broken {
            return Err(damaged("it was given up after an error"));
        }
        self.is_broken = true;
        let entry = self.advance()?;
        self.is_broken = false;
        let Some(entry) = entry else {
            return Ok(None);
        };
        let text = match &entry {
            Entry::Datum { place, .. } => Some(place.slice(&self.text)?),
            _ => None,
        };
        Ok(Some(ArchiveItem { entry, text }))
    }

    fn advance(&mut self) -> Result<Option<Entry>, ArchiveFault> {
        let Some(entry) = self.index.next()? else {
            return match self.is_at_end {
                true => Ok(None),
                false => Err(damaged("the index is of no file")),
            };
        };
        match &entry {
            Entry::File(_) if self.is_at_end => {
                return Err(damaged("the index is of more than one file"));
            }
            Entry::Frame(span) => self.read_frame(*span)?,
            Entry::Rules(rules) => {
                check("the text", self.text_sums.clone().finish(), rules.text)?;
            }
            Entry::EndFile(sums) => {
                self.read_end()?;
                check("the file", self.file_sums.clone().finish(), *sums)?;
                self.is_at_end = true;
            }
            Entry::File(_)
            | Entry::Report(_)
            | Entry::Datum { .. }
            | Entry::BadBlob(_)
            | Entry::EndReport
            | Entry::EndFrame => {}
        }
        Ok(Some(entry))
    }

    fn read_frame(&mut self, span: FrameSpan) -> Result<(), ArchiveFault> {
        let too_large = || {
            let max = self.frame_text_max;
            ArchiveFault::TooLarge(format!("a frame has more than {max} bytes of text"))
        };
        // A frame that does not compress is a little longer than its text.
        let file_max = self
            .frame_text_max
            .saturating_add(self.frame_text_max / 128 + 1024);
        if span.text_size > self.frame_text_max || span.file_size > file_max {
            return Err(too_large());
        }
        self.frame.clear();
        let mut part = (&mut self.file).take(span.file_size);
        part.read_to_end(&mut self.frame)
            .map_err(ArchiveFault::Io)?;
        if self.frame.len() as u64 != span.file_size {
            return Err(damaged("the file ends within a frame"));
        }
        self.file_sums.update(&self.frame);
        self.text = decode_frame(&self.frame, self.codec, span.text_size)?;
        if self.text.len() as u64 != span.text_size {
            return Err(damaged(
                "the text of a frame has not the length that the index says",
            ));
        }
        self.text_sums.update(&self.text);
        Ok(())
    }

    /// Reads what is behind the last frame.
    fn read_end(&mut self) -> Result<(), ArchiveFault> {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            match self.file.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => self.file_sums.update(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ArchiveFault::Io(error)),
            }
        }
    }
}

fn check(what: &str, is: Sums, should_be: Sums) -> Result<(), ArchiveFault> {
    match is == should_be {
        true => Ok(()),
        false => Err(damaged(&format!(
            "{what} has not the sums that the index says"
        ))),
    }
}

fn damaged(what: &str) -> ArchiveFault {
    ArchiveFault::Damaged(what.into())
}
