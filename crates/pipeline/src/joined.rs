//! The indexes of a sealed bucket as one: that of its archives, and the private one of its cans.
//!
//! Each is the indexes of its files one after the other, in the order of their names, and can be read as one gzip. It is
//! written when all of them are there, and replaced when one of them is newer. Whoever finds none takes those of the files.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use cannery_formats::archive::Generation;
use cannery_formats::can::{BucketFile, FileName};
use cannery_formats::{BucketDate, Key};
use cannery_lake::{Body, ErrorKind, Lake, PutNew, Swap, present};
use jiff::Timestamp;
use serde::Serialize;

use crate::archive_index::INDEX_BYTES_MAX;
use crate::archive_writer::ArchiveWriter;
use crate::autoclave::private_index_key;
use crate::blocking::blocking;
use crate::cans::Indexes;
use crate::error::Error;
use crate::generation::archived;
use crate::scratch::ScratchFile;
use crate::stage::Plant;

/// What is longer cannot be replaced in one step.
const REPLACED_BYTES_MAX: u64 = 64 << 20;
/// Others write the same.
const ROUNDS_MAX: u32 = 8;

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JoinReport {
    /// The indexes.
    pub written: Vec<Key>,
    /// Bytes of the indexes of files that were read.
    pub bytes_in: u64,
    /// Bytes that were written.
    pub bytes_out: u64,
}

/// An index of a bucket that is to be written.
struct Join<'l> {
    lake: &'l Lake,
    /// Whether it is that of the archives.
    is_public: bool,
    key: Key,
    /// The indexes of the files, in order.
    parts: Vec<Key>,
}

/// Writes the indexes of a sealed bucket, where those of all its files are there and something of them is newer. It may be
/// called at any time, by anybody.
///
/// # Errors
/// Those of the lakes and of the disk; what was written is whole, and the call may be repeated.
pub async fn join(
    plant: &Plant,
    bucket: BucketDate,
    generation: Generation,
) -> Result<JoinReport, Error> {
    let mut report = JoinReport::default();
    for join in needed(plant, bucket, generation).await? {
        let writer = match join.is_public {
            true => {
                // Those of a generation that newer rules replace go with it.
                let Some(writer) = ArchiveWriter::of_generation(plant, generation).await? else {
                    continue;
                };
                Some(writer)
            }
            false => None,
        };
        join.run(plant, writer, &mut report).await?;
    }
    Ok(report)
}

/// Whether [`join`] would write something.
pub(crate) async fn is_needed(
    plant: &Plant,
    bucket: BucketDate,
    generation: Generation,
) -> Result<bool, Error> {
    Ok(!needed(plant, bucket, generation).await?.is_empty())
}

async fn needed(
    plant: &Plant,
    bucket: BucketDate,
    generation: Generation,
) -> Result<Vec<Join<'_>>, Error> {
    let indexes = Indexes::new(plant.raw.clone());
    let state = indexes.state(bucket).await?;
    if !state.is_sealed {
        return Ok(Vec::new());
    }
    let sealed = indexes.names(&Key::canned_index(bucket)).await?;
    let mut names: Vec<FileName> = sealed.files.clone();
    names.sort_unstable();
    let files = names.into_iter().map(|name| BucketFile::new(bucket, name));
    let files: Vec<BucketFile> = files.collect();
    // One that is not there any more, or that newer rules could not make, is no part of it.
    let archived = archived(plant, generation, bucket).await?;
    let is_part = |file: &&BucketFile| {
        let name = &file.name;
        let is_made = !state.expired_cans.contains(name) || archived.contains(name);
        is_made && !state.expired_archives.contains(name)
    };
    let public = files
        .iter()
        .filter(is_part)
        .map(|file| Key::autoclaved_file_index(generation, file));
    let private = files.iter();
    let private = private.filter(|file| !state.expired_cans.contains(&file.name));
    let private = private.map(private_index_key);
    // A name without room for the private index of its own has none.
    let private = private.collect::<Result<Vec<Key>, _>>().unwrap_or_default();
    let mut needed = Vec::new();
    for (lake, is_public, folder, key, parts) in [
        (
            &plant.public,
            true,
            Key::autoclaved_generation(generation, Some(bucket)),
            Key::autoclaved_index(generation, bucket),
            public.collect(),
        ),
        (
            &plant.raw,
            false,
            Key::canned_folder(Some(bucket)),
            Key::canned_private_index(bucket),
            private,
        ),
    ] {
        let join = Join {
            lake,
            is_public,
            key,
            parts,
        };
        if join.is_needed(&folder).await? {
            needed.push(join);
        }
    }
    Ok(needed)
}

