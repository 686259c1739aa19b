//! What the pages of the archive as a whole show: read while somebody looks, part by part, so that a part that is slow or broken
//! is shown as it last was, and holds up nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cannery_catalog::{BadCount, Count};
use cannery_formats::BucketDate;
use cannery_journal::{Data, Entry, Journal, Query, Status};
use cannery_pipeline::line::Wait;
use cannery_pipeline::look::{Look, Looker};
use cannery_pipeline::stage::{Stage, StageKey};
use cannery_state::{Execution, Filter};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;

use super::{ArchiveWatch, lock};
use crate::lakes::StageLakes;

/// So many buckets are shown, the newest.
pub(super) const BUCKETS_MAX: u32 = 30;
/// Lines of a bucket and a kind that are counted.
const COUNTS_MAX: u32 = 3_000;
const LAST_MAX: u32 = 500;
/// How far back the last execution of a stage is looked for.
const LAST_BACK: SignedDuration = SignedDuration::from_hours(24 * 14);
const REASONS_MAX: u32 = 50;
/// Entries of the journal that are gone through.
const ENTRIES_MAX: usize = 5_000;
/// Those that were given up and are shown.
pub(super) const DEAD_MAX: usize = 20;

/// A part is read again after so long, and after twenty times as long as it took.
const FRESH: Duration = Duration::from_secs(4);
/// Listings may cost money.
const FRESH_LAKE: Duration = Duration::from_secs(30);
const SLOWNESS: u32 = 20;
/// What failed at once is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How long a part may take.
const LIMIT: Duration = Duration::from_secs(30);
/// Nobody looked for so long: nothing is read.
const ATTENTION: Duration = Duration::from_secs(20);

/// Whether somebody looks.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    last: Mutex<Option<Duration>>,
    told: Notify,
}

impl Wanted {
    pub(super) fn want(&self, now: Duration) {
        *lock(&self.last) = Some(now);
        self.told.notify_one();
    }

    fn is_wanted(&self, now: Duration) -> bool {
        let last = *lock(&self.last);
        last.is_some_and(|last| now.saturating_sub(last) < ATTENTION)
    }
}

/// Something that was read, when, and why it could not be read again.
#[derive(Clone, Debug, Default)]
pub(super) struct Part<T> {
    pub(super) value: T,
    pub(super) read: Option<Timestamp>,
    pub(super) trouble: Option<String>,
    tried: Option<Duration>,
    took: Duration,
}

impl<T> Part<T> {
    fn is_stale(&self, now: Duration, fresh: Duration) -> bool {
        let fresh = match self.trouble {
            Some(_) => RETRY,
            None => fresh,
        };
        let pause = fresh.max(self.took.saturating_mul(SLOWNESS));
        self.tried
            .is_none_or(|tried| now.saturating_sub(tried) >= pause)
    }
}

/// What waits in the journal and what was given up.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    /// By bucket (`-` without one) and stage: waiting and processing.
    pub(super) open: BTreeMap<(String, String), (u64, u64)>,
    /// By stage: the date of what is due next, in milliseconds since 1970, and why it waits for it.
    pub(super) next: BTreeMap<String, (i64, Wait)>,
    /// The keys that were given up, with when in milliseconds since 1970 and why; the first.
    pub(super) dead: Vec<(String, i64, String)>,
    /// How many of them each bucket has.
    pub(super) dead_of: BTreeMap<String, u64>,
    /// Whether there is more than was gone through.
    pub(super) is_cut: bool,
}

/// Whether the date in the key of a stage is a bucket; for tables by date it is that of measurements, and of coverage that of
/// the hour.
pub(super) fn is_of_bucket(stage: &str) -> bool {
    ![Stage::Aggregate, Stage::Cover]
        .map(Stage::name)
        .contains(&stage)
}

/// Everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) counts: Part<Vec<Count>>,
    pub(super) last: Part<Vec<Execution>>,
    pub(super) work: Part<Work>,
    pub(super) looks: Part<BTreeMap<BucketDate, Look>>,
    pub(super) bad: Part<Vec<BadCount>>,
}

impl Snapshot {
    /// Whether each part was tried.
    pub(super) fn is_whole(&self) -> bool {
        let tried = [
            self.counts.tried,
            self.last.tried,
            self.work.tried,
            self.looks.tried,
            self.bad.tried,
        ];
        tried.iter().all(Option::is_some)
    }

