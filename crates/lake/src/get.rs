//! Reading: whole and capped, or a range of verified length. A large object reads like any other.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use cannery_formats::large_object::COMMIT_BYTES_MAX;
use cannery_formats::{Digest, Key, LargeObject};
use futures::TryStreamExt as _;
use jiff::Timestamp;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, UpdateVersion};

use crate::body::digest_of;
use crate::error::{ErrorKind, Failure, Operation, Result};
use crate::lake::{Lake, Version};
use crate::retry::Attempts;

/// A whole object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its content.
    pub bytes: Bytes,
    /// The version that was read, for [`Lake::put_if_version`].
    pub version: Version,
    /// When it was written, by the store's clock.
    pub modified: Timestamp,
}

/// What is known of an object without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The length of its content.
    pub bytes: u64,
    /// When it was written, by the store's clock.
    pub modified: Timestamp,
}

/// What lies at a key: content, or the commit of a large object.
pub(crate) enum Found {
    Plain(Object),
    Large(LargeObject, Object),
}

impl Found {
    pub(crate) async fn digest(&self) -> Result<Digest, Failure> {
        match self {
            Self::Plain(object) => digest_of(object.bytes.clone()).await,
            Self::Large(commit, _) => Ok(commit.sha256),
        }
    }

    pub(crate) fn version(&self) -> &Version {
        match self {
            Self::Plain(object) | Self::Large(_, object) => &object.version,
        }
    }
}

impl Lake {
    /// Reads a whole object of at most `bytes_max`.
    ///
    /// # Errors
    /// `Absent`; `Invalid` when it is longer; `Corrupt` when a large object is not what its commit says; and what any
    /// operation may meet.
    pub async fn get(&self, key: &Key, bytes_max: u64) -> Result<Object> {
        let mut running = self.begin(Operation::Get, key.as_str());
        let outcome = self
            .get_attempts(key, bytes_max, &mut running.attempts)
            .await;
        if let Ok(object) = &outcome {
            self.metrics()
                .moved(self.id(), object.bytes.len() as u64, 0);
        }
        running.finish(outcome)
    }

    async fn get_attempts(
        &self,
        key: &Key,
        bytes_max: u64,
        attempts: &mut Attempts<'_>,
    ) -> Result<Object, Failure> {
        match self.find(key, bytes_max, attempts).await? {
            Found::Plain(object) => Ok(object),
            Found::Large(commit, object) => {
                check_size(commit.bytes, bytes_max)?;
                let bytes = self
                    .committed_range(key, &commit, 0..commit.bytes, attempts)
                    .await?;
                if digest_of(bytes.clone()).await? != commit.sha256 {
                    return Err(corrupt(&commit));
                }
                Ok(Object { bytes, ..object })
            }
        }
    }

    /// Reads what lies at `key` itself.
    pub(crate) async fn find(
        &self,
        key: &Key,
        bytes_max: u64,
        attempts: &mut Attempts<'_>,
    ) -> Result<Found, Failure> {
        let object = self
            .fetch(key, bytes_max.max(COMMIT_BYTES_MAX), attempts)
            .await?;
        if let Some(commit) = commit_in(&object.bytes)? {
            return Ok(Found::Large(commit, object));
        }
        check_size(object.bytes.len() as u64, bytes_max)?;
        Ok(Found::Plain(object))
    }

    async fn fetch(
        &self,
        key: &Key,
        bytes_max: u64,
        attempts: &mut Attempts<'_>,
    ) -> Result<Object, Failure> {
        loop {
            match self.fetch_once(key, bytes_max, attempts).await {
                Ok(object) => return Ok(object),
                Err(failure) => attempts.pause(failure).await?,
            }
        }
    }

    async fn fetch_once(
        &self,
        key: &Key,
        bytes_max: u64,
        attempts: &Attempts<'_>,
    ) -> Result<Object, Failure> {
        let path = self.path(key);
        let result = attempts
            .run(0, self.store().get_opts(&path, GetOptions::default()))
            .await?;
        let meta = result.meta.clone();
        check_size(meta.size, bytes_max)?;
        let bytes = attempts.run(meta.size, collect(result, meta.size)).await?;
        Ok(Object {
            bytes,
            version: version_of(&meta),
            modified: modified_of(&meta),
        })
    }

    /// Reads exactly the bytes `range` of an object.
    ///
    /// # Errors
    /// `Absent`; `Invalid` when the range is empty or goes beyond the end; and what any operation may meet.
    pub async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Bytes> {
        let mut running = self.begin(Operation::GetRange, key.as_str());
        let outcome = self
            .get_range_attempts(key, range, &mut running.attempts)
            .await;
        if let Ok(bytes) = &outcome {
            self.metrics().moved(self.id(), bytes.len() as u64, 0);
        }
        running.finish(outcome)
    }

