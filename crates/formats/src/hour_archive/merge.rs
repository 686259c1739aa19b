//! Several archives become one: the union of their sets, written as it is read.

use std::collections::{BTreeMap, btree_set};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::iter::Peekable;

use super::encoder::Compression;
use super::fault::ArchiveFault;
use super::reader::ArchiveReader;
use super::survey::Survey;
use super::writer::ArchiveWriter;
use crate::feed::{ContentSet, FeedId, Hour, Member};

/// A place for what has to be sorted, such as a file without a name.
pub trait ReadWriteSeek: Read + Write + Seek {}

impl<T: Read + Write + Seek> ReadWriteSeek for T {}

/// An archive that goes into another.
pub struct Input<'a> {
    /// What was found in it.
    pub survey: &'a Survey,
    /// The same content once more, from its beginning.
    pub content: Box<dyn Read + 'a>,
}

/// Unites archives into one and hands back its set, which is the union of theirs, and the output.
///
/// It holds one buffer for each input, and writes as it reads. An input that is not in order is written to a scratch before,
/// which `scratch` makes, empty, one for each of them.
///
/// # Errors
/// [`ArchiveFault`] when an input is not what its survey says, and [`ArchiveFault::Io`] for the output or the scratch. The
/// output is no archive then.
pub fn merge<W: Write>(
    inputs: Vec<Input<'_>>,
    scratch: &mut dyn FnMut() -> io::Result<Box<dyn ReadWriteSeek>>,
    out: W,
    feed: &FeedId,
    hour: Hour,
    compression: &Compression,
) -> Result<(ContentSet, W), ArchiveFault> {
    let set: ContentSet = inputs
        .iter()
        .flat_map(|input| input.survey.set.iter().cloned())
        .collect();
    let mut cursors = Vec::with_capacity(inputs.len());
    for input in inputs {
        cursors.push(Cursor::open(input, feed, hour, scratch)?);
    }
    let mut writer = ArchiveWriter::new(out, feed, hour, &set, compression)?;
    while let Some(member) = writer.next_member() {
        let mut is_written = false;
        for cursor in &mut cursors {
            if cursor.ahead.next_if_eq(&member).is_none() {
                continue;
            }
            if is_written {
                cursor.source.pass(member)?;
            } else {
                cursor.source.copy(member, &mut writer)?;
                is_written = true;
            }
        }
    }
    for cursor in cursors {
        cursor.source.end()?;
    }
    let out = writer.finish()?;
    Ok((set, out))
}

/// An input, and what comes next in it.
struct Cursor<'a> {
    ahead: Peekable<btree_set::Iter<'a, Member>>,
    source: Source<'a>,
}

impl<'a> Cursor<'a> {
    fn open(
        input: Input<'a>,
        feed: &FeedId,
        hour: Hour,
        scratch: &mut dyn FnMut() -> io::Result<Box<dyn ReadWriteSeek>>,
    ) -> Result<Self, ArchiveFault> {
        let Input { survey, content } = input;
        let reader = ArchiveReader::open(content, feed, hour, &survey.extent)?;
        let source = match survey.in_order {
            true => Source::InOrder(Box::new(reader)),
            false => spill(reader, survey, scratch()?)?,
        };
        Ok(Self {
            ahead: survey.set.iter().peekable(),
            source,
        })
    }
}

/// Where the bodies of an input come from, in the order of its set.
enum Source<'a> {
    InOrder(Box<ArchiveReader<Box<dyn Read + 'a>>>),
    Spilled {
        file: Box<dyn ReadWriteSeek>,
        offsets: BTreeMap<Member, u64>,
    },
}

impl Source<'_> {
    /// Writes the next body to the archive.
    fn copy<W: Write>(
        &mut self,
        member: &Member,
        writer: &mut ArchiveWriter<'_, W>,
    ) -> Result<(), ArchiveFault> {
        match self {
            Self::InOrder(reader) => {
                let entry = reader.next()?.ok_or_else(changed)?;
                match entry.name() == member.name() && entry.size() == member.size() {
                    true => Ok(writer.append_entry(entry)?),
                    false => Err(changed()),
                }
            }
            Self::Spilled { file, offsets } => {
                let offset = offsets.get(member).ok_or_else(changed)?;
                file.seek(SeekFrom::Start(*offset))?;
                Ok(writer.append(file.take(member.size()))?)
            }
        }
    }

    /// Passes over the next body, which is written already.
    fn pass(&mut self, member: &Member) -> Result<(), ArchiveFault> {
        let Self::InOrder(reader) = self else {
            return Ok(());
        };
        let entry = reader.next()?.ok_or_else(changed)?;
        match entry.finish()? == *member {
            true => Ok(()),
            false => Err(changed()),
        }
    }

    /// Nothing may follow.
    fn end(self) -> Result<(), ArchiveFault> {
        match self {
            Self::Spilled { .. } => Ok(()),
            Self::InOrder(mut reader) => match reader.next()? {
                None => Ok(()),
                Some(_) => Err(changed()),
            },
        }
    }
}

/// Writes all bodies one after the other, and remembers where each lies.
fn spill<'a>(
    mut reader: ArchiveReader<Box<dyn Read + 'a>>,
    survey: &Survey,
    mut file: Box<dyn ReadWriteSeek>,
) -> Result<Source<'a>, ArchiveFault> {
    let mut offsets = BTreeMap::new();
    let mut offset = 0;
    while let Some(mut entry) = reader.next()? {
        io::copy(&mut entry, &mut file)?;
        let member = entry.finish()?;
        let size = member.size();
        offsets.entry(member).or_insert(offset);
        offset += size;
    }
    file.flush()?;
    match offsets.keys().eq(survey.set.iter()) {
        true => Ok(Source::Spilled { file, offsets }),
        false => Err(changed()),
    }
}

fn changed() -> ArchiveFault {
    ArchiveFault::Damaged("it is not what it was when it was surveyed".into())
}