    /// Why parts are not as they should be.
    pub(super) fn troubles(&self) -> Vec<&str> {
        let troubles = [
            &self.counts.trouble,
            &self.last.trouble,
            &self.work.trouble,
            &self.looks.trouble,
        ];
        let mut said: Vec<&str> = troubles.into_iter().flatten().map(String::as_str).collect();
        said.dedup();
        said
    }

    /// When the oldest part was read.
    pub(super) fn read(&self) -> Option<Timestamp> {
        let parts = [self.counts.read, self.last.read, self.work.read];
        parts.into_iter().flatten().min()
    }

    /// The dates that somebody knows of, the newest first.
    pub(super) fn buckets(&self) -> Vec<BucketDate> {
        let counted = self.counts.value.iter().map(|count| count.bucket.as_str());
        let ran = self
            .last
            .value
            .iter()
            .filter(|run| is_of_bucket(&run.stage));
        let ran = ran.filter_map(|run| run.bucket.as_deref());
        let open = self.work.value.open.keys();
        let open = open.filter(|(_, stage)| is_of_bucket(stage));
        let open = open.map(|(bucket, _)| bucket.as_str());
        let dead = self.work.value.dead_of.keys().map(String::as_str);
        let all = counted.chain(ran).chain(open).chain(dead);
        let all: BTreeSet<BucketDate> = all.filter_map(|date| date.parse().ok()).collect();
        let most = usize::try_from(BUCKETS_MAX).unwrap_or(usize::MAX);
        all.into_iter().rev().take(most).collect()
    }
}

impl ArchiveWatch {
    pub(super) async fn keep_reading(&self) {
        let mut looker = None;
        loop {
            self.wanted.told.notified().await;
            while self.wanted.is_wanted(self.clock.elapsed()) {
                self.read_round(&mut looker).await;
                self.clock.sleep(FRESH / 4).await;
            }
        }
    }

    async fn read_round(&self, looker: &mut Option<Looker>) {
        let now = self.clock.now();
        self.read_part(|all| &mut all.counts, FRESH, self.counts())
            .await;
        self.read_part(|all| &mut all.last, FRESH, self.last(now))
            .await;
        self.read_part(|all| &mut all.work, FRESH, self.work())
            .await;
        let looks = self.looks(looker);
        self.read_part(|all| &mut all.looks, FRESH_LAKE, looks)
            .await;
        self.read_part(|all| &mut all.bad, FRESH, self.bad_counts())
            .await;
    }

    /// Reads a part that is not fresh, and shows it at once.
    async fn read_part<T>(
        &self,
        part: impl Fn(&mut Snapshot) -> &mut Part<T>,
        fresh: Duration,
        read: impl Future<Output = Result<T, String>>,
    ) {
        let began = self.clock.elapsed();
        let mut before = Snapshot::clone(&self.snapshot.borrow());
        if !part(&mut before).is_stale(began, fresh) {
            return;
        }
        let outcome = match self.clock.timeout(LIMIT, read).await {
            Ok(outcome) => outcome,
            Err(late) => Err(late.to_string()),
        };
        let part = part(&mut before);
        part.tried = Some(began);
        part.took = self.clock.since(began);
        match outcome {
            Ok(value) => {
                part.value = value;
                part.read = Some(self.clock.now());
                part.trouble = None;
            }
            Err(why) => part.trouble = Some(why),
        }
        self.snapshot.send_replace(Arc::new(before));
    }

    async fn counts(&self) -> Result<Vec<Count>, String> {
        let catalog = self.catalog()?;
        let said = |error: cannery_catalog::Error| format!("the catalog cannot be asked: {error}");
        let buckets = catalog.newest_buckets(BUCKETS_MAX).await.map_err(said)?;
        let Some(oldest) = buckets.last() else {
            return Ok(Vec::new());
        };
        let counts = catalog.counts(Some((oldest, "~")), COUNTS_MAX).await;
        counts.map_err(said)
    }

    async fn last(&self, now: Timestamp) -> Result<Vec<Execution>, String> {
        let filter = Filter {
            since: now.checked_sub(LAST_BACK).ok(),
            ..Filter::default()
        };
        let last = self.state()?.last(&filter, LAST_MAX).await;
        last.map_err(|error| format!("the history cannot be asked: {error}"))
    }

