//! Receiving the bytes of an object: small ones in memory, others in a file of the workspace, hashed as they come; then they
//! go to every mirror of the lake, under a key that nobody else has.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cannery_formats::{Digest, Hasher, Key};
use cannery_lake::{Body, Mirrors};
use cannery_runtime::disk::Disk;
use cannery_runtime::{Clock, Rng};
use data_encoding::BASE64;
use md5::{Digest as _, Md5};
use tokio::sync::OwnedSemaphorePermit;

use crate::disk_room::DiskRoom;
use crate::error::{ObjectError, ObjectErrorKind};
use crate::everywhere::put_everywhere;
use crate::scratch_file::{ScratchFile, blocking};
use crate::upload_limits::{SMALL_BYTES_MAX, UploadLimit, UploadMemory};

/// How often the room on the disk is looked at.
const LOOK_EVERY_BYTES: u64 = 8 * 1024 * 1024;

/// Bytes that are in every mirror of the lake, and have no name yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadedBytes {
    /// Where they are.
    pub data: Key,
    /// How many they are.
    pub bytes: u64,
    /// Their MD5, in base64.
    pub md5: String,
    /// Their SHA-256.
    pub sha256: Digest,
    /// A tag that no other content has.
    pub etag: String,
    /// When they were put, by the clock of this process: they must be named before anybody takes them for left over.
    pub(crate) stored_at: Duration,
}

/// What an upload needs of its server.
#[derive(Clone)]
pub(crate) struct UploadParts {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) folder: PathBuf,
    pub(crate) room: Arc<DiskRoom>,
    pub(crate) memory: UploadMemory,
    pub(crate) clock: Clock,
    pub(crate) rng: Rng,
}

/// An upload under way. Dropped, it leaves nothing behind.
pub struct ObjectUpload {
    parts: UploadParts,
    limit: UploadLimit,
    path: PathBuf,
    id: String,
    md5: Md5,
    sha256: Hasher,
    bytes: u64,
    /// The length at which the room on the disk is looked at next.
    look_at: u64,
    memory: Vec<u8>,
    /// The right to use `memory`.
    small: Option<OwnedSemaphorePermit>,
    file: Option<Arc<ScratchFile>>,
}

impl ObjectUpload {
    /// Begins one.
    pub(crate) fn new(parts: UploadParts, limit: UploadLimit) -> Self {
        let id = parts.rng.id();
        Self {
            path: parts.folder.join(&id),
            small: parts.memory.small(),
            parts,
            limit,
            id,
            md5: Md5::new(),
            sha256: Hasher::default(),
            bytes: 0,
            look_at: 0,
            memory: Vec::new(),
            file: None,
        }
    }

    /// Takes the next bytes. After an error the upload is worth nothing.
    ///
    /// # Errors
    /// `QuotaExceeded`, `TooLarge`: they are more than the limit; `NoSpace`, `Unavailable`: the disk does not take them.
    pub async fn write(&mut self, piece: Bytes) -> Result<(), ObjectError> {
        let start = self.bytes;
        let end = start.saturating_add(piece.len() as u64);
        self.limit.check(end)?;
        self.md5.update(&piece);
        self.sha256.update(&piece);
        self.bytes = end;
        if self.small.is_some() && self.memory.len() + piece.len() <= SMALL_BYTES_MAX {
            self.memory.extend_from_slice(&piece);
            return Ok(());
        }
        if end >= self.look_at {
            self.look_at = end + LOOK_EVERY_BYTES;
            let ahead = LOOK_EVERY_BYTES.max(piece.len() as u64 + self.memory.len() as u64);
            self.parts.room.take(ahead, 0).await?;
        }
        let (disk, path) = (Arc::clone(&self.parts.disk), self.path.clone());
        let open = self.file.clone();
        let memory = std::mem::take(&mut self.memory);
        let written = blocking(move || {
            let upload = match open {
                Some(upload) => upload,
                None => {
                    let upload = ScratchFile::create(&disk, &path)?;
                    upload.write_all_at(0, &memory)?;
                    Arc::new(upload)
                }
            };
            upload.write_all_at(start, &piece)?;
            Ok(upload)
        })
        .await;
        self.file = Some(written.map_err(|error| self.failed(&error))?);
        self.small = None;
        Ok(())
    }

    fn failed(&self, error: &io::Error) -> ObjectError {
        let path = self.path.display();
        let doing = format!("cannot keep the upload in `{path}`, and nothing was stored");
        ObjectError::of_disk(error, &doing)
    }

    /// Puts what came into every mirror.
    ///
    /// # Errors
    /// `Mismatch` when its MD5 is not the one that was promised; `NoSpace`, `Unavailable`.
    pub(crate) async fn finish(
        mut self,
        mirrors: &Mirrors,
        account: &str,
        promised_md5: Option<&str>,
    ) -> Result<UploadedBytes, ObjectError> {
        let md5 = BASE64.encode(&self.md5.clone().finalize());
        if let Some(promised) = promised_md5.filter(|promised| *promised != md5) {
            let message = format!(
                "the MD5 of the bytes that arrived is `{md5}`, not `{promised}` as the request says; send them again"
            );
            return Err(ObjectError::new(ObjectErrorKind::Mismatch, message));
        }
        let data = Key::user_data(account, &self.id).ok_or_else(|| {
            ObjectError::new(ObjectErrorKind::Corrupt, "the id of the user is damaged")
        })?;
        let (body, _memory) = match &self.file {
            None => (Body::from(std::mem::take(&mut self.memory)), None),
            Some(_) => {
                let memory = self.parts.memory.body(self.bytes).await;
                (Body::File(self.path.clone()), memory)
            }
        };
        self.parts.room.take(0, self.bytes).await?;
        let stored_at = self.parts.clock.elapsed();
        put_everywhere(mirrors, &data, body).await?;
        Ok(UploadedBytes {
            data,
            bytes: self.bytes,
            md5,
            sha256: self.sha256.clone().finish(),
            etag: self.id.clone(),
            stored_at,
        })
    }
}
