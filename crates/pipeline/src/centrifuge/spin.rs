//! The work of the stage that is not the catalog's, on threads that may block: an archive is read along its index, and
//! features are taken out of its measurements on all cores.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufReader;
use std::sync::Arc;

use bytes::Bytes;
use cannery_catalog::{NewBadBlob, NewBadRow, NewMeasurement, NewReport, Place, Sent};
use cannery_formats::archive::{ArchiveReader, Datum, Entry, IndexReader};
use cannery_formats::can::TextName;
use cannery_formats::frames::FrameCodec;
use cannery_formats::gz_lines::IndexLimits;
use cannery_formats::hour_archive::ArchiveFault;
use cannery_formats::spool::BundleName;
use cannery_formats::{Digest, Kind, LakeKey, Uid, archive};
use rayon::prelude::*;
use tokio::sync::mpsc::Sender;

use crate::features::{Extracted, Extractor, Features, Residual};
use crate::report_facts::ReportFacts;
use crate::scratch::ScratchFile;

/// So much text is worked on at once.
pub(super) const BATCH_BYTES: usize = 8 << 20;
/// And so many measurements.
const BATCH_COUNT: usize = 4096;
/// A frame is closed by the measurement that fills it, and that may be as large as one may be.
pub(super) const FRAME_TEXT_MAX: u64 = 256 << 20;

/// Of what nobody reads, so many places are told apart in a file.
const SKELETONS_MAX: usize = 20_000;

const BUFFER_BYTES: usize = 256 * 1024;

/// What is pushed into a load.
pub(super) enum Push {
    Report(NewReport),
    Measurement(NewMeasurement, Vec<NewBadRow>),
    BadBlob(NewBadBlob),
    Residual(String, u64),
}

pub(super) struct Spin {
    /// None when the index is enough.
    pub(super) archive: Option<ScratchFile>,
    pub(super) index: Bytes,
    pub(super) codec: FrameCodec,
    pub(super) kind: Kind,
    pub(super) features: Arc<Features>,
    /// The features whose rows are wanted.
    pub(super) wanted: BTreeSet<String>,
    pub(super) lake_key: LakeKey,
    pub(super) is_residual_kept: bool,
}

/// What was read and is not yet worked on.
enum Read {
    Report(NewReport, ReportFacts, String),
    Datum(Datum, Place, Vec<u8>),
    BadBlob(NewBadBlob),
}

/// What the features made of a measurement, and the digest of its text.
type Digested = (Extracted, i64);

/// Where the work stands.
struct Spinning<'s> {
    spin: &'s Spin,
    extractor: Extractor<'s>,
    send: &'s Sender<Vec<Push>>,
    batch: Vec<Read>,
    bytes: usize,
    residuals: BTreeMap<String, u64>,
    /// The report that the next measurement is of.
    report: Option<(ReportFacts, String)>,
    is_abandoned: bool,
}

impl Spin {
    /// Sends everything in the order of the file. Ends early when nobody listens any more.
    pub(super) fn run(&self, send: &Sender<Vec<Push>>) -> Result<(), ArchiveFault> {
        let wanted = |name: &str| self.wanted.contains(name);
        let mut spinning = Spinning {
            spin: self,
            extractor: self.features.extractor(&self.kind, wanted),
            send,
            batch: Vec::new(),
            bytes: 0,
            residuals: BTreeMap::new(),
            report: None,
            is_abandoned: false,
        };
        let mut index = IndexReader::new(&self.index[..], IndexLimits::default());
        match &self.archive {
            None => {
                while let Some(entry) = index.next()? {
                    spinning.take(entry, None)?;
                }
            }
            Some(file) => {
                let file = BufReader::with_capacity(BUFFER_BYTES, file.begin());
                let mut reader = ArchiveReader::new(file, index, self.codec, FRAME_TEXT_MAX);
                while let Some(item) = reader.next()? {
                    let text = item.text.map(<[u8]>::to_vec);
                    spinning.take(item.entry, text)?;
                    if spinning.is_abandoned {
                        return Ok(());
                    }
                }
            }
        }
        spinning.finish()
    }
}