    async fn get_range_attempts(
        &self,
        key: &Key,
        range: Range<u64>,
        attempts: &mut Attempts<'_>,
    ) -> Result<Bytes, Failure> {
        let found = self.find_range(key, range, attempts).await;
        found.map(|(bytes, _)| bytes)
    }

    /// The bytes of a range, and the commit if the object is a large one.
    pub(crate) async fn find_range(
        &self,
        key: &Key,
        range: Range<u64>,
        attempts: &mut Attempts<'_>,
    ) -> Result<(Bytes, Option<LargeObject>), Failure> {
        if range.is_empty() {
            return Err(Failure::new(ErrorKind::Invalid, "the range is empty"));
        }
        // Only a small object can be a commit, and its first bytes tell: a range that could lie in one is read from there.
        let from_start = range.end <= COMMIT_BYTES_MAX;
        let asked = if from_start {
            0..range.end
        } else {
            range.clone()
        };
        let outcome = self.fetch_range(key, &asked, attempts).await;
        let may_be_commit = match &outcome {
            Ok((bytes, size)) => {
                from_start && *size <= COMMIT_BYTES_MAX && LargeObject::may_begin_commit(bytes)
            }
            // A range beyond its end is how a large object first shows.
            Err(failure) => failure.kind == ErrorKind::Invalid,
        };
        if may_be_commit && let Some(commit) = self.find_commit(key, attempts).await? {
            let bytes = self.committed_range(key, &commit, range, attempts).await?;
            return Ok((bytes, Some(commit)));
        }
        let (bytes, _) = outcome?;
        match usize::try_from(range.start) {
            Ok(start) if from_start => Ok((bytes.slice(start..), None)),
            _ => Ok((bytes, None)),
        }
    }

