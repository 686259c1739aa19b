//! An archive of the lake, brought here and looked through.

use std::io::{self, BufReader, BufWriter, Read, Write as _};
use std::sync::Arc;

use bytes::Bytes;
use cannery_formats::Key;
use cannery_formats::feed::{Codec, ContentSet, FeedId, FoundName, Holding, Hour};
use cannery_formats::hour_archive::{
    ArchiveFault, Compression, Input, Limits, ReadWriteSeek, Survey, merge, survey,
};
use cannery_formats::large_object::LARGE_BYTES_MIN;
use cannery_lake::{ErrorKind, Lake, Version};
use futures::TryStreamExt as _;
use futures::stream::{self, BoxStream, StreamExt as _};

use crate::blocking::blocking;
use crate::error::Error;
use crate::scratch::{Scratch, ScratchFile};

const BUFFER_BYTES: usize = 256 * 1024;

/// Which hour it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) feed: FeedId,
    pub(crate) hour: Hour,
}

/// An archive, whole and understood.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) key: Key,
    pub(crate) survey: Survey,
    pub(crate) file: ScratchFile,
    /// For replacing it; only where it was asked for and the object is one that can be replaced.
    pub(crate) version: Option<Version>,
}

impl Fetched {
    pub(crate) fn set(&self) -> &ContentSet {
        &self.survey.set
    }
}

/// What became of fetching.
#[derive(Debug)]
pub(crate) enum Fetch {
    Archive(Arc<Fetched>),
    /// Damaged, hostile, newer or too large: to be left alone and reported.
    Unusable(Unusable),
    /// Nothing is there any more, or not what was there when the reading began.
    Vanished,
}

/// Why an archive cannot be used.
#[derive(Clone, Debug)]
pub(crate) struct Unusable {
    pub(crate) why: String,
    pub(crate) verdict: Verdict,
    /// What is in it, where only its name is wrong.
    pub(crate) content: Option<Arc<Fetched>>,
}

/// What can be done about an archive that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No other program could use it, either: it may be set aside.
    Damaged,
    /// It has more in it than is read here, by any version: a person may take it apart, and until then it may be set aside.
    TooLarge,
    /// Another program, or the same another time, may be able to use it.
    Beyond,
}

impl Unusable {
    fn damaged(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            verdict: Verdict::Damaged,
            content: None,
        }
    }

    fn as_found(verdict: Verdict, why: impl Into<String>) -> Self {
        Self {
            verdict,
            ..Self::damaged(why)
        }
    }

    fn of(fault: &ArchiveFault) -> Self {
        let why = fault.to_string();
        match fault {
            ArchiveFault::Damaged(_) | ArchiveFault::Hostile(_) => Self::damaged(why),
            ArchiveFault::TooLarge(_) => Self::as_found(Verdict::TooLarge, why),
            ArchiveFault::Newer(_) | ArchiveFault::Io(_) => Self::as_found(Verdict::Beyond, why),
        }
    }
}

/// Brings archives here. Memory is bounded whatever their size; the disk holds them while they are worked on.
#[derive(Clone, Debug)]
pub(crate) struct Fetcher {
    pub(crate) scratch: Scratch,
    pub(crate) limits: Limits,
    /// Longer ones are not replaced.
    pub(crate) swap_bytes_max: u64,
}

type Pieces = BoxStream<'static, cannery_lake::Result<Bytes>>;

impl Fetcher {
    pub(crate) fn new(scratch: Scratch) -> Self {
        Self {
            scratch,
            limits: Limits::default(),
            swap_bytes_max: LARGE_BYTES_MIN,
        }
    }

    pub(crate) async fn fetch(
        &self,
        lake: &Lake,
        subject: &Subject,
        key: &Key,
    ) -> Result<Fetch, Error> {
        match lake.stream(key).await {
            Ok(pieces) => self.take(subject, key, pieces, None).await,
            Err(error) => failed(error),
        }
    }

    /// The same, with the version for a compare-and-swap.
    pub(crate) async fn fetch_with_version(
        &self,
        lake: &Lake,
        subject: &Subject,
        key: &Key,
    ) -> Result<Fetch, Error> {
        match lake.get(key, self.swap_bytes_max).await {
            Ok(object) => {
                let pieces = stream::once(std::future::ready(Ok(object.bytes))).boxed();
                let version = Some(object.version);
                self.take(subject, key, pieces, version).await
            }
            // Too long to be replaced: it can only be read.
            Err(error) if error.kind == ErrorKind::Invalid => self.fetch(lake, subject, key).await,
            Err(error) => failed(error),
        }
    }

