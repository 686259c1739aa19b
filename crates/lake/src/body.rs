//! What is put: bytes in memory, or a file that is read as often as needed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use cannery_formats::{Digest, Hasher};
use cannery_runtime::RealDisk;
use cannery_runtime::disk::{Disk as _, DiskFile, Kind, Open};

use crate::error::{ErrorKind, Failure};

const CHUNK_BYTES: u64 = 4 * 1024 * 1024;
const INLINE_BYTES_MAX: usize = 64 * 1024;

/// The content of an object to be.
#[derive(Clone, Debug)]
pub enum Body {
    /// In memory.
    Bytes(Bytes),
    /// In a file, which must not change until the put is over; a change is noticed and fails the put.
    File(PathBuf),
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes.into())
    }
}

/// A body that was looked at: its length and digest are known.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    source: Source,
    pub(crate) bytes: u64,
    pub(crate) digest: Digest,
    /// Its first bytes, enough to see whether it looks like something special.
    pub(crate) head: Bytes,
}

#[derive(Clone, Debug)]
enum Source {
    Bytes(Bytes),
    File(Arc<dyn DiskFile>),
}

impl Body {
    pub(crate) async fn measure(self) -> io::Result<Measured> {
        match self {
            // Hashed before a blocking thread would have woken up.
            Self::Bytes(bytes) if bytes.len() <= INLINE_BYTES_MAX => {
                Self::Bytes(bytes).measure_now()
            }
            body => blocking(move || body.measure_now()).await,
        }
    }

    fn measure_now(self) -> io::Result<Measured> {
        let source = match self {
            Self::Bytes(bytes) => Source::Bytes(bytes),
            Self::File(path) => Source::File(open_regular(&path)?),
        };
        let bytes = match &source {
            Source::Bytes(bytes) => bytes.len() as u64,
            Source::File(file) => file.len()?,
        };
        let mut hasher = Hasher::default();
        let mut head = Bytes::new();
        for start in
            (0..bytes).step_by(usize::try_from(CHUNK_BYTES).expect("a chunk fits in memory"))
        {
            let chunk = source.read(start, CHUNK_BYTES.min(bytes - start))?;
            hasher.update(&chunk);
            if start == 0 {
                head = chunk.slice(..chunk.len().min(64));
            }
        }
        source.expect_end(bytes)?;
        Ok(Measured {
            source,
            bytes,
            digest: hasher.finish(),
            head,
        })
    }
}

impl Measured {
    /// Whether the content may change between two reads.
    pub(crate) fn may_change(&self) -> bool {
        matches!(self.source, Source::File(_))
    }

    /// A piece of the content.
    pub(crate) async fn read(&self, start: u64, length: u64) -> io::Result<Bytes> {
        match self.source.clone() {
            Source::Bytes(bytes) => Source::Bytes(bytes).read(start, length),
            file @ Source::File(_) => blocking(move || file.read(start, length)).await,
        }
    }
}

/// Only a regular file has a length to rely on, and opening a pipe would wait for its writer.
fn open_regular(path: &Path) -> io::Result<Arc<dyn DiskFile>> {
    if RealDisk.metadata(path)?.kind != Kind::File {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(RealDisk.open(path, Open::Read)?.into())
}

impl Source {
    /// A file that has become longer since its length was taken must not be stored as far as it went.
    fn expect_end(&self, bytes: u64) -> io::Result<()> {
        match self {
            Self::File(file) if file.read_at(bytes, &mut [0])? > 0 => {
                Err(io::Error::other("it is growing"))
            }
            Self::File(_) | Self::Bytes(_) => Ok(()),
        }
    }
    fn read(&self, start: u64, length: u64) -> io::Result<Bytes> {
        let length = usize::try_from(length).map_err(io::Error::other)?;
        match self {
            Self::Bytes(bytes) => {
                let start = usize::try_from(start).map_err(io::Error::other)?;
                Ok(bytes.slice(start..start + length))
            }
            Self::File(file) => {
                let mut piece = vec![0; length];
                let mut filled = 0;
                while filled < length {
                    match file.read_at(start + filled as u64, &mut piece[filled..])? {
                        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                        n => filled += n,
                    }
                }
                Ok(piece.into())
            }
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)?
}

/// The digest of `bytes`, computed where it holds up nobody else.
pub(crate) async fn digest_of(bytes: Bytes) -> Result<Digest, Failure> {
    if bytes.len() <= INLINE_BYTES_MAX {
        return Ok(Digest::of(&bytes));
    }
    let hashing = tokio::task::spawn_blocking(move || Digest::of(&bytes));
    hashing
        .await
        .map_err(|error| Failure::new(ErrorKind::Unavailable, error.to_string()))
}
