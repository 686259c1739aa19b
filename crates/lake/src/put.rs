//! Writing: create if absent, or replace a known version. There is no other way to write an object.

use bytes::Bytes;
use cannery_formats::large_object::LARGE_BYTES_MIN;
use cannery_formats::{Digest, Key, LargeObject};
use object_store::{PutMode, PutOptions, PutPayload};

use crate::body::{Body, Measured, digest_of};
use crate::error::{ErrorKind, Failure, Operation, Result, is_refusal};
use crate::get::{Found, corrupt};
use crate::lake::{Lake, Version};
use crate::retry::Attempts;

/// How [`Lake::put_new`] ended: in each case the object is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutNew {
    /// It was not there, and now it is.
    Created,
    /// It was there already with the same bytes; perhaps from an attempt of this very call whose answer was lost. Who must
    /// know that *they* created it puts something unique into the content.
    Same,
    /// It was there already with other bytes, and was left alone.
    Different,
}

/// How [`Lake::put_if_version`] ended.
///
/// After an answer that was lost, equal content counts as ours. Who must tell their own write from an equal one of somebody
/// else puts something unique into the content, as with [`PutNew::Same`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The new content is there, as this version.
    Swapped(Version),
    /// Another version is there (or nothing), and was left alone. Read again, then decide again.
    Conflict,
}

/// The bytes of an existing object are compared with the new ones up to this length.
const COMPARE_BYTES_MAX: u64 = LARGE_BYTES_MIN;

impl Lake {
    /// Creates an object unless something is there. Safe to repeat, by anybody, at any time: after `Ok` an object is there,
    /// and the answer says whether it has these bytes.
    ///
    /// Above 64 MiB the bytes are uploaded in parts to a key of their own and committed by a small object created here.
    ///
    /// # Errors
    /// After an error the object may or may not be there, whole; never a part of it.
    pub async fn put_new(&self, key: &Key, body: impl Into<Body>) -> Result<PutNew> {
        let mut running = self.begin(Operation::PutNew, key.as_str());
        let outcome = match body.into().measure().await {
            Ok(body) => self.put_measured(key, &body, &mut running.attempts).await,
            Err(error) => Err(Failure::new(
                ErrorKind::Invalid,
                format!("cannot read what to put: {error}"),
            )),
        };
        running.finish(outcome)
    }

    async fn put_measured(
        &self,
        key: &Key,
        body: &Measured,
        attempts: &mut Attempts<'_>,
    ) -> Result<PutNew, Failure> {
        if body.bytes > LARGE_BYTES_MIN || LargeObject::looks_like_commit(&body.head) {
            return self.put_large(key, body, attempts).await;
        }
        let bytes = body
            .read(0, body.bytes)
            .await
            .map_err(|error| changed(&error))?;
        if body.may_change() && digest_of(bytes.clone()).await? != body.digest {
            return Err(changed(&std::io::Error::other("its content changed")));
        }
        let created = self.create(key, &bytes, body.digest, attempts).await?;
        if created == PutNew::Created {
            self.metrics().moved(self.id(), 0, body.bytes);
        }
        Ok(created)
    }

    /// Creates the object at `key` itself; `meaning` is the digest of the content that it stands for.
    pub(crate) async fn create(
        &self,
        key: &Key,
        bytes: &Bytes,
        meaning: Digest,
        attempts: &mut Attempts<'_>,
    ) -> Result<PutNew, Failure> {
        if !self.honours().create {
            return self
                .create_without_condition(key, bytes, meaning, attempts)
                .await;
        }
        let path = self.path(key);
        loop {
            let put = self
                .store()
                .put_opts(&path, payload(bytes), PutMode::Create.into());
            let failure = match attempts.run(bytes.len() as u64, kept(put)).await {
                Ok(Ok(_)) => return Ok(PutNew::Created),
                // Taken at its word only after a look: a 409 is also the answer while another put is under way.
                Ok(Err(())) => match self.compare(key, meaning, attempts).await? {
                    Some(found) => return Ok(found),
                    None => Failure::new(
                        ErrorKind::Unavailable,
                        "another write to the same key was under way",
                    ),
                },
                // Whether the object was created is unknown. The next attempt finds out: create, or compare.
                Err(failure) => failure,
            };
            attempts.pause(failure).await?;
        }
    }

    /// On a store that ignores conditions: look, write, read back. Safe while keys are unique to a node or to a content.
    async fn create_without_condition(
        &self,
        key: &Key,
        bytes: &Bytes,
        meaning: Digest,
        attempts: &mut Attempts<'_>,
    ) -> Result<PutNew, Failure> {
        if let Some(found) = self.compare(key, meaning, attempts).await? {
            return Ok(found);
        }
        let path = self.path(key);
        loop {
            let put = self
                .store()
                .put_opts(&path, payload(bytes), PutOptions::default());
            match attempts.run(bytes.len() as u64, put).await {
                Ok(_) => break,
                Err(failure) => attempts.pause(failure).await?,
            }
        }
        match self.compare(key, meaning, attempts).await? {
            Some(PutNew::Same) => Ok(PutNew::Created),
            Some(other) => Ok(other),
            None => Err(Failure::new(
                ErrorKind::Corrupt,
                "the store accepted the object but does not have it",
            )),
        }
    }