impl Join<'_> {
    /// Whether all parts are there, and the whole is not, or is older than one of them.
    async fn is_needed(&self, folder: &Key) -> Result<bool, Error> {
        let entries = self.lake.list_all(Some(folder)).await?.into_iter();
        let there: BTreeMap<Key, Timestamp> =
            entries.map(|entry| (entry.key, entry.modified)).collect();
        let parts: Option<Vec<Timestamp>> = self
            .parts
            .iter()
            .map(|part| there.get(part).copied())
            .collect();
        let newest = parts.and_then(|parts| parts.into_iter().max());
        let whole = there.get(&self.key);
        Ok(newest.is_some_and(|newest| whole.is_none_or(|whole| *whole < newest)))
    }

    async fn run(
        &self,
        plant: &Plant,
        mut writer: Option<ArchiveWriter<'_>>,
        report: &mut JoinReport,
    ) -> Result<(), Error> {
        let failed = |why: io::Error| Error::scratch(plant.scratch.folder(), why);
        let file = plant.scratch.file().map_err(failed)?;
        let mut out = file.begin();
        for part in &self.parts {
            let bytes = match self.lake.get(part, INDEX_BYTES_MAX).await {
                Ok(object) => object.bytes,
                // It is made anew right now; who does that joins them.
                Err(error) if error.kind == ErrorKind::Absent => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            report.bytes_in += bytes.len() as u64;
            let written = blocking(move || {
                out.write_all(&bytes)?;
                Ok::<_, io::Error>(out)
            });
            out = written.await.and_then(|written| written).map_err(failed)?;
        }
        let len = file.len().map_err(failed)?;
        self.put(&file, len, plant, &mut writer).await?;
        if let Some(writer) = writer {
            writer.close().await?;
        }
        report.bytes_out += len;
        report.written.push(self.key.clone());
        Ok(())
    }

    /// Puts the whole, in place of an older one.
    async fn put(
        &self,
        file: &ScratchFile,
        len: u64,
        plant: &Plant,
        writer: &mut Option<ArchiveWriter<'_>>,
    ) -> Result<(), Error> {
        let (lake, key) = (self.lake, &self.key);
        for _ in 0..ROUNDS_MAX {
            let body = Body::File(file.path().to_owned());
            let put = match writer {
                Some(writer) => writer.put_new(key, body).await?,
                None => lake.put_new(key, body).await?,
            };
            match put {
                PutNew::Created => return Ok(()),
                // It is as it should be, but older than one of its parts, and would be made again and again.
                PutNew::Same => {
                    lake.delete(key).await?;
                    continue;
                }
                PutNew::Different => {}
            }
            let Some(before) = present(lake.head(key).await)? else {
                continue;
            };
            if before.bytes.max(len) > REPLACED_BYTES_MAX {
                // Until the next is there, readers take the indexes of the files.
                lake.delete(key).await?;
                continue;
            }
            let Some(before) = present(lake.get(key, REPLACED_BYTES_MAX).await)? else {
                continue;
            };
            let mut content = file.begin();
            let content = blocking(move || {
                let mut bytes = Vec::new();
                io::Read::read_to_end(&mut content, &mut bytes).map(|_| bytes)
            });
            let content = content.await.and_then(|content| content);
            let content = content.map_err(|why| Error::scratch(plant.scratch.folder(), why))?;
            let (version, content) = (&before.version, content.into());
            let swap = match writer {
                Some(writer) => writer.put_if_version(key, version, content).await?,
                None => lake.put_if_version(key, version, content).await?,
            };
            match swap {
                Swap::Swapped(_) => return Ok(()),
                Swap::Conflict => {}
            }
        }
        Err(Error::Unsettled {
            store: lake.id().to_owned(),
            key: key.clone(),
            rounds: ROUNDS_MAX,
        })
    }
}
