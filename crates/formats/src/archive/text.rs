//! Reports become the text of an archive, cut into frames where a measurement ends.

use std::collections::VecDeque;
use std::io;
use std::mem;

use super::{BadBlob, Datum, Origin, Record, Report};
use crate::Uid;
use crate::can::{TextName, tar};

/// The text of a frame, and what the index says of it.
#[derive(Debug, Default)]
pub struct TextFrame {
    /// What stands in the index before the frame.
    pub(super) before: Vec<(Record, Option<Origin>)>,
    /// What is to be compressed.
    text: Vec<u8>,
    /// What stands in the index within the frame.
    pub(super) within: Vec<(Record, Option<Origin>)>,
}

/// The end of the text of an archive.
#[derive(Debug)]
pub struct TextEnd {
    /// The last frames, which are to be written before the file is finished.
    pub frames: Vec<TextFrame>,
    /// What stands in the index behind the last frame.
    pub(super) after: Vec<(Record, Option<Origin>)>,
    pub(super) text_size: u64,
}

/// Makes the text of an archive: reports in order, and in each its measurements in order. A frame ends at the first end
/// of a measurement at or past its size, so no measurement is ever in two.
///
/// [`ArchiveText::take_frame`] is to be called until it has nothing after each of the other calls: what waits there is all
/// that is kept in memory.
pub struct ArchiveText {
    is_tar: bool,
    frame_bytes: usize,
    frame: Option<TextFrame>,
    ready: VecDeque<TextFrame>,
    /// What stands between two frames.
    between: Vec<(Record, Option<Origin>)>,
    text_size: u64,
    last: Option<TextName>,
    current: Option<Current>,
}

struct Current {
    /// Of a member of a tar: where its text ends.
    end: Option<u64>,
    size: u64,
}

impl TextFrame {
    /// What is to be compressed.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text
    }
}

impl ArchiveText {
    /// A tar of no reports, cut into frames of `frame_bytes` or more, usually [`super::FRAME_BYTES`].
    #[must_use]
    pub fn tar(frame_bytes: usize) -> Self {
        Self::new(true, frame_bytes)
    }

    /// A file of one report.
    #[must_use]
    pub fn plain(frame_bytes: usize) -> Self {
        Self::new(false, frame_bytes)
    }

    fn new(is_tar: bool, frame_bytes: usize) -> Self {
        Self {
            is_tar,
            frame_bytes,
            frame: None,
            ready: VecDeque::new(),
            between: Vec::new(),
            text_size: 0,
            last: None,
            current: None,
        }
    }

    /// Begins the one report of a file that is no tar. How long it becomes need not be known.
    ///
    /// # Errors
    /// `InvalidInput` when it is a tar, or has its report.
    pub fn begin_report(&mut self, report: Report) -> io::Result<()> {
        if self.is_tar || self.last.is_some() {
            return Err(invalid(&report.textname, "the file takes one report only"));
        }
        self.last = Some(report.textname.clone());
        self.frame_mut();
        self.record(Record::Report(report), None);
        self.current = Some(Current { end: None, size: 0 });
        Ok(())
    }

    /// Begins the next report of a tar, whose sanitised text has `text_size` bytes: the sum of its measurements and their
    /// newlines. Names must be in order. `mtime` is in seconds since 1970 and must follow from the data.
    ///
    /// # Errors
    /// `InvalidInput` when it is no tar, the report before was not ended, or the name is not behind the one before.
    pub fn begin_member(&mut self, report: Report, text_size: u64, mtime: u64) -> io::Result<()> {
        let name = &report.textname;
        if !self.is_tar {
            return Err(invalid(name, "the file is no tar"));
        }
        if self.current.is_some() {
            return Err(invalid(name, "the report before it was not ended"));
        }
        if self.last.as_ref().is_some_and(|last| last >= name) {
            return Err(invalid(name, "it is not behind the report before it"));
        }
        let head = tar::head(name.as_str(), text_size, mtime);
        self.put(&head);
        self.last = Some(name.clone());
        self.record(Record::Report(report), None);
        self.current = Some(Current {
            end: Some(self.text_size + text_size),
            size: text_size,
        });
        Ok(())
    }

