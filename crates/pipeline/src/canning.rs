//! Canning: reports that are in no can go into cans of a bucket that is open.
//!
//! A can is named for what it holds. Creating the index with the next number of its kind commits it; who comes second looks
//! again, and cans what is left. Whatever happens, a report is in one index that counts, or will be found again.

use std::collections::{BTreeMap, BTreeSet};

use cannery_formats::can::{
    CannedFile, CannedIndex, FileName, Input, OpenIndexName, Slice, TextName,
};
use cannery_formats::{BucketDate, Key, Kind};
use cannery_journal::{Data, Journal, NewEntry, Op};
use cannery_lake::{Lake, PutNew};
use serde::Serialize;

use crate::cans::{
    self, BucketState, Indexes, Named, Plan, Reading, Refused, Shape, prepare, press, put_can,
    reports_of, text_bytes, work,
};
use crate::error::Error;
use crate::inputs::{Found, Inputs, What, day_before, days, next_day};
use crate::seal::{SealReport, Sealer};
use crate::stage::{Plant, StageKey};

/// So many inputs are looked at before the first of them is canned.
const BATCH: usize = 512;

/// Up to here it is cheaper to list the folder of each day than all of them.
const DAYS_MAX: usize = 8;

/// Each further round means that somebody else has canned some of the same reports since the last one.
const ROUNDS_MAX: u32 = 16;

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CanReport {
    /// How many cans were added.
    pub cans: u64,
    /// Their names.
    #[serde(skip)]
    pub files: BTreeSet<FileName>,
    /// How many reports are in them.
    pub reports: u64,
    /// The bytes of these.
    pub bytes_in: u64,
    /// The bytes of the cans.
    pub bytes_out: u64,
    /// Inputs that could not be used.
    pub refused: Vec<Refused>,
    /// How often somebody else was first.
    pub lost: u32,
    /// The bucket takes no more: what it has not taken by now is found again, for another bucket.
    pub is_closed: bool,
}

/// Adds cans to open buckets, and fills and seals whole ones. Clones are the same.
#[derive(Clone, Debug)]
pub struct Canner {
    plant: Plant,
    inputs: Inputs,
    indexes: Indexes,
    journal: Option<Journal>,
    sealer: Sealer,
}

/// Whether somebody else has canned some of the same reports meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Added {
    All,
    Lost,
}

impl Canner {
    /// A canner of these inputs. The work that follows goes to `journal`.
    #[must_use]
    pub fn new(plant: Plant, inputs: Inputs, journal: Option<Journal>) -> Self {
        let indexes = Indexes::new(plant.raw.clone());
        let sealer = Sealer::with(
            plant.clone(),
            inputs.clone(),
            indexes.clone(),
            journal.clone(),
        );
        Self {
            plant,
            inputs,
            indexes,
            journal,
            sealer,
        }
    }

