//! Verifying: a can or an archive is read from end to end, and every sum that its index says is computed again.

use std::collections::BTreeSet;
use std::io::{self, BufReader};

use cannery_formats::archive::{ArchiveReader, Entry, Generation, IndexReader};
use cannery_formats::can::{BucketFile, CanReader, CannedFile, TextName};
use cannery_formats::gz_lines::IndexLimits;
use cannery_formats::hour_archive::ArchiveFault;
use cannery_formats::{BucketDate, Key};
use cannery_lake::ErrorKind;
use serde::Serialize;

use crate::archive_index::{self, INDEX_BYTES_MAX};
use crate::blocking::blocking;
use crate::cans::Indexes;
use crate::error::Error;
use crate::fetch_file::fetch_file;
use crate::stage::Plant;

/// A frame is closed by the measurement that fills it, and that may be as large as one may be.
const FRAME_TEXT_MAX: u64 = 256 << 20;
const BUFFER_BYTES: usize = 256 * 1024;

/// An object that is not as its index says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which.
    pub key: Key,
    /// What is wrong with it.
    pub why: String,
}

/// What was read, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// How many cans and archives were read.
    pub files: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// What is wrong; nothing, when everything is as its indexes say.
    pub findings: Vec<Finding>,
}

/// What an archive holds, when all of it is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verified {
    /// The bytes of the file.
    pub(crate) bytes: u64,
    /// The names of its reports.
    pub(crate) reports: BTreeSet<TextName>,
}

/// Reads cans and archives. It changes nothing, and may be run at any time.
#[derive(Clone, Debug)]
pub struct Verifier {
    /// The lakes, and what every stage needs.
    pub plant: Plant,
}