    /// The commit at `key`, if it is one.
    pub(crate) async fn find_commit(
        &self,
        key: &Key,
        attempts: &mut Attempts<'_>,
    ) -> Result<Option<LargeObject>, Failure> {
        match self.find(key, COMMIT_BYTES_MAX, attempts).await {
            Ok(Found::Large(commit, _)) => Ok(Some(commit)),
            Ok(Found::Plain(_)) => Ok(None),
            // Too long for a commit.
            Err(failure) if failure.kind == ErrorKind::Invalid => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// A range of a large object, from data that is as long as its commit says.
    pub(crate) async fn committed_range(
        &self,
        key: &Key,
        commit: &LargeObject,
        range: Range<u64>,
        attempts: &mut Attempts<'_>,
    ) -> Result<Bytes, Failure> {
        check_range(&range, commit.bytes)?;
        match self.fetch_range(&commit.data, &range, attempts).await {
            Ok((bytes, size)) if size == commit.bytes => Ok(bytes),
            Ok(_) => Err(corrupt(commit)),
            Err(failure) => match failure.kind {
                ErrorKind::Invalid => Err(corrupt(commit)),
                ErrorKind::Absent => Err(self.explain_missing_data(key, commit, attempts).await?),
                _ => Err(failure),
            },
        }
    }

    /// Data that is gone with its commit was deleted; data that is gone without it is damage.
    async fn explain_missing_data(
        &self,
        key: &Key,
        commit: &LargeObject,
        attempts: &mut Attempts<'_>,
    ) -> Result<Failure, Failure> {
        Ok(match self.find_commit(key, attempts).await? {
            Some(now) if now == *commit => Failure::new(
                ErrorKind::Corrupt,
                format!("its data `{}` is gone", commit.data),
            ),
            Some(_) | None => {
                Failure::new(ErrorKind::Conflict, "it was replaced while it was read")
            }
        })
    }

    /// The bytes of a range and the length of the whole object.
    pub(crate) async fn fetch_range(
        &self,
        key: &Key,
        range: &Range<u64>,
        attempts: &mut Attempts<'_>,
    ) -> Result<(Bytes, u64), Failure> {
        loop {
            match self.fetch_range_once(key, range, attempts).await {
                Ok(found) => return Ok(found),
                Err(failure) => attempts.pause(failure).await?,
            }
        }
    }

    async fn fetch_range_once(
        &self,
        key: &Key,
        range: &Range<u64>,
        attempts: &Attempts<'_>,
    ) -> Result<(Bytes, u64), Failure> {
        let path = self.path(key);
        let options = GetOptions::new().with_range(Some(GetRange::Bounded(range.clone())));
        let answer = async {
            match self.store().get_opts(&path, options).await {
                Ok(result) => Ok(result),
                Err(error) => Err(self.explain_range_error(error, &path, range).await),
            }
        };
        let result = attempts.run(0, answer).await?;
        let size = result.meta.size;
        check_range(range, size)?;
        if result.range != *range {
            return Err(Failure::new(
                ErrorKind::Unavailable,
                "the store sent another range than asked for",
            ));
        }
        let wanted = range.end - range.start;
        Ok((attempts.run(wanted, collect(result, wanted)).await?, size))
    }

    /// Stores answer a range beyond the end in different ways; the size tells.
    async fn explain_range_error(
        &self,
        error: object_store::Error,
        path: &object_store::path::Path,
        range: &Range<u64>,
    ) -> Failure {
        let failure = Failure::from(error);
        if matches!(
            failure.kind,
            ErrorKind::Absent | ErrorKind::StoreMissing | ErrorKind::Denied
        ) {
            return failure;
        }
        match self
            .store()
            .get_opts(path, GetOptions::new().with_head(true))
            .await
        {
            Ok(head) => check_range(range, head.meta.size).err().unwrap_or(failure),
            Err(_) => failure,
        }
    }

    /// Looks at an object without reading it.
    ///
    /// # Errors
    /// `Absent`, and what any operation may meet.
    pub async fn head(&self, key: &Key) -> Result<Head> {
        let mut running = self.begin(Operation::Head, key.as_str());
        let outcome = self.head_attempts(key, &mut running.attempts).await;
        running.finish(outcome)
    }

    async fn head_attempts(&self, key: &Key, attempts: &mut Attempts<'_>) -> Result<Head, Failure> {
        let head = self.stored_head(key, attempts).await?;
        if head.bytes <= COMMIT_BYTES_MAX
            && let Some(commit) = self.find_commit(key, attempts).await?
        {
            return Ok(Head {
                bytes: commit.bytes,
                ..head
            });
        }
        Ok(head)
    }

    /// What the store says of the object at `key` itself.
    pub(crate) async fn stored_head(
        &self,
        key: &Key,
        attempts: &mut Attempts<'_>,
    ) -> Result<Head, Failure> {
        let path = self.path(key);
        loop {
            let asked = self
                .store()
                .get_opts(&path, GetOptions::new().with_head(true));
            match attempts.run(0, asked).await {
                Ok(result) => {
                    return Ok(Head {
                        bytes: result.meta.size,
                        modified: modified_of(&result.meta),
                    });
                }
                Err(failure) => attempts.pause(failure).await?,
            }
        }
    }
}

/// Collects an answer; anything but `expected` bytes is a broken connection, to be tried again.
async fn collect(result: GetResult, expected: u64) -> Result<Bytes, Failure> {
    let short = |got: usize| {
        Failure::new(
            ErrorKind::Unavailable,
            format!("the store sent {got} bytes where {expected} were announced"),
        )
    };
    let capacity = usize::try_from(expected)
        .map_err(|_| Failure::new(ErrorKind::Invalid, "too large for memory"))?;
    // The announced length is not trusted with memory: it grows with what arrives.
    let mut bytes = BytesMut::with_capacity(capacity.min(1 << 20));
    let mut stream = result.into_stream();
    while let Some(chunk) = stream.try_next().await? {
        if bytes.len() + chunk.len() > capacity {
            return Err(short(bytes.len() + chunk.len()));
        }
        if bytes.is_empty() && chunk.len() == capacity {
            return Ok(chunk);
        }
        bytes.extend_from_slice(&chunk);
    }
    if bytes.len() == capacity {
        Ok(bytes.freeze())
    } else {
        Err(short(bytes.len()))
    }
}

fn check_size(bytes: u64, bytes_max: u64) -> Result<(), Failure> {
    if bytes <= bytes_max {
        return Ok(());
    }
    Err(Failure::new(
        ErrorKind::Invalid,
        format!("it has {bytes} bytes, more than the {bytes_max} allowed here"),
    ))
}

pub(crate) fn check_range(range: &Range<u64>, size: u64) -> Result<(), Failure> {
    if range.end <= size {
        return Ok(());
    }
    let (start, end) = (range.start, range.end.saturating_sub(1));
    Err(Failure::new(
        ErrorKind::Invalid,
        format!("the range {start}-{end} goes beyond its {size} bytes"),
    ))
}

fn commit_in(content: &[u8]) -> Result<Option<LargeObject>, Failure> {
    if content.len() as u64 > COMMIT_BYTES_MAX {
        return Ok(None);
    }
    LargeObject::parse(content)
        .map_err(|damage| Failure::new(ErrorKind::Corrupt, damage.to_string()))
}

pub(crate) fn corrupt(commit: &LargeObject) -> Failure {
    Failure::new(
        ErrorKind::Corrupt,
        format!("its data `{}` is not what was committed", commit.data),
    )
}

pub(crate) fn version_of(meta: &ObjectMeta) -> Version {
    Version(UpdateVersion {
        e_tag: meta.e_tag.clone(),
        version: meta.version.clone(),
    })
}

pub(crate) fn modified_of(meta: &ObjectMeta) -> Timestamp {
    Timestamp::from_microsecond(meta.last_modified.timestamp_micros())
        .unwrap_or(Timestamp::UNIX_EPOCH)
}
