//! Reports are read one after the other, whatever they lie in.

use std::collections::HashMap;
use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cannery_formats::can::{CanReader, CannedFile, Slice};
use cannery_formats::hour_archive::{ArchiveFault, ArchiveReader};
use cannery_lake::Lake;
use cannery_runtime::RealDisk;
use cannery_runtime::disk::Disk as _;
use futures::TryStreamExt as _;
use tokio::runtime::Handle;

use super::OPEN_MAX;
use super::source::{Place, Plan, Source, bundle_text, hour_limits};
use super::supply::{Supplied, Supply};
use crate::blocking::blocking;
use crate::error::Error;
use crate::fetched::Subject;
use crate::scratch::{Place as FilePlace, ScratchFile};
use crate::stage::Plant;

const CHUNK_BYTES: usize = 256 << 10;

/// Takes the text of a report piece by piece.
pub(crate) type Sink<'s> = dyn FnMut(&[u8]) -> Result<(), Error> + 's;

type File = BufReader<FilePlace>;

/// Something with several reports that is read from its begin to its end.
struct Sequence<'p> {
    source: usize,
    reader: Reader<'p>,
    /// The number of what comes next in it.
    next: usize,
}

enum Reader<'p> {
    Can(Box<CanReader<'p, File>>),
    Hour(Box<ArchiveReader<File>>),
}

/// Reads the reports of a plan. Everything here blocks.
pub(crate) struct Reading<'p> {
    plan: &'p Plan,
    lake: Lake,
    handle: Handle,
    supply: Supply,
    files: HashMap<usize, ScratchFile>,
    /// Those that were used last come last.
    open: Vec<Sequence<'p>>,
    is_given_up: Arc<AtomicBool>,
    buffer: Vec<u8>,
}

/// Tells the thread that works when nobody waits for it any more.
struct GiveUp(Arc<AtomicBool>);

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does `job` with the slices of a plan on a thread that may block. It must read each report once, in the order of the
/// slices. If this is dropped, the job ends with the next report.
pub(crate) async fn work<T: Send + 'static>(
    plant: &Plant,
    plan: Plan,
    job: impl FnOnce(&mut Reading<'_>, &[Slice]) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let slices = plan.slices(plant.can_bytes);
    let supply = Supply::begin(&plan, &slices, &plant.raw, &plant.scratch);
    let is_given_up = Arc::new(AtomicBool::new(false));
    let _guard = GiveUp(Arc::clone(&is_given_up));
    let (lake, handle) = (plant.raw.clone(), Handle::current());
    let done = blocking(move || {
        let mut reading = Reading {
            plan: &plan,
            lake,
            handle,
            supply,
            files: HashMap::new(),
            open: Vec::new(),
            is_given_up,
            buffer: vec![0; CHUNK_BYTES],
        };
        job(&mut reading, &slices)
    });
    let failed = |why| Error::scratch(plant.scratch.folder(), why);
    done.await.map_err(failed)?
}

