//! The bytes of an object, to be handed on: the file that they lie in, or piece by piece.

use std::fs::File;
use std::ops::Range;

use bytes::Bytes;
use cannery_formats::{Key, LargeObject};
use futures::stream::{self, BoxStream, StreamExt as _};
use object_store::{GetOptions, GetRange, GetResultPayload};

use crate::disk_store::AsFile;
use crate::error::{ErrorKind, Failure, Operation, Result};
use crate::get::{check_range, corrupt};
use crate::lake::Lake;
use crate::retry::Attempts;

/// What is read at once. What is no longer than that is not worth a file of its own.
const PIECE_BYTES: u64 = 1024 * 1024;

/// How many pieces are read ahead of the reader.
const PIECES_AHEAD: usize = 2;

/// Bytes that are there, as far as can be known before all of them are read.
pub enum Content {
    /// They are this part of a file, which is never changed: it can be sent without being read.
    File {
        /// The file.
        file: File,
        /// Where they lie in it.
        range: Range<u64>,
    },
    /// They come in order; the first ones have been read.
    Pieces(BoxStream<'static, Result<Bytes>>),
}

impl Lake {
    /// Opens the bytes `range` of an object.
    ///
    /// # Errors
    /// As [`Lake::get_range`]; later pieces may meet the same.
    pub async fn open_range(&self, key: &Key, range: Range<u64>) -> Result<Content> {
        let is_long = range.end.saturating_sub(range.start) > PIECE_BYTES;
        // Only our own store of files is asked: to others it would be one more request.
        if is_long && self.folder().is_some() {
            let mut running = self.begin(Operation::GetRange, key.as_str());
            let opened = self.open_file(key, &range, &mut running.attempts).await;
            if let Some(file) = running.finish(opened)? {
                let bytes = range.end - range.start;
                self.metrics().moved(self.id(), bytes, 0);
                return Ok(Content::File { file, range });
            }
        }
        self.open_pieces(key, range).await
    }

    /// The file that has the bytes of an object; nothing if the store has no such files.
    async fn open_file(
        &self,
        key: &Key,
        range: &Range<u64>,
        attempts: &mut Attempts<'_>,
    ) -> Result<Option<File>, Failure> {
        match self.fetch_file(key, range, attempts).await {
            Ok(found) => Ok(found.map(|(file, _)| file)),
            // Beyond the end of what lies there: it may be the commit of a large object.
            Err(failure) if failure.kind == ErrorKind::Invalid => {
                let Some(commit) = self.find_commit(key, attempts).await? else {
                    return Err(failure);
                };
                check_range(range, commit.bytes)?;
                match self.fetch_file(&commit.data, range, attempts).await? {
                    Some((_, bytes)) if bytes != commit.bytes => Err(corrupt(&commit)),
                    found => Ok(found.map(|(file, _)| file)),
                }
            }
            Err(failure) => Err(failure),
        }
    }

    /// The file of an object and its length.
    async fn fetch_file(
        &self,
        key: &Key,
        range: &Range<u64>,
        attempts: &Attempts<'_>,
    ) -> Result<Option<(File, u64)>, Failure> {
        let path = self.path(key);
        let mut options = GetOptions::new().with_range(Some(GetRange::Bounded(range.clone())));
        options.extensions.insert(AsFile);
        let asked = self.store().get_opts(&path, options);
        let found = attempts.run(0, asked).await?;
        check_range(range, found.meta.size)?;
        Ok(match found.payload {
            GetResultPayload::File(file, _) => Some((file, found.meta.size)),
            GetResultPayload::Stream(_) => None,
        })
    }

    async fn open_pieces(&self, key: &Key, range: Range<u64>) -> Result<Content> {
        let first = range.start..range.end.min(range.start.saturating_add(PIECE_BYTES));
        let step = usize::try_from(PIECE_BYTES).unwrap_or(usize::MAX);
        let starts = (first.end..range.end).step_by(step);
        let mut running = self.begin(Operation::GetRange, key.as_str());
        let found = self.find_range(key, first, &mut running.attempts).await;
        let (piece, commit) = running.finish(found)?;
        self.metrics().moved(self.id(), piece.len() as u64, 0);
        let (lake, key) = (self.clone(), key.clone());
        let rest = starts.map(move |start| {
            let (lake, key, commit) = (lake.clone(), key.clone(), commit.clone());
            let end = range.end.min(start + PIECE_BYTES);
            async move { lake.next_piece(&key, commit.as_ref(), start..end).await }
        });
        let rest = stream::iter(rest).buffered(PIECES_AHEAD);
        Ok(Content::Pieces(
            stream::once(async { Ok(piece) }).chain(rest).boxed(),
        ))
    }

    async fn next_piece(
        &self,
        key: &Key,
        commit: Option<&LargeObject>,
        range: Range<u64>,
    ) -> Result<Bytes> {
        let mut running = self.begin(Operation::GetRange, key.as_str());
        let attempts = &mut running.attempts;
        let piece = match commit {
            Some(commit) => self.committed_range(key, commit, range, attempts).await,
            None => {
                let found = self.fetch_range(key, &range, attempts).await;
                found.map(|(piece, _)| piece)
            }
        };
        let piece = running.finish(piece)?;
        self.metrics().moved(self.id(), piece.len() as u64, 0);
        Ok(piece)
    }
}
