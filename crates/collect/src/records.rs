//! Records that are in the lake: which there are, and their content.
//!
//! Everything is read from the bundles themselves; nothing else has to be there.

use std::collections::BTreeMap;

use bytes::Bytes;
use cannery_formats::spool::{
    BundleName, Datatype, Experiment, IndexLine, ObjectHome, Part, SpoolDate,
};
use cannery_formats::{Digest, Hasher, Key};
use cannery_lake::{Error as LakeError, Lake};
use futures::TryStreamExt as _;
use jiff::Timestamp;

use crate::gzip_lines::{Line, Lines};
use crate::row::{Row, name_in};

/// An object of a bundle is shorter: what it is made of has a limit.
const OBJECT_BYTES_MAX: u64 = 2 << 30;
/// An index has a line of less than a hundred bytes, compressed, for each row.
const INDEX_BYTES_MAX: u64 = 256 << 20;
/// As many rows as the largest bundle can have.
const RECORDS_MAX: usize = 5_000_000;
const INDEX_LINE_BYTES_MAX: usize = 64 * 1024;
/// A row is a file, which fits into a bundle, and its columns.
const ROW_BYTES_MAX: usize = (1 << 30) + (1 << 20);

/// The records below one home of a lake.
#[derive(Clone, Debug)]
pub struct Records {
    /// The lake.
    pub lake: Lake,
    /// Where in it.
    pub home: ObjectHome,
}

/// What there is of one datatype and date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Day {
    /// The measurement service.
    pub experiment: Experiment,
    /// The datatype.
    pub datatype: Datatype,
    /// The date of the folder.
    pub date: SpoolDate,
    /// How many bundles there are.
    pub bundles: u64,
    /// Their data, compressed.
    pub bytes: u64,
}

/// One record: a file that was collected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The name of the file.
    pub name: String,
    /// How many bytes it had.
    pub size: u64,
    /// The digest of these bytes.
    pub sha256: Digest,
    /// When it was added to its bundle.
    pub added: Timestamp,
    /// The bundle.
    pub bundle: BundleName,
    /// Which row of it.
    pub row: u64,
}

/// The content of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The whole row.
    pub row: Vec<u8>,
    /// The JSON of the file, on one line.
    pub raw: Vec<u8>,
    /// Whether these are the bytes of the file, but for a last newline: a file of several lines was written on one.
    pub is_verbatim: bool,
}

/// Why records cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The lake failed.
    #[error(transparent)]
    Lake(#[from] LakeError),
    /// What is there is not what was put there.
    #[error(
        "`{key}` is damaged: {why}; compare with a mirror, and with the inventory by `cannery spool check`"
    )]
    Damaged {
        /// The object.
        key: Key,
        /// What is wrong.
        why: String,
    },
}

impl Records {
    /// The days of an experiment, or of all, in order.
    ///
    /// # Errors
    /// Any failure of the lake; there is no partial list.
    pub async fn days(
        &self,
        experiment: Option<&Experiment>,
        datatype: Option<&Datatype>,
    ) -> Result<Vec<Day>, RecordError> {
        let folder = match (experiment, datatype) {
            (Some(experiment), Some(datatype)) => {
                Key::spool_data_folder(&self.home, experiment, datatype, None)
            }
            (Some(experiment), None) => Key::spool_folder_of(&self.home, Some(experiment)),
            (None, _) => Key::spool_folder_of(&self.home, None),
        };
        let mut days: BTreeMap<(Experiment, Datatype, SpoolDate), (u64, u64)> = BTreeMap::new();
        let mut entries = self.lake.list(Some(&folder));
        while let Some(entry) = entries.try_next().await? {
            if let Some((name, Part::Data)) = BundleName::parse(&entry.key)
                && name.home == self.home
            {
                let day = (name.experiment, name.datatype, name.date);
                let (bundles, bytes) = days.entry(day).or_default();
                *bundles += 1;
                *bytes += entry.stored_bytes;
            }
        }
        let days = days.into_iter().map(|(day, (bundles, bytes))| Day {
            experiment: day.0,
            datatype: day.1,
            date: day.2,
            bundles,
            bytes,
        });
        Ok(days.collect())
    }

