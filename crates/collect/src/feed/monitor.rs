//! What feeds did, for the people who look: minutes of polls, the last tasks, and totals. It is kept in `<workspace>/logs/`.
//!
//! Everything here may be lost without losing data; it is written every minute and at the end, and read at the start.

mod lateness;
mod minute;
mod record;
mod shelf;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cannery_formats::feed::{ArchiveName, FeedId};
use cannery_runtime::{Clock, Disk};
use jiff::Timestamp;

pub use lateness::Lateness;
pub use minute::{Minute, MinuteNumber};
use record::Line;
pub use record::{Done, LastFailure, Task, TaskKind, Totals};
use shelf::Shelf;

/// How many tasks of a kind are remembered of each feed.
const TASKS_MAX: usize = 200;

/// What came of a poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Polled {
    /// A body was stored, so many bytes.
    Stored(u64),
    /// The body was the one before.
    Unchanged,
    /// It was in vain, because.
    Failed(String),
}

/// The memory of what feeds did; clones are the same.
#[derive(Clone, Debug)]
pub struct Monitor(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    keep: Duration,
    feeds: Mutex<BTreeMap<FeedId, Known>>,
    lateness: lateness::Counts,
    /// As they are on the disk, as far as they were written here.
    saved_totals: Mutex<BTreeMap<FeedId, Totals>>,
    shelf: Shelf,
}

/// What is known of a feed.
#[derive(Clone, Debug, Default)]
struct Known {
    totals: Totals,
    minutes: VecDeque<(MinuteNumber, Minute)>,
    tasks: VecDeque<Task>,
    /// Archives that not every mirror has.
    waiting: BTreeSet<ArchiveName>,
    /// What is not on the disk yet begins here.
    unsaved_minute: MinuteNumber,
    unsaved_tasks: usize,
}

/// A feed as it is shown.
#[derive(Clone, Debug)]
pub struct FeedView {
    /// All that was ever counted.
    pub totals: Totals,
    /// The minutes that are remembered, oldest first; those without a poll are left out.
    pub minutes: Vec<(MinuteNumber, Minute)>,
}

