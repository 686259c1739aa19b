//! Sealing: the open cans of a bucket become its final ones, whose names and bytes follow from the reports alone.
//!
//! The steps are in `cans/indexes.rs`: no can is added any more; what is to be sealed is decided once, for everybody who
//! seals; the final cans are put; `index.json.gz` commits them. The open cans stay until they are swept. Indexes of open cans
//! of feeds should stay for good: only they say which versions of an hour were taken.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use cannery_formats::can::{
    CannedFile, CannedIndex, CannedObject, CannedText, FileName, Input, Slice,
};
use cannery_formats::feed::FeedId;
use cannery_formats::{BucketDate, Key, Kind};
use cannery_journal::{Data, Journal, NewEntry};
use cannery_lake::PutNew;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use tokio::task::JoinHandle;

use crate::blocking::blocking;
use crate::canning::add_all;
use crate::cans::{
    self, AT_ONCE, Indexes, Listed, Plan, Reading, Shape, Source, closing, decision, press,
    put_can, reports_of, size_of_report, text_bytes, version_of, work,
};
use crate::error::Error;
use crate::inputs::{Found, Inputs, Reports, What, day_before, next_day};
use crate::stage::{Plant, StageKey};

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SealReport {
    /// Whether the bucket was sealed before; then nothing was done.
    pub was_sealed: bool,
    /// How many final cans there are.
    pub cans: u64,
    /// How many reports are in them.
    pub reports: u64,
    /// The bytes of these.
    pub bytes_in: u64,
    /// The bytes of the cans.
    pub bytes_out: u64,
}

/// What the entry of a sealed can says: which open cans had its reports before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Replaces {
    /// Their names.
    pub replaces: BTreeSet<String>,
}

/// Seals buckets. Clones are the same.
#[derive(Clone, Debug)]
pub struct Sealer {
    plant: Plant,
    inputs: Inputs,
    indexes: Indexes,
    journal: Option<Journal>,
}

/// When a bucket may be sealed: after the end of its day, and as much later as reports may come late.
#[must_use]
pub fn due(bucket: BucketDate, grace: Duration) -> Timestamp {
    let end = next_day(bucket).and_then(|day| day.date().to_zoned(TimeZone::UTC).ok());
    let end = end.map_or(Timestamp::MAX, |end| end.timestamp());
    end.checked_add(grace).unwrap_or(Timestamp::MAX)
}

impl Sealer {
    /// A sealer. The work that follows goes to `journal`.
    #[must_use]
    pub fn new(plant: Plant, inputs: Inputs, journal: Option<Journal>) -> Self {
        let indexes = Indexes::new(plant.raw.clone());
        Self::with(plant, inputs, indexes, journal)
    }

    pub(crate) fn with(
        plant: Plant,
        inputs: Inputs,
        indexes: Indexes,
        journal: Option<Journal>,
    ) -> Self {
        Self {
            plant,
            inputs,
            indexes,
            journal,
        }
    }