    /// What is at `key`, compared with `meaning`; `None` when nothing is.
    pub(crate) async fn compare(
        &self,
        key: &Key,
        meaning: Digest,
        attempts: &mut Attempts<'_>,
    ) -> Result<Option<PutNew>, Failure> {
        let found = match self.find(key, COMPARE_BYTES_MAX, attempts).await {
            Ok(found) => found,
            // Longer than anything that this call could have written here.
            Err(failure) if failure.kind == ErrorKind::Invalid => {
                return Ok(Some(PutNew::Different));
            }
            Err(failure) if failure.kind == ErrorKind::Absent => return Ok(None),
            Err(failure) => return Err(failure),
        };
        if found.digest().await? != meaning {
            return Ok(Some(PutNew::Different));
        }
        // A commit alone is not the object: somebody may be about to remove their only other copy.
        if let Found::Large(commit, _) = &found {
            match self.stored_head(&commit.data, attempts).await {
                Ok(data) if data.bytes == commit.bytes => {}
                Ok(_) => return Err(corrupt(commit)),
                Err(failure) if failure.kind == ErrorKind::Absent => return Err(corrupt(commit)),
                Err(failure) => return Err(failure),
            }
        }
        Ok(Some(PutNew::Same))
    }

    /// Replaces the content of an object if it still is the version that was read.
    ///
    /// # Errors
    /// `Invalid` when the content is over 64 MiB or the store does not honour versions. After `Unavailable` the content may
    /// be the old or the new one: read again.
    pub async fn put_if_version(
        &self,
        key: &Key,
        expected: &Version,
        bytes: Bytes,
    ) -> Result<Swap> {
        let mut running = self.begin(Operation::PutIfVersion, key.as_str());
        let outcome = self
            .swap(key, expected, &bytes, &mut running.attempts)
            .await;
        running.finish(outcome)
    }

    async fn swap(
        &self,
        key: &Key,
        expected: &Version,
        bytes: &Bytes,
        attempts: &mut Attempts<'_>,
    ) -> Result<Swap, Failure> {
        if !self.honours().update {
            return Err(Failure::new(
                ErrorKind::Invalid,
                "this store does not honour versions (see `cannery lake probe`)",
            ));
        }
        if bytes.len() as u64 > LARGE_BYTES_MIN || LargeObject::looks_like_commit(bytes) {
            return Err(Failure::new(
                ErrorKind::Invalid,
                "only an ordinary object of up to 64 MiB can be replaced",
            ));
        }
        let path = self.path(key);
        let mut in_doubt = false;
        loop {
            let put = self.store().put_opts(
                &path,
                payload(bytes),
                PutMode::Update(expected.0.clone()).into(),
            );
            let failure = match attempts.run(bytes.len() as u64, kept(put)).await {
                Ok(Ok(put)) => {
                    self.metrics().moved(self.id(), 0, bytes.len() as u64);
                    return Ok(Swap::Swapped(Version(put.into())));
                }
                Ok(Err(())) => match self
                    .settle(key, expected, bytes, in_doubt, attempts)
                    .await?
                {
                    Some(settled) => return Ok(settled),
                    None => Failure::new(
                        ErrorKind::Unavailable,
                        "the store refuses the version that it names itself; see `cannery lake probe`",
                    ),
                },
                Err(failure) => {
                    in_doubt = true;
                    failure
                }
            };
            attempts.pause(failure).await?;
        }
    }

    /// Reads what is there after a refused swap: ours (an earlier attempt in doubt has landed), somebody else's, or, `None`,
    /// still what was expected.
    async fn settle(
        &self,
        key: &Key,
        expected: &Version,
        bytes: &Bytes,
        in_doubt: bool,
        attempts: &mut Attempts<'_>,
    ) -> Result<Option<Swap>, Failure> {
        let found = match self.find(key, COMPARE_BYTES_MAX, attempts).await {
            Ok(found) => found,
            Err(failure) if matches!(failure.kind, ErrorKind::Absent | ErrorKind::Invalid) => {
                return Ok(Some(Swap::Conflict));
            }
            Err(failure) => return Err(failure),
        };
        if let Found::Plain(object) = &found
            && in_doubt
            && object.bytes == *bytes
        {
            return Ok(Some(Swap::Swapped(object.version.clone())));
        }
        Ok((found.version() != expected).then_some(Swap::Conflict))
    }
}

fn payload(bytes: &Bytes) -> PutPayload {
    PutPayload::from_bytes(bytes.clone())
}

/// Splits off "the condition was not met", which is an answer and not a failure.
async fn kept<T>(
    put: impl Future<Output = object_store::Result<T>>,
) -> Result<Result<T, ()>, Failure> {
    match put.await {
        Ok(done) => Ok(Ok(done)),
        Err(error) if is_refusal(&error) => Ok(Err(())),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn changed(error: &std::io::Error) -> Failure {
    Failure::new(
        ErrorKind::Invalid,
        format!("what to put changed while it was read: {error}"),
    )
}
