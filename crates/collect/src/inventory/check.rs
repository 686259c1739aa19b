//! Comparing the inventory of a node with what is in a lake.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead as _, BufReader, Read as _};

use cannery_formats::inventory::InventoryHome;
use cannery_formats::inventory::{Break, Chain, INVENTORY_LINE_BYTES_MAX};
use cannery_formats::spool::{BundleName, SpoolDate};
use cannery_formats::{Digest, InventoryLine, Key};
use cannery_lake::{Error, ErrorKind, Lake};
use flate2::read::MultiGzDecoder;
use futures::TryStreamExt as _;

use super::InventoryError;
use super::local::TEXT_BYTES_MAX;
use super::remote::{self, OBJECT_BYTES_MAX};

/// So many findings of a kind are kept.
const FINDINGS_MAX: usize = 1_000;

/// What was found, the first of each kind, and how many in all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings<T> {
    /// How many there are.
    pub count: u64,
    /// The first thousand of them.
    pub first: Vec<T>,
}

impl<T> Default for Findings<T> {
    fn default() -> Self {
        Self {
            count: 0,
            first: Vec::new(),
        }
    }
}

impl<T> Findings<T> {
    fn add(&mut self, finding: T) {
        self.count += 1;
        if self.first.len() < FINDINGS_MAX {
            self.first.push(finding);
        }
    }
}

/// An object that is in the inventory and not in the lake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` is gone; it was there on {}", .day.dashed())]
pub struct Missing {
    /// The object.
    pub key: Key,
    /// The day of its line.
    pub day: SpoolDate,
}

/// An object that is not as the inventory says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` has {found_bytes} bytes; on {} it had {bytes}", .day.dashed())]
pub struct Changed {
    /// The object.
    pub key: Key,
    /// The day of its line.
    pub day: SpoolDate,
    /// Its length in the inventory.
    pub bytes: u64,
    /// Its length now.
    pub found_bytes: u64,
}

/// A day whose lines do not hang together, or cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// At this line, counted from 1 within the day.
    #[error("the inventory of {} does not hold: {at}", .day.dashed())]
    Line {
        /// The day.
        day: SpoolDate,
        /// Where.
        at: Break,
    },
    /// The object of the day cannot be read to its end.
    #[error("the inventory of {} cannot be read: {why}", .day.dashed())]
    Unreadable {
        /// The day.
        day: SpoolDate,
        /// What is wrong with it.
        why: String,
    },
}

/// A day that does not go on where the one before it ended: the days between are missing, or the end of the one before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the inventory of {} does not go on from the one before it{}", .day.dashed(), since(*.after))]
pub struct Gap {
    /// The last day before it that there is.
    pub after: Option<SpoolDate>,
    /// The day.
    pub day: SpoolDate,
    /// How many days lie between the two.
    pub days_between: u64,
}

fn since(after: Option<SpoolDate>) -> String {
    match after {
        Some(after) => format!(", which is that of {}", after.dashed()),
        None => ", which is missing".to_owned(),
    }
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many days have an inventory.
    pub days: u64,
    /// How many lines they have.
    pub lines: u64,
    /// What was removed.
    pub missing: Findings<Missing>,
    /// What was replaced.
    pub changed: Findings<Changed>,
    /// What has its length and another content; looked for by [`check_contents`] alone.
    pub altered: Findings<Missing>,
    /// Objects with two lines on one day.
    pub twice: Findings<Key>,
    /// Where the inventory itself was changed.
    pub broken: Findings<Broken>,
    /// Where days are missing.
    pub gaps: Findings<Gap>,
}

impl Report {
    /// Whether everything is as it was put.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let counts = [
            self.missing.count,
            self.changed.count,
            self.altered.count,
            self.twice.count,
            self.broken.count,
            self.gaps.count,
        ];
        counts == [0; 6]
    }
}

