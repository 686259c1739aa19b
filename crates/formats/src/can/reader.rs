//! A can is read and verified against its record.

use std::io::{self, Read};

use super::{Canned, CannedFile, CannedText};
use crate::checksum::{Crc32, Summer, Sums};
use crate::frames::FrameReader;
use crate::hour_archive::ArchiveFault;
use crate::hour_archive::header::{self, BLOCK_BYTES, Block, Header};

/// Longer names than keys have are nobody's.
const NAME_BYTES_MAX: u64 = 1_025;

const CHUNK_BYTES: usize = 64 * 1024;

/// Sums up what is read.
struct Summing<R> {
    input: R,
    sums: Summer,
}

impl<R: Read> Read for Summing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.sums.update(&buffer[..count]);
        Ok(count)
    }
}

/// Reads a can. Nothing it holds is taken for true before [`CanReader::next`] has answered `None`: only then every report
/// and the file itself had the sums that the record says, and nothing else was in it.
pub struct CanReader<'r, R: Read> {
    /// None at the end, and after a fault.
    frames: Option<FrameReader<Summing<R>>>,
    record: &'r CannedFile,
    /// How many reports were begun.
    begun: usize,
    body: Option<Body>,
    text_read: u64,
    is_broken: bool,
    is_quick: bool,
}

/// The report that is being read.
struct Body {
    left: u64,
    sums: TextSums,
}

/// How much is computed of a report.
#[derive(Clone)]
enum TextSums {
    All(Summer),
    Crc32(Crc32),
}

impl TextSums {
    fn update(&mut self, piece: &[u8]) {
        match self {
            Self::All(sums) => sums.update(piece),
            Self::Crc32(sums) => sums.update(piece),
        }
    }

    fn may_be(self, stated: &Sums) -> bool {
        match self {
            Self::All(sums) => sums.finish() == *stated,
            Self::Crc32(sums) => sums.may_be(stated),
        }
    }
}

/// A report. What is not read of it is read by [`CanReader::next`]. Its end is reported only if its sums are right.
pub struct CanEntry<'e, 'r, R: Read> {
    reader: &'e mut CanReader<'r, R>,
    text: &'r CannedText,
}

impl<'r, R: Read> CanReader<'r, R> {
    /// Reads the file that `record` describes.
    ///
    /// # Errors
    /// [`ArchiveFault::Io`] when the input cannot be read.
    pub fn new(input: R, record: &'r CannedFile) -> Result<Self, ArchiveFault> {
        let input = Summing {
            input,
            sums: Summer::default(),
        };
        let codec = record.filename.name.codec();
        Ok(Self {
            frames: Some(FrameReader::new(input, codec, record.text_size())?),
            record,
            begun: 0,
            body: None,
            text_read: 0,
            is_broken: false,
            is_quick: false,
        })
    }

    /// The same for a can of which nothing else is to be proven than that it is the file of the index. That the file has the
    /// SHA-1 which was computed when it was made says that its reports have theirs: of them only the CRC-32 is computed.
    ///
    /// # Errors
    /// Those of [`CanReader::new`].
    pub fn quick(input: R, record: &'r CannedFile) -> Result<Self, ArchiveFault> {
        let reader = Self::new(input, record)?;
        Ok(Self {
            is_quick: true,
            ..reader
        })
    }

