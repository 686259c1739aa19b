//! Reading an object of any size piece by piece, as one version of it.

use bytes::Bytes;
use cannery_formats::large_object::LARGE_BYTES_MIN;
use cannery_formats::{Hasher, Key, LargeObject};
use futures::stream::{self, BoxStream, StreamExt as _};

use crate::error::{ErrorKind, Failure, Operation, Result};
use crate::get::{Found, corrupt};
use crate::lake::Lake;

const PIECE_BYTES: u64 = 8 * 1024 * 1024;

impl Lake {
    /// Reads a whole object in pieces. The data of a large object is never replaced, so all pieces are of one version, and
    /// its digest is checked with the last piece: without an error at the end it is what was put. Of a large foreign
    /// object, which has no commit, only the length is known to stay the same.
    ///
    /// # Errors
    /// `Absent`, and what any operation may meet, also in the middle of the stream.
    pub async fn stream(&self, key: &Key) -> Result<BoxStream<'static, Result<Bytes>>> {
        let mut running = self.begin(Operation::Head, key.as_str());
        let stored = self.stored_head(key, &mut running.attempts).await;
        let stored = running.finish(stored)?;
        if stored.bytes > LARGE_BYTES_MIN {
            return Ok(self.foreign_pieces(key.clone(), stored.bytes));
        }
        let mut running = self.begin(Operation::Get, key.as_str());
        let outcome = self.find(key, LARGE_BYTES_MIN, &mut running.attempts).await;
        Ok(match running.finish(outcome)? {
            Found::Plain(object) => {
                self.metrics()
                    .moved(self.id(), object.bytes.len() as u64, 0);
                stream::once(std::future::ready(Ok(object.bytes))).boxed()
            }
            Found::Large(commit, _) => self.pieces(key.clone(), commit),
        })
    }

    fn foreign_pieces(&self, key: Key, bytes: u64) -> BoxStream<'static, Result<Bytes>> {
        let lake = self.clone();
        stream::try_unfold(0, move |start| {
            let (lake, key) = (lake.clone(), key.clone());
            async move {
                if start >= bytes {
                    return Ok(None);
                }
                let end = bytes.min(start + PIECE_BYTES);
                let mut running = lake.begin(Operation::GetRange, key.as_str());
                let found = lake
                    .fetch_range(&key, &(start..end), &mut running.attempts)
                    .await;
                let piece = match found {
                    Ok((piece, now)) if now == bytes => Ok(piece),
                    Ok(_) => Err(Failure::new(
                        ErrorKind::Conflict,
                        "it was replaced while it was read",
                    )),
                    Err(failure) => Err(failure),
                };
                let piece = running.finish(piece)?;
                lake.metrics().moved(lake.id(), piece.len() as u64, 0);
                Ok(Some((piece, end)))
            }
        })
        .boxed()
    }

    fn pieces(&self, key: Key, commit: LargeObject) -> BoxStream<'static, Result<Bytes>> {
        let lake = self.clone();
        stream::try_unfold((0, Hasher::default()), move |(start, mut hasher)| {
            let (lake, key, commit) = (lake.clone(), key.clone(), commit.clone());
            async move {
                if start >= commit.bytes {
                    return Ok(None);
                }
                let end = commit.bytes.min(start + PIECE_BYTES);
                let mut running = lake.begin(Operation::GetRange, key.as_str());
                let piece = lake
                    .committed_range(&key, &commit, start..end, &mut running.attempts)
                    .await;
                let checked = piece.and_then(|piece| {
                    hasher.update(&piece);
                    let whole = end < commit.bytes || hasher.clone().finish() == commit.sha256;
                    if whole {
                        Ok(piece)
                    } else {
                        Err::<Bytes, Failure>(corrupt(&commit))
                    }
                });
                let piece = running.finish(checked)?;
                lake.metrics().moved(lake.id(), piece.len() as u64, 0);
                Ok(Some((piece, (end, hasher))))
            }
        })
        .boxed()
    }
}
