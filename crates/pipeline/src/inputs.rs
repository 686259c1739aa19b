//! The objects of the lake that reports come from: report files, bundles, and the archives of hours.
//!
//! An object is never read here: its key says what it is. The time of a report in a can follows from its name alone, so the
//! same reports are the same bytes wherever they were read from.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cannery_formats::can::TextName;
use cannery_formats::feed::{DownloadName, FeedId, FoundName, Hour};
use cannery_formats::spool::{BundleName, Datatype, Experiment, ObjectHome, Part, SpoolDate};
use cannery_formats::{BucketDate, Key, Kind, ReportName};
use cannery_lake::{Entry, Lake};
use cannery_runtime::disk::{Disk as _, Kind as FileKind};
use cannery_runtime::{RealDisk, disk};
use futures::TryStreamExt as _;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::blocking::blocking;
use crate::error::Error;
use crate::scope::Scope;

/// What an object holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// A report file: one report.
    Report {
        /// The date of its folder.
        bucket: BucketDate,
        /// Its name.
        name: String,
    },
    /// A bundle: its rows are one report.
    Bundle(Box<BundleName>),
    /// An archive of an hour: every download is a report.
    Hour {
        /// Which feed.
        feed: FeedId,
        /// Which hour.
        hour: Hour,
    },
}

/// An object that reports come from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// What it holds.
    pub what: What,
    /// Where it lies; a report file in a folder has the key that it would have in the lake.
    pub key: Key,
    /// The bytes stored under its key; for a large object those of its commit.
    pub stored_bytes: u64,
    /// When it was written, by the store's clock.
    pub modified: Timestamp,
}

impl What {
    /// What the object `key` holds; nothing for an object that is no input.
    #[must_use]
    pub fn of(key: &Key) -> Option<Self> {
        if let Some((bucket, name)) = key.as_raw_report() {
            let name = name.to_owned();
            return Some(Self::Report { bucket, name });
        }
        if let Some((bundle, part)) = BundleName::parse(key) {
            return (part == Part::Data).then(|| Self::Bundle(Box::new(bundle)));
        }
        let (feed, hour, name) = key.as_feed_object()?;
        match FoundName::of(&feed, hour, name) {
            FoundName::Ours(_) | FoundName::Foreign => Some(Self::Hour { feed, hour }),
            FoundName::Tombstone | FoundName::SetAside(_) | FoundName::Unknown => None,
        }
    }

    /// The kind of its reports.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Report { name, .. } => ReportName::kind_of(name),
            Self::Bundle(bundle) => Kind::Spool(bundle.datatype.clone()),
            Self::Hour { feed, .. } => Kind::Feed(feed.clone()),
        }
    }

    /// The name of its report, if it holds just one.
    #[must_use]
    pub fn text_name(&self) -> Option<TextName> {
        match self {
            Self::Report { bucket, name } => TextName::of_report_file(*bucket, name).ok(),
            Self::Bundle(bundle) => Some(TextName::of_bundle(bundle)),
            Self::Hour { .. } => None,
        }
    }
}

impl Found {
    fn of(entry: Entry) -> Option<Self> {
        Some(Self {
            what: What::of(&entry.key)?,
            key: entry.key,
            stored_bytes: entry.stored_bytes,
            modified: entry.modified,
        })
    }
}

/// The time of a report in a can, in seconds since 1970: what its name says, 0 if that is nothing.
#[must_use]
pub fn time_of(kind: &Kind, name: &TextName) -> u64 {
    let time = match kind {
        Kind::Test(_) | Kind::Unknown => time_of_report(name),
        Kind::Spool(_) => {
            let bundle = name.bundle_key();
            let bundle = bundle.and_then(|key| BundleName::parse(&key));
            bundle.map(|(bundle, _)| bundle.opened.timestamp())
        }
        Kind::Feed(feed) => time_of_download(feed, name),
    };
    time.and_then(|time| u64::try_from(time.as_second()).ok())
        .unwrap_or(0)
}

