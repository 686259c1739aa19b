//! The members of a tar, one after the other: files and folders, and nothing else.

use std::io::{self, Read};

use super::Limits;
use super::decoder::Decoder;
use super::fault::ArchiveFault;
use super::header::{self, BLOCK_BYTES, Block, Header};
use super::pax;
use crate::feed::Codec;
use crate::key::KEY_BYTES_MAX;

/// What may stand before a header: a name and some times. Go and Python write a few hundred bytes.
const EXTENSION_BYTES_MAX: u64 = 64 * 1024;

/// What stands before a body.
pub(super) struct Head {
    /// As it stands there: not checked.
    pub(super) path: String,
    pub(super) size: u64,
    pub(super) is_folder: bool,
}

/// Reads a tar and hands out its members in the order in which they lie there.
pub(super) struct TarReader<R: Read> {
    input: Decoder<R>,
    limits: Limits,
    /// Of the body that is being read.
    left: u64,
    padding: usize,
    heads: u64,
    largest: u64,
    is_at_end: bool,
}

impl<R: Read> TarReader<R> {
    pub(super) fn new(input: R, limits: &Limits) -> Result<Self, ArchiveFault> {
        Ok(Self {
            input: Decoder::new(input, limits.total_bytes_max)?,
            limits: *limits,
            left: 0,
            padding: 0,
            heads: 0,
            largest: 0,
            is_at_end: false,
        })
    }

    pub(super) fn codec(&self) -> Codec {
        self.input.codec()
    }

    /// The limits that just allow what was read so far.
    pub(super) fn extent(&self) -> Limits {
        Limits {
            entry_bytes_max: self.largest,
            entries_max: self.heads,
            total_bytes_max: self.input.decoded(),
        }
    }

    /// The next member, whose body can be read then. What is left of the body before is passed over. None at the end,
    /// when everything was read and nothing follows; also if it is asked again.
    pub(super) fn next_head(&mut self) -> Result<Option<Head>, ArchiveFault> {
        if self.is_at_end {
            return Ok(None);
        }
        self.pass_body()?;
        let mut records = None;
        let mut gnu_name = None;
        loop {
            let Some(header) = self.header()? else {
                if records.is_some() || gnu_name.is_some() {
                    return Err(damaged("the tar ends behind the name of a member"));
                }
                self.input.finish()?;
                self.is_at_end = true;
                return Ok(None);
            };
            let is_again = match header.kind {
                header::PAX => {
                    let content = self.extension(&header)?;
                    records.replace(pax::parse(&content)?).is_some()
                }
                header::GNU_NAME => gnu_name.replace(self.extension(&header)?).is_some(),
                _ => {
                    let records = records.unwrap_or_default();
                    return self.head(header, records, gnu_name).map(Some);
                }
            };
            if is_again {
                return Err(hostile("a member has two headers of the same extension"));
            }
        }
    }

    /// The next bytes of the body; none at its end.
    pub(super) fn read_body(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        if room == 0 {
            return Ok(0);
        }
        let count = self.input.read(&mut buffer[..room])?;
        if count == 0 {
            return Err(damaged("the tar ends within a member").into());
        }
        self.left -= count as u64;
        Ok(count)
    }

    /// Passes over what is left of the body, and the zeros behind it.
    fn pass_body(&mut self) -> Result<(), ArchiveFault> {
        let mut buffer = [0; 8 * 1024];
        while self.read_body(&mut buffer)? > 0 {}
        let mut zeros = [0; BLOCK_BYTES];
        let zeros = &mut zeros[..self.padding];
        self.padding = 0;
        self.exactly(zeros)?;
        match zeros.iter().all(|byte| *byte == 0) {
            true => Ok(()),
            false => Err(damaged("something lies between two members")),
        }
    }

