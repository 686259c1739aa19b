//! The work of the stage, on threads that may block.

use std::collections::BTreeMap;
use std::io::{self, BufReader, BufWriter, Read, Write as _};
use std::sync::Arc;

use cannery_formats::archive::{ArchiveFile, ArchiveText, Origin, Report, TextFrame};
use cannery_formats::can::{CAN_BYTES, CanReader, Canned, CannedFile, CannedText, TextName};
use cannery_formats::checksum::Summer;
use cannery_formats::frames::FrameEncoder;
use cannery_formats::hour_archive::ArchiveFault;
use cannery_formats::{LakeKey, Sha1};
use cannery_sanitise::{Bad, Clean, Context, Format, Measurements, Rules, Sanitiser};
use rayon::prelude::*;

use super::{AutoclaveReport, Cooked};
use crate::inputs::time_of;
use crate::redact::Redactions;
use crate::report_facts::ReportFacts;
use crate::scratch::{Place, Scratch, ScratchFile};

/// A longer report of a tar is not held in memory.
pub(super) const REPORT_BYTES: u64 = CAN_BYTES;
/// So much is sanitised at once, by all threads.
pub(super) const BATCH_BYTES: usize = 4 << 20;
/// So many frames are compressed at once, by all threads.
pub(super) const FRAMES_AT_ONCE: usize = 16;

/// Fewer, when measurements are so large that these many bytes wait.
pub(super) const FRAMES_BYTES: usize = 64 << 20;

const BUFFER_BYTES: usize = 256 * 1024;

pub(super) struct Work {
    pub(super) input: ScratchFile,
    pub(super) can: CannedFile,
    pub(super) scratch: Scratch,
    pub(super) rules: Arc<Rules>,
    pub(super) redactions: Redactions,
    pub(super) lake_key: LakeKey,
    pub(super) encoder: FrameEncoder,
    pub(super) frame_bytes: usize,
}

/// A measurement as it was read.
struct Raw {
    src_off: u64,
    src_size: u64,
    text: Result<Vec<u8>, Bad>,
}

/// A measurement as it is written.
struct Item {
    src_off: u64,
    src_size: u64,
    /// Of the text that was read; the bytes in the report may be others.
    text_sha1: Option<Sha1>,
    result: Result<(Clean, Vec<u8>), Left>,
}

/// Why a piece of a report is not in the archive.
enum Left {
    Bad(Bad),
    Redacted(String),
}

impl Item {
    /// What it takes in the archive.
    fn size(&self) -> u64 {
        match &self.result {
            Ok((_, text)) => text.len() as u64,
            Err(_) => 0,
        }
    }

    fn ends_line(&self) -> bool {
        matches!(&self.result, Ok((clean, _)) if !clean.flags.not_json)
    }
}

/// What stands in the report at some place, asked for in the order of the report.
trait Source {
    fn sha1(&mut self, from: u64, size: u64) -> io::Result<Sha1>;
}

/// A report in memory.
struct Held<'r>(&'r [u8]);

/// A report that is read a second time, as far as somebody asks.
struct Again<R> {
    text: R,
    at: u64,
}

type Input = BufReader<Place>;