fn time_of_report(name: &TextName) -> Option<Timestamp> {
    if let Some(report) = ReportName::parse(name.file_name()) {
        return Some(report.time);
    }
    let (bucket, _) = name.as_str().split_once('/')?;
    let date = bucket.parse::<BucketDate>().ok()?.date();
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

fn time_of_download(feed: &FeedId, name: &TextName) -> Option<Timestamp> {
    if let Some(download) = DownloadName::parse(feed, name.file_name()) {
        return Some(download.time);
    }
    let mut parts = name.as_str().split('/').skip(1);
    let (date, hour) = (parts.next()?.replace('-', "/"), parts.next()?);
    let hour = Hour::from_folder(&format!("{date}/{hour}")).ok()?;
    Some(hour.begin())
}

/// Where report files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reports {
    /// In the lake, below `reports-raw/`.
    Lake,
    /// In a folder of the same shape: `<folder>/<date>/<report file>`. A name that begins with `.` is nobody's yet.
    Folder(PathBuf),
}

/// The folder of a datatype's bundles.
type Spool = (ObjectHome, Experiment, Datatype);

/// What a look at everything has shown to be there: a look at the last days asks for these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    spools: BTreeSet<Spool>,
    feeds: BTreeSet<FeedId>,
}

impl Seen {
    /// Adds a datatype that is collected, before anything of it was seen.
    pub fn add_spool(&mut self, home: ObjectHome, experiment: Experiment, datatype: Datatype) {
        self.spools.insert((home, experiment, datatype));
    }

    /// Adds a feed that is collected, before anything of it was seen.
    pub fn add_feed(&mut self, feed: FeedId) {
        self.feeds.insert(feed);
    }

    /// Adds everything that another look has shown.
    pub(crate) fn join(&mut self, other: Self) {
        self.spools.extend(other.spools);
        self.feeds.extend(other.feeds);
    }

    fn note(&mut self, what: &What) {
        match what {
            What::Report { .. } => {}
            What::Bundle(bundle) => {
                let BundleName {
                    home,
                    experiment,
                    datatype,
                    ..
                } = &**bundle;
                self.add_spool(home.clone(), experiment.clone(), datatype.clone());
            }
            What::Hour { feed, .. } => self.add_feed(feed.clone()),
        }
    }
}

/// Which inputs there are, and where.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// Where bundles and hours are, and report files unless they are in a folder.
    pub lake: Lake,
    /// Where report files are, if they are wanted.
    pub reports: Option<Reports>,
    /// Which bundles are wanted: by `EXPERIMENT`, or `EXPERIMENT/DATATYPE`.
    pub spools: Choice,
    /// Which hours are wanted: by the ids of their feeds.
    pub feeds: Choice,
    /// A report file in a folder is taken once it has not been changed for so long: before, it may be half written. What is
    /// in the lake is there as a whole.
    pub settle: Duration,
}

/// Which of several things are wanted, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// None.
    #[default]
    None,
    /// All that are there.
    All,
    /// These alone.
    Only(BTreeSet<String>),
}

impl Choice {
    fn has(&self, name: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Only(names) => names.contains(name),
        }
    }

    fn is_none(&self) -> bool {
        match self {
            Self::None => true,
            Self::All => false,
            Self::Only(names) => names.is_empty(),
        }
    }
}

/// Hears of every input, in no order.
pub type Take<'a> = dyn FnMut(Found) + Send + 'a;

impl Inputs {
    /// The report files of one date.
    ///
    /// # Errors
    /// When they cannot be listed; there is no partial list.
    pub async fn reports_of(&self, bucket: BucketDate) -> Result<Vec<Found>, Error> {
        self.reports(Some(bucket)).await
    }

    /// The report files of one date, or of all.
    pub(crate) async fn reports(&self, bucket: Option<BucketDate>) -> Result<Vec<Found>, Error> {
        let mut found = Vec::new();
        let mut take = |one| found.push(one);
        self.list_reports(bucket, &mut take).await?;
        found.sort();
        Ok(found)
    }

