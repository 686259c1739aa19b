//! Discovery: what is in no can becomes work, from the lake alone. Nodes at the edge cannot write to the centre's journal.
//!
//! The folders of the last days are looked at every minute, everything once a day, and both more often where that is cheap. A report file belongs to the bucket of its
//! folder until that bucket is settled; everything else, and what comes later, to the bucket of the day it is found.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cannery_formats::feed::FeedId;
use cannery_formats::spool::{Datatype, Experiment, ObjectHome};
use cannery_formats::{BucketDate, Key};
use cannery_journal::{Data, Date, Journal, NewEntry, Priority};
use cannery_runtime::Rng;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::canning::add_all;
use crate::cans::{BucketState, Indexes, Named, version_of};
use crate::error::Error;
use crate::inputs::{Found, Inputs, Seen, What, day_before};
use crate::line::Refusals;
use crate::seal::due;
use crate::stage::{Plant, StageKey};

/// The days before today that are looked at every minute, or more often.
const RECENT_DAYS: usize = 3;
const RECENT_EVERY: Duration = Duration::from_secs(60);
/// Where they are looked at more often, that takes a small part of the time only.
const RECENT_SHARE: u32 = 10;
/// The seals that wait are added again so often at most.
const SEALS_EVERY: Duration = Duration::from_secs(30);
/// Everything is looked at once a day at least, and as often as a small part of the time allows, but not more often than once in
/// so many looks at the last days: of a datatype or a feed that nobody has seen, only that shows the first object.
const WHOLE_EVERY_MAX: Duration = Duration::from_secs(86_400);
const WHOLE_SHARE: u32 = 100;
const WHOLE_LOOKS_MIN: u32 = 5;

const DUE_SOON: jiff::SignedDuration = jiff::SignedDuration::from_secs(1);

/// What one entry of the journal names at most; the rest is found the next time.
const INPUTS_MAX: usize = 2_000;

/// What the entry of a can says: the objects to take reports from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToCan {
    /// Their keys, in order.
    pub inputs: BTreeSet<Key>,
}

/// What a look has shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovered {
    /// How many inputs there are.
    pub inputs: u64,
    /// What is in no can, by the work that it is.
    pub to_can: BTreeMap<StageKey, ToCan>,
    /// What is left for the next time, because there is too much of it.
    pub left: u64,
    /// What is in no can because it could not be used a short while ago.
    pub refused: u64,
    /// Report files that are in no can because they may be half written, by the dates of their folders.
    pub unsettled: BTreeMap<BucketDate, Unsettled>,
    /// The buckets that can be sealed, with the time at which each is due.
    pub to_seal: BTreeMap<BucketDate, jiff::Timestamp>,
}

/// Report files that may be half written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsettled {
    /// How many there are.
    pub reports: u64,
    /// When the first of them is taken for whole, unless it is changed again.
    pub first: jiff::Timestamp,
    /// When the last of them is.
    pub last: jiff::Timestamp,
}

impl Unsettled {
    fn note(&mut self, until: jiff::Timestamp) {
        self.reports += 1;
        self.first = self.first.min(until);
        self.last = self.last.max(until);
    }
}

impl Discovered {
    /// When the next report file is taken for whole that may be half written now.
    #[must_use]
    pub fn settles_next(&self) -> Option<jiff::Timestamp> {
        self.unsettled.values().map(|one| one.first).min()
    }

    /// A bucket that is overdue is not sealed before what its folder holds: a backlog of an old date would be cut off in the middle.
    /// Nothing is known of the folders before `first`.
    fn hold_back(&mut self, first: Option<BucketDate>, now: jiff::Timestamp) {
        let loose = self.to_can.keys().map(|key| key.bucket);
        let loose: BTreeSet<BucketDate> = loose.chain(self.unsettled.keys().copied()).collect();
        self.to_seal.retain(|bucket, due| {
            let is_known = first.is_none_or(|first| *bucket >= first);
            *due > now || (is_known && !loose.contains(bucket))
        });
    }

    fn take(&mut self, known: &Known, unsettled_until: Option<jiff::Timestamp>, found: Found) {
        self.inputs += 1;
        if !known.is_new(&found) {
            return;
        }
        if let (Some(until), What::Report { bucket, .. }) = (unsettled_until, &found.what) {
            let unsettled = self.unsettled.entry(*bucket).or_insert(Unsettled {
                reports: 0,
                first: until,
                last: until,
            });
            unsettled.note(until);
            return;
        }
        if known.refusals.is_fresh(&found.key, known.now) {
            self.refused += 1;
            return;
        }
        let key = StageKey::can(known.bucket_of(&found.what), found.what.kind());
        let entry = self.to_can.entry(key).or_default();
        match entry.inputs.len() < INPUTS_MAX {
            true => drop(entry.inputs.insert(found.key)),
            false => self.left += 1,
        }
    }
}

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The folders of the last days.
    Recent,
    /// Everything.
    Whole,
}