    /// What it takes at most, beside about 600 bytes for each report of the bucket.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        cans::memory_bytes()
    }

    /// Seals a bucket, whose day should be over. It may be called again, by anybody, at any time. Afterwards every report
    /// that an open can had when the bucket was closed is in a final can, unless the sealed bucket of the day before or
    /// after has it.
    ///
    /// # Errors
    /// When the lake, the scratch folder or the journal fails, or a can is damaged. Nothing is lost: it may be repeated.
    pub async fn seal(&self, bucket: BucketDate) -> Result<SealReport, Error> {
        self.seal_with(bucket, Vec::new()).await
    }

    /// The same with report files that are in no can yet. They count only if nobody has decided what to seal before.
    pub(crate) async fn seal_with(
        &self,
        bucket: BucketDate,
        loose: Vec<Found>,
    ) -> Result<SealReport, Error> {
        let was_sealed = self.indexes.state(bucket).await?.is_sealed;
        if !was_sealed {
            let decided = self.decide(bucket, loose).await?;
            let files = self.make(bucket, &decided).await?;
            self.commit(bucket, files).await?;
        }
        let sealed = self.indexes.read(&Key::canned_index(bucket)).await?;
        self.follow(bucket, &sealed).await?;
        Ok(report_of(was_sealed, &sealed))
    }

    /// Closes the bucket, and settles for everybody what is in it.
    async fn decide(&self, bucket: BucketDate, loose: Vec<Found>) -> Result<Vec<Input>, Error> {
        let lake = &self.plant.raw;
        let empty = self.object(&CannedIndex::default())?;
        let key = Key::canned_open_index(bucket, &closing());
        lake.put_new(&key, empty).await?;
        let decided = Key::canned_open_index(bucket, &decision());
        if let Some(index) = self.indexes.find(&decided).await? {
            return Ok(index.inputs.unwrap_or_default());
        }
        let index = CannedIndex {
            files: Vec::new(),
            inputs: Some(self.propose(bucket, loose).await?),
        };
        match lake.put_new(&decided, self.object(&index)?).await? {
            PutNew::Created | PutNew::Same => Ok(index.inputs.unwrap_or_default()),
            PutNew::Different => {
                let theirs = self.indexes.read(&decided).await?;
                Ok(theirs.inputs.unwrap_or_default())
            }
        }
    }

    /// The open cans, the report files that no can names, and the sealed buckets beside it, whose reports are left out.
    async fn propose(&self, bucket: BucketDate, loose: Vec<Found>) -> Result<Vec<Input>, Error> {
        let lake = &self.plant.raw;
        let state = self.indexes.state(bucket).await?;
        let mut states = vec![state.clone()];
        let mut inputs = Vec::new();
        for index in &state.open {
            inputs.push(Input {
                key: index.entry.key.clone(),
                size: index.entry.stored_bytes,
                version: version_of(index.entry.modified),
            });
        }
        for beside in [day_before(bucket), next_day(bucket)].into_iter().flatten() {
            let state = self.indexes.state(beside).await?;
            if state.is_sealed {
                let key = Key::canned_index(beside);
                let head = lake.head(&key).await?;
                inputs.push(Input {
                    key,
                    size: head.bytes,
                    version: version_of(head.modified),
                });
            }
            states.push(state);
        }
        let named = self.indexes.named(&states, None).await?;
        let is_new = |found: &Found| {
            let name = found.what.text_name();
            name.is_some_and(|name| !named.has_text(&name))
        };
        let sized = loose.into_iter().filter(is_new).map(|found| async move {
            let size = match &self.inputs.reports {
                Some(Reports::Folder(_)) => found.stored_bytes,
                Some(Reports::Lake) | None => size_of_report(lake, &found).await?,
            };
            Ok::<_, Error>(Input {
                key: found.key,
                size,
                version: version_of(found.modified),
            })
        });
        let sized = stream::iter(sized.collect::<Vec<_>>()).buffered(AT_ONCE);
        inputs.extend(sized.boxed().try_collect::<Vec<_>>().await?);
        Ok(inputs)
    }

    /// Makes the final cans.
    async fn make(&self, bucket: BucketDate, decided: &[Input]) -> Result<Vec<CannedFile>, Error> {
        let mut files = Vec::new();
        for plan in self.plans(bucket, decided).await? {
            let maker = Maker {
                plant: self.plant.clone(),
                bucket,
            };
            let made = work(&self.plant, plan, move |reading, slices| {
                maker.run(reading, slices)
            });
            files.extend(made.await?);
        }
        Ok(files)
    }

    /// What goes into the cans of each kind, in the order of the kinds' names.
    async fn plans(&self, bucket: BucketDate, decided: &[Input]) -> Result<Vec<Plan>, Error> {
        let mut plans = BTreeMap::<String, Plan>::new();
        let mut plan_of = |kind: Kind, source, texts: Vec<Listed>| {
            let plan = plans.entry(kind.to_string());
            plan.or_insert_with(|| Plan::new(kind)).add(source, texts);
        };
        let (mut open, mut kinds, mut beside) = (Vec::new(), Vec::new(), Vec::new());
        for Input { key, .. } in decided {
            match key.as_canned() {
                Some((of, CannedObject::OpenIndex(name))) if of == bucket => {
                    open.push(key);
                    kinds.push(name.kind);
                }
                Some((_, CannedObject::SealedIndex)) => {
                    beside.push(self.indexes.names(key).await?);
                }
                Some(_) | None => {}
            }
        }
        let open = self.indexes.read_all(&open).await?;
        for (kind, index) in kinds.into_iter().zip(open) {
            for record in index.files {
                let (source, texts) = source_of(record);
                plan_of(kind.clone(), source, texts);
            }
        }
        for Input { key, size, .. } in decided {
            if let Some((kind, source, texts)) = self.loose(key, *size) {
                plan_of(kind, source, texts);
            }
        }
        let mut plans: Vec<Plan> = plans.into_values().collect();
        for plan in &mut plans {
            plan.without(|name| beside.iter().any(|names| names.has_text(name)));
        }
        Ok(plans)
    }

    fn loose(&self, key: &Key, size: u64) -> Option<(Kind, Source, Vec<Listed>)> {
        let what = What::of(key)?;
        let name = what.text_name()?;
        let source = match (&what, &self.inputs.reports) {
            (What::Report { bucket, name }, Some(Reports::Folder(root))) => Source::File {
                root: root.clone(),
                below: PathBuf::from(bucket.to_string()).join(name),
            },
            (What::Report { .. } | What::Bundle(_) | What::Hour { .. }, _) => Source::Report {
                key: key.clone(),
                size,
            },
        };
        Some((what.kind(), source, Listed::only(name, size)))
    }

    /// Seals the bucket, unless somebody else has. Their cans hold the same, perhaps in other frames.
    async fn commit(&self, bucket: BucketDate, files: Vec<CannedFile>) -> Result<(), Error> {
        let index = CannedIndex {
            files,
            inputs: None,
        };
        let key = Key::canned_index(bucket);
        match self.plant.raw.put_new(&key, self.object(&index)?).await? {
            PutNew::Created | PutNew::Same | PutNew::Different => Ok(()),
        }
    }

    fn object(&self, index: &CannedIndex) -> Result<Vec<u8>, Error> {
        let object = index.to_object();
        object.map_err(|why| Error::scratch(self.plant.scratch.folder(), why))
    }

    /// Adds the work that follows. It is added again if the bucket is sealed again: whoever sealed it may have died before.
    async fn follow(&self, bucket: BucketDate, sealed: &CannedIndex) -> Result<(), Error> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        let (mut before, mut kinds) = (BTreeMap::new(), BTreeMap::new());
        let state = self.indexes.state(bucket).await?;
        let keys: Vec<&Key> = state.open.iter().map(|index| &index.entry.key).collect();
        let indexes = self.indexes.read_all(&keys).await?;
        for (index, read) in state.open.iter().zip(indexes) {
            for record in read.files {
                let name = record.filename.name.to_string();
                for text in record.texts() {
                    before.insert(text.textname.clone(), name.clone());
                    kinds.insert(text.textname.clone(), index.name.kind.clone());
                }
            }
        }
        let entries = sealed.files.iter().map(|file| {
            let texts = file.texts().iter().map(|text| &text.textname);
            let replaces = texts.clone().filter_map(|name| before.get(name).cloned());
            let replaces = Replaces {
                replaces: replaces.collect(),
            };
            let mut texts = texts;
            let known = texts.find_map(|name| kinds.get(name).cloned());
            let kind = known.unwrap_or_else(|| kind_of(file));
            let key = StageKey::autoclave(bucket, kind, file.filename.name.as_str());
            Ok(NewEntry::new(key.to_string(), Data::from_value(&replaces)?))
        });
        add_all(journal, entries.collect::<Result<_, Error>>()?).await
    }
}