    async fn take(
        &self,
        subject: &Subject,
        key: &Key,
        pieces: Pieces,
        version: Option<Version>,
    ) -> Result<Fetch, Error> {
        let file = match self.save(pieces).await? {
            Saved::File(file) => file,
            Saved::TooLong => {
                let fault = Unusable::as_found(Verdict::TooLarge, "it is too large");
                return Ok(Fetch::Unusable(fault));
            }
            Saved::Failed(error) => return failed(error),
        };
        let (limits, about) = (self.limits, subject.clone());
        let looked = self
            .blocking(move || {
                let input = BufReader::with_capacity(BUFFER_BYTES, file.begin());
                (survey(input, &about.feed, about.hour, &limits), file)
            })
            .await?;
        let (survey, file) = match looked {
            (Ok(survey), file) => (survey, file),
            (Err(ArchiveFault::Io(why)), _) => return Err(self.failed(why)),
            (Err(fault), _) => return Ok(Fetch::Unusable(Unusable::of(&fault))),
        };
        let is_as_named = is_as_named(subject, key, &survey);
        let archive = Arc::new(Fetched {
            key: key.clone(),
            survey,
            file,
            version,
        });
        if is_as_named {
            return Ok(Fetch::Archive(archive));
        }
        Ok(Fetch::Unusable(Unusable {
            content: Some(archive),
            ..Unusable::damaged("its content is not the set that its name promises")
        }))
    }

    async fn save(&self, mut pieces: Pieces) -> Result<Saved, Error> {
        let scratch = self.scratch.clone();
        let file = self.blocking(move || scratch.file()).await?;
        let file = file.map_err(|why| self.failed(why))?;
        let mut bytes = 0;
        loop {
            let piece = match pieces.try_next().await {
                Ok(Some(piece)) => piece,
                Ok(None) => return Ok(Saved::File(file)),
                Err(error) => return Ok(Saved::Failed(error)),
            };
            let mut place = file.begin();
            bytes += piece.len() as u64;
            if bytes > self.limits.total_bytes_max {
                return Ok(Saved::TooLong);
            }
            let at = bytes - piece.len() as u64;
            let written = self.blocking(move || {
                io::Seek::seek(&mut place, io::SeekFrom::Start(at))?;
                place.write_all(&piece)
            });
            written.await?.map_err(|why| self.failed(why))?;
        }
    }

    /// Writes an archive of everything in `inputs`.
    pub(crate) async fn unite(
        &self,
        subject: &Subject,
        inputs: Vec<Arc<Fetched>>,
        codec: Codec,
    ) -> Result<(ContentSet, ScratchFile), Error> {
        let (scratch, about) = (self.scratch.clone(), subject.clone());
        let united = self
            .blocking(move || unite_now(&scratch, &about, &inputs, codec))
            .await?;
        united.map_err(|fault| match fault {
            ArchiveFault::Io(why) => self.failed(why),
            fault => Error::Merge {
                feed: subject.feed.clone(),
                hour: subject.hour,
                why: fault.to_string(),
            },
        })
    }

    /// The content of a file that is known to be small enough for memory.
    pub(crate) async fn content(&self, file: &ScratchFile) -> Result<Bytes, Error> {
        let mut place = file.begin();
        let read = self.blocking(move || {
            let mut content = Vec::new();
            place.read_to_end(&mut content).map(|_| content)
        });
        let content = read.await?.map_err(|why| self.failed(why))?;
        Ok(content.into())
    }

    pub(crate) fn failed(&self, why: io::Error) -> Error {
        Error::scratch(self.scratch.folder(), why)
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        blocking(work).await.map_err(|why| self.failed(why))
    }
}

enum Saved {
    File(ScratchFile),
    TooLong,
    Failed(cannery_lake::Error),
}

/// What an error of the store says of the object, if it does.
fn failed(error: cannery_lake::Error) -> Result<Fetch, Error> {
    match error.kind {
        ErrorKind::Absent | ErrorKind::Conflict => Ok(Fetch::Vanished),
        ErrorKind::Corrupt => Ok(Fetch::Unusable(Unusable::damaged(error.detail))),
        ErrorKind::StoreMissing
        | ErrorKind::Denied
        | ErrorKind::Unavailable
        | ErrorKind::Invalid
        | ErrorKind::Full
        | ErrorKind::NotOurs
        | ErrorKind::Failed => Err(error.into()),
    }
}

fn is_as_named(subject: &Subject, key: &Key, survey: &Survey) -> bool {
    match FoundName::of(&subject.feed, subject.hour, key.file_name()) {
        FoundName::Ours(name) => match name.holding {
            Holding::Set(hash, _) => survey.set.hash() == hash,
            Holding::Primary => true,
        },
        FoundName::Foreign | FoundName::Tombstone | FoundName::SetAside(_) | FoundName::Unknown => {
            true
        }
    }
}

fn unite_now(
    scratch: &Scratch,
    subject: &Subject,
    inputs: &[Arc<Fetched>],
    codec: Codec,
) -> Result<(ContentSet, ScratchFile), ArchiveFault> {
    let inputs = inputs.iter().map(|input| Input {
        survey: &input.survey,
        content: Box::new(BufReader::with_capacity(BUFFER_BYTES, input.file.begin())),
    });
    let file = scratch.file().map_err(ArchiveFault::Io)?;
    let out = BufWriter::with_capacity(BUFFER_BYTES, file.begin());
    let mut spill =
        || -> io::Result<Box<dyn ReadWriteSeek>> { Ok(Box::new(scratch.file()?.into_nameless())) };
    let compression = Compression { codec, level: None };
    let (set, mut out) = merge(
        inputs.collect(),
        &mut spill,
        out,
        &subject.feed,
        subject.hour,
        &compression,
    )?;
    out.flush().map_err(ArchiveFault::Io)?;
    Ok((set, file))
}