/// Looks for work again and again.
#[derive(Debug)]
pub struct Discoverer {
    plant: Plant,
    inputs: Inputs,
    indexes: Indexes,
    journal: Journal,
    rng: Rng,
    grace: Duration,
    every: Duration,
    is_urgent: bool,
    refusals: Refusals,
    seen: Mutex<Seen>,
}

/// The buckets and what they hold.
struct Known {
    today: BucketDate,
    named: Named,
    settled: BTreeSet<BucketDate>,
    refusals: Refusals,
    /// By the clock's elapsed time.
    now: Duration,
}

impl Discoverer {
    /// A discoverer of these inputs. Work goes to `journal`; a bucket is sealed `grace` after its day.
    #[must_use]
    pub fn new(plant: Plant, inputs: Inputs, journal: Journal, rng: Rng, grace: Duration) -> Self {
        let indexes = Indexes::new(plant.raw.clone());
        Self {
            plant,
            inputs,
            indexes,
            journal,
            rng,
            grace,
            every: RECENT_EVERY,
            is_urgent: false,
            refusals: Refusals::default(),
            seen: Mutex::default(),
        }
    }

    /// The same, which looks at the last days so often; every minute without it.
    #[must_use]
    pub fn every(self, every: Duration) -> Self {
        Self { every, ..self }
    }

    /// The same, for somebody who waits for it: what is found is not gathered, but canned at once.
    #[must_use]
    pub fn urgent(self) -> Self {
        Self {
            is_urgent: true,
            ..self
        }
    }

    /// The same, which passes over what a line could not use a short while ago.
    #[must_use]
    pub fn heeding(self, refusals: Refusals) -> Self {
        Self { refusals, ..self }
    }

    /// A datatype that is collected; one that the lake itself shows is found without it.
    pub fn add_spool(&self, home: ObjectHome, experiment: Experiment, datatype: Datatype) {
        self.lock().add_spool(home, experiment, datatype);
    }

    /// A feed that is collected; one that the lake itself shows is found without it.
    pub fn add_feed(&self, feed: FeedId) {
        self.lock().add_feed(feed);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it takes at most, beside 16 bytes for each report in a can, 300 for each hour of a feed, and the keys of what
    /// is in none.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        64 << 20
    }

    /// Looks, and adds nothing to the journal.
    ///
    /// # Errors
    /// When the lake or the folder of reports fails: a part of a listing is never taken for the whole.
    pub async fn look(&self, reach: Reach) -> Result<Discovered, Error> {
        // The cans come first, so that what is canned already need not be kept. What is canned meanwhile is found in vain.
        let states = self.indexes.buckets().await?;
        let settled = states.iter().filter(|state| state.is_final());
        let known = Known {
            today: self.plant.today(),
            named: self.indexes.named(&states, None).await?,
            settled: settled.map(|state| state.bucket).collect(),
            refusals: self.refusals.clone(),
            now: self.plant.clock.elapsed(),
        };
        let mut discovered = Discovered {
            to_seal: self.to_seal(&states),
            ..Discovered::default()
        };
        let now = self.plant.clock.now();
        let mut take = |found: Found| {
            let until = self
                .inputs
                .unsettled_until(&found.what, found.modified, now);
            discovered.take(&known, until, found);
        };
        let mut seen = self.lock().clone();
        match reach {
            Reach::Whole => {
                self.inputs.whole(&mut seen, &mut take).await?;
                self.lock().join(seen);
                discovered.hold_back(None, self.plant.clock.now());
            }
            Reach::Recent => {
                let today = known.today;
                let first = (0..RECENT_DAYS).try_fold(today, |day, _| day_before(day));
                let first = first.unwrap_or(today);
                self.inputs.between(first, today, &seen, &mut take).await?;
                discovered.hold_back(Some(first), self.plant.clock.now());
            }
        }
        Ok(discovered)
    }

    /// Buckets with open cans whose day is over.
    fn to_seal(&self, states: &[BucketState]) -> BTreeMap<BucketDate, jiff::Timestamp> {
        let today = self.plant.today();
        let is_over = |state: &&BucketState| state.bucket < today && !state.is_sealed;
        let over = states.iter().filter(is_over).map(|state| state.bucket);
        over.map(|bucket| (bucket, due(bucket, self.grace)))
            .collect()
    }