    /// Adds a measurement, and a newline behind it if `ends_line`. What is not JSON lines is passed through without one.
    ///
    /// # Errors
    /// `InvalidInput` when no report was begun; `InvalidData` when its text becomes longer than was said. The archive is
    /// useless then.
    pub fn datum(
        &mut self,
        id: Uid,
        text: &[u8],
        ends_line: bool,
        origin: Option<Origin>,
    ) -> io::Result<()> {
        self.check_room(text.len() as u64 + u64::from(ends_line))?;
        let datum = Datum {
            id: Some(id),
            text_off: self.text_size,
            text_size: text.len() as u64,
            orig_sha1: None,
        };
        self.put(text);
        if ends_line {
            self.put(b"\n");
        }
        // An empty measurement without a newline has a frame too.
        self.frame_mut();
        self.record(Record::Datum(datum), origin);
        if self.frame_mut().text.len() >= self.frame_bytes {
            self.cut();
        }
        Ok(())
    }

    /// Notes a part of the report that is no measurement. `info` must not tell anything of its content.
    ///
    /// # Errors
    /// `InvalidInput` when no report was begun.
    pub fn bad_blob(&mut self, info: String, origin: Origin) -> io::Result<()> {
        self.check_room(0)?;
        let blob = BadBlob {
            info,
            src_off: origin.src_off,
            src_size: origin.src_size,
            orig_sha1: None,
        };
        self.record(Record::BadBlob(blob), Some(origin));
        Ok(())
    }

    /// Ends the report.
    ///
    /// # Errors
    /// `InvalidInput` when none was begun; `InvalidData` when its text is shorter than was said. The archive is useless then.
    pub fn end_report(&mut self) -> io::Result<()> {
        let Current { end, size } = self.current.take().ok_or_else(none_begun)?;
        if end.is_some_and(|end| end != self.text_size) {
            return Err(self.other_size());
        }
        self.record(Record::EndReport, None);
        if self.is_tar {
            self.put_zeros(tar::padding(size));
        }
        Ok(())
    }

    /// The next frame, if it is complete.
    pub fn take_frame(&mut self) -> Option<TextFrame> {
        self.ready.pop_front()
    }

    /// Ends the text.
    ///
    /// # Errors
    /// `InvalidInput` when a report was not ended, or there is none.
    pub fn finish(mut self) -> io::Result<TextEnd> {
        if self.current.is_some() || self.last.is_none() {
            let what = "the last report has no end";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        if self.is_tar {
            self.put_zeros(tar::end(self.text_size));
        }
        self.cut();
        Ok(TextEnd {
            frames: self.ready.into(),
            after: self.between,
            text_size: self.text_size,
        })
    }

    fn check_room(&self, bytes: u64) -> io::Result<()> {
        let current = self.current.as_ref().ok_or_else(none_begun)?;
        match current.end {
            Some(end) if self.text_size + bytes > end => Err(self.other_size()),
            _ => Ok(()),
        }
    }

    fn record(&mut self, record: Record, origin: Option<Origin>) {
        match &mut self.frame {
            Some(frame) => frame.within.push((record, origin)),
            None => self.between.push((record, origin)),
        }
    }

    fn frame_mut(&mut self) -> &mut TextFrame {
        let (between, frame_bytes) = (&mut self.between, self.frame_bytes);
        self.frame.get_or_insert_with(|| TextFrame {
            before: mem::take(between),
            // A frame ends with the measurement that reaches its size.
            text: Vec::with_capacity(frame_bytes + frame_bytes / 4),
            within: Vec::new(),
        })
    }

    fn put(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.frame_mut().text.extend_from_slice(bytes);
        self.text_size += bytes.len() as u64;
    }

    fn put_zeros(&mut self, count: usize) {
        self.put(&[0; 12 * 1024][..count]);
    }

    fn cut(&mut self) {
        self.ready.extend(self.frame.take());
    }

    fn other_size(&self) -> io::Error {
        let name = self.last.as_ref().map_or("", TextName::as_str);
        let name = name.escape_debug();
        let what = format!("cannot archive `{name}`: its text has not the length that was said");
        io::Error::new(io::ErrorKind::InvalidData, what)
    }
}

fn invalid(name: &TextName, why: &str) -> io::Error {
    let what = format!("cannot archive `{}`: {why}", name.as_str().escape_debug());
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

fn none_begun() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "no report was begun")
}