    /// What it takes at most, beside about 300 bytes for each report that it has to do with.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        cans::memory_bytes()
    }

    /// Cans those of `keys` that hold reports of `kind`, as far as no can of this bucket or of the days beside it has them.
    /// It may be called again, by anybody, at any time. Afterwards an index that counts names every report, unless the
    /// bucket is closed or the input was refused.
    ///
    /// # Errors
    /// When the lake, the scratch folder or the journal fails. Cans that were committed stay.
    pub async fn open(
        &self,
        bucket: BucketDate,
        kind: &Kind,
        keys: &[Key],
    ) -> Result<CanReport, Error> {
        let mut report = CanReport::default();
        for batch in keys.chunks(BATCH) {
            self.batch(bucket, kind, batch, &mut report).await?;
            if report.is_closed {
                return Ok(report);
            }
        }
        let state = self.indexes.state(bucket).await?;
        report.is_closed = !state.is_open();
        if !report.is_closed {
            self.follow(&state, kind, keys, report.files.clone())
                .await?;
        }
        Ok(report)
    }

    /// Puts everything of a bucket into its final cans at once: its open cans, and the report files of its date that are in
    /// none. Afterwards the bucket is sealed.
    ///
    /// # Errors
    /// As [`Sealer::seal`]; [`Error::StillWritten`] when a report file goes on changing: the rest of it would be left out
    /// for good.
    pub async fn bucket(&self, bucket: BucketDate) -> Result<SealReport, Error> {
        let found = self.settled_reports(bucket).await?;
        self.sealer.seal_with(bucket, found).await
    }

    /// The report files of a date, none of them half written: what was changed a moment ago has a moment to settle.
    async fn settled_reports(&self, bucket: BucketDate) -> Result<Vec<Found>, Error> {
        let clock = &self.plant.clock;
        let patience = clock.now().checked_add(self.inputs.settle);
        loop {
            let (found, now) = (self.inputs.reports_of(bucket).await?, clock.now());
            let until = |one: &Found| self.inputs.unsettled_until(&one.what, one.modified, now);
            let last = found
                .iter()
                .filter_map(|one| Some((until(one)?, one)))
                .max();
            let Some((until, one)) = last else {
                return Ok(found);
            };
            if patience.as_ref().is_ok_and(|patience| until > *patience) {
                return Err(Error::StillWritten {
                    key: one.key.clone(),
                });
            }
            clock.sleep(until.duration_since(now).unsigned_abs()).await;
        }
    }

    async fn batch(
        &self,
        bucket: BucketDate,
        kind: &Kind,
        keys: &[Key],
        report: &mut CanReport,
    ) -> Result<(), Error> {
        for _ in 0..ROUNDS_MAX {
            let state = self.indexes.state(bucket).await?;
            if !state.is_open() {
                report.is_closed = true;
                return Ok(());
            }
            let named = self.named(&state, kind).await?;
            let prepared = prepare(&self.plant, &self.inputs, kind, keys, &named).await?;
            let batch = Batch {
                lake: self.plant.raw.clone(),
                indexes: self.indexes.clone(),
                plant: self.plant.clone(),
                number: state.next_number(kind),
                bucket,
                inputs: unknown_inputs(&named, prepared.inputs),
            };
            let (added, done) = batch.run(prepared.plan).await?;
            report.cans += done.cans;
            report.files.extend(done.files);
            report.reports += done.reports;
            report.bytes_in += done.bytes_in;
            report.bytes_out += done.bytes_out;
            if added == Added::All {
                report.refused.extend(prepared.refused);
                return Ok(());
            }
            report.lost += 1;
        }
        Err(Error::Crowded {
            bucket,
            rounds: ROUNDS_MAX,
        })
    }

    /// What is canned in this bucket, in the one before, and in all later ones: two may be asked to can the same at
    /// midnight, and work that waited for days may have been done in another bucket.
    async fn named(&self, state: &BucketState, kind: &Kind) -> Result<Named, Error> {
        let bucket = state.bucket;
        let first = day_before(bucket).unwrap_or(bucket);
        let last = next_day(bucket).unwrap_or(bucket).max(self.plant.today());
        let around: Vec<BucketDate> = days(first, last).take(DAYS_MAX + 1).collect();
        let mut states = Vec::new();
        if around.len() > DAYS_MAX {
            let all = self.indexes.buckets().await?.into_iter();
            states.extend(all.filter(|other| other.bucket >= first && other.bucket != bucket));
        } else {
            for other in around.into_iter().filter(|other| *other != bucket) {
                states.push(self.indexes.state(other).await?);
            }
        }
        states.push(state.clone());
        self.indexes.named(&states, Some(kind)).await
    }

    /// Adds the work that follows: for every can with something of these inputs, whoever has committed it. Its committer
    /// may have died before it did.
    async fn follow(
        &self,
        state: &BucketState,
        kind: &Kind,
        keys: &[Key],
        mut files: BTreeSet<FileName>,
    ) -> Result<(), Error> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        let wanted = Wanted::of(keys);
        for key in self.indexes.counting(state, Some(kind)).await? {
            let names = self.indexes.names(&key).await?;
            if wanted.is_in(&names) {
                files.extend(names.files.iter().cloned());
            }
        }
        let entries = files.iter().map(|file| {
            let key = StageKey::autoclave(state.bucket, kind.clone(), file.as_str());
            NewEntry::new(key.to_string(), Data::null())
        });
        add_all(journal, entries.collect()).await
    }
}

/// Adds entries, as many at once as a journal takes.
pub(crate) async fn add_all(journal: &Journal, entries: Vec<NewEntry>) -> Result<(), Error> {
    for some in entries.chunks(Op::COUNT_MAX) {
        journal.add(some.to_vec()).await?;
    }
    Ok(())
}

/// What to look for in indexes.
struct Wanted<'k> {
    texts: Vec<TextName>,
    hours: BTreeSet<&'k Key>,
}

impl<'k> Wanted<'k> {
    fn of(keys: &'k [Key]) -> Self {
        let (mut texts, mut hours) = (Vec::new(), BTreeSet::new());
        for key in keys {
            match What::of(key).map(|what| what.text_name()) {
                Some(Some(name)) => texts.push(name),
                Some(None) => drop(hours.insert(key)),
                None => {}
            }
        }
        Self { texts, hours }
    }

    fn is_in(&self, names: &cans::Names) -> bool {
        // It may be of the begin of an hour, which another one names.
        let is_part = !self.hours.is_empty() && names.inputs.is_empty();
        if is_part {
            return true;
        }
        names
            .inputs
            .iter()
            .any(|input| self.hours.contains(&input.key))
            || self.texts.iter().any(|name| names.has_text(name))
    }
}