impl Work {
    pub(super) fn run(self) -> Result<Cooked, ArchiveFault> {
        let archive = self.scratch.file().map_err(ArchiveFault::Io)?;
        let out = BufWriter::with_capacity(BUFFER_BYTES, archive.begin());
        let text = match self.can.canned {
            Canned::Tar { .. } => ArchiveText::tar(self.frame_bytes),
            Canned::Plain(_) => ArchiveText::plain(self.frame_bytes),
        };
        let file = ArchiveFile::new(out, self.can.filename.clone()).map_err(ArchiveFault::Io)?;
        let mut cooking = Cooking {
            sanitiser: Sanitiser::new(&self.rules, self.lake_key.clone()),
            redactions: &self.redactions,
            bucket: self.can.filename.bucket.to_string(),
            encoder: self.encoder,
            text,
            file,
            frames: Vec::new(),
            report: AutoclaveReport {
                bytes_in: self.can.file.size,
                text_bytes_in: self.can.text_size(),
                ..AutoclaveReport::default()
            },
        };
        let mut can = CanReader::quick(self.input(), &self.can)?;
        while let Some(mut entry) = can.next()? {
            let about = entry.text();
            match self.can.canned {
                Canned::Tar { .. } if about.text.size > REPORT_BYTES => {
                    self.long_member(about, &mut entry, &mut cooking)?;
                }
                Canned::Tar { .. } => cooking.member(about, &mut entry)?,
                Canned::Plain(_) => self.plain(about, &mut entry, &mut cooking)?,
            }
            cooking.report.reports += 1;
        }
        self.finish(cooking, archive)
    }

    fn input(&self) -> Input {
        BufReader::with_capacity(BUFFER_BYTES, self.input.begin())
    }

    fn plain(
        &self,
        about: &CannedText,
        text: &mut impl Read,
        cooking: &mut Cooking<'_>,
    ) -> Result<(), ArchiveFault> {
        let mut can = CanReader::quick(self.input(), &self.can)?;
        let Some(again) = can.next()? else {
            return Err(ArchiveFault::Damaged("it has no report".into()));
        };
        let text_again = BufReader::with_capacity(BUFFER_BYTES, again);
        let mut source = Again {
            text: text_again,
            at: 0,
        };
        cooking
            .plain(about, text, &mut source)
            .map_err(ArchiveFault::from)
    }

    /// A report of a tar that is too long for memory, as open cans have it. It is kept on the disk and sanitised twice: how long it
    /// becomes must be known before it is written.
    fn long_member(
        &self,
        about: &CannedText,
        text: &mut impl Read,
        cooking: &mut Cooking<'_>,
    ) -> Result<(), ArchiveFault> {
        let kept = self.scratch.file().map_err(ArchiveFault::Io)?;
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, kept.begin());
        io::copy(text, &mut out)?;
        out.flush().map_err(ArchiveFault::Io)?;
        let read = || BufReader::with_capacity(BUFFER_BYTES, kept.begin());
        let size = cooking.size_of(about, read())?;
        let facts = ReportFacts::of(&about.textname);
        cooking
            .text
            .begin_member(head(about), size, time_of(&facts.kind, &about.textname))
            .map_err(ArchiveFault::Io)?;
        let mut source = Again {
            text: read(),
            at: 0,
        };
        cooking
            .content(about, read(), &mut source)
            .map_err(ArchiveFault::from)
    }

    fn finish(
        &self,
        mut cooking: Cooking<'_>,
        archive: ScratchFile,
    ) -> Result<Cooked, ArchiveFault> {
        let text = std::mem::replace(&mut cooking.text, ArchiveText::plain(1));
        let mut end = text.finish().map_err(ArchiveFault::Io)?;
        cooking.frames.append(&mut end.frames);
        cooking.compress().map_err(ArchiveFault::Io)?;
        let lookups = self.rules.tables();
        let lookups: BTreeMap<String, String> = lookups
            .map(|(name, version)| (name.to_owned(), version.to_owned()))
            .collect();
        let finished = cooking
            .file
            .finish(&end, self.rules.version(), self.rules.sha256(), &lookups)
            .map_err(ArchiveFault::Io)?;
        Ok(Cooked {
            archive,
            index: finished.index.into(),
            private_index: finished.private_index.into(),
            report: AutoclaveReport {
                bytes_out: finished.file.size,
                text_bytes_out: finished.text.size,
                ..cooking.report
            },
        })
    }
}

struct Cooking<'r> {
    sanitiser: Sanitiser<'r>,
    redactions: &'r Redactions,
    bucket: String,
    encoder: FrameEncoder,
    text: ArchiveText,
    file: ArchiveFile<BufWriter<Place>>,
    /// To be compressed.
    frames: Vec<TextFrame>,
    report: AutoclaveReport,
}