    /// Until when an input may be half written, as far as one can tell from when it was last changed; nothing once it is
    /// taken for whole. A time far ahead was not made by somebody who writes now, and nobody has to wait for it.
    pub(crate) fn unsettled_until(
        &self,
        what: &What,
        modified: Timestamp,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let is_file = matches!(
            (what, &self.reports),
            (What::Report { .. }, Some(Reports::Folder(_)))
        );
        let is_fresh = now.duration_since(modified).unsigned_abs() < self.settle;
        let settled = modified.checked_add(self.settle).ok();
        settled.filter(|_| is_file && is_fresh)
    }

    fn has_spool(&self, experiment: &Experiment, datatype: &Datatype) -> bool {
        let (experiment, datatype) = (experiment.as_str(), datatype.as_str());
        self.spools.has(experiment) || self.spools.has(&format!("{experiment}/{datatype}"))
    }

    /// Whether an object is wanted.
    fn has(&self, what: &What) -> bool {
        match what {
            What::Report { .. } => self.reports.is_some(),
            What::Bundle(bundle) => self.has_spool(&bundle.experiment, &bundle.datatype),
            What::Hour { feed, .. } => self.feeds.has(feed.as_str()),
        }
    }

    /// Everything, whatever its date. What is there is noted in `seen`.
    ///
    /// # Errors
    /// When it cannot be listed; what was heard of until then is not everything.
    pub async fn whole(&self, seen: &mut Seen, take: &mut Take<'_>) -> Result<(), Error> {
        self.list_reports(None, take).await?;
        let mut noted = |found: Found| {
            seen.note(&found.what);
            take(found);
        };
        if !self.spools.is_none() {
            let folder = Key::new("autoload").expect("a word is a key");
            self.list(&folder, &mut noted).await?;
        }
        if !self.feeds.is_none() {
            let scope = Scope {
                feeds: self.feeds_of(None),
                ..Scope::default()
            };
            self.list_hours(&scope, &mut noted).await?;
        }
        Ok(())
    }

    /// What lies in the folders of the dates from `first` to `last`, of what was seen.
    ///
    /// # Errors
    /// As [`Inputs::whole`].
    pub async fn between(
        &self,
        first: BucketDate,
        last: BucketDate,
        seen: &Seen,
        take: &mut Take<'_>,
    ) -> Result<(), Error> {
        for bucket in days(first, last) {
            self.list_reports(Some(bucket), take).await?;
            let wanted = |(_, experiment, datatype): &&Spool| self.has_spool(experiment, datatype);
            for (home, experiment, datatype) in seen.spools.iter().filter(wanted) {
                let date = SpoolDate::new(bucket.date()).ok();
                let folder = Key::spool_data_folder(home, experiment, datatype, date);
                self.list(&folder, take).await?;
            }
        }
        let feeds = self.feeds_of(Some(&seen.feeds));
        if feeds.as_ref().is_some_and(BTreeSet::is_empty) {
            return Ok(());
        }
        let begin = |bucket: BucketDate| bucket.date().to_zoned(TimeZone::UTC).ok();
        let scope = Scope {
            feeds,
            from: begin(first).map(|at| Hour::of(at.timestamp())),
            to: next_day(last)
                .and_then(begin)
                .map(|at| Hour::of(at.timestamp())),
        };
        self.list_hours(&scope, take).await
    }

    async fn list(&self, folder: &Key, take: &mut Take<'_>) -> Result<(), Error> {
        let mut entries = self.lake.list(Some(folder));
        while let Some(entry) = entries.try_next().await? {
            if let Some(found) = Found::of(entry).filter(|found| self.has(&found.what)) {
                take(found);
            }
        }
        Ok(())
    }