impl Spinning<'_> {
    fn take(&mut self, entry: Entry, text: Option<Vec<u8>>) -> Result<(), ArchiveFault> {
        let read = match entry {
            Entry::Report(report) => {
                let name = report.textname.to_string();
                let facts = ReportFacts::of(&report.textname);
                let new = NewReport {
                    textname: name.clone(),
                    src_size: report.src_size,
                    sent: sent(&report.textname),
                };
                Read::Report(new, facts, name)
            }
            Entry::Datum { datum, place } => {
                let text = text.unwrap_or_default();
                self.bytes += text.len();
                Read::Datum(datum, place_of(place), text)
            }
            Entry::BadBlob(blob) => Read::BadBlob(NewBadBlob {
                src_off: blob.src_off,
                src_size: blob.src_size,
                info: blob.info,
            }),
            Entry::File(_)
            | Entry::Frame(_)
            | Entry::EndReport
            | Entry::EndFrame
            | Entry::Rules(_)
            | Entry::EndFile(_) => return Ok(()),
        };
        self.batch.push(read);
        if self.bytes >= BATCH_BYTES || self.batch.len() >= BATCH_COUNT {
            self.work()?;
        }
        Ok(())
    }

    /// Takes the features out of all measurements that were read, and sends everything.
    fn work(&mut self) -> Result<(), ArchiveFault> {
        self.bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        let chunk = batch
            .len()
            .div_ceil(4 * rayon::current_num_threads())
            .max(1);
        let extracted: Vec<(Vec<Option<Digested>>, Residual)> = batch
            .par_chunks(chunk)
            .map(|chunk| {
                let mut residual = Residual::default();
                let extracted = chunk.iter().map(|read| match read {
                    Read::Datum(_, _, text) if self.spin.archive.is_some() => {
                        let digest = Digest::of(text).short();
                        Some((self.extractor.extract(text, &mut residual), digest))
                    }
                    Read::Datum(..) | Read::Report(..) | Read::BadBlob(_) => None,
                });
                (extracted.collect(), residual)
            })
            .collect();
        let mut made = Vec::with_capacity(batch.len());
        for (chunk, residual) in extracted {
            made.extend(chunk);
            for (skeleton, count) in residual.counts() {
                let is_full = self.residuals.len() >= SKELETONS_MAX;
                let skeleton = match is_full && !self.residuals.contains_key(&skeleton) {
                    true => Residual::MORE.to_owned(),
                    false => skeleton,
                };
                *self.residuals.entry(skeleton).or_default() += count;
            }
        }
        let mut pushes = Vec::with_capacity(batch.len());
        for (read, extracted) in batch.into_iter().zip(made) {
            pushes.push(self.push(read, extracted)?);
        }
        self.is_abandoned = self.send.blocking_send(pushes).is_err();
        Ok(())
    }

    fn push(&mut self, read: Read, extracted: Option<Digested>) -> Result<Push, ArchiveFault> {
        let (extracted, digest) = extracted.unzip();
        let extracted = extracted.unwrap_or_default();
        Ok(match read {
            Read::Report(new, facts, name) => {
                self.report = Some((facts, name));
                Push::Report(new)
            }
            Read::BadBlob(blob) => Push::BadBlob(blob),
            Read::Datum(datum, place, text) => {
                let of_report = self.report.as_ref().and_then(|(facts, _)| facts.time_ms);
                let time_ms = extracted.time_ms.or(of_report);
                let uid = match datum.id {
                    Some(uid) => uid,
                    None => self.uid(&text, time_ms)?,
                };
                let new = NewMeasurement {
                    uid: uid.to_string(),
                    place,
                    time_ms,
                    digest,
                    rows: extracted.rows,
                };
                Push::Measurement(new, extracted.bad_rows)
            }
        })
    }

    /// The uid of a measurement whose archive has none: that of its text as it stands there.
    fn uid(&self, text: &[u8], time_ms: Option<i64>) -> Result<Uid, ArchiveFault> {
        let Some((facts, name)) = &self.report else {
            return Err(ArchiveFault::Damaged(
                "a measurement is of no report".into(),
            ));
        };
        let source = facts.report_id.as_deref().unwrap_or(name);
        let (key, time_ms) = (&self.spin.lake_key, time_ms.unwrap_or(0));
        Ok(Uid::of_json(key, time_ms, source.as_bytes(), text))
    }

    fn finish(mut self) -> Result<(), ArchiveFault> {
        self.work()?;
        if !self.spin.is_residual_kept {
            let residuals = std::mem::take(&mut self.residuals).into_iter();
            let pushes = residuals.map(|(skeleton, count)| Push::Residual(skeleton, count));
            // Nobody who listens no more wants to know it.
            self.is_abandoned = self.send.blocking_send(pushes.collect()).is_err();
        }
        Ok(())
    }
}

/// Which node sent a report, if it is a bundle.
fn sent(name: &TextName) -> Option<Sent> {
    let (bundle, _) = BundleName::parse(&name.bundle_key()?)?;
    let opened = bundle.opened.timestamp();
    Some(Sent {
        node: bundle.node.to_string(),
        hour: opened.strftime("%Y-%m-%dT%H").to_string(),
    })
}

fn place_of(place: archive::Place) -> Place {
    Place {
        frame_off: place.frame_off,
        frame_size: place.frame_size,
        intra_off: place.intra_off,
        intra_size: place.intra_size,
    }
}