impl Cooking<'_> {
    /// A report of a tar: how long it becomes must be known before it is written.
    fn member(&mut self, about: &CannedText, text: &mut impl Read) -> Result<(), ArchiveFault> {
        let mut raw = Vec::new();
        text.read_to_end(&mut raw)?;
        let facts = ReportFacts::of(&about.textname);
        let mut items = Vec::new();
        let mut report = Measurements::of(&raw[..], facts.format);
        while let Some(batch) = next_batch(&mut report)? {
            items.append(&mut self.sanitise(&facts, &about.textname, batch));
        }
        let size = items.iter().map(Item::size).sum();
        let head = head(about);
        self.text
            .begin_member(head, size, time_of(&facts.kind, &about.textname))
            .map_err(ArchiveFault::Io)?;
        self.write(items, facts.format, &mut Held(&raw))?;
        self.end_report().map_err(ArchiveFault::Io)
    }

    /// The report of a file that is no tar: written while it is read.
    fn plain(
        &mut self,
        about: &CannedText,
        text: &mut impl Read,
        source: &mut impl Source,
    ) -> io::Result<()> {
        self.text.begin_report(head(about))?;
        let text = BufReader::with_capacity(BUFFER_BYTES, text);
        self.content(about, text, source)
    }

    /// What a report holds, written while it is read; and its end.
    fn content(
        &mut self,
        about: &CannedText,
        text: impl io::BufRead,
        source: &mut impl Source,
    ) -> io::Result<()> {
        let facts = ReportFacts::of(&about.textname);
        let mut report = Measurements::of(text, facts.format);
        while let Some(batch) = next_batch(&mut report)? {
            let items = self.sanitise(&facts, &about.textname, batch);
            self.write(items, facts.format, source)?;
        }
        self.end_report()
    }

    /// How long a report becomes; nothing is kept of it.
    fn size_of(&self, about: &CannedText, text: impl io::BufRead) -> io::Result<u64> {
        let facts = ReportFacts::of(&about.textname);
        let (mut report, mut size) = (Measurements::of(text, facts.format), 0);
        while let Some(batch) = next_batch(&mut report)? {
            let items = self.sanitise(&facts, &about.textname, batch);
            size += items.iter().map(Item::size).sum::<u64>();
        }
        Ok(size)
    }

    fn sanitise(&self, facts: &ReportFacts, name: &TextName, batch: Vec<Raw>) -> Vec<Item> {
        let kind = facts.kind.to_string();
        let context = Context {
            bucket: &self.bucket,
            textname: name.as_str(),
            kind: &kind,
            report_id: facts.report_id.as_deref(),
            time_ms: facts.time_ms,
        };
        let items = batch.into_par_iter().map(|raw| {
            let text_sha1 = raw.text.as_ref().ok().map(|text| Sha1::of(text));
            let result = raw.text.map_err(Left::Bad).and_then(|text| {
                let mut out = Vec::with_capacity(text.len() + 256);
                let clean = match facts.format {
                    Format::Whole => self.sanitiser.download(&text, &context, &mut out),
                    Format::Json | Format::Yaml | Format::Rows => {
                        let clean = self.sanitiser.measurement(&text, &context, &mut out);
                        clean.map_err(Left::Bad)?
                    }
                };
                match self.redactions.info_of(&clean.uid) {
                    Some(info) => Err(Left::Redacted(info.to_owned())),
                    None => Ok((clean, out)),
                }
            });
            Item {
                src_off: raw.src_off,
                src_size: raw.src_size,
                text_sha1,
                result,
            }
        });
        items.collect()
    }

    fn write(
        &mut self,
        items: Vec<Item>,
        format: Format,
        source: &mut impl Source,
    ) -> io::Result<()> {
        for item in items {
            let orig_sha1 = match item.text_sha1 {
                // What a YAML entry became is not what stood there.
                Some(sha1) if format != Format::Yaml => sha1,
                _ => source.sha1(item.src_off, item.src_size)?,
            };
            let origin = Origin {
                src_off: item.src_off,
                src_size: item.src_size,
                orig_sha1,
            };
            let ends_line = item.ends_line();
            match item.result {
                Ok((clean, text)) => {
                    let text = if ends_line {
                        &text[..text.len() - 1]
                    } else {
                        &text[..]
                    };
                    self.text.datum(clean.uid, text, ends_line, Some(origin))?;
                    self.report.measurements += 1;
                    self.report.unknown_versions += u64::from(clean.flags.unknown_version);
                    self.report.not_json += u64::from(clean.flags.not_json);
                }
                Err(Left::Bad(bad)) => {
                    self.text.bad_blob(bad.to_string(), origin)?;
                    self.report.bad_blobs += 1;
                }
                Err(Left::Redacted(info)) => {
                    self.text.bad_blob(info, origin)?;
                    self.report.bad_blobs += 1;
                    self.report.redacted += 1;
                }
            }
            self.take_frames()?;
        }
        Ok(())
    }

    fn end_report(&mut self) -> io::Result<()> {
        self.text.end_report()?;
        self.take_frames()
    }

    fn take_frames(&mut self) -> io::Result<()> {
        while let Some(frame) = self.text.take_frame() {
            self.frames.push(frame);
        }
        let bytes: usize = self.frames.iter().map(|frame| frame.text().len()).sum();
        let is_enough = self.frames.len() >= FRAMES_AT_ONCE || bytes >= FRAMES_BYTES;
        match is_enough {
            true => self.compress(),
            false => Ok(()),
        }
    }

    /// Compresses the frames on all threads and writes them in order.
    fn compress(&mut self) -> io::Result<()> {
        let encoder = self.encoder;
        let frames = self.frames.par_iter();
        let compressed: Vec<Vec<u8>> = frames
            .map(|frame| encoder.encode(frame.text()))
            .collect::<io::Result<_>>()?;
        for (frame, compressed) in self.frames.drain(..).zip(compressed) {
            self.file.push(&frame, &compressed)?;
        }
        Ok(())
    }
}

