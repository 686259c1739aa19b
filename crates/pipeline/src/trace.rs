//! The way of one measurement: from the object that it came in, through its can and its archive, to its rows.
//!
//! The catalog says where it is; every hop before that is looked up in the lake. What is not there any more is said, and is
//! no error: sources may be removed once they are canned.

use std::path::PathBuf;

use cannery_catalog::{Catalog, Trace as CatalogTrace};
use cannery_formats::archive::{Entry, Generation, IndexReader, Origin};
use cannery_formats::can::{BucketFile, CannedFile, TextName};
use cannery_formats::feed::Hour;
use cannery_formats::gz_lines::IndexLimits;
use cannery_formats::{Key, Kind, Uid};
use cannery_lake::{ErrorKind, Lake, present};
use cannery_runtime::{Disk as _, RealDisk};
use jiff::Timestamp;
use serde::Serialize;

use crate::autoclave::private_index_key;
use crate::blocking::blocking;
use crate::cans::Indexes;
use crate::error::Error;
use crate::inputs::Reports;
use crate::measurement;
use crate::scope::Scope;
use crate::stage::Plant;

/// Larger indexes are refused: they are held in memory.
const INDEX_BYTES_MAX: u64 = 256 << 20;

/// Follows measurements.
#[derive(Clone, Debug)]
pub struct Tracer {
    /// The lakes, and what every stage needs.
    pub plant: Plant,
    /// The catalog.
    pub catalog: Catalog,
    /// Where report files are.
    pub reports: Reports,
}

/// Every hop of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trace {
    /// Its uid.
    pub uid: String,
    /// Where it came from.
    pub source: Source,
    /// The can that its report is in; nothing when no index names it any more.
    pub can: Option<Can>,
    /// The archive that it is read from.
    pub archive: Archive,
    /// What the catalog has of it.
    pub catalog: CatalogTrace,
}

/// What kind of object a report came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// A report file.
    Report,
    /// A bundle of a spool: its rows are the report.
    Bundle,
    /// The archive of an hour of a feed: one download is the report.
    Hour,
}

/// Where a report came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// What it came in.
    pub kind: SourceKind,
    /// The name of the report.
    pub report: String,
    /// The objects that have it, or a file on this machine.
    pub places: Vec<String>,
    /// Whether it is still there.
    pub is_there: bool,
    /// Where the measurement began in the report as it came; nothing when the private index does not say.
    pub src_off: Option<u64>,
    /// How long it was there.
    pub src_size: Option<u64>,
    /// Its SHA-1 there.
    pub orig_sha1: Option<String>,
}

/// The can of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Can {
    /// The index that names it.
    pub index: Key,
    /// The can.
    pub file: Key,
    /// Whether it is there.
    pub is_there: bool,
    /// Whether it is marked as kept long enough: it is gone, or goes within days.
    pub is_expired: bool,
    /// Its bytes, as the index says.
    pub file_size: u64,
    /// Its SHA-1, as the index says.
    pub file_sha1: String,
    /// Where the report begins in its text.
    pub text_off: u64,
    /// How long the report is there.
    pub text_size: u64,
    /// The SHA-1 of the report.
    pub text_sha1: String,
    /// The index that says where each measurement stood in its report.
    pub private_index: Option<Key>,
}

/// The archive of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Archive {
    /// Its index.
    pub index: Key,
    /// The archive.
    pub file: Key,
    /// The bytes of the archive; nothing when it is not there.
    pub file_size: Option<u64>,
    /// Where the measurement begins in its text, as the index says; nothing when the index does not have it there.
    pub text_off: Option<u64>,
    /// How long it is there.
    pub text_size: Option<u64>,
    /// The version of the rules that made it; nothing for an archive that does not say.
    pub rules_version: Option<String>,
    /// Why the measurement cannot be read there; nothing when it can.
    pub trouble: Option<String>,
}

impl Tracer {
    /// Follows a measurement; nothing when the catalog does not have it.
    ///
    /// # Errors
    /// Those of the lakes and of the catalog.
    pub async fn run(&self, uid: &Uid) -> Result<Option<Trace>, Error> {
        let Some(catalog) = self.catalog.trace(&uid.to_string()).await? else {
            return Ok(None);
        };
        let found = &catalog.found;
        let wrong = |why: String| Error::NoArchive {
            file: found.file.clone(),
            why,
        };
        let file: BucketFile = found
            .file
            .parse()
            .map_err(|error| wrong(format!("{error}")))?;
        let generation: Generation =
            (found.generation.parse()).map_err(|error| wrong(format!("{error}")))?;
        let report =
            TextName::new(found.report.as_str()).map_err(|error| wrong(format!("{error}")))?;
        let can = self.can(&file, &report).await?;
        let source = self.source(&found.kind, &report, &file, *uid).await?;
        let archive = self.archive(generation, &file, &catalog).await?;
        Ok(Some(Trace {
            uid: uid.to_string(),
            source,
            can,
            archive,
            catalog,
        }))
    }

