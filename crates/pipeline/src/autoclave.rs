//! The stage `autoclave`: a can becomes an archive of sanitised measurements, in the generation of the rules in force.
//!
//! Its objects are put in this order, each only if it is not there: the private index, the archive, its index. The index is
//! the commit: an archive without one is nobody's, and is made again, byte for byte. Where other settings make other bytes, its maker
//! may still come to commit it; after a day nobody does, and it is made anew.
//!
//! Measurements that no archive may hold (`redact.rs`) are left out, and named in the index with the reason.

mod cook;

use std::io::{self, BufReader};
use std::sync::Arc;

use bytes::Bytes;
use cannery_formats::archive::{ArchiveReader, Entry, Generation, IndexReader};
use cannery_formats::can::{BucketFile, CannedFile};
use cannery_formats::frames::{FrameCodec, FrameEncoder};
use cannery_formats::gz_lines::IndexLimits;
use cannery_formats::hour_archive::ArchiveFault;
use cannery_formats::{InvalidKey, Key};
use cannery_lake::{Body, ErrorKind, PutNew, present};
use cannery_sanitise::Rules;
use jiff::SignedDuration;
use serde::Serialize;

use crate::archive_index::find_joined;
use crate::archive_writer::ArchiveWriter;
use crate::blocking::blocking;
use crate::error::Error;
use crate::fetch_file::fetch_file;
use crate::redact::Redactions;
use crate::scratch::ScratchFile;
use crate::stage::Plant;

/// So long after an archive was put, its maker does not put the index any more: leases last minutes, and so do requests.
const GIVEN_UP_AFTER: SignedDuration = SignedDuration::from_hours(24);

/// A frame is closed by the measurement that fills it, and that may be as large as one may be.
const FRAME_TEXT_MAX: u64 = 256 << 20;

/// Makes archives of cans. It may be run twice, at the same time, and be killed anywhere.
#[derive(Clone, Debug)]
pub struct Autoclave {
    /// The lakes, and what every stage needs.
    pub plant: Plant,
    /// The rules in force.
    pub rules: Arc<Rules>,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AutoclaveReport {
    /// Whether the archive was there already; all else is 0 then.
    pub was_there: bool,
    /// Reports in it.
    pub reports: u64,
    /// Measurements in it.
    pub measurements: u64,
    /// Parts of reports that are no measurement.
    pub bad_blobs: u64,
    /// Those of them that are measurements which no archive may hold.
    pub redacted: u64,
    /// Measurements of a data format version that the rules do not know.
    pub unknown_versions: u64,
    /// Measurements that are no JSON, and were passed on.
    pub not_json: u64,
    /// The bytes of the can.
    pub bytes_in: u64,
    /// Those of its text.
    pub text_bytes_in: u64,
    /// The bytes of the archive.
    pub bytes_out: u64,
    /// Those of its text.
    pub text_bytes_out: u64,
}

/// What cooking gives.
struct Cooked {
    archive: ScratchFile,
    index: Bytes,
    private_index: Bytes,
    report: AutoclaveReport,
}

impl Cooked {
    /// Whether something was left out of it that no archive may hold.
    fn is_redacted(&self) -> bool {
        self.report.redacted > 0
    }

    /// Reads it along its index, and finds nothing that was redacted.
    fn read_again(&self, codec: FrameCodec, redactions: &Redactions) -> Result<(), ArchiveFault> {
        let index = IndexReader::new(&self.index[..], IndexLimits::default());
        let file = BufReader::new(self.archive.begin());
        let mut reader = ArchiveReader::new(file, index, codec, FRAME_TEXT_MAX);
        while let Some(item) = reader.next()? {
            if let Entry::Datum { datum, .. } = &item.entry
                && let Some(uid) = &datum.id
                && redactions.info_of(uid).is_some()
            {
                let what = format!("measurement `{uid}` is redacted, and still in it");
                return Err(ArchiveFault::Damaged(what));
            }
        }
        Ok(())
    }
}

impl Autoclave {
    /// The generation that the rules in force make.
    #[must_use]
    pub fn generation(&self) -> Generation {
        Generation::of(self.rules.sha256())
    }

    /// How much memory a run takes at most, about: a report of a tar before and after, and the frames that are compressed.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        3 * cook::REPORT_BYTES + 4 * cook::BATCH_BYTES as u64 + 2 * cook::FRAMES_BYTES as u64
    }