/// The next measurements, as many as fit; none at the end.
fn next_batch<R: io::BufRead>(report: &mut Measurements<R>) -> io::Result<Option<Vec<Raw>>> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while bytes < BATCH_BYTES {
        let Some(measurement) = report.next()? else {
            break;
        };
        // Bad ones take room too.
        bytes += measurement.raw.as_ref().map_or(0, |raw| raw.len()) + 64;
        batch.push(Raw {
            src_off: measurement.src_off,
            src_size: measurement.src_size,
            text: measurement.raw.map(<[u8]>::to_vec),
        });
    }
    Ok((!batch.is_empty()).then_some(batch))
}

fn head(about: &CannedText) -> Report {
    Report {
        textname: about.textname.clone(),
        src_size: about.text.size,
        orig_sha1: Some(about.text.sha1),
    }
}

impl Source for Held<'_> {
    fn sha1(&mut self, from: u64, size: u64) -> io::Result<Sha1> {
        let from = usize::try_from(from).ok();
        let size = usize::try_from(size).ok();
        let bytes = from
            .zip(size)
            .and_then(|(from, size)| self.0.get(from..)?.get(..size));
        bytes
            .map(Sha1::of)
            .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

impl<R: Read> Source for Again<R> {
    fn sha1(&mut self, from: u64, size: u64) -> io::Result<Sha1> {
        let before = from.saturating_sub(self.at);
        let mut sums = Summer::default();
        let passed = io::copy(&mut (&mut self.text).take(before), &mut io::sink())?;
        let mut wanted = (&mut self.text).take(size);
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            match wanted.read(&mut buffer)? {
                0 => break,
                count => sums.update(&buffer[..count]),
            }
        }
        self.at += passed + sums.size();
        match self.at == from + size {
            true => Ok(sums.finish().sha1),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
