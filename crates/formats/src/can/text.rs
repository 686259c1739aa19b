//! Reports become the text of a can, cut into frames.

use std::collections::VecDeque;
use std::io;
use std::mem;

use super::{Canned, CannedText, TextName, tar};
use crate::checksum::Summer;

/// The text of a frame of a can. Large enough to compress well, small enough that two threads have work.
pub const CAN_FRAME_BYTES: usize = 4 << 20;

/// Makes the text of a can. Sums are computed as the text passes, so every byte is seen once.
///
/// [`CanText::take_frame`] is to be called until it has nothing after each of the other calls: what waits there is all
/// that is kept in memory.
pub struct CanText {
    is_tar: bool,
    frame_bytes: usize,
    frame: Vec<u8>,
    ready: VecDeque<Vec<u8>>,
    has_frames: bool,
    text_size: u64,
    texts: Vec<CannedText>,
    current: Option<Current>,
}

struct Current {
    name: TextName,
    size: u64,
    sums: Summer,
}

/// What a can holds in the end.
pub struct CanTexts {
    /// For its [`super::CannedFile`].
    pub canned: Canned,
    /// The last frames, which are to be written before the file is finished.
    pub frames: Vec<Vec<u8>>,
}

impl CanText {
    /// A tar of no reports, cut into frames of `frame_bytes`, usually [`CAN_FRAME_BYTES`].
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
            frame_bytes: frame_bytes.max(1),
            frame: Vec::new(),
            ready: VecDeque::new(),
            has_frames: false,
            text_size: 0,
            texts: Vec::new(),
            current: None,
        }
    }

    /// Begins the next report, which has `size` bytes. Names must be in order. `mtime` is in seconds since 1970 and must
    /// follow from the data, or else the same reports are not the same bytes.
    ///
    /// # Errors
    /// `InvalidInput` when the report before was not ended, the name is not behind the one before, or a file of one
    /// report has one already.
    pub fn begin(&mut self, name: &TextName, size: u64, mtime: u64) -> io::Result<()> {
        if self.current.is_some() {
            return Err(invalid(name, "the report before it was not ended"));
        }
        match self.texts.last() {
            Some(_) if !self.is_tar => return Err(invalid(name, "the file has its report")),
            Some(last) if last.textname >= *name => {
                return Err(invalid(name, "it is not behind the report before it"));
            }
            _ => {}
        }
        if self.is_tar {
            self.put(&tar::head(name.as_str(), size, mtime));
        }
        self.current = Some(Current {
            name: name.clone(),
            size,
            sums: Summer::default(),
        });
        Ok(())
    }

    /// Adds the next piece of the report.
    ///
    /// # Errors
    /// `InvalidInput` when no report was begun; `InvalidData` when it is longer than was said. The can is useless then.
    pub fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        let current = self.current.as_mut().ok_or_else(none_begun)?;
        current.sums.update(piece);
        if current.sums.size() > current.size {
            return Err(other_size(&current.name));
        }
        self.put(piece);
        Ok(())
    }

    /// Ends the report.
    ///
    /// # Errors
    /// `InvalidInput` when none was begun; `InvalidData` when it is shorter than was said. The can is useless then.
    pub fn end(&mut self) -> io::Result<()> {
        let Current { name, size, sums } = self.current.take().ok_or_else(none_begun)?;
        if sums.size() != size {
            return Err(other_size(&name));
        }
        self.texts.push(CannedText {
            textname: name,
            text: sums.finish(),
        });
        if self.is_tar {
            self.put_zeros(tar::padding(size));
        }
        Ok(())
    }

    /// The text of the next frame, if it is complete.
    pub fn take_frame(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }

    /// Ends the text.
    ///
    /// # Errors
    /// `InvalidInput` when a report was not ended, or there is none.
    pub fn finish(mut self) -> io::Result<CanTexts> {
        let no_end = || io::Error::new(io::ErrorKind::InvalidInput, "the last report has no end");
        if self.current.is_some() || self.texts.is_empty() {
            return Err(no_end());
        }
        if self.is_tar {
            self.put_zeros(tar::end(self.text_size));
        }
        if !self.frame.is_empty() || !self.has_frames {
            self.cut();
        }
        let canned = match self.is_tar {
            true => Canned::Tar {
                text_size: self.text_size,
                texts: self.texts,
            },
            false => Canned::Plain(self.texts.pop().ok_or_else(no_end)?),
        };
        Ok(CanTexts {
            canned,
            frames: self.ready.into(),
        })
    }

    fn put_zeros(&mut self, count: usize) {
        self.put(&[0; 12 * 1024][..count]);
    }

    fn put(&mut self, mut bytes: &[u8]) {
        self.text_size += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.frame.capacity() == 0 {
                self.frame.reserve_exact(self.frame_bytes);
            }
            let room = self.frame_bytes - self.frame.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.frame.extend_from_slice(now);
            bytes = later;
            if self.frame.len() == self.frame_bytes {
                self.cut();
            }
        }
    }

    fn cut(&mut self) {
        self.has_frames = true;
        self.ready.push_back(mem::take(&mut self.frame));
    }
}

fn invalid(name: &TextName, why: &str) -> io::Error {
    let what = format!("cannot can `{}`: {why}", name.as_str().escape_debug());
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

fn none_begun() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "no report was begun")
}

fn other_size(name: &TextName) -> io::Error {
    let name = name.as_str().escape_debug();
    let what = format!("cannot can `{name}`: it has not the length that it had");
    io::Error::new(io::ErrorKind::InvalidData, what)
}