    /// The feeds that are wanted, among those that are known; nothing when all are that there are.
    fn feeds_of(&self, known: Option<&BTreeSet<FeedId>>) -> Option<BTreeSet<FeedId>> {
        match (&self.feeds, known) {
            (Choice::All, None) => None,
            (_, Some(known)) => {
                let wanted = known.iter().filter(|feed| self.feeds.has(feed.as_str()));
                Some(wanted.cloned().collect())
            }
            (Choice::None, None) => Some(BTreeSet::new()),
            (Choice::Only(names), None) => Some(
                names
                    .iter()
                    .filter_map(|name| FeedId::new(name).ok())
                    .collect(),
            ),
        }
    }

    /// Only hours of one archive: of several, the same downloads would be read again and again.
    async fn list_hours(&self, scope: &Scope, take: &mut Take<'_>) -> Result<(), Error> {
        for folder in scope.folders(&self.lake, &mut |_| {}).await?.into_values() {
            match folder.archives()[..] {
                [archive] if !folder.tombstone => {
                    Found::of(archive.clone()).into_iter().for_each(&mut *take);
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn list_reports(
        &self,
        bucket: Option<BucketDate>,
        take: &mut Take<'_>,
    ) -> Result<(), Error> {
        match &self.reports {
            None => Ok(()),
            Some(Reports::Lake) => self.list(&Key::raw_reports(bucket), take).await,
            Some(Reports::Folder(folder)) => {
                let path = folder.clone();
                let failed = |why| Error::Report {
                    path: folder.clone(),
                    why,
                };
                let found = blocking(move || in_folder(&path, bucket));
                let found = found.await.and_then(|found| found).map_err(failed)?;
                found.into_iter().for_each(take);
                Ok(())
            }
        }
    }
}

/// The days from one to another.
pub(crate) fn days(first: BucketDate, last: BucketDate) -> impl Iterator<Item = BucketDate> {
    std::iter::successors(Some(first), |day| next_day(*day)).take_while(move |day| *day <= last)
}

pub(crate) fn next_day(day: BucketDate) -> Option<BucketDate> {
    BucketDate::new(day.date().tomorrow().ok()?).ok()
}

pub(crate) fn day_before(day: BucketDate) -> Option<BucketDate> {
    BucketDate::new(day.date().yesterday().ok()?).ok()
}

fn in_folder(folder: &Path, bucket: Option<BucketDate>) -> std::io::Result<Vec<Found>> {
    let dates = match bucket {
        Some(bucket) => vec![bucket],
        None => absent_is_empty(RealDisk.read_dir(folder))?
            .into_iter()
            .filter_map(|entry| entry.name.to_str()?.parse().ok())
            .collect(),
    };
    let (mut all, mut failed) = (Vec::new(), None);
    for date in dates {
        let mut take = |entry: disk::DirEntry, known: std::io::Result<disk::Metadata>| {
            match (entry.name.to_str(), known) {
                (Some(name), Ok(known)) => all.extend(report_in_folder(date, name, &known)),
                (_, Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
                // It went away meanwhile, or has a name that no report can have.
                (_, Err(_)) | (None, Ok(_)) => {}
            }
            ControlFlow::Continue(())
        };
        let visited = RealDisk.visit_dir_asking(&folder.join(date.to_string()), &mut take);
        absent_is_empty(visited)?;
        if let Some(failed) = failed {
            return Err(failed);
        }
    }
    Ok(all)
}

fn report_in_folder(bucket: BucketDate, name: &str, known: &disk::Metadata) -> Option<Found> {
    if known.kind != FileKind::File || name.starts_with('.') {
        return None;
    }
    Some(Found {
        key: Key::raw_report(bucket, name).ok()?,
        what: What::Report {
            bucket,
            name: name.to_owned(),
        },
        stored_bytes: known.len,
        modified: known.modified,
    })
}

fn absent_is_empty<T: Default>(listed: std::io::Result<T>) -> std::io::Result<T> {
    match listed {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(T::default()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
