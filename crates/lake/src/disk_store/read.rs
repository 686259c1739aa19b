//! Reading objects of a [`super::DiskStore`].

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use cannery_formats::Digest;
use cannery_runtime::disk::{DiskFile, Kind, Metadata, Open};
use chrono::{DateTime, Utc};
use futures::stream::{self, BoxStream, StreamExt as _};
use object_store::path::Path;
use object_store::{
    Attributes, GetOptions, GetRange, GetResult, GetResultPayload, ObjectMeta, Result,
};

use super::{Inner, digest_of, generic};

const CHUNK_BYTES: u64 = 1024 * 1024;

/// Asks, among the extensions of a request, for the file itself in place of its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AsFile;

impl Inner {
    /// Opens an object. The file is never changed in place, so what is streamed later is what was hashed here.
    pub(super) fn get(&self, location: &Path, options: &GetOptions) -> Result<GetResult> {
        let target = self.object_path(location)?;
        let absent = |error| Self::read_error(error, location);
        let found = self.disk.metadata(&target).map_err(absent)?;
        if found.kind != Kind::File {
            return Err(absent(io::ErrorKind::NotFound.into()));
        }
        let file: Arc<dyn DiskFile> = self.disk.open(&target, Open::Read).map_err(absent)?.into();
        let mut meta = meta_of(location.clone(), &found);
        // The size of what was opened, which may be newer than what was looked at.
        meta.size = file.len().map_err(generic)?;
        let whole = options.range.is_none() && !options.head;
        let conditional = options.if_match.is_some() || options.if_none_match.is_some();
        // A short object is read at once, and what was read is what is hashed: one trip to a blocking thread, not two.
        let content = if whole && meta.size <= CHUNK_BYTES {
            Some(read_exactly(&*file, 0, meta.size).map_err(generic)?)
        } else {
            None
        };
        meta.e_tag = match &content {
            Some(content) => Some(Digest::of(content).to_string()),
            None if whole || conditional => Some(digest_of(&*file).map_err(generic)?.to_string()),
            None => None,
        };
        options.check_preconditions(&meta)?;
        let range = range_of(options.range.as_ref(), meta.size)?;
        let length = range.end - range.start;
        let system_file = match options.extensions.get::<AsFile>() {
            Some(AsFile) => file.system_file().map_err(generic)?,
            None => None,
        };
        let payload = match (content, system_file) {
            _ if options.head => GetResultPayload::Stream(stream::empty().boxed()),
            (_, Some(file)) => GetResultPayload::File(file, target),
            (Some(content), None) => GetResultPayload::Stream(once(content)),
            (None, None) if length <= CHUNK_BYTES => {
                let piece = read_exactly(&*file, range.start, length).map_err(generic)?;
                GetResultPayload::Stream(once(piece))
            }
            (None, None) => GetResultPayload::Stream(chunks(file, range.clone())),
        };
        Ok(GetResult {
            payload,
            meta,
            range,
            attributes: Attributes::default(),
            extensions: object_store::Extensions::default(),
        })
    }
}

pub(super) fn meta_of(location: Path, found: &Metadata) -> ObjectMeta {
    ObjectMeta {
        location,
        last_modified: DateTime::<Utc>::from_timestamp_micros(found.modified.as_microsecond())
            .unwrap_or_default(),
        size: found.len,
        e_tag: None,
        version: None,
    }
}

fn range_of(wanted: Option<&GetRange>, size: u64) -> Result<Range<u64>> {
    match wanted {
        None => Ok(0..size),
        Some(range) => range
            .as_range(size)
            .map_err(|error| generic(io::Error::other(error.to_string()))),
    }
}

fn once(content: Bytes) -> BoxStream<'static, Result<Bytes>> {
    stream::once(std::future::ready(Ok(content))).boxed()
}

fn chunks(file: Arc<dyn DiskFile>, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
    stream::try_unfold(range, move |range| {
        let file = Arc::clone(&file);
        async move {
            if range.is_empty() {
                return Ok(None);
            }
            let length = (range.end - range.start).min(CHUNK_BYTES);
            let start = range.start;
            let chunk =
                tokio::task::spawn_blocking(move || read_exactly(&*file, start, length)).await?;
            Ok(Some((chunk.map_err(generic)?, start + length..range.end)))
        }
    })
    .boxed()
}

fn read_exactly(file: &dyn DiskFile, start: u64, length: u64) -> io::Result<Bytes> {
    let mut chunk = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    let mut filled = 0;
    while filled < chunk.len() {
        match file.read_at(start + filled as u64, &mut chunk[filled..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => filled += n,
        }
    }
    Ok(chunk.into())
}
