//! The index of cans: of one, which commits it, or of a whole bucket, which seals it.

use std::io::{self, Read};

use serde::{Deserialize, Serialize};

use super::CannedFile;
use crate::Key;
use crate::gz_lines::{GzLineReader, GzLines, IndexLimits};
use crate::hour_archive::ArchiveFault;

/// An object of the lake that went into a can as a whole, so that nobody has to read it again to find that out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Input {
    /// Where it lies.
    pub key: Key,
    /// How long it is there.
    pub size: u64,
    /// Which version of it was read, as the lake says.
    pub version: String,
}

/// What an index says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CannedIndex {
    /// The cans, in order.
    pub files: Vec<CannedFile>,
    /// What went into them. None in the index of a sealed bucket.
    pub inputs: Option<Vec<Input>>,
}

#[derive(Serialize, Deserialize)]
struct InputsLine {
    inputs: Vec<Input>,
}

/// How the line of the inputs begins, as nothing else does.
const INPUTS: &[u8] = b"{\"inputs\":";

impl CannedIndex {
    /// The object: the same index is the same bytes.
    ///
    /// # Errors
    /// None that memory does not have.
    pub fn to_object(&self) -> io::Result<Vec<u8>> {
        let mut out = GzLines::new(Vec::new());
        for file in &self.files {
            out.write(&file.to_line())?;
        }
        if let Some(inputs) = &self.inputs {
            let inputs = inputs.clone();
            let mut line = serde_json::to_vec(&InputsLine { inputs })?;
            line.push(b'\n');
            out.write(&line)?;
        }
        out.finish()
    }
}

/// A line of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CannedLine {
    /// A can.
    File(CannedFile),
    /// What went into it.
    Inputs(Vec<Input>),
}

/// Reads an index that anybody may have written, line by line.
pub struct CannedIndexReader<R: Read> {
    lines: GzLineReader<R>,
}

impl<R: Read> CannedIndexReader<R> {
    /// Reads `input`, as far as the limits allow.
    pub fn new(input: R, limits: IndexLimits) -> Self {
        let lines = GzLineReader::new(input, limits);
        Self { lines }
    }

    /// The next line; none at the end.
    ///
    /// # Errors
    /// [`ArchiveFault`]: what is wrong with it.
    #[expect(
        clippy::should_implement_trait,
        reason = "an error ends it, which an iterator does not say"
    )]
    pub fn next(&mut self) -> Result<Option<CannedLine>, ArchiveFault> {
        let Some(line) = self.lines.next_line()? else {
            return Ok(None);
        };
        if !line.starts_with(INPUTS) {
            return CannedFile::parse(line).map(|file| Some(CannedLine::File(file)));
        }
        let line: InputsLine = serde_json::from_slice(line).map_err(|error| {
            ArchiveFault::Damaged(format!("the inputs that the index names: {error}"))
        })?;
        Ok(Some(CannedLine::Inputs(line.inputs)))
    }
}

/// Reads an index as a whole. It is held in memory, so the limits should be those of an index of one can.
///
/// # Errors
/// [`ArchiveFault`]: what is wrong with it.
pub fn read_canned_index(
    input: impl Read,
    limits: IndexLimits,
) -> Result<CannedIndex, ArchiveFault> {
    let mut reader = CannedIndexReader::new(input, limits);
    let mut index = CannedIndex::default();
    while let Some(line) = reader.next()? {
        match line {
            CannedLine::File(file) => index.files.push(file),
            CannedLine::Inputs(inputs) => index.inputs.get_or_insert_default().extend(inputs),
        }
    }
    Ok(index)
}
