//! The log: segments in order, of which the last is written to and the first are freed.
//!
//! An entry is at home in the segment that holds its data. Segments are freed from the front only, each durably before the
//! next: a change that stands in a later segment is never lost while what it changed is still there.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use cannery_formats::journal_segment::{
    BATCH_HEADER_BYTES, HEADER_BYTES, SegmentId, batch_end, encode_header,
};
use cannery_runtime::Rng;
use cannery_runtime::disk::{Disk, DiskFile};

use super::home::Home;
use super::reader::Reader;
use super::record::{self, Checkpoint};
use super::segment::Segment;
use super::spare::{Freed, Pace, Spare};
use crate::data::Data;
use crate::date::Date;
use crate::declaration::OnEmpty;
use crate::state::{Effect, Ledger, Whole};

/// What an entry takes in the log beside its key, its data, its worker and its reason, at most.
pub(super) const ENTRY_BYTES: usize = 160;

/// What the record of a new front takes at most.
const FRONT_BYTES: usize = 16;

/// How a log treats its files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    pub(super) segment_bytes: u64,
    pub(super) pace: Pace,
    pub(super) on_empty: OnEmpty,
    pub(super) wipe: bool,
}

/// What was found when a journal was opened.
pub(super) struct Start {
    pub(super) segments: BTreeMap<u32, Segment>,
    /// The number of the next batch.
    pub(super) next_batch: u64,
    /// The first segment that counts.
    pub(super) front: u32,
    pub(super) spare: Spare,
}

#[derive(Debug)]
pub(super) struct Log {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    rng: Rng,
    pub(super) habits: Habits,
    segments: BTreeMap<u32, Segment>,
    spare: Spare,
    next_number: u32,
    next_batch: u64,
    /// The first segment that counts.
    front: u32,
    /// The batch that is being made, with room for its header.
    batch: Vec<u8>,
    /// Where a batch begins that was written and is not durable yet.
    unsynced: Option<u64>,
    /// Whether the batch may have made something due.
    stirred: bool,
}

