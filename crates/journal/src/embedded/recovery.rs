//! Opening what is there: replays the log, tells a torn tail from damage, and saves what can be read.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cannery_formats::journal_segment::{
    Batch, Found, HEADER_BYTES, Header, SECTOR_BYTES, SegmentId, check_header, find_batch,
};
use cannery_runtime::Rng;
use cannery_runtime::disk::{Disk, DiskFile, Open};

use super::about::{self, About};
use super::home::Home;
use super::log::{Habits, Log, Start};
use super::record::{self, Checkpoint, Record};
use super::salvage::{front_in, harden, set_aside};
use super::segment::{Segment, read_exact};
use super::spare::{Pace, Spare, clear_away};
use super::wire::Take;
use super::{FailedTo, kind_of, period};
use crate::date::Date;
use crate::declaration::Declaration;
use crate::error::{Error, ErrorKind};
use crate::state::{Replay, State};

/// What was found when a journal was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The last commit was cut off by a crash and does not count: where.
    pub torn: Option<String>,
    /// What was damaged and set aside, and what of it was lost.
    pub damaged: Vec<String>,
}

pub(super) struct Recovered {
    pub(super) state: State<Home>,
    pub(super) log: Log,
    pub(super) incarnation: u64,
    pub(super) report: Report,
    /// What is at home up to this segment must be written again: one of them is damaged.
    pub(super) rewrite_through: Option<u32>,
}

/// Where a journal lies and how it is to be opened.
pub(super) struct Opening<'a> {
    pub(super) disk: &'a Arc<dyn Disk>,
    pub(super) dir: &'a Path,
    pub(super) rng: &'a Rng,
    pub(super) segment_bytes: u64,
    pub(super) pace: Pace,
    pub(super) now: Date,
}

/// Opens the files. `given` is the declaration of a journal that is new.
pub(super) fn recover(
    opening: &Opening<'_>,
    given: Option<&Declaration>,
) -> Result<Recovered, Error> {
    let mut reader = Reader {
        opening,
        replay: None,
        given,
        expected: None,
        incarnation: 0,
        last: None,
        adds: 0,
        wiped: false,
        front: 1,
        report: Report::default(),
        rewrite_through: None,
    };
    let about = reader.about()?;
    let wiped = about
        .as_ref()
        .and_then(|about| about.declarations.values().next_back())
        .or(given)
        .is_some_and(|declaration| declaration.wipe);
    let spare = Spare::clear(
        opening.disk,
        opening.dir,
        opening.segment_bytes,
        opening.pace,
        wiped,
    )
    .failed_to(format!("clear up `{}`", opening.dir.display()))?;
    reader.wiped = wiped;
    let found = list(opening)?;
    if let Some(about) = &about
        && found
            .first()
            .is_some_and(|first| first.number < about.front)
    {
        // What says that they do not count must be on the disk before they go, and a sync of it may have failed.
        about
            .write(&**opening.disk, opening.dir)
            .failed_to("write `journal.json`")?;
    }
    reader.start(about);
    let mut segments = BTreeMap::new();
    for id in reader.that_count(found)? {
        let segment = reader
            .segment(id)
            .failed_to(format!("read segment `{id}`"))??;
        if segment.end == HEADER_BYTES {
            // Nothing was ever committed here, and its very name may not be durable.
            let path = segment.path(opening.dir);
            opening
                .disk
                .remove_file(&path)
                .failed_to(format!("remove `{}`", path.display()))?;
        } else {
            segments.insert(id.number, segment);
        }
    }
    reader.finish(segments, spare)
}

fn list(opening: &Opening<'_>) -> Result<Vec<SegmentId>, Error> {
    let names = opening
        .disk
        .read_dir(opening.dir)
        .failed_to(format!("list `{}`", opening.dir.display()))?;
    let mut found: Vec<SegmentId> = names
        .iter()
        .filter_map(|entry| entry.name.to_str()?.parse().ok())
        .collect();
    found.sort_unstable();
    Ok(found)
}