fn unknown_inputs(named: &Named, inputs: Vec<Input>) -> Vec<Option<Input>> {
    let is_new = |input: &Input| !named.has_version(&input.key, &input.version);
    inputs
        .into_iter()
        .map(|input| Some(input).filter(is_new))
        .collect()
}

/// Some inputs on their way into cans.
struct Batch {
    lake: Lake,
    indexes: Indexes,
    plant: Plant,
    bucket: BucketDate,
    /// The number that the next index tries first.
    number: u32,
    /// By the numbers of the sources; what is known to be canned already is left out.
    inputs: Vec<Option<Input>>,
}

impl Batch {
    async fn run(mut self, plan: Plan) -> Result<(Added, CanReport), Error> {
        if plan.texts.is_empty() {
            let inputs: Vec<Input> = self.inputs.drain(..).flatten().collect();
            // An hour whose downloads are all canned is not to be read again for that.
            if !inputs.is_empty() {
                self.commit(&plan, None, inputs).await?;
            }
            return Ok((Added::All, CanReport::default()));
        }
        let plant = self.plant.clone();
        work(&plant, plan, move |reading, slices| {
            let mut done = CanReport::default();
            let inputs = self.by_slice(reading.plan(), slices);
            for (slice, inputs) in slices.iter().zip(inputs) {
                if self.add(reading, slice, inputs, &mut done)? == Added::Lost {
                    return Ok((Added::Lost, done));
                }
            }
            Ok((Added::All, done))
        })
        .await
    }

    /// Which inputs are canned as a whole when a slice was committed and all before it.
    fn by_slice(&mut self, plan: &Plan, slices: &[Slice]) -> Vec<Vec<Input>> {
        let mut last = BTreeMap::new();
        for (number, slice) in slices.iter().enumerate() {
            for name in reports_of(slice) {
                last.insert(plan.texts[name].source, number);
            }
        }
        let mut by_slice = vec![Vec::new(); slices.len()];
        for (source, input) in self.inputs.drain(..).enumerate() {
            let slice = last.get(&source).copied().unwrap_or(0);
            by_slice[slice].extend(input);
        }
        by_slice
    }

    fn add(
        &mut self,
        reading: &mut Reading<'_>,
        slice: &Slice,
        inputs: Vec<Input>,
        done: &mut CanReport,
    ) -> Result<Added, Error> {
        let (encoder, scratch) = (self.plant.encoder, self.plant.scratch.clone());
        let pressing = press(reading, reports_of(slice), Shape::Tar, encoder, &scratch)?;
        let pressed = pressing.finish();
        let pressed = pressed.map_err(|why| Error::scratch(scratch.folder(), why))?;
        let plan = reading.plan();
        let handle = reading.handle().clone();
        handle.block_on(async {
            let name = FileName::open(&plan.kind, pressed.texts(), encoder.codec());
            let can = put_can(&self.lake, &scratch, self.bucket, name, pressed).await?;
            let added = self.commit(plan, Some(can.clone()), inputs).await?;
            if added == Added::All {
                done.note(&can);
            }
            Ok(added)
        })
    }

    /// Creates the index of a can with the first number that is free. What others have committed since the bucket was
    /// looked at must have nothing of the plan, also of the cans that are still to come.
    async fn commit(
        &mut self,
        plan: &Plan,
        can: Option<CannedFile>,
        inputs: Vec<Input>,
    ) -> Result<Added, Error> {
        let index = CannedIndex {
            files: can.into_iter().collect(),
            inputs: Some(inputs),
        };
        let object = index.to_object();
        let object = object.map_err(|why| Error::scratch(self.plant.scratch.folder(), why))?;
        loop {
            let name = OpenIndexName {
                kind: plan.kind.clone(),
                number: self.number,
            };
            let key = Key::canned_open_index(self.bucket, &name);
            self.number += 1;
            match self.lake.put_new(&key, object.clone()).await? {
                PutNew::Created | PutNew::Same => return Ok(Added::All),
                PutNew::Different => {
                    let theirs = self.indexes.names(&key).await?;
                    if plan.texts.keys().any(|name| theirs.has_text(name)) {
                        return Ok(Added::Lost);
                    }
                }
            }
        }
    }
}

impl CanReport {
    fn note(&mut self, can: &CannedFile) {
        self.cans += 1;
        self.files.insert(can.filename.name.clone());
        self.reports += can.texts().len() as u64;
        self.bytes_in += text_bytes(&can.canned);
        self.bytes_out += can.file.size;
    }
}