    /// The bundles of one datatype and date that have an index, in the order in which they were opened.
    ///
    /// # Errors
    /// Any failure of the lake.
    pub async fn bundles(
        &self,
        experiment: &Experiment,
        datatype: &Datatype,
        date: SpoolDate,
    ) -> Result<Vec<BundleName>, RecordError> {
        let folder = Key::spool_index_folder(&self.home, experiment, Some(date));
        let mut bundles = Vec::new();
        let mut entries = self.lake.list(Some(&folder));
        while let Some(entry) = entries.try_next().await? {
            match BundleName::parse(&entry.key) {
                Some((name, Part::Index)) if name.datatype == *datatype => bundles.push(name),
                Some(_) | None => {}
            }
        }
        bundles.sort_by_key(|bundle| bundle.opened);
        Ok(bundles)
    }

    /// The records of a bundle, in the order of its rows.
    ///
    /// # Errors
    /// [`RecordError::Damaged`] when its index is not what was written.
    pub async fn records(&self, bundle: &BundleName) -> Result<Vec<Record>, RecordError> {
        let key = bundle.index_key();
        let gzip = self.lake.get(&key, INDEX_BYTES_MAX).await?.bytes;
        let bundle = bundle.clone();
        blocking(move || read_index(&gzip, &bundle))
            .await
            .map_err(|why| RecordError::Damaged { key, why })
    }

    /// The newest record of this name. Indexes that are damaged are passed over, and told.
    ///
    /// # Errors
    /// Any failure of the lake.
    pub async fn find(
        &self,
        experiment: &Experiment,
        datatype: &Datatype,
        date: SpoolDate,
        name: &str,
        damaged: &mut Vec<RecordError>,
    ) -> Result<Option<Record>, RecordError> {
        let mut newest: Option<Record> = None;
        for bundle in self.bundles(experiment, datatype, date).await? {
            let records = match self.records(&bundle).await {
                // One that is damaged must not hide the others.
                Err(error @ RecordError::Damaged { .. }) => {
                    damaged.push(error);
                    continue;
                }
                records => records?,
            };
            let named = records.into_iter().filter(|record| record.name == name);
            newest = newest
                .into_iter()
                .chain(named)
                .max_by_key(|record| record.added);
        }
        Ok(newest)
    }

    /// Reads a record, and proves as far as it can be proved that it is what was collected.
    ///
    /// # Errors
    /// [`RecordError::Damaged`] when the row is not that of the record.
    pub async fn content(&self, record: &Record) -> Result<Content, RecordError> {
        let key = record.bundle.data_key();
        let gzip = self.lake.get(&key, OBJECT_BYTES_MAX).await?.bytes;
        let record = record.clone();
        blocking(move || read_row(&gzip, &record))
            .await
            .map_err(|why| RecordError::Damaged { key, why })
    }
}

fn read_index(gzip: &Bytes, bundle: &BundleName) -> Result<Vec<Record>, String> {
    let mut lines = Lines::new(gzip, INDEX_LINE_BYTES_MAX);
    let mut records = Vec::new();
    while let Some(line) = lines.next_line().map_err(|error| error.to_string())? {
        let Line::Text(line) = line else {
            return Err("a line is longer than any that was ever written".to_owned());
        };
        if records.len() == RECORDS_MAX {
            return Err("it has more lines than any bundle has rows".to_owned());
        }
        let line = IndexLine::parse(line).map_err(|error| error.to_string())?;
        let Some(name) = name_in(&line.filename, bundle.date) else {
            return Err(format!(
                "`{}` is no file of its date",
                line.filename.escape_debug()
            ));
        };
        records.push(Record {
            name: name.to_owned(),
            size: line.size,
            sha256: line.sha256,
            added: line.time_added,
            bundle: bundle.clone(),
            row: records.len() as u64,
        });
    }
    Ok(records)
}

fn read_row(gzip: &Bytes, record: &Record) -> Result<Content, String> {
    let mut lines = Lines::new(gzip, ROW_BYTES_MAX);
    let mut at = 0;
    while let Some(line) = lines.next_line().map_err(|error| error.to_string())? {
        if at < record.row {
            at += 1;
            continue;
        }
        let Line::Text(line) = line else {
            return Err(format!("row {} is too long", record.row));
        };
        let row = Row::parse(line, record.bundle.date)
            .filter(|row| row.name == record.name)
            .ok_or_else(|| format!("row {} is not that of `{}`", record.row, record.name))?;
        let is_verbatim = [&b""[..], b"\n"].iter().any(|end| {
            let mut hasher = Hasher::default();
            hasher.update(row.raw);
            hasher.update(end);
            hasher.finish() == record.sha256
        });
        return Ok(Content {
            raw: row.raw.to_vec(),
            row: line.to_vec(),
            is_verbatim,
        });
    }
    Err(format!("it has no row {}", record.row))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(error.to_string()),
    }
}