impl Log {
    /// A log that goes on where it was found.
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        dir: &Path,
        rng: Rng,
        habits: Habits,
        start: Start,
    ) -> Self {
        let next_number = start
            .segments
            .last_key_value()
            .map_or(start.front, |(last, _)| start.front.max(last + 1));
        Self {
            disk,
            dir: dir.to_owned(),
            rng,
            habits,
            segments: start.segments,
            spare: start.spare,
            next_number,
            next_batch: start.next_batch,
            front: start.front,
            batch: Vec::new(),
            unsynced: None,
            stirred: false,
        }
    }

    /// How many bytes of records a batch may have.
    pub(super) fn batch_bytes_max(&self) -> usize {
        let room = self.habits.segment_bytes.saturating_sub(HEADER_BYTES);
        usize::try_from(room)
            .unwrap_or(usize::MAX)
            .saturating_sub(BATCH_HEADER_BYTES)
    }

    /// Begins a batch with room for `need` bytes of records, in a new segment if the last one is full, of another
    /// period, or does not count any more.
    ///
    /// # Errors
    /// `StorageFull` when there is no room for a new segment: nothing has changed. After another error the log must not be
    /// used again.
    pub(super) fn begin(
        &mut self,
        need: usize,
        now: Date,
        period: i64,
        checkpoint: impl FnOnce() -> Checkpoint,
    ) -> io::Result<()> {
        self.batch.clear();
        self.batch.resize(BATCH_HEADER_BYTES, 0);
        self.stirred = false;
        let front = self.front;
        let fits = self.segments.last_entry().is_some_and(|last| {
            let last = last.get();
            let same_period = last.period == period || last.end == HEADER_BYTES;
            last.id.number >= front && last.has_room(need) && same_period
        });
        if fits {
            return Ok(());
        }
        self.begin_anew(need, now, period, &checkpoint())
    }

    /// Begins a batch in a new segment, which opens with what is known of the journal as a whole.
    ///
    /// # Errors
    /// As [`Log::begin`].
    pub(super) fn begin_anew(
        &mut self,
        need: usize,
        now: Date,
        period: i64,
        checkpoint: &Checkpoint,
    ) -> io::Result<()> {
        self.batch.clear();
        self.batch.resize(BATCH_HEADER_BYTES, 0);
        record::put_checkpoint(&mut self.batch, checkpoint);
        if batch_end(HEADER_BYTES, need + self.batch.len()) > self.habits.segment_bytes {
            self.batch.clear();
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{need} bytes do not fit into a segment"),
            ));
        }
        self.roll(now, period).inspect_err(|_| self.batch.clear())
    }

    /// Takes a new segment.
    fn roll(&mut self, now: Date, period: i64) -> io::Result<()> {
        let file = self.spare.take()?;
        let bytes = self.habits.segment_bytes.max(file.len()?);
        let mut salt = [0; 8];
        self.rng.fill(&mut salt);
        let id = SegmentId {
            number: self.next_number,
            salt: u64::from_le_bytes(salt),
        };
        // From here on an error is no lack of room: what it left behind is not known.
        self.name_spare(&*file, id, now).map_err(io::Error::other)?;
        self.next_number += 1;
        self.segments
            .insert(id.number, Segment::new(id, file, bytes, period));
        Ok(())
    }

    fn name_spare(&mut self, file: &dyn DiskFile, id: SegmentId, now: Date) -> io::Result<()> {
        file.write_all_at(0, &encode_header(id, now.as_millis()))?;
        file.sync_data()?;
        let name = self.dir.join(id.to_string());
        self.disk.rename(&self.spare.path(), &name)?;
        self.spare.taken();
        self.disk.sync_dir(&self.dir)
    }

    /// Whether there is no room for more entries: the last segment is nearly full and no other can be made. What is left is
    /// for ending what is there.
    pub(super) fn is_tight(&mut self) -> bool {
        let nearly_full = self
            .segments
            .last_entry()
            .is_some_and(|last| last.get().end > last.get().bytes / 4 * 3);
        nearly_full && !self.spare.is_ready_or_coming() && self.spare.prepare_now().is_err()
    }

    /// The file of a segment.
    pub(super) fn path_of(&self, number: u32) -> Option<PathBuf> {
        self.segments
            .get(&number)
            .map(|segment| segment.path(&self.dir))
    }

    /// Whether the batch holds anything.
    pub(super) fn has_batch(&self) -> bool {
        self.batch.len() > BATCH_HEADER_BYTES
    }

    /// Whether the batch may have made something due; says so once.
    pub(super) fn take_stirred(&mut self) -> bool {
        std::mem::take(&mut self.stirred)
    }

    /// Writes the batch: from here on its data can be read.
    ///
    /// # Errors
    /// As [`Log::commit`].
    pub(super) fn write(&mut self) -> io::Result<()> {
        if !self.has_batch() {
            return Ok(());
        }
        let mut last = self
            .segments
            .last_entry()
            .expect("a batch was begun in a segment");
        self.unsynced = Some(last.get().end);
        last.get_mut().append(self.next_batch, &mut self.batch)?;
        self.next_batch += 1;
        self.batch.clear();
        Ok(())
    }

    /// Lets the disk begin with what was written, for who has other work to do before [`Log::commit`].
    ///
    /// # Errors
    /// As [`Log::commit`].
    pub(super) fn begin_sync(&mut self) -> io::Result<()> {
        match (self.unsynced, self.segments.last_entry()) {
            (Some(begin), Some(last)) => last.get().begin_sync(begin),
            (Some(_) | None, _) => Ok(()),
        }
    }

    /// Makes the batch durable, written before or not.
    ///
    /// # Errors
    /// Nothing is known of the batch then, and the log must not be used again.
    pub(super) fn commit(&mut self) -> io::Result<()> {
        self.write()?;
        if self.unsynced.take().is_none() {
            return Ok(());
        }
        let last = self
            .segments
            .last_entry()
            .expect("a batch was written to a segment");
        last.get().sync()?;
        if last.get().end > last.get().bytes / 2 {
            // A disk without room for it shows when it is needed.
            drop(self.spare.prepare());
        }
        Ok(())
    }

    /// The data at a place.
    pub(super) fn read(&self, place: Home) -> io::Result<Bytes> {
        Reader::default().read(self, place)
    }

    /// The segment of a place.
    pub(super) fn segment(&self, place: Home) -> io::Result<&Segment> {
        self.segments.get(&place.segment).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("segment {:08x} is gone", place.segment),
            )
        })
    }

    /// Counts an entry that was found at home in a segment.
    pub(super) fn count_live(&mut self, place: Home) {
        if let Some(segment) = self.segments.get_mut(&place.segment) {
            segment.live += 1;
            segment.live_bytes += place.weight();
        }
    }

    /// The first segment that counts, if it is not the one that is written to.
    pub(super) fn oldest_sealed(&self) -> Option<u32> {
        let (oldest, _) = self.segments.range(self.front..).next()?;
        (self.newest() != Some(*oldest)).then_some(*oldest)
    }

    /// The first segment that counts, as a new segment says it: what nothing is at home in does not.
    pub(super) fn front(&self) -> u32 {
        self.front
    }

    /// The segment that is written to.
    pub(super) fn newest(&self) -> Option<u32> {
        self.segments.last_key_value().map(|(newest, _)| *newest)
    }

    /// Frees segments from the front as long as nothing is at home there. That they do not count any more is made durable
    /// first: a disk that fails here may bring one back later, when what ended its entries is gone.
    pub(super) fn free_front(&mut self) -> io::Result<()> {
        let front = self.first_needed();
        if front == self.front {
            return Ok(());
        }
        let mut last = self
            .segments
            .last_entry()
            .expect("a segment before the last one is to be freed");
        if !last.get().has_room(FRONT_BYTES) {
            // The next commit in a new segment says it.
            return Ok(());
        }
        self.batch.clear();
        self.batch.resize(BATCH_HEADER_BYTES, 0);
        record::put_front(&mut self.batch, front);
        last.get_mut().append(self.next_batch, &mut self.batch)?;
        last.get().sync()?;
        self.batch.clear();
        self.next_batch += 1;
        self.front = front;
        self.remove_before_front()
    }

    /// The front never goes back: what does not count any more is removed, sooner or later.
    fn first_needed(&self) -> u32 {
        let newest = self.newest().unwrap_or(self.front);
        self.segments
            .iter()
            .find(|(_, segment)| segment.live > 0)
            .map_or(newest, |(number, _)| *number)
            .max(self.front)
    }

    fn remove_before_front(&mut self) -> io::Result<()> {
        while let Some((first, _)) = self.segments.first_key_value() {
            let first = *first;
            if first >= self.front {
                break;
            }
            self.dispose(first)?;
        }
        Ok(())
    }

    /// The first segment that counts once the log is emptied.
    pub(super) fn front_when_empty(&self) -> u32 {
        self.next_number
    }

    /// From here on no segment counts, as [`Log::front_when_empty`] may say durably: the next batch begins a new one,
    /// whatever becomes of the files.
    pub(super) fn leave_all(&mut self) {
        self.front = self.next_number;
    }

    /// Gives up the last segment as well, which nothing is at home in, and the spare with it if one segment is left:
    /// what remains is at most one file.
    /// That it does not count has been made durable before, and [`Log::leave_all`] was called. After an error it may be
    /// called again.
    pub(super) fn empty(&mut self) -> io::Result<()> {
        self.spare.remove()?;
        self.remove_before_front()
    }

    /// Whether anything was written since the log was last emptied.
    pub(super) fn is_used(&self) -> bool {
        !self.segments.is_empty()
    }

    fn dispose(&mut self, number: u32) -> io::Result<()> {
        let segment = &self.segments[&number];
        let freed = Freed {
            file: &*segment.file,
            end: segment.end,
            on_empty: self.habits.on_empty,
            wiped: self.habits.wipe,
        };
        self.spare.give(&segment.path(&self.dir), &freed)?;
        self.segments.remove(&number);
        Ok(())
    }

    /// Bytes of all segments, and of what is at home in them.
    pub(super) fn weigh(&self) -> (u64, u64) {
        let segments = self.segments.values();
        segments.fold((0, 0), |(all, live), segment| {
            (all + segment.bytes, live + segment.live_bytes)
        })
    }

    pub(super) fn segment_count(&self) -> usize {
        self.segments.len()
    }
}

impl Ledger<Home> for Log {
    fn put(&mut self, whole: &Whole, data: &Data) -> Home {
        self.stirred = true;
        let data = data.as_bytes();
        let begin = record::put_whole(&mut self.batch, whole, data);
        let (number, segment) = self
            .segments
            .iter_mut()
            .next_back()
            .expect("a batch was begun in a segment");
        let offset = segment.end + begin as u64;
        let home = Home {
            segment: *number,
            offset: u32::try_from(offset).expect("a segment is shorter than 4 GiB"),
            len: u32::try_from(data.len()).expect("data is at most 1 MiB"),
            key_len: u16::try_from(whole.key.as_str().len()).expect("a key is at most 4 KiB"),
        };
        segment.live += 1;
        segment.live_bytes += home.weight();
        home
    }

    fn note(&mut self, effect: &Effect) {
        self.stirred |= matches!(effect, Effect::Wait { .. } | Effect::End { .. });
        record::put_effect(&mut self.batch, effect);
    }

    fn free(&mut self, place: &Home) {
        if let Some(segment) = self.segments.get_mut(&place.segment) {
            segment.live = segment.live.saturating_sub(1);
            segment.live_bytes = segment.live_bytes.saturating_sub(place.weight());
        }
    }
}