    /// None at the end, which is two blocks of zeros.
    fn header(&mut self) -> Result<Option<Header>, ArchiveFault> {
        let mut block: Block = [0; BLOCK_BYTES];
        self.exactly(&mut block)?;
        if block == [0; BLOCK_BYTES] {
            self.exactly(&mut block)?;
            return match block == [0; BLOCK_BYTES] {
                true => Ok(None),
                false => Err(damaged("the end of the tar is only half there")),
            };
        }
        self.heads += 1;
        if self.heads > self.limits.entries_max {
            let max = self.limits.entries_max;
            let what = format!("it has more than {max} members");
            return Err(ArchiveFault::TooLarge(what));
        }
        Header::parse(&block).map(Some)
    }

    fn exactly(&mut self, buffer: &mut [u8]) -> Result<(), ArchiveFault> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.input.read(&mut buffer[filled..])? {
                0 => return Err(damaged("the tar ends too early")),
                count => filled += count,
            }
        }
        Ok(())
    }

    /// The content of a header that describes the next one.
    fn extension(&mut self, header: &Header) -> Result<Vec<u8>, ArchiveFault> {
        if header.size > EXTENSION_BYTES_MAX {
            return Err(ArchiveFault::TooLarge(format!(
                "an extension of a header has more than {EXTENSION_BYTES_MAX} bytes"
            )));
        }
        let size = usize::try_from(header.size).expect("it is at most 64 KiB");
        let mut content = vec![0; size];
        self.exactly(&mut content)?;
        self.padding = header::padding(header.size);
        self.pass_body()?;
        Ok(content)
    }

    fn head(
        &mut self,
        header: Header,
        records: pax::Records,
        gnu_name: Option<Vec<u8>>,
    ) -> Result<Head, ArchiveFault> {
        let path = path_of(header.name, records.path, gnu_name)?;
        let is_folder = match header.kind {
            header::FILE | header::OLD_FILE => false,
            header::FOLDER => true,
            other => return Err(hostile_kind(other, &path)),
        };
        let size = header.size;
        if records.size.is_some_and(|other| other != size) {
            let what = format!("member {} has two sizes", shown(&path));
            return Err(ArchiveFault::Hostile(what));
        }
        if is_folder && size != 0 {
            let what = format!("folder {} has content", shown(&path));
            return Err(ArchiveFault::Hostile(what));
        }
        if size > self.limits.entry_bytes_max {
            let max = self.limits.entry_bytes_max;
            let what = format!("member {} has more than {max} bytes", shown(&path));
            return Err(ArchiveFault::TooLarge(what));
        }
        self.largest = self.largest.max(size);
        self.left = size;
        self.padding = header::padding(size);
        Ok(Head {
            path,
            size,
            is_folder,
        })
    }
}

/// The name of a member, which may stand in three places, but not in two at once beside the header.
fn path_of(
    name: Vec<u8>,
    pax: Option<String>,
    gnu_name: Option<Vec<u8>>,
) -> Result<String, ArchiveFault> {
    let name = match (pax, gnu_name) {
        (Some(_), Some(_)) => return Err(hostile("a member has two long names")),
        (Some(path), None) => path.into_bytes(),
        (None, Some(mut name)) => {
            if name.last() == Some(&0) {
                name.pop();
            }
            name
        }
        (None, None) => name,
    };
    if name.len() > KEY_BYTES_MAX + 2 {
        return Err(hostile("the name of a member is too long"));
    }
    String::from_utf8(name).map_err(|_| hostile("the name of a member is not UTF-8"))
}

fn hostile_kind(kind: u8, path: &str) -> ArchiveFault {
    let what = match kind {
        b'1' => "a hard link",
        b'2' => "a symbolic link",
        b'3' | b'4' => "a device",
        b'6' => "a pipe",
        b'S' => "a sparse file",
        b'K' => "a long link",
        header::PAX_FOR_ALL => "a PAX header for all members",
        _ => "neither a file nor a folder",
    };
    ArchiveFault::Hostile(format!("member {} is {what}", shown(path)))
}

/// A name as it can be shown to somebody.
pub(super) fn shown(path: &str) -> String {
    let start: String = path.chars().take(120).collect();
    format!("`{}`", start.escape_debug())
}

fn damaged(what: &str) -> ArchiveFault {
    ArchiveFault::Damaged(what.into())
}

fn hostile(what: &str) -> ArchiveFault {
    ArchiveFault::Hostile(what.into())
}
