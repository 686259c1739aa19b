//! An archive of exactly one set: the manifest, then the members in order. The same set is the same bytes.

use std::io::{self, Read, Write};

use super::encoder::{Compression, Encoder};
use super::fault::ArchiveFault;
use super::header::{self, BLOCK_BYTES, Header, NUMBER_MAX};
use super::pax;
use super::reader::{ArchiveEntry, MANIFEST_BYTES_MAX};
use super::tar_reader::shown;
use crate::Hasher;
use crate::feed::{ContentSet, DownloadName, FeedId, Hour, MANIFEST_NAME, Manifest, Member};

const CHUNK_BYTES: usize = 64 * 1024;

/// The name of a header that only holds PAX records.
const PAX_NAME: &str = "PaxHeaders/path";

/// Writes an archive of exactly one set. What it writes follows from feed, hour, set and compression alone.
///
/// Dropped before [`ArchiveWriter::finish`], or after an error, it leaves behind what no reader takes for an archive.
pub struct ArchiveWriter<'s, W: Write> {
    out: Encoder<W>,
    feed: FeedId,
    hour: Hour,
    paths: std::vec::IntoIter<(String, &'s Member)>,
    /// Half a member was written.
    is_broken: bool,
    /// One for all members: they are small and many.
    buffer: Vec<u8>,
}

impl<'s, W: Write> ArchiveWriter<'s, W> {
    /// Writes the manifest.
    ///
    /// # Errors
    /// Those of `out`; and `InvalidInput` when there is no such level of compression, or the set is too large.
    pub fn new(
        out: W,
        feed: &FeedId,
        hour: Hour,
        set: &'s ContentSet,
        compression: &Compression,
    ) -> io::Result<Self> {
        check_sizes(set)?;
        let manifest = Manifest {
            feed: feed.clone(),
            hour,
            set: set.clone(),
        };
        let json = manifest.to_json();
        if json.len() as u64 > MANIFEST_BYTES_MAX {
            return Err(invalid("the manifest would be too long".into()));
        }
        let mut writer = Self {
            out: Encoder::new(out, compression)?,
            feed: feed.clone(),
            hour,
            paths: set.paths(feed).into_iter(),
            is_broken: false,
            buffer: vec![0; CHUNK_BYTES],
        };
        let mtime = seconds(hour.begin());
        writer.header(MANIFEST_NAME, json.len() as u64, mtime)?;
        writer.out.write_all(&json)?;
        writer.pad(json.len() as u64)?;
        Ok(writer)
    }

    /// The member whose body [`ArchiveWriter::append`] takes next.
    #[must_use]
    pub fn next_member(&self) -> Option<&'s Member> {
        self.paths.as_slice().first().map(|(_, member)| *member)
    }

    /// Writes the next member in order.
    ///
    /// # Errors
    /// `InvalidData` when the body is not what the set says; `InvalidInput` when there is no member left; those of `body` and
    /// of the output. Nothing can be written after any of them.
    pub fn append(&mut self, body: impl Read) -> io::Result<()> {
        self.member(|writer, member| {
            let mut hashing = Hashing::new(body);
            writer.body(&mut hashing, member)?;
            Ok(hashing.hasher.finish() == member.sha256())
        })
    }

    /// The same with a member of another archive, which is hashed as it is read.
    pub(super) fn append_entry<R: Read>(
        &mut self,
        mut entry: ArchiveEntry<'_, R>,
    ) -> io::Result<()> {
        self.member(|writer, member| {
            writer.body(&mut entry, member)?;
            Ok(entry.finish()?.sha256() == member.sha256())
        })
    }

    /// Writes the next member; `body` writes its content, and says whether it was the right one.
    fn member(
        &mut self,
        body: impl FnOnce(&mut Self, &Member) -> io::Result<bool>,
    ) -> io::Result<()> {
        self.check_usable()?;
        self.is_broken = true;
        let Some((path, member)) = self.paths.next() else {
            return Err(invalid("the set has no more members".into()));
        };
        let name = DownloadName::parse(&self.feed, member.name());
        let mtime = name.map_or(self.hour.begin(), |name| name.time);
        self.header(&path, member.size(), seconds(mtime))?;
        if !body(self, member)? {
            return Err(other_content(member));
        }
        self.pad(member.size())?;
        self.is_broken = false;
        Ok(())
    }

    /// Writes the end, and hands back the output, flushed.
    ///
    /// # Errors
    /// `InvalidInput` when a member was not written; those of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.check_usable()?;
        if let Some(member) = self.next_member() {
            let name = shown(member.name());
            return Err(invalid(format!("member {name} was not written")));
        }
        self.out.write_all(&[0; 2 * BLOCK_BYTES])?;
        self.out.finish()
    }

    fn header(&mut self, path: &str, size: u64, mtime: u64) -> io::Result<()> {
        if let Some((prefix, name)) = header::split(path) {
            let block = Header::write(prefix, name, size, mtime, header::FILE);
            return self.out.write_all(&block);
        }
        let record = pax::path_record(path);
        let length = record.len() as u64;
        let block = Header::write("", PAX_NAME, length, mtime, header::PAX);
        self.out.write_all(&block)?;
        self.out.write_all(&record)?;
        self.pad(length)?;
        let block = Header::write("", header::start_of(path), size, mtime, header::FILE);
        self.out.write_all(&block)
    }

    /// Exactly as many bytes as the member has.
    fn body(&mut self, body: &mut impl Read, member: &Member) -> io::Result<()> {
        let mut length = 0_u64;
        loop {
            let count = match body.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            length += count as u64;
            if length > member.size() {
                return Err(other_content(member));
            }
            self.out.write_all(&self.buffer[..count])?;
        }
        match length == member.size() {
            true => Ok(()),
            false => Err(other_content(member)),
        }
    }

    fn pad(&mut self, size: u64) -> io::Result<()> {
        self.out
            .write_all(&[0; BLOCK_BYTES][..header::padding(size)])
    }

    fn check_usable(&self) -> io::Result<()> {
        match self.is_broken {
            false => Ok(()),
            true => Err(invalid("the archive was given up after an error".into())),
        }
    }
}

/// Hashes what is read.
struct Hashing<R> {
    body: R,
    hasher: Hasher,
}

impl<R> Hashing<R> {
    fn new(body: R) -> Self {
        let hasher = Hasher::default();
        Self { body, hasher }
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.body.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }
}

fn check_sizes(set: &ContentSet) -> io::Result<()> {
    match set.iter().find(|member| member.size() > NUMBER_MAX) {
        None => Ok(()),
        Some(member) => {
            let name = shown(member.name());
            Err(invalid(format!("member {name} is larger than 8 GiB")))
        }
    }
}

/// A time as a header has it: never before 1970.
fn seconds(time: jiff::Timestamp) -> u64 {
    u64::try_from(time.as_second()).unwrap_or(0)
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

fn other_content(member: &Member) -> io::Error {
    let name = shown(member.name());
    ArchiveFault::Damaged(format!("member {name} has not the content that it had")).into()
}