/// The kind of the reports of a final can.
pub(crate) fn kind_of(file: &CannedFile) -> Kind {
    match CannedObject::parse(file.filename.name.as_str()) {
        Some(CannedObject::Sealed { kind, .. } | CannedObject::Open { kind, .. }) => kind,
        _ => file.texts().first().map_or(Kind::Unknown, kind_of_text),
    }
}

/// What the name of a report says of its kind.
fn kind_of_text(text: &CannedText) -> Kind {
    let name = &text.textname;
    let keys = [name.report_key(), name.bundle_key()];
    let keys = keys.into_iter().flatten();
    let what = keys.filter_map(|key| What::of(&key)).next();
    let feed = || {
        let (feed, _) = name.as_str().split_once('/')?;
        FeedId::new(feed).ok().map(Kind::Feed)
    };
    what.map(|what| what.kind())
        .or_else(feed)
        .unwrap_or(Kind::Unknown)
}

fn source_of(record: CannedFile) -> (Source, Vec<Listed>) {
    let texts = record.texts().iter().enumerate();
    let texts = texts.map(|(ordinal, text)| Listed {
        name: text.textname.clone(),
        size: text.text.size,
        ordinal,
    });
    let texts = texts.collect();
    let source = Source::Can {
        key: Key::canned(&record.filename),
        record: Box::new(record),
    };
    (source, texts)
}

