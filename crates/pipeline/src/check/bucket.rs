//! A look at one bucket.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use cannery_catalog::{Decision, FileFacts, Filter, KnownFile, Place, decide};
use cannery_formats::archive::{Entry as Line, Generation, IndexReader};
use cannery_formats::can::{BucketFile, CannedFile, CannedObject, FileName};
use cannery_formats::gz_lines::IndexLimits;
use cannery_formats::key::AutoclavedObject;
use cannery_formats::{BucketDate, Key};
use cannery_lake::{Entry, ErrorKind, Lake};
use futures::stream::{self, StreamExt as _};

use super::{CheckReport, Checker, Finding, Problem, Share};
use crate::archive_index;
use crate::blocking::blocking;
use crate::cans::{AT_ONCE, Indexes};
use crate::centrifuge::facts::{self, Known};
use crate::error::Error;
use crate::holdings::{Archive, Ground, Holdings};
use crate::verify::Verifier;

/// Files of the catalog, and measurements, that are asked for at once.
const PAGE: u32 = 1_000;
const MEASUREMENTS: usize = 1_000;

pub(super) struct Look<'c> {
    checker: &'c Checker,
    bucket: BucketDate,
    share: Option<Share>,
    holdings: Holdings,
    /// What the indexes of cans say.
    named: BTreeMap<FileName, CannedFile>,
    /// What the indexes of the archives say that belong into the catalog.
    known: BTreeMap<FileName, (Generation, Known)>,
    pub(super) found: Vec<Finding>,
}

impl<'c> Look<'c> {
    pub(super) async fn new(
        checker: &'c Checker,
        ground: &Ground,
        bucket: BucketDate,
        share: Option<Share>,
    ) -> Result<Self, Error> {
        let holdings = match Holdings::read(&checker.plant, ground, bucket).await {
            Err(Error::Unusable { .. }) => {
                // Which index it is, is said when they are looked at one by one.
                Holdings::listed(&checker.plant, ground, bucket).await?
            }
            read => read?,
        };
        Ok(Self {
            checker,
            bucket,
            share,
            holdings,
            named: BTreeMap::new(),
            known: BTreeMap::new(),
            found: Vec::new(),
        })
    }

    pub(super) async fn run(&mut self, report: &mut CheckReport) -> Result<(), Error> {
        self.read_can_indexes().await?;
        report.cans += self.named.len() as u64;
        self.cans().await?;
        report.archives += self.archives().await?;
        self.not_autoclaved();
        self.catalog().await?;
        if self.share.is_some() {
            self.contents(report).await?;
        }
        Ok(())
    }

    fn note(&mut self, problem: Problem, subject: &dyn fmt::Display, why: &dyn fmt::Display) {
        let key = Key::new(subject.to_string()).ok();
        let archive = key.and_then(|key| match key.as_autoclaved()? {
            (_, _, AutoclavedObject::File(name) | AutoclavedObject::FileIndex(name)) => Some(name),
            (_, _, AutoclavedObject::SealedIndex) => None,
        });
        let cans = &self.holdings.cans;
        let can_be_made = archive.is_some_and(|name| {
            let can = Key::canned(&BucketFile::new(self.bucket, name));
            cans.iter().any(|entry| entry.key == can)
        });
        let bucket = Some(self.bucket);
        self.found
            .push(Finding::new(problem, bucket, subject, why, can_be_made));
    }

