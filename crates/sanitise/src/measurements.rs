//! The measurements of a report, one after the other, with where they stand in it.

mod bytes;
mod documents;
mod lines;
mod yaml;

use std::io::{self, BufRead};

use crate::fault::Bad;
use documents::Documents;
use lines::Lines;

/// How large a measurement may be unless somebody says otherwise.
pub const MEASUREMENT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line.
    Json,
    /// YAML documents: a header, and an entry for each measurement.
    Yaml,
    /// The rows of a bundle: one JSON object a line.
    Rows,
    /// The whole is one measurement.
    Whole,
}

/// A measurement, or what should have been one, and its place in the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measurement<'a> {
    /// Where it begins in the report.
    pub src_off: u64,
    /// How many bytes it has there, without the line break.
    pub src_size: u64,
    /// What is to be sanitised: the bytes as they stand there; of YAML the JSON line that header and entry make together.
    pub raw: Result<&'a [u8], Bad>,
}

/// Reads the measurements of a report in bounded memory.
#[derive(Debug)]
pub struct Measurements<R> {
    source: Source<R>,
}

#[derive(Debug)]
enum Source<R> {
    Lines(Lines<R>),
    Documents(Box<Documents<R>>),
    Whole(Lines<R>),
}

impl<R: BufRead> Measurements<R> {
    /// The measurements of `text`, none of them larger than [`MEASUREMENT_BYTES_MAX`].
    pub fn of(text: R, format: Format) -> Self {
        Self::with_max(text, format, MEASUREMENT_BYTES_MAX)
    }

    /// The same with another limit, in bytes. What is larger is passed over without being held, and is bad.
    pub fn with_max(text: R, format: Format, bytes_max: usize) -> Self {
        let lines = Lines::new(text, bytes_max);
        let source = match format {
            Format::Json | Format::Rows => Source::Lines(lines),
            Format::Yaml => Source::Documents(Box::new(Documents::new(lines))),
            Format::Whole => Source::Whole(lines),
        };
        Self { source }
    }

    /// The next one; `None` at the end of the report. Blank lines and empty documents are none.
    #[allow(
        clippy::should_implement_trait,
        reason = "it lends its buffer, which an iterator cannot"
    )]
    pub fn next(&mut self) -> io::Result<Option<Measurement<'_>>> {
        match &mut self.source {
            Source::Lines(lines) => loop {
                let Some(line) = lines.next_line()? else {
                    return Ok(None);
                };
                if !(line.held && lines.is_blank()) {
                    return Ok(Some(lines.measurement(line)));
                }
            },
            Source::Documents(documents) => documents.next(),
            Source::Whole(lines) => {
                let whole = lines.next_whole()?;
                Ok(whole.map(|whole| lines.measurement(whole)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