struct Reader<'a> {
    opening: &'a Opening<'a>,
    given: Option<&'a Declaration>,
    replay: Option<Replay<Home>>,
    /// The number of the next batch.
    expected: Option<u64>,
    incarnation: u64,
    /// The segment that was read last.
    last: Option<SegmentId>,
    /// How many adds there were at the last opening: the log must know of as many.
    adds: u64,
    /// Whether what is removed is overwritten before.
    wiped: bool,
    /// The first segment that counts.
    front: u32,
    report: Report,
    rewrite_through: Option<u32>,
}

/// How far a segment was readable.
struct Extent {
    end: u64,
    /// Places that could not be read, with something readable after them.
    holes: Vec<u64>,
    /// Whether the end is the begin of a batch that is not whole.
    torn: bool,
    /// Whether batches are missing between the segment before and this one.
    gap: bool,
}

impl Reader<'_> {
    fn about(&mut self) -> Result<Option<About>, Error> {
        let (disk, dir) = (&**self.opening.disk, self.opening.dir);
        let path = dir.join(about::NAME);
        match About::read(disk, dir).failed_to(format!("read `{}`", path.display()))? {
            about::Found::About(about) => Ok(Some(*about)),
            about::Found::Nothing => Ok(None),
            about::Found::Newer(format) => Err(newer(&path, format)),
            about::Found::Damaged(reason) => {
                let kept = self.set_aside(&path)?;
                self.report.damaged.push(format!(
                    "`{}` cannot be read ({reason}); kept as `{}`",
                    path.display(),
                    kept.display()
                ));
                Ok(None)
            }
        }
    }

    fn start(&mut self, about: Option<About>) {
        let Some(about) = about else {
            return;
        };
        self.incarnation = about.incarnation;
        self.adds = about.counts.adds;
        self.front = self.front.max(about.front);
        let mut replay =
            Replay::with(about.declarations).unwrap_or_else(|| Replay::new(Declaration::default()));
        replay.checkpoint(about.counts, about.next_seq);
        self.replay = Some(replay);
    }

    /// The state under way; where nothing said what the journal is, the given declaration does.
    fn replay(&mut self) -> &mut Replay<Home> {
        let given = self.given;
        self.replay
            .get_or_insert_with(|| Replay::new(given.cloned().unwrap_or_default()))
    }

    /// The segments that count; what a failed disk brought back is removed. The last segment with a commit knows.
    fn that_count(&mut self, mut found: Vec<SegmentId>) -> Result<Vec<SegmentId>, Error> {
        for id in found.iter().rev() {
            let reading = || format!("read segment `{id}`");
            let (file, bytes) = self.read(*id).failed_to(reading())?;
            if let Some((front, end)) = front_in(*id, &bytes) {
                self.front = self.front.max(front);
                if found.first().is_some_and(|first| first.number < self.front) {
                    // What says that they do not count must be on the disk before they go.
                    harden(&*file, end).failed_to(reading())?;
                }
                break;
            }
        }
        let counting = found.partition_point(|id| id.number < self.front);
        for id in found.drain(..counting) {
            let path = self.opening.dir.join(id.to_string());
            clear_away(&**self.opening.disk, &path, self.wiped)
                .failed_to(format!("remove `{}`", path.display()))?;
        }
        Ok(found)
    }

    fn read(&self, id: SegmentId) -> io::Result<(Box<dyn DiskFile>, Vec<u8>)> {
        let path = self.opening.dir.join(id.to_string());
        let file = self.opening.disk.open(&path, Open::ReadWrite)?;
        let length = usize::try_from(file.len()?).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut bytes = vec![0; length];
        read_exact(&*file, 0, &mut bytes)?;
        Ok((file, bytes))
    }

    fn segment(&mut self, id: SegmentId) -> io::Result<Result<Segment, Error>> {
        let path = self.opening.dir.join(id.to_string());
        let (file, bytes) = self.read(id)?;
        let length = bytes.len() as u64;
        let header = check_header(id, &bytes);
        if let Header::Newer(format) = header {
            return Ok(Err(newer(&path, format)));
        }
        let extent = self.batches(id, &bytes);
        self.judge(id, header, &extent)?;
        let begun = bytes.get(24..32).map_or(0, |date| {
            let mut begun = [0; 8];
            begun.copy_from_slice(date);
            i64::from_le_bytes(begun)
        });
        let period = self.period_of(Date::from_millis(begun));
        let mut segment = Segment::new(id, file, length, period);
        segment.end = extent.end;
        Ok(Ok(segment))
    }

    fn period_of(&mut self, begun: Date) -> i64 {
        let kind = self.replay().declaration().period;
        period::number(kind, begun)
    }

    /// Replays the batches of a segment.
    fn batches(&mut self, id: SegmentId, bytes: &[u8]) -> Extent {
        let mut extent = Extent {
            end: HEADER_BYTES,
            holes: Vec::new(),
            torn: false,
            gap: false,
        };
        loop {
            let at = usize::try_from(extent.end).unwrap_or(usize::MAX);
            let found = find_batch(id, bytes.get(at..).unwrap_or_default());
            if let Found::Whole(batch) = found
                && self.is_next(&batch)
            {
                if self
                    .expected
                    .is_some_and(|expected| batch.number > expected)
                {
                    extent.gap = true;
                }
                if self.records(id, extent.end, &batch).is_err() {
                    extent.holes.push(extent.end);
                }
                self.expected = Some(batch.number + 1);
                extent.end = batch.end(extent.end);
                continue;
            }
            match self.search(id, bytes, extent.end + SECTOR_BYTES) {
                Some(later) => {
                    extent.holes.push(extent.end);
                    // The number of what is missing is not known: the next one is taken as it comes.
                    self.expected = None;
                    extent.end = later;
                }
                None => {
                    extent.torn = found == Found::Broken;
                    return extent;
                }
            }
        }
    }

    /// Numbers only grow.
    fn is_next(&self, batch: &Batch<'_>) -> bool {
        self.expected
            .is_none_or(|expected| batch.number >= expected)
    }

    /// The next whole batch from `from` on.
    fn search(&self, id: SegmentId, bytes: &[u8], from: u64) -> Option<u64> {
        let sector = usize::try_from(SECTOR_BYTES).ok()?;
        let from = usize::try_from(from).ok()?;
        (from..bytes.len())
            .step_by(sector)
            .find(|at| match find_batch(id, &bytes[*at..]) {
                Found::Whole(batch) => self.is_next(&batch),
                Found::Broken | Found::Nothing => false,
            })
            .map(|at| at as u64)
    }

    fn records(
        &mut self,
        id: SegmentId,
        offset: u64,
        batch: &Batch<'_>,
    ) -> Result<(), super::wire::Unreadable> {
        let base = offset + cannery_formats::journal_segment::BATCH_HEADER_BYTES as u64;
        let mut take = Take::new(batch.records);
        while !take.is_empty() {
            match record::take(&mut take)? {
                Record::Effect(effect) => {
                    self.replay().replay(effect);
                }
                Record::Checkpoint(checkpoint) => self.checkpoint(*checkpoint),
                Record::Front(_) => {}
                Record::Whole { whole, data, len } => {
                    let home = Home {
                        segment: id.number,
                        offset: u32::try_from(base + data as u64)
                            .map_err(|_| super::wire::Unreadable)?,
                        len: u32::try_from(len).map_err(|_| super::wire::Unreadable)?,
                        key_len: u16::try_from(whole.key.as_str().len())
                            .map_err(|_| super::wire::Unreadable)?,
                    };
                    self.replay().restore(whole, home);
                }
            }
        }
        Ok(())
    }

    fn checkpoint(&mut self, checkpoint: Checkpoint) {
        self.incarnation = self.incarnation.max(checkpoint.incarnation);
        for (version, declaration) in checkpoint.declarations {
            self.replay().declare(version, declaration);
        }
        self.replay()
            .checkpoint(checkpoint.counts, checkpoint.next_seq);
    }

    /// Decides whether what could not be read is damage, and sets it aside.
    fn judge(&mut self, id: SegmentId, header: Header, extent: &Extent) -> io::Result<()> {
        let header_damaged = header == Header::Damaged;
        // Only the end of the last segment is where a commit can have been under way.
        self.report.torn = extent
            .torn
            .then(|| format!("segment `{id}` at byte {}", extent.end));
        if let Some(before) = self.last.replace(id).filter(|_| extent.gap) {
            self.keep(before, "its end")?;
        }
        if extent.holes.is_empty() && !header_damaged {
            return Ok(());
        }
        let places: Vec<_> = extent.holes.iter().map(ToString::to_string).collect();
        let what = match (header_damaged, places.is_empty()) {
            (true, true) => "its header".to_owned(),
            (true, false) => format!("its header and what begins at byte {}", places.join(", ")),
            (false, _) => format!("what begins at byte {}", places.join(", ")),
        };
        self.keep(id, &what)
    }

    /// Sets a damaged segment aside; what is at home there is to be written again.
    fn keep(&mut self, id: SegmentId, what: &str) -> io::Result<()> {
        let dir = self.opening.dir;
        let kept = match set_aside(&**self.opening.disk, dir, &dir.join(id.to_string())) {
            Err(error) if kind_of(&error) == ErrorKind::Full => {
                self.report.damaged.push(format!(
                    "segment `{id}`: {what} cannot be read; there is no room for a copy, and the file stays where it is"
                ));
                return Ok(());
            }
            kept => kept?,
        };
        self.report.damaged.push(format!(
            "segment `{id}`: {what} cannot be read; the rest was saved, the file kept as `{}`",
            kept.display()
        ));
        self.rewrite_through = self.rewrite_through.max(Some(id.number));
        Ok(())
    }

    fn set_aside(&self, path: &Path) -> Result<PathBuf, Error> {
        set_aside(&**self.opening.disk, self.opening.dir, path)
            .failed_to(format!("keep a copy of `{}`", path.display()))
    }

    fn finish(
        mut self,
        segments: BTreeMap<u32, Segment>,
        spare: Spare,
    ) -> Result<Recovered, Error> {
        let Some(mut replay) = self.replay.take() else {
            return self.brand_new(spare);
        };
        let missing = replay.reconcile(self.adds);
        if missing > 0 {
            self.report.damaged.push(format!(
                "{missing} entries are missing: a part of the log is gone or could not be read"
            ));
        }
        let state = replay.finish();
        if let Some((_, last)) = segments.last_key_value() {
            harden(&*last.file, last.end).failed_to("make sure of the last segment")?;
        }
        let mut log = self.log(state.declaration().1, segments, spare);
        for id in state.find(|_| true) {
            log.count_live(*state.data(id));
        }
        Ok(self.recovered(state, log))
    }

    fn brand_new(self, spare: Spare) -> Result<Recovered, Error> {
        let Some(declaration) = self.given else {
            return Err(Error::new(
                ErrorKind::Unknown,
                format!("there is no journal in `{}`", self.opening.dir.display()),
            ));
        };
        let log = self.log(declaration, BTreeMap::new(), spare);
        Ok(self.recovered(State::new(declaration.clone()), log))
    }

    fn log(
        &self,
        declaration: &Declaration,
        segments: BTreeMap<u32, Segment>,
        spare: Spare,
    ) -> Log {
        let opening = self.opening;
        let habits = Habits {
            segment_bytes: opening.segment_bytes,
            pace: opening.pace,
            on_empty: declaration.on_empty,
            wipe: declaration.wipe,
        };
        let start = Start {
            segments,
            next_batch: self.expected.unwrap_or(1),
            front: self.front,
            spare,
        };
        Log::new(
            Arc::clone(opening.disk),
            opening.dir,
            opening.rng.clone(),
            habits,
            start,
        )
    }

    fn recovered(self, state: State<Home>, log: Log) -> Recovered {
        // Larger than any before, even where the record of the last one is lost.
        let clock = u64::try_from(self.opening.now.as_millis()).unwrap_or(0);
        Recovered {
            state,
            log,
            incarnation: clock.max(self.incarnation + 1),
            report: self.report,
            rewrite_through: self.rewrite_through,
        }
    }
}

fn newer(path: &Path, format: u32) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!(
            "`{}` has format {format}: a later version of this program wrote it; use that version",
            path.display()
        ),
    )
}