/// Compares the inventory of a node with what is in the lake. Only names and lengths are compared: nothing but the inventory
/// itself is read. Holds the lines of one day at a time.
///
/// # Errors
/// When the lake cannot be listed or read: then nothing is known.
pub async fn check(lake: &Lake, home: &InventoryHome) -> Result<Report, Error> {
    look(lake, home, Depth::Lengths).await
}

/// The same, and reads every object to compare its content with its digest.
///
/// # Errors
/// As [`check`].
pub async fn check_contents(lake: &Lake, home: &InventoryHome) -> Result<Report, Error> {
    look(lake, home, Depth::Contents).await
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    Lengths,
    Contents,
}

async fn look(lake: &Lake, home: &InventoryHome, depth: Depth) -> Result<Report, Error> {
    let mut report = Report::default();
    let (mut chain, mut before) = (Chain::default(), None);
    for day in remote::days(lake, home).await? {
        let key = Key::inventory(home, day);
        let lines = match lake.get(&key, OBJECT_BYTES_MAX).await {
            Ok(object) => {
                let start = Chain::after(chain.last());
                let reading = super::blocking(move || Ok(read_day(&object.bytes, start)));
                match reading.await {
                    Ok(read) => {
                        chain = read.chain.clone();
                        note(&mut report, day, before, &read);
                        read.objects
                    }
                    Err(error) => {
                        let why = error.to_string();
                        report.broken.add(Broken::Unreadable { day, why });
                        BTreeMap::new()
                    }
                }
            }
            Err(error) if matches!(error.kind, ErrorKind::Invalid | ErrorKind::Corrupt) => {
                let why = error.detail;
                report.broken.add(Broken::Unreadable { day, why });
                BTreeMap::new()
            }
            Err(error) => return Err(error),
        };
        report.days += 1;
        before = Some(day);
        compare(lake, day, &lines, &mut report).await?;
        if depth == Depth::Contents {
            read_all(lake, day, lines, &mut report).await?;
        }
    }
    Ok(report)
}

/// What a line says of an object.
#[derive(Clone, Copy)]
struct Said {
    bytes: u64,
    sha256: Digest,
}

/// Objects by folder, or without one.
type Objects = BTreeMap<Option<Key>, BTreeMap<Key, Said>>;

/// What a day says.
struct DayRead {
    chain: Chain,
    /// Objects with their length, by folder. Those whose folder is not worth listing have none.
    objects: Objects,
    twice: Vec<Key>,
    breaks: Vec<Break>,
    unreadable: Option<String>,
}

fn read_day(gzip: &[u8], chain: Chain) -> DayRead {
    let mut day = DayRead {
        chain,
        objects: BTreeMap::new(),
        twice: Vec::new(),
        breaks: Vec::new(),
        unreadable: None,
    };
    let bounded = MultiGzDecoder::new(gzip).take(TEXT_BYTES_MAX);
    if let Err(error) = day.follow(BufReader::new(bounded)) {
        day.unreadable = Some(error.to_string());
    }
    day
}

impl DayRead {
    fn follow(&mut self, mut text: impl io::BufRead) -> io::Result<()> {
        let mut line = Vec::new();
        loop {
            line.clear();
            let bytes_max = INVENTORY_LINE_BYTES_MAX as u64 + 2;
            (&mut text).take(bytes_max).read_until(b'\n', &mut line)?;
            if line.is_empty() {
                return Ok(());
            }
            if line.pop_if(|last| *last == b'\n').is_none() {
                return Err(io::Error::other("a line has no end or is too long"));
            }
            if self.breaks.len() + self.twice.len() > 2 * FINDINGS_MAX {
                return Err(io::Error::other("too many of its lines are wrong"));
            }
            match self.chain.follow(&line) {
                Ok(line) => self.take(line),
                Err((broken, line)) => {
                    self.breaks.push(broken);
                    if let Some(line) = line {
                        self.take(*line);
                    }
                }
            }
        }
    }

