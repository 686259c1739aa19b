//! An index is read: every line of it fits to those before it, and every measurement lies within its frame.

use std::io::Read;

use super::{BadBlob, Datum, Place, Record, Report, Rules};
use crate::can::BucketFile;
use crate::checksum::Sums;
use crate::frames::FrameSpan;
use crate::gz_lines::{GzLineReader, IndexLimits};
use crate::hour_archive::ArchiveFault;

/// What an index says next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A file begins.
    File(BucketFile),
    /// A frame of the file begins, right behind the one before.
    Frame(FrameSpan),
    /// A report begins.
    Report(Report),
    /// A measurement of the report, in the frame.
    Datum {
        /// What the line says.
        datum: Datum,
        /// Where that is.
        place: Place,
    },
    /// A part of the report that is no measurement.
    BadBlob(BadBlob),
    /// The report ends.
    EndReport,
    /// The frame ends.
    EndFrame,
    /// What the file was made with.
    Rules(Rules),
    /// The file ends.
    EndFile(Sums),
}

/// Reads an index that anybody may have written: of one file, or of several in a row; ours, or the original's.
///
/// What it says of offsets is consistent in itself. Whether the file is as it says is another question.
pub struct IndexReader<R: Read> {
    lines: GzLineReader<R>,
    /// The file that was begun.
    file: Option<File>,
    is_broken: bool,
}

#[derive(Default)]
struct File {
    /// Where the next frame begins, in the file and in its text.
    file_end: u64,
    text_end: u64,
    frame: Option<FrameSpan>,
    /// Where the next measurement begins at the earliest.
    datum_end: u64,
    is_in_report: bool,
}

impl<R: Read> IndexReader<R> {
    /// Reads `input`, as far as the limits allow.
    pub fn new(input: R, limits: IndexLimits) -> Self {
        Self {
            lines: GzLineReader::new(input, limits),
            file: None,
            is_broken: false,
        }
    }

    /// What comes next; none at the end.
    ///
    /// # Errors
    /// [`ArchiveFault`]: what is wrong with the index. Nothing can be read after one.
    #[expect(
        clippy::should_implement_trait,
        reason = "an error ends it, which an iterator does not say"
    )]
    pub fn next(&mut self) -> Result<Option<Entry>, ArchiveFault> {
        if self.is_broken {
            return Err(damaged("it was given up after an error"));
        }
        self.is_broken = true;
        let entry = self.advance()?;
        self.is_broken = false;
        Ok(entry)
    }

    fn advance(&mut self) -> Result<Option<Entry>, ArchiveFault> {
        loop {
            let Some(line) = self.lines.next_line()? else {
                return match self.file {
                    None => Ok(None),
                    Some(_) => Err(damaged("the index ends within a file")),
                };
            };
            let record = Record::parse(line)?;
            if let Some(entry) = self.entry(record)? {
                return Ok(Some(entry));
            }
        }
    }

    fn entry(&mut self, record: Record) -> Result<Option<Entry>, ArchiveFault> {
        if let Record::File(filename) = record {
            if self.file.replace(File::default()).is_some() {
                return Err(damaged("a file begins in the index of another"));
            }
            return Ok(Some(Entry::File(filename)));
        }
        let file = self.file.as_mut();
        let file = file.ok_or_else(|| damaged("a line of the index is of no file"))?;
        Ok(Some(match record {
            Record::Frame(span) => Entry::Frame(file.begin_frame(span)?),
            Record::Report(report) => {
                file.begin_report()?;
                Entry::Report(report)
            }
            Record::Datum(datum) => {
                let place = file.datum(&datum)?;
                Entry::Datum { datum, place }
            }
            Record::BadBlob(blob) => {
                file.check_report()?;
                Entry::BadBlob(blob)
            }
            Record::EndReport => {
                file.check_report()?;
                file.is_in_report = false;
                Entry::EndReport
            }
            Record::EndFrame => {
                file.end_frame()?;
                Entry::EndFrame
            }
            Record::Rules(rules) => {
                file.check_text(rules.text.size)?;
                Entry::Rules(rules)
            }
            Record::EndFile(sums) => {
                file.check_end(sums.size)?;
                self.file = None;
                Entry::EndFile(sums)
            }
            Record::File(_) | Record::Unknown => return Ok(None),
        }))
    }
}

impl File {
    fn begin_frame(&mut self, span: FrameSpan) -> Result<FrameSpan, ArchiveFault> {
        if self.frame.is_some() {
            return Err(damaged("a frame begins within another"));
        }
        if (span.file_off, span.text_off) != (self.file_end, self.text_end) {
            return Err(damaged("a frame does not begin where the one before ends"));
        }
        let ends = span
            .file_off
            .checked_add(span.file_size)
            .zip(span.text_off.checked_add(span.text_size));
        (self.file_end, self.text_end) =
            ends.ok_or_else(|| damaged("a frame ends beyond everything"))?;
        self.frame = Some(span);
        Ok(span)
    }

    fn end_frame(&mut self) -> Result<(), ArchiveFault> {
        match self.frame.take() {
            Some(_) => Ok(()),
            None => Err(damaged("a frame ends that did not begin")),
        }
    }

    fn begin_report(&mut self) -> Result<(), ArchiveFault> {
        match std::mem::replace(&mut self.is_in_report, true) {
            false => Ok(()),
            true => Err(damaged("a report begins within another")),
        }
    }

    fn check_report(&self) -> Result<(), ArchiveFault> {
        match self.is_in_report {
            true => Ok(()),
            false => Err(damaged("a line is of no report")),
        }
    }

    fn datum(&mut self, datum: &Datum) -> Result<Place, ArchiveFault> {
        self.check_report()?;
        let outside = || damaged("a measurement is not within its frame");
        let frame = self.frame.as_ref().ok_or_else(outside)?;
        let place = Place::of(frame, datum).ok_or_else(outside)?;
        if datum.text_off < self.datum_end {
            return Err(damaged("a measurement begins within another"));
        }
        self.datum_end = datum.text_off + datum.text_size;
        Ok(place)
    }

    fn check_text(&self, text_size: u64) -> Result<(), ArchiveFault> {
        match self.frame.is_none() && text_size == self.text_end {
            true => Ok(()),
            false => Err(damaged("the text has not the length of its frames")),
        }
    }

    /// A file may be longer than its frames: zstd has a table behind them.
    fn check_end(&self, file_size: u64) -> Result<(), ArchiveFault> {
        if self.frame.is_some() || self.is_in_report {
            return Err(damaged("a file ends within a frame or a report"));
        }
        match file_size >= self.file_end {
            true => Ok(()),
            false => Err(damaged("a frame is not within its file")),
        }
    }
}

fn damaged(what: &str) -> ArchiveFault {
    ArchiveFault::Damaged(format!("the index: {what}"))
}