fn report_of(was_sealed: bool, sealed: &CannedIndex) -> SealReport {
    let files = sealed.files.iter();
    SealReport {
        was_sealed,
        cans: sealed.files.len() as u64,
        reports: files.clone().map(|file| file.texts().len() as u64).sum(),
        bytes_in: files.clone().map(|file| text_bytes(&file.canned)).sum(),
        bytes_out: files.map(|file| file.file.size).sum(),
    }
}

/// Makes the final cans of one kind.
struct Maker {
    plant: Plant,
    bucket: BucketDate,
}

type Put = JoinHandle<Result<CannedFile, Error>>;

impl Maker {
    /// One can is finished and put while the next is made.
    fn run(&self, reading: &mut Reading<'_>, slices: &[Slice]) -> Result<Vec<CannedFile>, Error> {
        let tars = slices.iter().filter_map(|slice| match slice {
            Slice::Tar { number, .. } => Some(*number),
            Slice::Plain(_) => None,
        });
        let last = tars.max().unwrap_or(0);
        let mut files = Vec::new();
        let mut pending: Option<Put> = None;
        for slice in slices {
            let put = self.one(reading, slice, last)?;
            if let Some(before) = pending.replace(put) {
                files.push(wait(reading, before)?);
            }
        }
        if let Some(before) = pending {
            files.push(wait(reading, before)?);
        }
        Ok(files)
    }

    fn one(&self, reading: &mut Reading<'_>, slice: &Slice, last: u32) -> Result<Put, Error> {
        let Plant {
            encoder, scratch, ..
        } = &self.plant;
        let codec = encoder.codec();
        let (name, shape) = match slice {
            Slice::Tar { number, .. } => {
                let kind = &reading.plan().kind;
                let name = FileName::sealed(kind, *number, last, codec);
                (name, Shape::Tar)
            }
            Slice::Plain(report) => (FileName::plain(report, codec), Shape::Plain),
        };
        let pressing = press(reading, reports_of(slice), shape, *encoder, scratch)?;
        let (lake, scratch, bucket) = (self.plant.raw.clone(), scratch.clone(), self.bucket);
        let put = async move {
            let pressed = blocking(|| pressing.finish()).await;
            let failed = |why| Error::scratch(scratch.folder(), why);
            let pressed = pressed.map_err(failed)?.map_err(failed)?;
            put_can(&lake, &scratch, bucket, name, pressed).await
        };
        Ok(reading.handle().spawn(put))
    }
}

fn wait(reading: &Reading<'_>, put: Put) -> Result<CannedFile, Error> {
    reading.wait(put).map_err(|_| Error::GivenUp)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_due_when_its_day_and_the_grace_are_over() {
        let bucket = "2026-12-31".parse().unwrap();
        let due = due(bucket, Duration::from_secs(3_600));
        assert_eq!(due.to_string(), "2027-01-01T01:00:00Z");
    }
}