    /// Looks, and adds what was found to the journal. Adding what waits there already changes little.
    ///
    /// # Errors
    /// As [`Discoverer::look`], and when the journal fails; some of it may have been added.
    pub async fn discover(&self, reach: Reach) -> Result<Discovered, Error> {
        let discovered = self.look(reach).await?;
        self.add(reach, &discovered, &discovered.to_seal).await?;
        Ok(discovered)
    }

    async fn add(
        &self,
        reach: Reach,
        discovered: &Discovered,
        to_seal: &BTreeMap<BucketDate, jiff::Timestamp>,
    ) -> Result<(), Error> {
        let priority = match reach {
            _ if self.is_urgent => Priority::NOW,
            Reach::Recent => Priority::NEW,
            Reach::Whole => Priority::UPDATES,
        };
        let mut entries = Vec::new();
        for (key, to_can) in &discovered.to_can {
            entries.push(NewEntry {
                priority: Some(priority),
                ..NewEntry::new(key.to_string(), Data::from_value(to_can)?)
            });
        }
        for (bucket, due) in to_seal {
            let key = StageKey::seal(*bucket).to_string();
            // One that is overdue, or almost, is due at once: a journal takes no date that is over when it hears of it.
            let soon = self.plant.clock.now() + DUE_SOON;
            let is_ahead = *due > soon;
            entries.push(NewEntry {
                process_date: is_ahead.then(|| Date::from(*due)),
                ..NewEntry::new(key, Data::null())
            });
        }
        add_all(&self.journal, entries).await
    }

    /// Looks until `stop` is cancelled. What fails is logged and tried again the next time.
    pub async fn run(&self, stop: CancellationToken) {
        let clock = &self.plant.clock;
        // When everything is looked at again, and when seals are added again, by the clock's elapsed time.
        let (mut whole_at, mut seals_at) = (Duration::ZERO, Duration::ZERO);
        let mut pause = self.rng.jitter(self.every / 2);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = clock.sleep(pause) => {}
            }
            let begun = clock.elapsed();
            let reach = match begun >= whole_at {
                true => Reach::Whole,
                false => Reach::Recent,
            };
            let discovering = async {
                let (discovered, none) = (self.look(reach).await?, BTreeMap::new());
                // A seal waits in the journal for a day: to add it every second would only make the journal write.
                let to_seal = match begun >= seals_at {
                    true => &discovered.to_seal,
                    false => &none,
                };
                self.add(reach, &discovered, to_seal).await
            };
            let discovered = tokio::select! {
                () = stop.cancelled() => return,
                discovered = discovering => discovered,
            };
            let took = clock.since(begun);
            let mut every = self.every.max(slowed(took));
            match discovered {
                Ok(()) => {
                    if reach == Reach::Whole {
                        whole_at = begun + self.whole_pause(took);
                    }
                    if begun >= seals_at {
                        seals_at = begun + SEALS_EVERY;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, ?reach, "could not look for reports; trying again later");
                    match reach {
                        // A folder of years ago must not keep those of the last days from being looked at.
                        Reach::Whole => whole_at = begun + RECENT_EVERY / 2,
                        Reach::Recent => every = every.max(RECENT_EVERY),
                    }
                }
            }
            // Replicas that were started together drift apart.
            pause = every * 3 / 4 + self.rng.jitter(every / 2);
        }
    }
}

impl Discoverer {
    /// How long after a look at everything the next one is due, by what it took.
    fn whole_pause(&self, took: Duration) -> Duration {
        let least = (self.every * WHOLE_LOOKS_MIN).min(WHOLE_EVERY_MAX);
        took.saturating_mul(WHOLE_SHARE)
            .clamp(least, WHOLE_EVERY_MAX)
    }
}

/// How long after a look at the last days the next one is due at the earliest, by what it took.
fn slowed(took: Duration) -> Duration {
    took.saturating_mul(RECENT_SHARE).min(RECENT_EVERY)
}

impl Known {
    fn is_new(&self, found: &Found) -> bool {
        match found.what.text_name() {
            Some(name) => !self.named.has_text(&name),
            None => match found.what {
                // Its name is too long for a report, and will be.
                What::Report { .. } | What::Bundle(_) => false,
                What::Hour { .. } => {
                    let version = version_of(found.modified);
                    !self.named.has_version(&found.key, &version)
                }
            },
        }
    }

    fn bucket_of(&self, what: &What) -> BucketDate {
        match what {
            What::Report { bucket, .. } if !self.settled.contains(bucket) => *bucket,
            What::Report { .. } | What::Bundle(_) | What::Hour { .. } => self.today,
        }
    }
}