    /// The next report. None at the end, when everything was verified; also if it is asked again.
    ///
    /// # Errors
    /// [`ArchiveFault`]: what is not as the record says. Nothing can be read after one.
    #[expect(
        clippy::should_implement_trait,
        reason = "what it hands out borrows the reader"
    )]
    pub fn next(&mut self) -> Result<Option<CanEntry<'_, 'r, R>>, ArchiveFault> {
        if self.is_broken {
            return Err(damaged("it was given up after an error"));
        }
        self.is_broken = true;
        let text = self.advance()?;
        self.is_broken = false;
        Ok(text.map(|text| CanEntry { reader: self, text }))
    }

    fn advance(&mut self) -> Result<Option<&'r CannedText>, ArchiveFault> {
        self.pass_body()?;
        let record = self.record;
        let Some(text) = record.texts().get(self.begun) else {
            self.finish()?;
            return Ok(None);
        };
        if let Canned::Tar { .. } = record.canned {
            self.head(text)?;
        }
        self.begun += 1;
        self.body = Some(Body {
            left: text.text.size,
            sums: match self.is_quick {
                true => TextSums::Crc32(Crc32::default()),
                false => TextSums::All(Summer::default()),
            },
        });
        Ok(Some(text))
    }

    fn pass_body(&mut self) -> Result<(), ArchiveFault> {
        if self.body.is_none() {
            return Ok(());
        }
        let mut buffer = vec![0; CHUNK_BYTES];
        while self.read_body(&mut buffer)? > 0 {}
        self.body = None;
        let size = self.record.texts()[self.begun - 1].text.size;
        match self.record.canned {
            Canned::Tar { .. } => self.zeros(header::padding(size)),
            Canned::Plain(_) => Ok(()),
        }
    }

    fn read_body(&mut self, buffer: &mut [u8]) -> Result<usize, ArchiveFault> {
        let Some(body) = &mut self.body else {
            return Ok(0);
        };
        let room = usize::try_from(body.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        if body.left == 0 {
            let text = &self.record.texts()[self.begun - 1];
            return match body.sums.clone().may_be(&text.text) {
                true => Ok(0),
                false => Err(other("the checksum", &text.textname.to_string())),
            };
        }
        let frames = self.frames.as_mut().ok_or_else(given_up)?;
        let count = frames.read(&mut buffer[..room])?;
        if count == 0 && room > 0 {
            return Err(damaged("its text ends within a report"));
        }
        body.left -= count as u64;
        body.sums.update(&buffer[..count]);
        self.text_read += count as u64;
        Ok(count)
    }

    /// Reads the headers of a member, which must be those of the report.
    fn head(&mut self, text: &CannedText) -> Result<(), ArchiveFault> {
        let mut head = self.header()?;
        let mut name = head.name;
        if head.kind == header::GNU_NAME {
            if head.size > NAME_BYTES_MAX {
                return Err(ArchiveFault::Hostile(
                    "a name in the tar is too long".into(),
                ));
            }
            name = vec![0; usize::try_from(head.size).expect("it is at most 1025")];
            self.exactly(&mut name)?;
            self.zeros(header::padding(head.size))?;
            if name.last() == Some(&0) {
                name.pop();
            }
            head = self.header()?;
        }
        if !matches!(head.kind, header::FILE | header::OLD_FILE) {
            let what = "a member of the tar is no regular file";
            return Err(ArchiveFault::Hostile(what.into()));
        }
        if name != text.textname.as_str().as_bytes() {
            return Err(other("the name", text.textname.as_str()));
        }
        match head.size == text.text.size {
            true => Ok(()),
            false => Err(other("the length", text.textname.as_str())),
        }
    }

    fn header(&mut self) -> Result<Header, ArchiveFault> {
        let mut block: Block = [0; BLOCK_BYTES];
        self.exactly(&mut block)?;
        Header::parse(&block)
    }

    fn zeros(&mut self, count: usize) -> Result<(), ArchiveFault> {
        let mut zeros = [0; BLOCK_BYTES];
        let zeros = &mut zeros[..count];
        self.exactly(zeros)?;
        match zeros.iter().all(|byte| *byte == 0) {
            true => Ok(()),
            false => Err(damaged("something lies between two members of the tar")),
        }
    }

    fn exactly(&mut self, buffer: &mut [u8]) -> Result<(), ArchiveFault> {
        let mut filled = 0;
        while filled < buffer.len() {
            let frames = self.frames.as_mut().ok_or_else(given_up)?;
            match frames.read(&mut buffer[filled..])? {
                0 => return Err(damaged("its tar ends too early")),
                count => filled += count,
            }
        }
        self.text_read += buffer.len() as u64;
        Ok(())
    }

    /// Reads what is behind the last report: the zeros that end a tar, and nothing else.
    fn finish(&mut self) -> Result<(), ArchiveFault> {
        let Some(mut frames) = self.frames.take() else {
            return Ok(());
        };
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut zeros = 0;
        loop {
            let count = frames.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            if buffer[..count].iter().any(|byte| *byte != 0) {
                return Err(damaged("something follows the last report"));
            }
            zeros += count as u64;
        }
        let is_tar = matches!(self.record.canned, Canned::Tar { .. });
        if is_tar && zeros < 2 * BLOCK_BYTES as u64 {
            return Err(damaged("its tar has no end"));
        }
        if self.text_read + zeros != self.record.text_size() {
            return Err(damaged("its text has not the length that the index says"));
        }
        let input = frames.into_input().ok_or_else(given_up)?;
        match input.sums.finish() == self.record.file {
            true => Ok(()),
            false => Err(damaged("the file has not the checksum that the index says")),
        }
    }
}

impl<'r, R: Read> CanEntry<'_, 'r, R> {
    /// What the record says of it.
    #[must_use]
    pub fn text(&self) -> &'r CannedText {
        self.text
    }
}

impl<R: Read> Read for CanEntry<'_, '_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let result = self.reader.read_body(buffer);
        self.reader.is_broken |= result.is_err();
        Ok(result?)
    }
}

fn given_up() -> ArchiveFault {
    damaged("it was given up after an error")
}

fn other(what: &str, name: &str) -> ArchiveFault {
    let name = name.escape_debug();
    ArchiveFault::Damaged(format!(
        "{what} of report `{name}` is not what the index says"
    ))
}

fn damaged(what: &str) -> ArchiveFault {
    ArchiveFault::Damaged(what.into())
}