impl Monitor {
    /// What was kept in `folder`, for `keep`. What cannot be read is set aside with a warning.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn open(
        disk: Arc<dyn Disk>,
        folder: &Path,
        clock: Clock,
        keep: Duration,
    ) -> io::Result<Self> {
        let shelf = Shelf::open(disk, folder)?;
        let mut feeds: BTreeMap<FeedId, Known> = BTreeMap::new();
        for (feed, totals) in shelf.totals() {
            feeds.entry(feed).or_default().totals = totals;
        }
        let oldest = clock.now().checked_sub(keep).unwrap_or(Timestamp::MIN);
        for line in shelf.lines(oldest)? {
            match line {
                Line::Minute { feed, minute, is } => {
                    feeds.entry(feed).or_default().recall(minute, is);
                }
                Line::Task { feed, task } => feeds.entry(feed).or_default().push(task),
            }
        }
        for known in feeds.values_mut() {
            known.saved();
        }
        Ok(Self(Arc::new(Inner {
            clock,
            keep,
            feeds: Mutex::new(feeds),
            lateness: lateness::Counts::default(),
            saved_totals: Mutex::default(),
            shelf,
        })))
    }

    /// A poll ended.
    pub fn polled(&self, feed: &FeedId, at: Timestamp, latency: Duration, what: &Polled) {
        self.with(feed, |known| {
            match what {
                Polled::Stored(bytes) => {
                    known.minute(at).stored(latency);
                    known.totals.stored += 1;
                    known.totals.bytes += bytes;
                }
                Polled::Unchanged => {
                    known.minute(at).unchanged(latency);
                    known.totals.unchanged += 1;
                }
                Polled::Failed(reason) => {
                    known.minute(at).failed();
                    known.totals.failed += 1;
                    known.totals.last_failure = Some(LastFailure {
                        at,
                        reason: reason.clone(),
                    });
                    return;
                }
            }
            let totals = &mut known.totals;
            totals.latency_ms += u64::try_from(latency.as_millis()).unwrap_or(u64::MAX);
            totals.last_success = Some(at);
        });
    }

    /// So many polls were left out because the one before took so long.
    pub fn missed(&self, feed: &FeedId, at: Timestamp, count: u64) {
        self.with(feed, |known| {
            known.minute(at).missed(count);
            known.totals.missed += count;
        });
    }

    /// A poll begins so long after its time.
    pub fn begun(&self, late: Duration) {
        self.0.lateness.count(late);
    }

    /// How late polls began.
    #[must_use]
    pub fn lateness(&self) -> Lateness {
        self.0.lateness.snapshot()
    }

    /// An archive waits for being shipped.
    pub fn waits(&self, name: &ArchiveName) {
        self.with(&name.feed, |known| {
            known.waiting.insert(name.clone());
        });
    }

    /// Every mirror has an archive.
    pub fn shipped(&self, name: &ArchiveName) {
        self.with(&name.feed, |known| {
            known.waiting.remove(name);
        });
    }

    /// The archives that wait, of all feeds that were ever heard of.
    #[must_use]
    pub fn waiting(&self) -> BTreeMap<FeedId, BTreeSet<ArchiveName>> {
        let feeds = self.lock();
        let waiting = |(feed, known): (&FeedId, &Known)| (feed.clone(), known.waiting.clone());
        feeds.iter().map(waiting).collect()
    }

    /// A task ended.
    pub fn task(&self, feed: &FeedId, task: Task) {
        self.with(feed, |known| {
            known.totals.count(&task);
            known.push(task);
        });
    }

    /// What is known of a feed.
    #[must_use]
    pub fn view(&self, feed: &FeedId) -> Option<FeedView> {
        let feeds = self.lock();
        let known = feeds.get(feed)?;
        Some(FeedView {
            totals: known.totals.clone(),
            minutes: known.minutes.iter().copied().collect(),
        })
    }

    /// The totals of all feeds that were ever heard of.
    #[must_use]
    pub fn totals(&self) -> BTreeMap<FeedId, Totals> {
        let feeds = self.lock();
        let totals = |(feed, known): (&FeedId, &Known)| (feed.clone(), known.totals.clone());
        feeds.iter().map(totals).collect()
    }

    /// The last tasks of a kind, newest first.
    #[must_use]
    pub fn tasks(&self, feed: &FeedId, kind: TaskKind) -> Vec<Task> {
        let feeds = self.lock();
        let tasks = feeds.get(feed).map(|known| known.tasks.iter().rev());
        let tasks = tasks.into_iter().flatten();
        tasks.filter(|task| task.kind == kind).cloned().collect()
    }

    /// Writes the minutes that are over and what else is new, and forgets what is old. Blocks.
    ///
    /// # Errors
    /// As the disk says; what was not written is lost when the process ends.
    pub fn save(&self) -> io::Result<()> {
        self.save_until(MinuteNumber::of(self.0.clock.now()))
    }

    /// Writes the totals if they changed: `cannery feed status` reads them.
    ///
    /// # Errors
    /// As [`Monitor::save`].
    pub fn save_totals(&self) -> io::Result<()> {
        let totals = self.totals();
        let saved = &self.0.saved_totals;
        let mut saved = saved.lock().unwrap_or_else(PoisonError::into_inner);
        if *saved != totals {
            self.0.shelf.keep_totals(&totals)?;
            *saved = totals;
        }
        Ok(())
    }

    /// The same with the minute that has begun, for the end of the process.
    ///
    /// # Errors
    /// As [`Monitor::save`].
    pub fn save_all(&self) -> io::Result<()> {
        self.save_until(MinuteNumber::of(self.0.clock.now()).next())
    }

    fn save_until(&self, end: MinuteNumber) -> io::Result<()> {
        let now = self.0.clock.now();
        let oldest = now.checked_sub(self.0.keep).unwrap_or(Timestamp::MIN);
        let lines = {
            let mut feeds = self.lock();
            let mut lines = Vec::new();
            for (feed, known) in feeds.iter_mut() {
                known.forget_before(oldest);
                known.unsaved(feed, end, &mut lines);
            }
            lines
        };
        self.0.shelf.append(now, &lines)?;
        self.save_totals()?;
        self.0.shelf.forget_before(oldest)
    }

    fn with(&self, feed: &FeedId, change: impl FnOnce(&mut Known)) {
        let mut feeds = self.lock();
        match feeds.get_mut(feed) {
            Some(known) => change(known),
            None => change(feeds.entry(feed.clone()).or_default()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<FeedId, Known>> {
        self.0.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// The minute of a time. A clock that went back adds to the newest one.
    fn minute(&mut self, at: Timestamp) -> &mut Minute {
        let number = MinuteNumber::of(at);
        if self.minutes.back().is_none_or(|(last, _)| *last < number) {
            self.minutes.push_back((number, Minute::default()));
        }
        let newest = self.minutes.back_mut().expect("one was just pushed");
        &mut newest.1
    }

    /// Takes up a minute that was kept; of two lines about one the later is the fuller.
    fn recall(&mut self, number: MinuteNumber, minute: Minute) {
        match self.minutes.back_mut() {
            Some((last, known)) if *last == number => *known = known.joined(minute),
            Some((last, _)) if *last > number => {}
            Some(_) | None => self.minutes.push_back((number, minute)),
        }
    }

    fn push(&mut self, task: Task) {
        let kind = task.kind;
        self.tasks.push_back(task);
        self.unsaved_tasks += 1;
        let of_kind = self.tasks.iter().filter(|task| task.kind == kind).count();
        if of_kind > TASKS_MAX
            && let Some(oldest) = self.tasks.iter().position(|task| task.kind == kind)
        {
            self.tasks.remove(oldest);
            self.unsaved_tasks = self.unsaved_tasks.min(self.tasks.len());
        }
    }

    fn forget_before(&mut self, oldest: Timestamp) {
        let oldest = MinuteNumber::of(oldest);
        while self
            .minutes
            .front()
            .is_some_and(|(number, _)| *number < oldest)
        {
            self.minutes.pop_front();
        }
    }

    fn saved(&mut self) {
        self.unsaved_tasks = 0;
        let newest = self.minutes.back();
        self.unsaved_minute = newest.map_or(MinuteNumber::default(), |(last, _)| last.next());
    }

    /// The lines that are not on the disk yet: of minutes before `end`, and of tasks.
    fn unsaved(&mut self, feed: &FeedId, end: MinuteNumber, lines: &mut Vec<Line>) {
        let over = self
            .minutes
            .iter()
            .filter(|(number, _)| (self.unsaved_minute..end).contains(number));
        lines.extend(over.map(|(number, minute)| Line::Minute {
            feed: feed.clone(),
            minute: *number,
            is: *minute,
        }));
        self.unsaved_minute = self.unsaved_minute.max(end);
        let first = self.tasks.len() - self.unsaved_tasks;
        lines.extend(self.tasks.iter().skip(first).map(|task| Line::Task {
            feed: feed.clone(),
            task: task.clone(),
        }));
        self.unsaved_tasks = 0;
    }
}

#[cfg(test)]
mod tests;