impl<'p> Reading<'p> {
    pub(crate) fn plan(&self) -> &'p Plan {
        self.plan
    }

    /// Waits for something that the lake does.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.handle.block_on(work)
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// What to say of a report that has not the length that it had.
    pub(crate) fn changed(&self, place: Place) -> impl Fn(io::Error) -> Error + use<'p> {
        let source = &self.plan.sources[place.source];
        let lake = self.lake.clone();
        move |why| match source {
            Source::File { root, below } => Error::Report {
                path: root.join(below),
                why,
            },
            Source::Report { key, .. }
            | Source::Bundle { key, .. }
            | Source::Hour { key, .. }
            | Source::Can { key, .. } => Error::unusable(&lake, key, &why),
        }
    }

    /// Reads a report, which may not be asked for again.
    pub(crate) fn text(&mut self, place: Place, sink: &mut Sink<'_>) -> Result<(), Error> {
        if self.is_given_up.load(Ordering::Relaxed) {
            return Err(Error::GivenUp);
        }
        let source = &self.plan.sources[place.source];
        match source {
            Source::Report { .. } => match self.supply.next(place.source)? {
                Supplied::Whole(bytes, _room) => sink(&bytes),
                Supplied::Pieces(mut pieces) => {
                    while let Some(piece) = self.wait(pieces.try_next())? {
                        sink(&piece)?;
                    }
                    Ok(())
                }
                Supplied::File(_) => Err(Error::GivenUp),
            },
            Source::File { root, below } => {
                let failed = |why| Error::Report {
                    path: root.join(below),
                    why,
                };
                let file = RealDisk.open_beneath(root, below).map_err(failed)?;
                let mut at = 0;
                loop {
                    let count = file.read_at(at, &mut self.buffer).map_err(failed)?;
                    if count == 0 {
                        return Ok(());
                    }
                    at += count as u64;
                    sink(&self.buffer[..count])?;
                }
            }
            Source::Bundle { key, file } => {
                let mut text = bundle_text(file);
                let unusable = |fault: ArchiveFault| Error::unusable(&self.lake, key, &fault);
                copy(&mut text, &mut self.buffer, sink, &unusable)
            }
            Source::Hour { .. } | Source::Can { .. } => self.text_in_sequence(place, sink),
        }
    }

    fn text_in_sequence(&mut self, place: Place, sink: &mut Sink<'_>) -> Result<(), Error> {
        let mut sequence = self.sequence(place)?;
        let mut buffer = std::mem::take(&mut self.buffer);
        let lake = &self.lake;
        let source = &self.plan.sources[place.source];
        let unusable = |fault: ArchiveFault| match source.key() {
            Some(key) => Error::unusable(lake, key, &fault),
            None => Error::GivenUp,
        };
        let read = sequence.text(place.ordinal, &mut buffer, sink, &unusable);
        self.buffer = buffer;
        read?;
        let is_over = match source {
            Source::Can { record, .. } => sequence.next >= record.texts().len(),
            _ => false,
        };
        match is_over {
            true => {
                sequence.end(&unusable)?;
                self.files.remove(&place.source);
            }
            false => self.open.push(sequence),
        }
        Ok(())
    }

    /// The reader of a source, at or before the report. The one that was not used for longest gives way.
    fn sequence(&mut self, place: Place) -> Result<Sequence<'p>, Error> {
        let at = self.open.iter().position(|it| it.source == place.source);
        if let Some(sequence) = at.map(|at| self.open.remove(at))
            && sequence.next <= place.ordinal
        {
            return Ok(sequence);
        }
        if self.open.len() >= OPEN_MAX {
            self.open.remove(0);
        }
        let plan = self.plan;
        let source = &plan.sources[place.source];
        let (file, key) = match source {
            Source::Hour { key, file, .. } => (file.begin(), key),
            Source::Can { key, .. } => (self.file(place.source)?, key),
            Source::Report { .. } | Source::File { .. } | Source::Bundle { .. } => {
                return Err(Error::GivenUp);
            }
        };
        let reader = Reader::new(source, BufReader::with_capacity(CHUNK_BYTES, file));
        let reader = reader.map_err(|fault| Error::unusable(&self.lake, key, &fault))?;
        Ok(Sequence {
            source: place.source,
            reader,
            next: 0,
        })
    }

    fn file(&mut self, number: usize) -> Result<FilePlace, Error> {
        if let Some(file) = self.files.get(&number) {
            return Ok(file.begin());
        }
        let Supplied::File(file) = self.supply.next(number)? else {
            return Err(Error::GivenUp);
        };
        let begin = file.begin();
        self.files.insert(number, file);
        Ok(begin)
    }
}

impl<'p> Reader<'p> {
    fn new(source: &'p Source, file: File) -> Result<Self, ArchiveFault> {
        match source {
            Source::Hour {
                subject: Subject { feed, hour },
                ..
            } => {
                let reader = ArchiveReader::open(file, feed, *hour, &hour_limits())?;
                Ok(Self::Hour(Box::new(reader)))
            }
            Source::Can { record, .. } => Self::can(record, file),
            Source::Report { .. } | Source::File { .. } | Source::Bundle { .. } => {
                let what = "it does not hold several reports";
                Err(ArchiveFault::Damaged(what.into()))
            }
        }
    }

    fn can(record: &'p CannedFile, file: File) -> Result<Self, ArchiveFault> {
        Ok(Self::Can(Box::new(CanReader::new(file, record)?)))
    }
}

type Unusable<'u> = dyn Fn(ArchiveFault) -> Error + 'u;

impl Sequence<'_> {
    fn text(
        &mut self,
        ordinal: usize,
        buffer: &mut [u8],
        sink: &mut Sink<'_>,
        unusable: &Unusable<'_>,
    ) -> Result<(), Error> {
        let short = || unusable(ArchiveFault::Damaged("it holds less than it should".into()));
        loop {
            let is_it = self.next == ordinal;
            self.next += 1;
            match &mut self.reader {
                Reader::Can(reader) => {
                    let mut entry = reader.next().map_err(unusable)?.ok_or_else(short)?;
                    if is_it {
                        return copy(&mut entry, buffer, sink, unusable);
                    }
                }
                Reader::Hour(reader) => {
                    let mut entry = reader.next().map_err(unusable)?.ok_or_else(short)?;
                    if is_it {
                        return copy(&mut entry, buffer, sink, unusable);
                    }
                }
            }
        }
    }

    /// After its last report, a can is known to be what its index says only when nothing follows.
    fn end(mut self, unusable: &Unusable<'_>) -> Result<(), Error> {
        let is_over = match &mut self.reader {
            Reader::Can(reader) => reader.next().map_err(unusable)?.is_none(),
            Reader::Hour(_) => true,
        };
        match is_over {
            true => Ok(()),
            false => Err(unusable(ArchiveFault::Damaged(
                "it holds more than it should".into(),
            ))),
        }
    }
}

fn copy(
    text: &mut impl Read,
    buffer: &mut [u8],
    sink: &mut Sink<'_>,
    unusable: &Unusable<'_>,
) -> Result<(), Error> {
    loop {
        match text.read(buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => sink(&buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(unusable(error.into())),
        }
    }
}