    /// The can of the same name as the archive, by the index that names it.
    async fn can(&self, file: &BucketFile, report: &TextName) -> Result<Option<Can>, Error> {
        let indexes = Indexes::new(self.plant.raw.clone());
        let state = indexes.state(file.bucket).await?;
        let sealed = state.is_sealed.then(|| Key::canned_index(file.bucket));
        let open = state.open.iter().map(|index| index.entry.key.clone());
        for index in sealed.into_iter().chain(open) {
            let Some(read) = indexes.find(&index).await? else {
                continue;
            };
            let mut files = read.files.into_iter();
            if let Some(record) = files.find(|record| record.filename == *file) {
                let is_expired = state.expired_cans.contains(&file.name);
                return self.described(index, &record, report, is_expired).await;
            }
        }
        Ok(None)
    }

    async fn described(
        &self,
        index: Key,
        record: &CannedFile,
        report: &TextName,
        is_expired: bool,
    ) -> Result<Option<Can>, Error> {
        let mut texts = record.texts().iter();
        let text = texts.find(|text| text.textname == *report);
        let (Some(text), Some(text_off)) = (text, record.text_off(report)) else {
            return Ok(None);
        };
        let file = Key::canned(&record.filename);
        let private = private_index_key(&record.filename).ok();
        let private_index = match private {
            Some(key) => bytes_of(&self.plant.raw, &key).await?.map(|_| key),
            None => None,
        };
        Ok(Some(Can {
            index,
            is_there: bytes_of(&self.plant.raw, &file).await?.is_some(),
            is_expired,
            file,
            file_size: record.file.size,
            file_sha1: record.file.sha1.to_string(),
            text_off,
            text_size: text.text.size,
            text_sha1: text.text.sha1.to_string(),
            private_index,
        }))
    }

    async fn source(
        &self,
        kind: &str,
        report: &TextName,
        file: &BucketFile,
        uid: Uid,
    ) -> Result<Source, Error> {
        let (kind, places, is_there) = match kind.parse() {
            Ok(Kind::Spool(_)) => {
                let key = report.bundle_key();
                let is_there = self.is_there(key.as_ref()).await?;
                let places = key.iter().map(ToString::to_string).collect();
                (SourceKind::Bundle, places, is_there)
            }
            Ok(feed @ Kind::Feed(_)) => {
                let places = self.hour(&feed, report).await?;
                let is_there = !places.is_empty();
                (SourceKind::Hour, places, is_there)
            }
            Ok(Kind::Test(_) | Kind::Unknown) | Err(_) => {
                let (place, is_there) = self.report_file(report).await?;
                let places = place.into_iter().collect();
                (SourceKind::Report, places, is_there)
            }
        };
        let origin = self.origin(file, report, uid).await?;
        Ok(Source {
            kind,
            report: report.to_string(),
            places,
            is_there,
            src_off: origin.map(|origin| origin.src_off),
            src_size: origin.map(|origin| origin.src_size),
            orig_sha1: origin.map(|origin| origin.orig_sha1.to_string()),
        })
    }

    async fn is_there(&self, key: Option<&Key>) -> Result<bool, Error> {
        match key {
            Some(key) => Ok(bytes_of(&self.plant.raw, key).await?.is_some()),
            None => Ok(false),
        }
    }

    /// The archives of the hour that a download is of.
    async fn hour(&self, kind: &Kind, report: &TextName) -> Result<Vec<String>, Error> {
        let Kind::Feed(feed) = kind else {
            return Ok(Vec::new());
        };
        let Some(hour) = hour_of(report) else {
            return Ok(Vec::new());
        };
        let scope = Scope {
            feeds: Some([feed.clone()].into()),
            from: Some(hour),
            to: hour.next(),
        };
        let folders = scope.folders(&self.plant.raw, &mut |_| {}).await?;
        let archives = folders.values().flat_map(|folder| folder.archives());
        Ok(archives.map(|entry| entry.key.to_string()).collect())
    }

