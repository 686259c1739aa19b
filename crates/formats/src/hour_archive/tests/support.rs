//! Archives for tests: ours, and any sequence of blocks that somebody may call a tar.

use std::io::{self, Cursor, Read, Write};

use crate::Digest;
use crate::feed::{Codec, ContentSet, Coverage, CoverageSpan, FeedId, Hour, Member, Slot, SlotRun};
use crate::hour_archive::encoder::Encoder;
use crate::hour_archive::header::{BLOCK_BYTES, padding};
use crate::hour_archive::{
    ArchiveFault, ArchiveReader, ArchiveWriter, Compression, Limits, ReadWriteSeek, Survey, survey,
};

/// A member's name and body.
pub(super) type Body = (String, Vec<u8>);

pub(super) fn feed() -> FeedId {
    FeedId::new("f").unwrap()
}

pub(super) fn hour() -> Hour {
    "20261115T18Z".parse().unwrap()
}

pub(super) fn body(name: &str, content: &[u8]) -> Body {
    (name.to_owned(), content.to_vec())
}

pub(super) fn member((name, content): &Body) -> Member {
    Member::new(name.as_str(), content.len() as u64, Digest::of(content)).unwrap()
}

pub(super) fn set_of(bodies: &[Body]) -> ContentSet {
    bodies.iter().map(member).collect()
}

/// Two downloads, an odd name, a twin, an empty body and coverage.
pub(super) fn some_bodies() -> Vec<Body> {
    let (name, json) = some_coverage().to_member();
    vec![
        body(
            "f_20261115T182403.850Z_xj4bnp4pahh6uqkbidpf3lrceo.json",
            b"abc",
        ),
        body("twin", b"one"),
        body("twin", b"other"),
        body("folder/empty", b""),
        body("a b-ü", &[7; 600]),
        (name, json),
    ]
}

pub(super) fn some_coverage() -> Coverage {
    let run = SlotRun {
        slot: Slot::Stored,
        count: 2,
    };
    let span = CoverageSpan {
        offset_ms: 0,
        period_ms: 1_800_000,
        runs: vec![run],
    };
    Coverage::new(feed(), hour(), "lga", vec![span])
}

/// An archive of ours.
pub(super) fn ours(bodies: &[Body], compression: Compression) -> Vec<u8> {
    write_with(bodies, compression, |content| Box::new(content))
}

/// The same, where each body comes through a reader of its own.
pub(super) fn write_with<'a>(
    bodies: &'a [Body],
    compression: Compression,
    mut reader: impl FnMut(&'a [u8]) -> Box<dyn Read + 'a>,
) -> Vec<u8> {
    let set = set_of(bodies);
    let mut writer = ArchiveWriter::new(Vec::new(), &feed(), hour(), &set, &compression).unwrap();
    while let Some(next) = writer.next_member() {
        let body = bodies.iter().find(|body| member(body) == *next).unwrap();
        writer.append(reader(&body.1)).unwrap();
    }
    writer.finish().unwrap()
}

pub(super) fn look(archive: &[u8]) -> Result<Survey, ArchiveFault> {
    survey(archive, &feed(), hour(), &Limits::default())
}

/// The names, paths and contents that a reader hands out.
pub(super) fn read_all(archive: &[u8]) -> Result<Vec<(String, String, Vec<u8>)>, ArchiveFault> {
    let mut reader = ArchiveReader::open(archive, &feed(), hour(), &Limits::default())?;
    let mut all = Vec::new();
    while let Some(mut entry) = reader.next()? {
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        assert_eq!(entry.size(), content.len() as u64);
        all.push((entry.name().to_owned(), entry.path().to_owned(), content));
    }
    Ok(all)
}

/// The least effort, for tests that write many archives.
pub(super) fn fast(codec: Codec) -> Compression {
    let level = Some(u32::from(codec != Codec::Xz));
    Compression { codec, level }
}

pub(super) fn compress(content: &[u8], codec: Codec) -> Vec<u8> {
    let mut encoder = Encoder::new(Vec::new(), &fast(codec)).unwrap();
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn decompress(archive: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    let mut decoder = crate::hour_archive::decoder::Decoder::new(archive, u64::MAX).unwrap();
    decoder.read_to_end(&mut content).unwrap();
    content
}

pub(super) fn scratch() -> impl FnMut() -> io::Result<Box<dyn ReadWriteSeek>> {
    || Ok(Box::new(Cursor::new(Vec::new())))
}

/// A tar of anything. Nothing is checked.
#[derive(Clone, Default)]
pub(super) struct Blocks(pub(super) Vec<u8>);

impl Blocks {
    /// A regular file.
    pub(super) fn file(self, name: &str, content: &[u8]) -> Self {
        self.entry(b'0', name, content)
    }

    /// A member of any kind.
    pub(super) fn entry(self, kind: u8, name: &str, content: &[u8]) -> Self {
        self.with(kind, name, content, |_| {})
    }

    /// A member whose header is changed before its checksum is made.
    pub(super) fn with(
        mut self,
        kind: u8,
        name: &str,
        content: &[u8],
        change: impl FnOnce(&mut tar::Header),
    ) -> Self {
        let mut header = tar::Header::new_ustar();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(tar::EntryType::new(kind));
        header.set_mode(0o600);
        header.set_size(content.len() as u64);
        change(&mut header);
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        let zeros = padding(content.len() as u64);
        self.0.extend_from_slice(&[0; BLOCK_BYTES][..zeros]);
        self
    }

    /// The two blocks of zeros.
    pub(super) fn end(mut self) -> Self {
        self.0.extend_from_slice(&[0; 2 * BLOCK_BYTES]);
        self
    }

    pub(super) fn gzip(self) -> Vec<u8> {
        compress(&self.0, Codec::Gzip)
    }
}

/// A foreign archive, in the order given, as Hoard made it: with its own manifest.
pub(super) fn foreign(bodies: &[Body], codec: Codec) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let manifest = (".hoard_manifest.json".to_owned(), b"{}".to_vec());
    for (name, content) in std::iter::once(&manifest).chain(bodies) {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o600);
        header.set_size(content.len() as u64);
        builder
            .append_data(&mut header, name, content.as_slice())
            .unwrap();
    }
    compress(&builder.into_inner().unwrap(), codec)
}

/// A reader that hands out one byte after the other, and is interrupted before each.
pub(super) struct Drops<'a>(pub(super) &'a [u8], pub(super) bool);

impl Read for Drops<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let count = buffer.len().min(1);
        self.0.read(&mut buffer[..count])
    }
}

/// An output that takes so many bytes.
pub(super) struct Full(pub(super) usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.checked_sub(bytes.len()) {
            Some(left) => self.0 = left,
            None => return Err(io::ErrorKind::StorageFull.into()),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
