//! Objects above 64 MiB: uploaded in parts to a key of their own, then committed.

use bytes::Bytes;
use cannery_formats::large_object::LARGE_BYTES_MIN;
use cannery_formats::{Hasher, Key, LargeObject};

use object_store::{MultipartUpload, PutMultipartOptions, PutPayload};
use tokio::task::JoinSet;

use crate::body::Measured;
use crate::error::{ErrorKind, Failure, Result};
use crate::lake::Lake;
use crate::put::{PutNew, changed};
use crate::retry::{Attempts, PartRetry};

/// S3 allows 10,000 parts; larger objects get larger parts.
const PART_BYTES_MIN: u64 = 16 * 1024 * 1024;
const PARTS_MAX: u64 = 9_000;

/// Whole uploads that are tried.
const UPLOADS_MAX: u32 = 3;

/// Parts under way at once; memory is this many parts, whatever the object's size.
const PARTS_AT_ONCE: usize = 4;

/// How much memory a put of a file of this length takes at most, in each mirror.
#[must_use]
pub fn put_memory_bytes(file_bytes: u64) -> u64 {
    if file_bytes <= LARGE_BYTES_MIN {
        return file_bytes;
    }
    part_bytes(file_bytes).saturating_mul(PARTS_AT_ONCE as u64 + 1)
}

fn part_bytes(bytes: u64) -> u64 {
    PART_BYTES_MIN.max(bytes.div_ceil(PARTS_MAX))
}

impl Lake {
    pub(crate) async fn put_large(
        &self,
        key: &Key,
        body: &Measured,
        attempts: &mut Attempts<'_>,
    ) -> Result<PutNew, Failure> {
        // A look first: hours of upload are not worth an object that is there already.
        if let Some(found) = self.compare(key, body.digest, attempts).await? {
            return Ok(found);
        }
        let data = Key::large_data(&self.rng().id(), key);
        self.upload(&data, body, attempts).await?;
        let commit = LargeObject::new(data.clone(), body.bytes, body.digest);
        attempts.restart();
        let outcome = self
            .create(key, &Bytes::from(commit.to_bytes()), body.digest, attempts)
            .await?;
        // An error above leaves the data: the commit may have landed. Here it is known whether it is ours.
        if outcome != PutNew::Created {
            self.discard_unless_committed(key, &data, attempts).await;
        }
        Ok(outcome)
    }

    /// Removes the data of a lost race. What fails here is left over, named for its attempt, and harms nobody.
    async fn discard_unless_committed(&self, key: &Key, data: &Key, attempts: &mut Attempts<'_>) {
        let Ok(commit) = self.find_commit(key, attempts).await else {
            return;
        };
        let ours = commit.is_some_and(|commit| commit.data == *data);
        if !ours && let Err(failure) = self.delete_stored(data, attempts).await {
            tracing::warn!(lake = self.id(), %data, failure = failure.detail, "the data of a lost race is left over");
        }
    }

    /// Uploads `body` to `data`, a key that nobody else uses; a failed upload is aborted, so nothing is left behind.
    async fn upload(
        &self,
        data: &Key,
        body: &Measured,
        attempts: &mut Attempts<'_>,
    ) -> Result<(), Failure> {
        let mut uploads = 1;
        loop {
            match self.upload_once(data, body, attempts).await {
                Ok(()) => return Ok(()),
                // Each part moves the deadline on, so it is the number of whole uploads that is bounded.
                Err(failure) if uploads >= UPLOADS_MAX => return Err(failure),
                Err(failure) => attempts.pause(failure).await?,
            }
            uploads += 1;
        }
    }

    async fn upload_once(
        &self,
        data: &Key,
        body: &Measured,
        attempts: &mut Attempts<'_>,
    ) -> Result<(), Failure> {
        let policy = PartRetry {
            policy: self.retry().clone(),
            clock: self.clock().clone(),
            rng: self.rng().clone(),
        };
        let options = PutMultipartOptions::default().with_retry_policy(policy.shared());
        let path = self.path(data);
        let mut upload = attempts
            .run(0, self.store().put_multipart_opts(&path, options))
            .await?;
        let sent = self.send_parts(&mut *upload, body, attempts).await;
        let completed = match sent {
            Ok(()) => attempts.run(body.bytes, upload.complete()).await.map(drop),
            Err(failure) => Err(failure),
        };
        attempts.restart();
        if let Err(failure) = completed {
            // The answer may have been lost after the effect: whole data is an upload that succeeded.
            if self.has_arrived(data, body, attempts).await.is_ok() {
                return Ok(());
            }
            if let Err(abort) = attempts.run(0, upload.abort()).await {
                tracing::warn!(lake = self.id(), %data, failure = abort.detail, "could not abort an upload");
            }
            return Err(failure);
        }
        self.has_arrived(data, body, attempts).await
    }

    async fn has_arrived(
        &self,
        data: &Key,
        body: &Measured,
        attempts: &mut Attempts<'_>,
    ) -> Result<(), Failure> {
        let stored = self.stored_head(data, attempts).await?;
        if stored.bytes == body.bytes {
            return Ok(());
        }
        let reason = format!("{} of {} bytes arrived", stored.bytes, body.bytes);
        Err(Failure::new(ErrorKind::Unavailable, reason))
    }

    async fn send_parts(
        &self,
        upload: &mut dyn MultipartUpload,
        body: &Measured,
        attempts: &mut Attempts<'_>,
    ) -> Result<(), Failure> {
        let part_bytes = part_bytes(body.bytes);
        let mut hasher = Hasher::default();
        // Each part goes on while the next one is read and hashed.
        let mut under_way = JoinSet::new();
        let mut start = 0;
        while start < body.bytes {
            let part = body
                .read(start, part_bytes.min(body.bytes - start))
                .await
                .map_err(|error| changed(&error))?;
            start += part.len() as u64;
            hasher = hashed(hasher, part.clone()).await?;
            self.metrics().moved(self.id(), 0, part.len() as u64);
            under_way.spawn(upload.put_part(PutPayload::from_bytes(part)));
            if under_way.len() >= PARTS_AT_ONCE {
                self.next_part(&mut under_way, part_bytes, attempts).await?;
            }
        }
        while !under_way.is_empty() {
            self.next_part(&mut under_way, part_bytes, attempts).await?;
        }
        if hasher.finish() == body.digest {
            Ok(())
        } else {
            Err(changed(&std::io::Error::other("its content changed")))
        }
    }

    async fn next_part(
        &self,
        under_way: &mut JoinSet<object_store::Result<()>>,
        part_bytes: u64,
        attempts: &mut Attempts<'_>,
    ) -> Result<(), Failure> {
        let next = async {
            match under_way.join_next().await {
                Some(joined) => joined?,
                None => Ok(()),
            }
        };
        // Each part is repeated by the client until the deadline; the limit only ends what hangs.
        let limit = self.retry().attempt_limit(part_bytes) + self.retry().deadline;
        match self.clock().timeout(limit, next).await {
            Ok(done) => done.map_err(Failure::from)?,
            Err(late) => return Err(Failure::new(ErrorKind::Unavailable, late.to_string())),
        }
        attempts.restart();
        Ok(())
    }
}

/// Hashes a part where it holds up nobody else.
async fn hashed(mut hasher: Hasher, part: Bytes) -> Result<Hasher, Failure> {
    let hashing = tokio::task::spawn_blocking(move || {
        hasher.update(&part);
        hasher
    });
    hashing
        .await
        .map_err(|error| Failure::new(ErrorKind::Unavailable, error.to_string()))
}
