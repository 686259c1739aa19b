//! The index of an archive: its own, or where it has none its part of the bucket's, as the original's archives have it.

use bytes::Bytes;
use cannery_formats::Key;
use cannery_formats::archive::{Generation, part_of_index};
use cannery_formats::can::BucketFile;
use cannery_lake::present;

use crate::blocking::blocking;
use crate::error::Error;
use crate::stage::Plant;

/// Larger indexes are refused: they are held in memory.
pub(crate) const INDEX_BYTES_MAX: u64 = 256 << 20;
/// That of a bucket is held compressed, and decompressed piece by piece.
const JOINED_BYTES_MAX: u64 = 1 << 30;

/// An index, and the object that it came from.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) key: Key,
    /// Of this archive alone, compressed.
    pub(crate) bytes: Bytes,
}

/// Reads the index of an archive; nothing when there is none.
///
/// # Errors
/// [`Error::Unusable`] when the index of the bucket is damaged; those of the lake.
pub(crate) async fn find(
    plant: &Plant,
    generation: Generation,
    file: &BucketFile,
) -> Result<Option<Found>, Error> {
    let key = Key::autoclaved_file_index(generation, file);
    match present(plant.public.get(&key, INDEX_BYTES_MAX).await)? {
        Some(object) => Ok(Some(Found {
            key,
            bytes: object.bytes,
        })),
        None => find_joined(plant, generation, file).await,
    }
}

/// The same, where the archive has none of its own.
pub(crate) async fn find_joined(
    plant: &Plant,
    generation: Generation,
    file: &BucketFile,
) -> Result<Option<Found>, Error> {
    let key = Key::autoclaved_index(generation, file.bucket);
    let Some(object) = present(plant.public.get(&key, JOINED_BYTES_MAX).await)? else {
        return Ok(None);
    };
    let joined = object.bytes;
    let about = file.clone();
    let part = blocking(move || part_of_index(&joined[..], &about)).await;
    let part = part.map_err(|why| Error::scratch(plant.scratch.folder(), why))?;
    let part = part.map_err(|fault| Error::unusable(&plant.public, &key, &fault))?;
    Ok(part.map(|part| Found {
        key,
        bytes: part.into(),
    }))
}