    /// Reads the index of the sealed bucket, and those of its open cans.
    async fn read_can_indexes(&mut self) -> Result<(), Error> {
        let indexes = Indexes::new(self.checker.plant.raw.clone());
        let state = &self.holdings.state;
        let sealed = state.is_sealed.then(|| Key::canned_index(self.bucket));
        let open = state.open.iter().map(|index| index.entry.key.clone());
        for key in sealed.into_iter().chain(open).collect::<Vec<_>>() {
            match indexes.find(&key).await {
                // One that was swept since the listing is nobody's any more.
                Ok(None) => {}
                Ok(Some(index)) => {
                    for record in index.files {
                        let name = record.filename.name.clone();
                        self.named.entry(name).or_insert(record);
                    }
                }
                Err(Error::Unusable { why, .. }) => self.note(Problem::DamagedIndex, &key, &why),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Every can that an index names is there, as long as it says; every can that is there is named.
    async fn cans(&mut self) -> Result<(), Error> {
        let entries = self.holdings.cans.iter();
        let there: BTreeMap<Key, Entry> = entries
            .map(|entry| (entry.key.clone(), entry.clone()))
            .collect();
        for (name, record) in std::mem::take(&mut self.named) {
            let key = Key::canned(&record.filename);
            match there.get(&key) {
                Some(entry) => {
                    let lake = self.checker.plant.raw.clone();
                    self.size(&lake, entry, record.file.size).await?;
                }
                // An open can goes once others took its place; its index may stay.
                None if !self.holdings.belongs(&name) => {}
                None if self.holdings.state.expired_cans.contains(&name) => {}
                None => self.note(
                    Problem::Missing,
                    &key,
                    &"an index names it, and it is not there",
                ),
            }
            self.named.insert(name, record);
        }
        for entry in there.values() {
            let name = match entry.key.as_canned() {
                Some((_, CannedObject::Open { name, .. } | CannedObject::Sealed { name, .. })) => {
                    name
                }
                Some((_, CannedObject::Plain(name))) => name,
                _ => continue,
            };
            if !self.named.contains_key(&name) && self.checker.is_settled(entry.modified) {
                self.note(Problem::Orphan, &entry.key, &"no index names it");
            }
        }
        Ok(())
    }

    /// Compares the size of an object; a large one has a commit of another size.
    async fn size(&mut self, lake: &Lake, entry: &Entry, expected: u64) -> Result<(), Error> {
        if entry.stored_bytes == expected {
            return Ok(());
        }
        match lake.head(&entry.key).await {
            Ok(head) if head.bytes == expected => {}
            Ok(head) => {
                let why = format!("it has {} bytes, its index says {expected}", head.bytes);
                self.note(Problem::WrongSize, &entry.key, &why);
            }
            // It was swept since the listing.
            Err(error) if error.kind == ErrorKind::Absent => {}
            Err(error) if error.kind == ErrorKind::Corrupt => {
                self.note(Problem::Damaged, &entry.key, &error);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Every archive has its index, which can be read, and every index its archive. How many there are.
    async fn archives(&mut self) -> Result<u64, Error> {
        let belonging: BTreeMap<BucketFile, Generation> = self.holdings.belonging().collect();
        let mut whole = Vec::new();
        for (name, generations) in std::mem::take(&mut self.holdings.archives) {
            for (generation, archive) in &generations {
                if let Some(entries) = self.pair(&name, *generation, archive) {
                    whole.push((name.clone(), *generation, entries));
                }
            }
            self.holdings.archives.insert(name, generations);
        }
        let count = whole.len() as u64;
        let (checker, bucket) = (self.checker, self.bucket);
        let reads = stream::iter(whole).map(|(name, generation, entries)| async move {
            let file = BucketFile::new(bucket, name);
            let known = facts::fetch(&checker.plant, generation, &file).await;
            (file, generation, entries, known)
        });
        let reads: Vec<_> = reads.buffered(AT_ONCE).collect().await;
        for (file, generation, (archive, index), known) in reads {
            let known = match known {
                Ok(Some(known)) => known,
                Ok(None) => continue,
                Err(Error::Unusable { why, .. }) => {
                    self.note(Problem::DamagedIndex, &index.key, &why);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let lake = self.checker.plant.public.clone();
            self.size(&lake, &archive, known.facts.file_size).await?;
            if belonging.get(&file) == Some(&generation) {
                self.known.insert(file.name, (generation, known));
            }
        }
        Ok(count)
    }

    /// Both objects of an archive, if it has both.
    fn pair(
        &mut self,
        name: &FileName,
        generation: Generation,
        archive: &Archive,
    ) -> Option<(Entry, Entry)> {
        let file = BucketFile::new(self.bucket, name.clone());
        let has_cans = !self.named.is_empty();
        match (&archive.file, &archive.index) {
            (Some(file), Some(_))
                if has_cans
                    && !self.named.contains_key(name)
                    && self.checker.is_settled(file.modified) =>
            {
                let why = "no index names the can that it was made of";
                self.note(Problem::Orphan, &file.key, &why);
                None
            }
            (Some(file), Some(index)) => Some((file.clone(), index.clone())),
            (Some(file), None) => {
                if self.checker.is_settled(file.modified) {
                    self.note(Problem::Orphan, &file.key, &"it has no index");
                }
                None
            }
            (None, _) => {
                let key = Key::autoclaved(generation, &file);
                self.note(Problem::Missing, &key, &"its index is there, and it is not");
                None
            }
        }
    }

    /// Cans that count and have no archive in any generation.
    fn not_autoclaved(&mut self) {
        let made: BTreeSet<FileName> = self
            .holdings
            .belonging()
            .map(|(file, _)| file.name)
            .collect();
        let cans = self.holdings.cans.iter();
        let modified: BTreeMap<&Key, _> = cans.map(|entry| (&entry.key, entry.modified)).collect();
        let mut left = Vec::new();
        for (name, record) in &self.named {
            let key = Key::canned(&record.filename);
            let is_settled = modified
                .get(&key)
                .is_some_and(|modified| self.checker.is_settled(*modified));
            if self.holdings.belongs(name) && !made.contains(name) && is_settled {
                left.push(key);
            }
        }
        for key in left {
            self.note(Problem::NotAutoclaved, &key, &"it has no archive");
        }
    }

    /// The catalog has what belongs into it, and nothing that the lake has not.
    async fn catalog(&mut self) -> Result<(), Error> {
        let mut decisions = Vec::new();
        for (name, (generation, known)) in &self.known {
            let before = self.checker.catalog.known(&known.facts.name).await?;
            let versions = self.checker.features.versions(&known.kind);
            let decision = decide::decide(&known.facts, before.as_ref(), &versions);
            let archive = &self.holdings.archives[name][generation];
            let modified = archive.index.as_ref().map(|index| index.modified);
            let is_settled = modified.is_none_or(|modified| self.checker.is_settled(modified));
            decisions.push((known.facts.clone(), before, decision, is_settled));
        }
        for (facts, before, decision, is_settled) in decisions {
            self.decided(&facts, before.as_ref(), decision, is_settled);
        }
        let filter = Filter {
            bucket: Some(self.bucket.to_string()),
            ..Filter::default()
        };
        let mut after = None;
        loop {
            let page = self.checker.catalog.files(&filter, after, PAGE).await?;
            for file in page.items {
                self.vanished(&file.facts);
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    fn decided(
        &mut self,
        facts: &FileFacts,
        before: Option<&KnownFile>,
        decision: Decision,
        is_settled: bool,
    ) {
        let was = || before.map_or_else(String::new, |known| known.facts.generation.clone());
        let (problem, why) = match decision {
            Decision::Skip => return,
            Decision::NewerThanCode {
                feature,
                known,
                declared,
            } => (
                Problem::NewerThanCode,
                format!(
                    "version {known} of feature `{feature}` has loaded it, this program has {declared}"
                ),
            ),
            _ if !is_settled => return,
            Decision::Ingest => (Problem::NotLoaded, "it is not in the catalog".to_owned()),
            Decision::Repoint => (
                Problem::Outdated,
                format!("the catalog has other frames of it, of `{}`", was()),
            ),
            Decision::Reingest => (
                Problem::Outdated,
                format!("the catalog has another text of it, of `{}`", was()),
            ),
            Decision::Reprocess { features } | Decision::MarkCurrent { features } => (
                Problem::Outdated,
                format!(
                    "the catalog has old rows of it, or none: `{}`",
                    features.join("`, `")
                ),
            ),
        };
        self.note(problem, &facts.name, &why);
    }

    /// A file of the catalog is there in its generation. It need not belong there any more: what was replaced goes later.
    fn vanished(&mut self, facts: &FileFacts) {
        let file = facts.name.parse::<BucketFile>().ok();
        let generation = facts.generation.parse::<Generation>().ok();
        let archive = file.zip(generation).and_then(|(file, generation)| {
            let generations = self.holdings.archives.get(&file.name)?;
            generations.get(&generation)
        });
        if archive.is_none_or(|archive| archive.file.is_none() || archive.index.is_none()) {
            let generation = &facts.generation;
            let why = format!("the catalog has it in `{generation}`, the lake has not");
            self.note(Problem::Vanished, &facts.name, &why);
        }
    }

    /// Reads the share of the files: every sum is computed again, every frame decoded, every uid looked up.
    async fn contents(&mut self, report: &mut CheckReport) -> Result<(), Error> {
        let now = self.checker.plant.clock.now();
        let Some(share) = self.share else {
            return Ok(());
        };
        let verifier = Verifier {
            plant: self.checker.plant.clone(),
        };
        let cans: BTreeSet<Key> = self
            .holdings
            .cans
            .iter()
            .map(|entry| entry.key.clone())
            .collect();
        let has = |file: &BucketFile| share.has(&file.to_string(), now);
        let records = self.named.values().filter(|record| {
            has(&record.filename) && cans.contains(&Key::canned(&record.filename))
        });
        for record in records.cloned().collect::<Vec<_>>() {
            let read = verifier.can(&record).await?;
            self.read(read, report);
        }
        let files: Vec<BucketFile> = self
            .known
            .keys()
            .map(|name| BucketFile::new(self.bucket, name.clone()))
            .filter(has)
            .collect();
        for file in files {
            let generation = self.known[&file.name].0;
            let read = verifier.archive(generation, &file).await?;
            let is_sound = read.is_ok();
            self.read(read.map(|verified| verified.bytes), report);
            if is_sound {
                self.places(generation, &file).await?;
            }
        }
        Ok(())
    }

    fn read(&mut self, read: Result<u64, crate::verify::Finding>, report: &mut CheckReport) {
        report.files_read += 1;
        match read {
            Ok(bytes) => report.bytes_read += bytes,
            Err(finding) => self.note(Problem::Damaged, &finding.key, &finding.why),
        }
    }

    /// Every measurement of an archive is in the catalog, at its place. One whose index has no uids is passed over, and so
    /// is one that the catalog has another state of: that was said already.
    async fn places(&mut self, generation: Generation, file: &BucketFile) -> Result<(), Error> {
        let facts = &self.known[&file.name].1.facts;
        let catalog = &self.checker.catalog;
        let loaded = catalog.known(&facts.name).await?;
        if loaded.is_none_or(|loaded| loaded.facts.state() != facts.state()) {
            return Ok(());
        }
        let plant = &self.checker.plant;
        let Some(index) = archive_index::find(plant, generation, file).await? else {
            return Ok(());
        };
        let read = blocking(move || places_in(&index.bytes)).await;
        let failed = |why| Error::scratch(self.checker.plant.scratch.folder(), why);
        let Some(all) = read.map_err(failed)? else {
            return Ok(());
        };
        let (mut first, mut misplaced) = (0, Vec::new());
        for part in all.chunks(MEASUREMENTS) {
            misplaced.extend(catalog.misplaced(&facts.name, first, part).await?);
            first += part.len() as u64;
        }
        if let Some(uid) = misplaced.first() {
            let (name, count) = (facts.name.clone(), misplaced.len());
            let why = format!(
                "{count} of its measurements are not in the catalog where they are, such as `{uid}`"
            );
            self.note(Problem::Misplaced, &name, &why);
        }
        Ok(())
    }
}

/// The uids of an index and their places; nothing when it has none, or is damaged.
fn places_in(index: &[u8]) -> Option<Vec<(String, Place)>> {
    let mut reader = IndexReader::new(index, IndexLimits::default());
    let mut places = Vec::new();
    while let Some(line) = reader.next().ok()? {
        if let Line::Datum { datum, place } = line {
            let place = Place {
                frame_off: place.frame_off,
                frame_size: place.frame_size,
                intra_off: place.intra_off,
                intra_size: place.intra_size,
            };
            places.push((datum.id?.to_string(), place));
        }
    }
    Some(places)
}
