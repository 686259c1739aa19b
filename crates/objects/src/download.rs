//! Reading the bytes of an object, whole or in part, a piece at a time.

use std::ops::Range;

use bytes::Bytes;
use cannery_formats::object_log::StoredObject;
use cannery_lake::Lake;
use futures::stream::{self, BoxStream, StreamExt as _};

use crate::error::ObjectError;

/// What is read at once.
const PIECE_BYTES: u64 = 1024 * 1024;

/// How many pieces are read ahead of the reader.
const PIECES_AHEAD: usize = 2;

/// The bytes `range` of an object, in order. The range lies within the object.
pub(crate) fn pieces(
    lake: &Lake,
    object: &StoredObject,
    range: Range<u64>,
) -> BoxStream<'static, Result<Bytes, ObjectError>> {
    let offset = object.offset.unwrap_or(0);
    let starts = range
        .clone()
        .step_by(usize::try_from(PIECE_BYTES).unwrap_or(usize::MAX));
    let (lake, data) = (lake.clone(), object.data.clone());
    let reads = starts.map(move |start| {
        let (lake, data) = (lake.clone(), data.clone());
        let end = range.end.min(start + PIECE_BYTES);
        async move {
            let piece = lake.get_range(&data, offset + start..offset + end).await;
            piece.map_err(ObjectError::from)
        }
    });
    stream::iter(reads).buffered(PIECES_AHEAD).boxed()
}
