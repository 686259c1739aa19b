//! Reading the bytes of an object back, from the first mirror that has them.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use cannery_formats::{Digest, StoredObject};
use cannery_lake::{Content, ErrorKind, Lake, Mirrors};
use futures::stream::{self, StreamExt as _};

use crate::bytes_cache::BytesCache;
use crate::error::{ObjectError, ObjectErrorKind};

/// An object of at most so many bytes is read whole, compared with its digest, and kept in memory for the next who asks.
const SMALL_BYTES_MAX: u64 = 64 * 1024;

/// What is kept of small objects.
const CACHE_BYTES_MAX: usize = 32 * 1024 * 1024;

pub(crate) struct Downloads {
    mirrors: Arc<Mirrors>,
    cache: Mutex<BytesCache>,
}

impl Downloads {
    pub(crate) fn new(mirrors: &Arc<Mirrors>) -> Self {
        Self {
            mirrors: Arc::clone(mirrors),
            cache: Mutex::new(BytesCache::new(CACHE_BYTES_MAX)),
        }
    }

    /// The bytes `range` of an object, as [`Content`]. The range lies within the object and is not empty.
    pub(crate) async fn open_range(
        &self,
        object: &StoredObject,
        range: Range<u64>,
    ) -> Result<Content, ObjectError> {
        if object.bytes <= SMALL_BYTES_MAX {
            let piece = self.read(object, range).await?;
            return Ok(Content::Pieces(stream::once(async { Ok(piece) }).boxed()));
        }
        let range = in_lake(object, range);
        let opened = self.of_first_mirror(|lake| {
            let (data, range) = (object.data.clone(), range.clone());
            async move { lake.open_range(&data, range).await.map_err(unreadable) }
        });
        opened.await
    }

    /// The same in memory.
    pub(crate) async fn read(
        &self,
        object: &StoredObject,
        range: Range<u64>,
    ) -> Result<Bytes, ObjectError> {
        if object.bytes > SMALL_BYTES_MAX {
            let range = in_lake(object, range);
            let read = self.of_first_mirror(|lake| {
                let (data, range) = (object.data.clone(), range.clone());
                async move { lake.get_range(&data, range).await.map_err(unreadable) }
            });
            return read.await;
        }
        let place = (object.data.clone(), object.offset.unwrap_or(0));
        let kept = self.cache().get(&place);
        let whole = match kept {
            Some(whole) => whole,
            None => {
                let read = self.of_first_mirror(|lake| read_small(lake, object.clone()));
                let whole = read.await?;
                self.cache().insert(place, whole.clone());
                whole
            }
        };
        let part = |end: u64| usize::try_from(end).unwrap_or(usize::MAX);
        Ok(whole.slice(part(range.start)..part(range.end)))
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, BytesCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the first mirror answers that can.
    async fn of_first_mirror<T, F>(&self, read: impl Fn(Lake) -> F) -> Result<T, ObjectError>
    where
        F: Future<Output = Result<T, ObjectError>>,
    {
        let mut refused = None;
        for lake in self.mirrors.iter() {
            match read(lake.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    tracing::warn!(lake = lake.id(), %error, "cannot read the bytes of an object there");
                    refused.get_or_insert(error);
                }
            }
        }
        Err(refused.expect("there is at least one mirror"))
    }
}

fn in_lake(object: &StoredObject, range: Range<u64>) -> Range<u64> {
    let offset = object.offset.unwrap_or(0);
    offset + range.start..offset + range.end
}

/// Bytes that a row names are there, and all of them: otherwise the lake is damaged.
fn unreadable(error: cannery_lake::Error) -> ObjectError {
    match error.kind {
        ErrorKind::Absent | ErrorKind::Invalid | ErrorKind::Corrupt => {
            ObjectError::new(ObjectErrorKind::Corrupt, error.to_string())
        }
        _ => error.into(),
    }
}

/// All bytes of a small object, which are what was put.
async fn read_small(lake: Lake, object: StoredObject) -> Result<Bytes, ObjectError> {
    let range = in_lake(&object, 0..object.bytes);
    let read = lake.get_range(&object.data, range).await;
    let bytes = read.map_err(unreadable)?;
    if Digest::of(&bytes) == object.sha256 {
        return Ok(bytes);
    }
    let message = format!(
        "`{}` in `{}` is damaged: its SHA-256 is not the one of what was put",
        object.data,
        lake.id()
    );
    Err(ObjectError::new(ObjectErrorKind::Corrupt, message))
}