    async fn report_file(&self, report: &TextName) -> Result<(Option<String>, bool), Error> {
        match &self.reports {
            Reports::Lake => {
                let key = report.report_key();
                let is_there = self.is_there(key.as_ref()).await?;
                Ok((key.map(|key| key.to_string()), is_there))
            }
            Reports::Folder(folder) => {
                let path: PathBuf = folder.join(report.as_str());
                let shown = path.display().to_string();
                let looked = blocking(move || RealDisk.metadata(&path)).await;
                Ok((Some(shown), matches!(looked, Ok(Ok(_)))))
            }
        }
    }

    /// Where it stood in its report, if the private index is there and says so.
    async fn origin(
        &self,
        file: &BucketFile,
        report: &TextName,
        uid: Uid,
    ) -> Result<Option<Origin>, Error> {
        let (raw, report) = (&self.plant.raw, report.clone());
        let Ok(key) = private_index_key(file) else {
            return Ok(None);
        };
        let Some(index) = present(raw.get(&key, INDEX_BYTES_MAX).await)? else {
            return Ok(None);
        };
        let found =
            blocking(move || Origin::find(&index.bytes[..], IndexLimits::default(), &report, uid));
        let found = found.await.map_err(|_| Error::GivenUp)?;
        found.map_err(|fault| Error::unusable(raw, &key, &fault))
    }

    async fn archive(
        &self,
        generation: Generation,
        file: &BucketFile,
        catalog: &CatalogTrace,
    ) -> Result<Archive, Error> {
        let public = &self.plant.public;
        let key = Key::autoclaved(generation, file);
        let index = Key::autoclaved_file_index(generation, file);
        let mut archive = Archive {
            file_size: bytes_of(public, &key).await?,
            file: key,
            index: index.clone(),
            text_off: None,
            text_size: None,
            rules_version: None,
            trouble: None,
        };
        match present(public.get(&index, INDEX_BYTES_MAX).await)? {
            None => archive.trouble = Some("its index is not there".to_owned()),
            Some(object) => {
                let place = catalog.found.place;
                let said = blocking(move || said(&object.bytes, place));
                let said = said.await.map_err(|_| Error::GivenUp)?;
                match said {
                    Err(why) => archive.trouble = Some(why),
                    Ok(said) => {
                        (archive.text_off, archive.text_size) = said.place.unzip();
                        archive.rules_version = said.rules_version;
                        if said.place.is_none() {
                            let why = "its index has nothing where the catalog says it is";
                            archive.trouble = Some(why.to_owned());
                        }
                    }
                }
            }
        }
        match measurement::of_archive(public, &catalog.found).await {
            Ok(_) => {}
            Err(Error::Unusable { why, .. }) => archive.trouble = Some(why),
            Err(Error::NotAsLoaded { .. }) => {
                let why = "what lies there is not what was loaded; see `cannery check`";
                archive.trouble = Some(why.to_owned());
            }
            Err(Error::Lake(error))
                if matches!(
                    error.kind,
                    ErrorKind::Absent | ErrorKind::Corrupt | ErrorKind::Invalid
                ) =>
            {
                archive.trouble = Some(error.to_string());
            }
            Err(error) => return Err(error),
        }
        Ok(archive)
    }
}

/// What the index of an archive says of a place.
struct Said {
    place: Option<(u64, u64)>,
    rules_version: Option<String>,
}

fn said(index: &[u8], wanted: cannery_catalog::Place) -> Result<Said, String> {
    let mut reader = IndexReader::new(index, IndexLimits::default());
    let mut said = Said {
        place: None,
        rules_version: None,
    };
    while let Some(entry) = reader.next().map_err(|fault| fault.to_string())? {
        match entry {
            Entry::Datum { datum, place }
                if place.frame_off == wanted.frame_off && place.intra_off == wanted.intra_off =>
            {
                said.place = Some((datum.text_off, datum.text_size));
            }
            Entry::Rules(rules) => said.rules_version = Some(rules.rules_version),
            Entry::File(_)
            | Entry::Frame(_)
            | Entry::Report(_)
            | Entry::Datum { .. }
            | Entry::BadBlob(_)
            | Entry::EndReport
            | Entry::EndFrame
            | Entry::EndFile(_) => {}
        }
    }
    Ok(said)
}

/// The hour in the name of a download.
fn hour_of(report: &TextName) -> Option<Hour> {
    let mut parts = report.as_str().split('/').skip(1);
    let (date, hour) = (parts.next()?, parts.next()?);
    let begin: Timestamp = format!("{date}T{hour}:00:00Z").parse().ok()?;
    Some(Hour::of(begin))
}

/// The bytes of an object; nothing when it is not there.
async fn bytes_of(lake: &Lake, key: &Key) -> Result<Option<u64>, Error> {
    Ok(present(lake.head(key).await)?.map(|head| head.bytes))
}