    /// Makes the archive of a can, unless it is there.
    ///
    /// # Errors
    /// [`Error::Outdated`] when these rules are not the newest, or newer ones came meanwhile; [`Error::Unusable`] for a can that is not as its record says; [`Error::Uncommitted`] for an archive of other bytes
    /// that its maker may still commit; those of the lake and of the disk. Nothing is there then, or something that the next run completes.
    pub async fn run(&self, can: &CannedFile) -> Result<AutoclaveReport, Error> {
        let writer = self.writer().await?;
        if self.is_committed(&can.filename).await? {
            return Ok(AutoclaveReport {
                was_there: true,
                ..AutoclaveReport::default()
            });
        }
        let redactions = Redactions::read(&self.plant.raw).await?;
        let cooked = self.cook(can, &redactions).await?;
        self.drop_lone_index(&can.filename).await?;
        self.commit(can, &cooked, writer).await?;
        // Who redacts writes it down, and then looks for archives: one of the two sees what the other did.
        match Redactions::read(&self.plant.raw).await? == redactions {
            true => Ok(cooked.report),
            false => self.replace(can).await,
        }
    }

    async fn writer(&self) -> Result<ArchiveWriter<'_>, Error> {
        ArchiveWriter::open(&self.plant, self.rules.edition()).await
    }

    /// An index whose archive somebody has taken away says nothing of the one that is made now.
    async fn drop_lone_index(&self, file: &BucketFile) -> Result<(), Error> {
        let generation = self.generation();
        let index = Key::autoclaved_file_index(generation, file);
        if self.has(&index).await? && !self.has(&Key::autoclaved(generation, file)).await? {
            tracing::warn!(key = %index, "removing an index without its archive, which is made again");
            self.plant.public.delete(&index).await?;
        }
        Ok(())
    }

    /// Makes the archive of a can anew, without the measurements that no archive may hold, and puts it in the place of the one
    /// that is there. When it ends half-way, the archive has no index, and the next run makes it.
    ///
    /// # Errors
    /// As [`Autoclave::run`]. The old archive is there as long as the new one could not be made.
    pub(crate) async fn replace(&self, can: &CannedFile) -> Result<AutoclaveReport, Error> {
        let (lake, generation) = (&self.plant.public, self.generation());
        let index_key = Key::autoclaved_file_index(generation, &can.filename);
        loop {
            let redactions = Redactions::read(&self.plant.raw).await?;
            let cooked = self.cook(can, &redactions).await?;
            let cooked = self.prove(can, cooked, &redactions).await?;
            // Making it took time in which newer rules may have come: then the old one stays.
            let writer = self.writer().await?;
            // The indexes first: an archive without one is nobody's, and is made again whoever comes by.
            lake.delete(&Key::autoclaved_index(generation, can.filename.bucket))
                .await?;
            lake.delete(&index_key).await?;
            lake.delete(&Key::autoclaved(generation, &can.filename))
                .await?;
            self.commit(can, &cooked, writer).await?;
            if Redactions::read(&self.plant.raw).await? == redactions {
                return Ok(cooked.report);
            }
        }
    }

    /// Reads what was made from end to end: the old archive is not removed for one that is not sound.
    async fn prove(
        &self,
        can: &CannedFile,
        cooked: Cooked,
        redactions: &Redactions,
    ) -> Result<Cooked, Error> {
        let (codec, redactions) = (can.filename.name.codec(), redactions.clone());
        let proven = blocking(move || cooked.read_again(codec, &redactions).map(|()| cooked));
        let failed = |why: io::Error| Error::scratch(self.plant.scratch.folder(), why);
        let key = Key::autoclaved(self.generation(), &can.filename);
        proven.await.map_err(failed)?.map_err(|fault| match fault {
            ArchiveFault::Io(why) => failed(why),
            fault => Error::unusable(&self.plant.public, &key, &fault),
        })
    }

    /// Puts what was made: the private index, the archive, and the index, which commits it.
    async fn commit(
        &self,
        can: &CannedFile,
        cooked: &Cooked,
        mut writer: ArchiveWriter<'_>,
    ) -> Result<(), Error> {
        let private_key = private_index_key(&can.filename).map_err(|error| {
            Error::unusable(&self.plant.raw, &Key::canned(&can.filename), &error)
        })?;
        let private_index = cooked.private_index.clone();
        self.plant.raw.put_new(&private_key, private_index).await?;
        let generation = self.generation();
        let archive_key = Key::autoclaved(generation, &can.filename);
        let index_key = Key::autoclaved_file_index(generation, &can.filename);
        self.put(&archive_key, can, cooked, &mut writer).await?;
        let put = writer.put_new(&index_key, cooked.index.clone()).await?;
        if !cooked.is_redacted() {
            return writer.close().await;
        }
        // Where redactions are added while archives are made, others may have made other bytes of the same can.
        let body = Body::File(cooked.archive.path().to_owned());
        let is_ours = writer.put_new(&archive_key, body).await? != PutNew::Different;
        if put != PutNew::Different && !is_ours {
            self.plant.public.delete(&index_key).await?;
        }
        match put != PutNew::Different && is_ours {
            true => writer.close().await,
            false => Err(self.uncommitted(&archive_key)),
        }
    }

    /// Puts the archive, unless the same is there, or one that is committed: what others made by other settings is as good.
    async fn put(
        &self,
        key: &Key,
        can: &CannedFile,
        cooked: &Cooked,
        writer: &mut ArchiveWriter<'_>,
    ) -> Result<(), Error> {
        let lake = &self.plant.public;
        let body = || Body::File(cooked.archive.path().to_owned());
        if writer.put_new(key, body()).await? != PutNew::Different
            || self.is_committed(&can.filename).await?
        {
            return Ok(());
        }
        let age = match lake.head(key).await {
            Ok(head) => self.plant.clock.now().duration_since(head.modified),
            Err(error) if error.kind == ErrorKind::Absent => return Err(self.uncommitted(key)),
            Err(error) => return Err(error.into()),
        };
        // One that may hold what was redacted since does not stay.
        if age < GIVEN_UP_AFTER && !cooked.is_redacted() {
            return Err(self.uncommitted(key));
        }
        // All that it holds was just made of the can again.
        tracing::warn!(%key, "removing an archive that nobody committed");
        lake.delete(key).await?;
        match writer.put_new(key, body()).await? {
            PutNew::Created | PutNew::Same => Ok(()),
            PutNew::Different => Err(self.uncommitted(key)),
        }
    }

    fn uncommitted(&self, key: &Key) -> Error {
        Error::Uncommitted {
            store: self.plant.public.id().to_owned(),
            key: key.clone(),
        }
    }

    /// An archive is compressed as its can is: they have the same name.
    fn encoder(&self, codec: FrameCodec) -> FrameEncoder {
        let encoder = self.plant.encoder;
        if encoder.codec() == codec {
            return encoder;
        }
        let level = match codec {
            FrameCodec::Lz4 => 5,
            FrameCodec::Zstd => 3,
        };
        FrameEncoder::new(codec, level).expect("both codecs have these levels")
    }

    /// Whether the archive is there, and an index says what it holds: its own, or where it has none, as the original's, that of the
    /// bucket. Who redacts does not ask: that one may be older than what was redacted.
    async fn is_committed(&self, file: &BucketFile) -> Result<bool, Error> {
        let generation = self.generation();
        if !self.has(&Key::autoclaved(generation, file)).await? {
            return Ok(false);
        }
        let index = Key::autoclaved_file_index(generation, file);
        Ok(self.has(&index).await? || find_joined(&self.plant, generation, file).await?.is_some())
    }

    async fn has(&self, key: &Key) -> Result<bool, Error> {
        Ok(present(self.plant.public.head(key).await)?.is_some())
    }

    async fn cook(&self, can: &CannedFile, redactions: &Redactions) -> Result<Cooked, Error> {
        let key = Key::canned(&can.filename);
        let input = fetch_file(&self.plant.raw, &key, &self.plant.scratch).await?;
        let work = cook::Work {
            input,
            can: can.clone(),
            scratch: self.plant.scratch.clone(),
            rules: Arc::clone(&self.rules),
            redactions: redactions.clone(),
            lake_key: self.plant.lake_key.clone(),
            encoder: self.encoder(can.filename.name.codec()),
            frame_bytes: usize::try_from(self.plant.frame_bytes).unwrap_or(usize::MAX),
        };
        let cooked = blocking(move || work.run()).await;
        let failed = |why: io::Error| Error::scratch(self.plant.scratch.folder(), why);
        cooked.map_err(failed)?.map_err(|fault| match fault {
            ArchiveFault::Io(why) => failed(why),
            fault => Error::unusable(&self.plant.raw, &key, &fault),
        })
    }
}

/// Where the private index of one archive is: it follows from the can alone, so all generations share it.
///
/// # Errors
/// [`InvalidKey`] when the name of the file leaves no room for it.
pub fn private_index_key(file: &BucketFile) -> Result<Key, InvalidKey> {
    Key::new(format!(
        "{}/private/{}.index.json.gz",
        Key::canned_folder(Some(file.bucket)),
        file.name
    ))
}