    async fn work(&self) -> Result<Work, String> {
        let Some(journal) = (self.journal)() else {
            return Err("the journal of the pipeline is not open yet".to_owned());
        };
        let work = work_of(&journal, self.debounce).await;
        work.map_err(|error| format!("the journal cannot be asked: {error}"))
    }

    async fn looks(
        &self,
        looker: &mut Option<Looker>,
    ) -> Result<BTreeMap<BucketDate, Look>, String> {
        if self.lakes.identity().is_none() {
            return Err("the lake was not reached yet".to_owned());
        }
        let looker = looker.get_or_insert_with(|| {
            let StageLakes { raw, public } = self.stage_lakes();
            Looker::new(raw, public)
        });
        let said = |error: cannery_pipeline::Error| format!("the lake cannot be asked: {error}");
        let generation = looker.generation().await.map_err(said)?;
        let generation = Some(generation.unwrap_or(self.ours));
        let buckets = self.snapshot.borrow().buckets();
        let mut looks = BTreeMap::new();
        for bucket in buckets {
            let look = looker.look(bucket, generation).await.map_err(said)?;
            looks.insert(bucket, look);
        }
        Ok(looks)
    }

    async fn bad_counts(&self) -> Result<Vec<BadCount>, String> {
        let catalog = self.catalog()?;
        let said = |error: cannery_catalog::Error| format!("the catalog cannot be asked: {error}");
        let buckets = catalog.newest_buckets(BUCKETS_MAX).await.map_err(said)?;
        let Some(oldest) = buckets.last() else {
            return Ok(Vec::new());
        };
        let counts = catalog.bad_counts((oldest, "~"), REASONS_MAX).await;
        counts.map_err(said)
    }
}

/// Goes through the journal, so far: what was given up first, so that it is seen however much waits.
async fn work_of(journal: &Journal, debounce: Duration) -> Result<Work, cannery_journal::Error> {
    let mut work = Work::default();
    let now = journal.now();
    for statuses in [
        vec![Status::Dead],
        vec![Status::Processing, Status::Waiting, Status::Blocked],
    ] {
        let mut query = Query {
            statuses,
            ..Query::all()
        };
        let mut seen = 0;
        loop {
            let page = journal.list(query.clone()).await?;
            for entry in &page.entries {
                work.add(entry);
                if entry.status == Status::Waiting && entry.meta.process > now {
                    work.add_date(entry, debounce);
                }
            }
            seen += page.entries.len();
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
            if seen >= ENTRIES_MAX {
                work.is_cut = true;
                break;
            }
        }
    }
    Ok(work)
}

impl Work {
    /// Notes until when an entry waits.
    fn add_date(&mut self, entry: &Entry<Data>, debounce: Duration) {
        let Ok(key) = entry.key.as_str().parse::<StageKey>() else {
            return;
        };
        let due = entry.meta.process.as_millis();
        let wait = Wait::of(&key, &entry.meta, debounce);
        let next = self.next.entry(key.stage.name().to_owned());
        let next = next.or_insert((due, wait));
        if due < next.0 {
            *next = (due, wait);
        }
    }

    fn add(&mut self, entry: &Entry<Data>) {
        let key = entry.key.as_str();
        let mut parts = key.split('/');
        let stage = parts.next().unwrap_or_default().to_owned();
        let bucket = parts.next().unwrap_or("-").to_owned();
        match entry.status {
            Status::Dead => {
                let bucket = if is_of_bucket(&stage) {
                    bucket.as_str()
                } else {
                    "-"
                };
                *self.dead_of.entry(bucket.to_owned()).or_default() += 1;
                if let Some(death) = entry.death.as_ref().filter(|_| self.dead.len() < DEAD_MAX) {
                    let (at, why) = (death.date.as_millis(), death.reason.to_string());
                    self.dead.push((key.to_owned(), at, why));
                }
            }
            Status::Processing => self.open.entry((bucket, stage)).or_default().1 += 1,
            Status::Waiting | Status::Blocked => {
                self.open.entry((bucket, stage)).or_default().0 += 1;
            }
        }
    }
}