impl Verifier {
    /// What it takes at most, about: an index, and two sides of a frame.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        INDEX_BYTES_MAX / 8 + 2 * FRAME_TEXT_MAX
    }

    /// Reads every can of a bucket that counts, and its archive in a generation. An archive that is not made yet is none
    /// that is wrong.
    ///
    /// # Errors
    /// Those of the lake and of the disk: what could not be read proves nothing.
    pub async fn bucket(
        &self,
        bucket: BucketDate,
        generation: Generation,
    ) -> Result<VerifyReport, Error> {
        let indexes = Indexes::new(self.plant.raw.clone());
        let state = indexes.state(bucket).await?;
        let mut report = VerifyReport::default();
        for key in indexes.counting(&state, None).await? {
            for record in indexes.read(&key).await?.files {
                match state.expired_cans.contains(&record.filename.name) {
                    true => self.archive_of(&record, generation, &mut report).await?,
                    false => self.file(&record, generation, &mut report).await?,
                }
            }
        }
        Ok(report)
    }

    /// Reads a can and its archive.
    ///
    /// # Errors
    /// As [`Verifier::bucket`].
    pub async fn file(
        &self,
        record: &CannedFile,
        generation: Generation,
        report: &mut VerifyReport,
    ) -> Result<(), Error> {
        report.note(self.can(record).await?);
        self.archive_of(record, generation, report).await
    }

    /// Reads the archive of a can.
    async fn archive_of(
        &self,
        record: &CannedFile,
        generation: Generation,
        report: &mut VerifyReport,
    ) -> Result<(), Error> {
        match archive_index::find(&self.plant, generation, &record.filename).await {
            Ok(None) => return Ok(()),
            // What is wrong with it is found again below.
            Ok(Some(_)) | Err(Error::Unusable { .. }) => {}
            Err(Error::Lake(error)) if error.kind == ErrorKind::Corrupt => {}
            Err(error) => return Err(error),
        }
        let archive = self.archive(generation, &record.filename).await?;
        let archive = archive.and_then(|verified| {
            let texts = record.texts().iter().map(|text| text.textname.clone());
            match verified.reports == texts.collect() {
                true => Ok(verified.bytes),
                false => Err(Finding {
                    key: Key::autoclaved(generation, &record.filename),
                    why: "it does not have the reports of its can".to_owned(),
                }),
            }
        });
        report.note(archive);
        Ok(())
    }

    /// Reads a can; its bytes, or what is wrong with it.
    pub(crate) async fn can(&self, record: &CannedFile) -> Result<Result<u64, Finding>, Error> {
        let (lake, key) = (&self.plant.raw, Key::canned(&record.filename));
        let file = match fetch_file(lake, &key, &self.plant.scratch).await {
            Ok(file) => file,
            Err(error) => return damage(&key, error).map(Err),
        };
        let owned = record.clone();
        let read = blocking(move || {
            let file = BufReader::with_capacity(BUFFER_BYTES, file.begin());
            let mut reader = CanReader::new(file, &owned)?;
            while reader.next()?.is_some() {}
            Ok(owned.file.size)
        });
        self.settle(key, read.await)
    }

    /// Reads an archive along its index; what it holds, or what is wrong with it.
    pub(crate) async fn archive(
        &self,
        generation: Generation,
        file: &BucketFile,
    ) -> Result<Result<Verified, Finding>, Error> {
        let lake = &self.plant.public;
        let index_key = Key::autoclaved_file_index(generation, file);
        let index = match archive_index::find(&self.plant, generation, file).await {
            Ok(Some(found)) => found.bytes,
            Ok(None) => {
                let why = "it is not there".to_owned();
                return Ok(Err(Finding {
                    key: index_key,
                    why,
                }));
            }
            Err(Error::Unusable { key, why, .. }) => return Ok(Err(Finding { key, why })),
            Err(error) => return damage(&index_key, error).map(Err),
        };
        let key = Key::autoclaved(generation, file);
        let archive = match fetch_file(lake, &key, &self.plant.scratch).await {
            Ok(archive) => archive,
            Err(error) => return damage(&key, error).map(Err),
        };
        let about = file.clone();
        let read = blocking(move || {
            let archive = BufReader::with_capacity(BUFFER_BYTES, archive.begin());
            read_archive(archive, &index, &about)
        });
        self.settle(key, read.await)
    }

    fn settle<T>(
        &self,
        key: Key,
        read: io::Result<Result<T, ArchiveFault>>,
    ) -> Result<Result<T, Finding>, Error> {
        let failed = |why| Error::scratch(self.plant.scratch.folder(), why);
        match read.map_err(failed)? {
            Ok(read) => Ok(Ok(read)),
            Err(ArchiveFault::Io(why)) => Err(failed(why)),
            Err(fault) => Ok(Err(Finding {
                key,
                why: fault.to_string(),
            })),
        }
    }
}

impl VerifyReport {
    fn note(&mut self, read: Result<u64, Finding>) {
        self.files += 1;
        match read {
            Ok(bytes) => self.bytes_in += bytes,
            Err(finding) => self.findings.push(finding),
        }
    }
}

/// What an error says of the object itself, if it says something.
pub(crate) fn damage(key: &Key, error: Error) -> Result<Finding, Error> {
    match error {
        Error::Lake(error) if matches!(error.kind, ErrorKind::Absent | ErrorKind::Corrupt) => {
            Ok(Finding {
                key: key.clone(),
                why: error.to_string(),
            })
        }
        other => Err(other),
    }
}

fn read_archive(
    archive: impl io::Read,
    index: &[u8],
    file: &BucketFile,
) -> Result<Verified, ArchiveFault> {
    let index = IndexReader::new(index, IndexLimits::default());
    let mut reader = ArchiveReader::new(archive, index, file.name.codec(), FRAME_TEXT_MAX);
    let mut verified = Verified {
        bytes: 0,
        reports: BTreeSet::new(),
    };
    while let Some(item) = reader.next()? {
        match item.entry {
            Entry::File(name) if name != *file => {
                return Err(ArchiveFault::Damaged("the index is of another file".into()));
            }
            Entry::Report(report) => drop(verified.reports.insert(report.textname)),
            Entry::EndFile(sums) => verified.bytes = sums.size,
            Entry::File(_)
            | Entry::Frame(_)
            | Entry::Datum { .. }
            | Entry::BadBlob(_)
            | Entry::EndReport
            | Entry::EndFrame
            | Entry::Rules(_) => {}
        }
    }
    Ok(verified)
}
