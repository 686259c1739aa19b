//! YAML reports: documents, of which the first is the header of all others.

use std::io::{self, BufRead};

use super::Measurement;
use super::lines::{Line, Lines};
use super::yaml::{Entry, to_json};
use crate::fault::Bad;

/// Reads the documents of a YAML stream and makes JSON lines of them.
#[derive(Debug)]
pub(super) struct Documents<R> {
    lines: Lines<R>,
    /// The line that was read last, if it begins the next document.
    pending: Option<Line>,
    /// The text of the document that is read.
    text: Vec<u8>,
    /// Whether the document is longer than it may be, so that the text is not all of it.
    too_long: bool,
    header: Header,
    json: Vec<u8>,
}

#[derive(Debug)]
enum Header {
    Awaited,
    Good(Entry),
    Bad,
}

/// Where a document stands.
struct Place {
    start: u64,
    end: u64,
}

impl<R: BufRead> Documents<R> {
    pub(super) fn new(lines: Lines<R>) -> Self {
        Self {
            lines,
            pending: None,
            text: Vec::new(),
            too_long: false,
            header: Header::Awaited,
            json: Vec::new(),
        }
    }

    /// The next entry, or what is bad; the header itself is none.
    pub(super) fn next(&mut self) -> io::Result<Option<Measurement<'_>>> {
        while let Some(place) = self.read()? {
            let raw = match self.convert() {
                None => continue,
                Some(Ok(())) => Ok(&self.json[..]),
                Some(Err(bad)) => Err(bad),
            };
            return Ok(Some(Measurement {
                src_off: place.start,
                src_size: place.end - place.start,
                raw,
            }));
        }
        Ok(None)
    }

    /// Reads the next document, with the line that begins it. A line that begins with three dashes or dots is a mark wherever
    /// it stands: YAML allows it in no string.
    fn read(&mut self) -> io::Result<Option<Place>> {
        self.text.clear();
        self.too_long = false;
        let mut place = Place { start: 0, end: 0 };
        if let Some(line) = self.pending.take() {
            self.append(line, &mut place);
        }
        while let Some(line) = self.lines.next_line()? {
            match mark(self.lines.bytes()) {
                Some(Mark::Begin) if !self.is_empty() => {
                    self.pending = Some(line);
                    return Ok(Some(place));
                }
                Some(Mark::End) if !self.is_empty() => return Ok(Some(place)),
                Some(Mark::End | Mark::Directive) if self.is_empty() => {}
                Some(Mark::Begin | Mark::End | Mark::Directive) | None => {
                    self.append(line, &mut place);
                }
            }
        }
        Ok((!self.is_empty()).then_some(place))
    }

    fn is_empty(&self) -> bool {
        self.text.is_empty() && !self.too_long
    }

    /// Adds the line that was read last to the document.
    fn append(&mut self, line: Line, place: &mut Place) {
        if self.is_empty() {
            place.start = line.start;
        }
        place.end = line.start + line.size;
        let bytes = self.lines.bytes();
        if !line.held || self.text.len() + bytes.len() >= self.lines.bytes_max {
            self.too_long = true;
        }
        if !self.too_long {
            self.text.extend_from_slice(bytes);
            self.text.push(b'\n');
        }
    }

    /// Makes JSON of the document. `None` when there is nothing to hand on: a good header, or an empty document.
    fn convert(&mut self) -> Option<Result<(), Bad>> {
        let max = self.lines.bytes_max;
        let entry = if self.too_long {
            Err(Bad::TooLong { max })
        } else {
            to_json(&self.text, max)
        };
        match (entry, &self.header) {
            (Ok(None), _) => None,
            (Ok(Some(header)), Header::Awaited) => {
                self.header = Header::Good(header);
                None
            }
            (Ok(Some(entry)), Header::Good(header)) => {
                self.json.clear();
                entry.write_with(header, &mut self.json);
                let fits = self.json.len() <= max;
                Some(if fits {
                    Ok(())
                } else {
                    Err(Bad::TooLong { max })
                })
            }
            (Ok(Some(_)), Header::Bad) => Some(Err(Bad::NoHeader)),
            (Err(bad), header) => {
                if matches!(header, Header::Awaited) {
                    self.header = Header::Bad;
                }
                Some(Err(bad))
            }
        }
    }
}

enum Mark {
    Begin,
    End,
    /// Of the YAML version or of tags: neither changes what we take from a document.
    Directive,
}

fn mark(line: &[u8]) -> Option<Mark> {
    if line.starts_with(b"%") {
        return Some(Mark::Directive);
    }
    let (mark, rest) = line.split_at_checked(3)?;
    if !rest.first().is_none_or(u8::is_ascii_whitespace) {
        return None;
    }
    match mark {
        b"---" => Some(Mark::Begin),
        b"..." => Some(Mark::End),
        _ => None,
    }
}