    fn take(&mut self, line: InventoryLine) {
        // Only the folder of a date has few objects of others beside ours: what is named otherwise is looked for alone.
        let folder = BundleName::parse(&line.key).and_then(|_| {
            let (folder, _) = line.key.as_str().rsplit_once('/')?;
            Key::new(folder).ok()
        });
        let objects = self.objects.entry(folder).or_default();
        let said = Said {
            bytes: line.size,
            sha256: line.sha256,
        };
        if objects.insert(line.key.clone(), said).is_some() {
            self.twice.push(line.key);
        }
    }
}

fn note(report: &mut Report, day: SpoolDate, before: Option<SpoolDate>, read: &DayRead) {
    report.lines += read.chain.lines();
    for at in &read.breaks {
        match at {
            Break::Link { line: 1, .. } => report.gaps.add(Gap {
                after: before,
                day,
                days_between: before.map_or(0, |before| days_between(before, day)),
            }),
            Break::Link { .. } | Break::Damaged { .. } => {
                let at = at.clone();
                report.broken.add(Broken::Line { day, at });
            }
        }
    }
    if let Some(why) = read.unreadable.clone() {
        report.broken.add(Broken::Unreadable { day, why });
    }
    for key in &read.twice {
        report.twice.add(key.clone());
    }
}

fn days_between(before: SpoolDate, day: SpoolDate) -> u64 {
    let days = before.date().duration_until(day.date()).as_hours() / 24;
    u64::try_from(days).unwrap_or(0).saturating_sub(1)
}

/// Looks for the objects of one day: each folder is listed once.
async fn compare(
    lake: &Lake,
    day: SpoolDate,
    objects: &Objects,
    report: &mut Report,
) -> Result<(), Error> {
    for (folder, objects) in objects {
        let Some(folder) = folder else {
            for (key, said) in objects {
                look_at(lake, day, key.clone(), said.bytes, report).await?;
            }
            continue;
        };
        let mut unseen: BTreeSet<&Key> = objects.keys().collect();
        let mut entries = lake.list(Some(folder));
        while let Some(entry) = entries.try_next().await? {
            unseen.remove(&entry.key);
            match objects.get(&entry.key) {
                // Of a large object a listing does not tell the length.
                Some(said) if said.bytes != entry.stored_bytes => {
                    look_at(lake, day, entry.key, said.bytes, report).await?;
                }
                Some(_) | None => {}
            }
        }
        for key in unseen {
            let key = key.clone();
            report.missing.add(Missing { key, day });
        }
    }
    Ok(())
}

/// Compares the content of every object of a day with its digest.
async fn read_all(
    lake: &Lake,
    day: SpoolDate,
    objects: Objects,
    report: &mut Report,
) -> Result<(), Error> {
    for (key, said) in objects.into_values().flatten() {
        match super::measure(lake, key.clone()).await {
            // Of another length, it was told already.
            Ok(Some(found)) if found.bytes == said.bytes && found.sha256 != said.sha256 => {
                report.altered.add(Missing { key, day });
            }
            Ok(_) => {}
            Err(InventoryError::Lake(error)) if error.kind == ErrorKind::Corrupt => {
                report.altered.add(Missing { key, day });
            }
            Err(InventoryError::Lake(error)) => return Err(error),
            Err(error) => {
                let why = error.to_string();
                report.broken.add(Broken::Unreadable { day, why });
            }
        }
    }
    Ok(())
}

async fn look_at(
    lake: &Lake,
    day: SpoolDate,
    key: Key,
    bytes: u64,
    report: &mut Report,
) -> Result<(), Error> {
    match lake.head(&key).await {
        Ok(head) if head.bytes == bytes => {}
        Ok(head) => report.changed.add(Changed {
            key,
            day,
            bytes,
            found_bytes: head.bytes,
        }),
        Err(error) if error.kind == ErrorKind::Absent => report.missing.add(Missing { key, day }),
        Err(error) => return Err(error),
    }
    Ok(())
}
