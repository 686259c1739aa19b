//! Reading one measurement: the catalog says where it lies, and one ranged read brings its frame.
//!
//! What was read is compared with what was loaded. The uid is of the text before the sanitiser and cannot be computed again, so
//! the catalog has some bits of a digest of the text as it is in the archive. The frame has a checksum of its own: it finds what
//! was damaged, the digest what was replaced.

use cannery_catalog::{Catalog, Found};
use cannery_formats::archive::{Generation, Place};
use cannery_formats::can::BucketFile;
use cannery_formats::{Digest, Key, Uid};
use cannery_lake::{ErrorKind, Lake};

use crate::error::Error;

/// The text of a frame that is decoded for one measurement, at most; a measurement of 64 MiB has a frame of its own.
const FRAME_TEXT_MAX: u64 = 128 << 20;

/// A file that is gone was replaced a moment ago: the catalog is asked again, so often.
const LOOKS_MAX: u32 = 3;

/// A measurement as it is in its archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// Where it lies.
    pub found: Found,
    /// Its bytes, without the newline behind it.
    pub text: Vec<u8>,
}

/// Reads the measurement with this uid; nothing when the catalog does not have it.
///
/// # Errors
/// [`Error::Unusable`] when there is nothing in the archive where the catalog says, [`Error::NotAsLoaded`] when there is
/// something else; those of the lake and of the catalog.
pub async fn read(
    public: &Lake,
    catalog: &Catalog,
    uid: &Uid,
) -> Result<Option<Measurement>, Error> {
    let mut looks = 0;
    loop {
        looks += 1;
        let Some(found) = catalog.lookup(&uid.to_string()).await? else {
            return Ok(None);
        };
        match of_archive(public, &found).await {
            Err(Error::Lake(error)) if error.kind == ErrorKind::Absent && looks < LOOKS_MAX => {}
            read => return Ok(Some(read.map(|text| Measurement { found, text })?)),
        }
    }
}

pub(crate) async fn of_archive(public: &Lake, found: &Found) -> Result<Vec<u8>, Error> {
    let named = |why: String| Error::NoArchive {
        file: found.file.clone(),
        why,
    };
    let generation: Generation = found
        .generation
        .parse()
        .map_err(|error| named(format!("{error}")))?;
    let file: BucketFile = found
        .file
        .parse()
        .map_err(|error| named(format!("{error}")))?;
    let key = Key::autoclaved(generation, &file);
    let cannery_catalog::Place {
        frame_off,
        frame_size,
        intra_off,
        intra_size,
    } = found.place;
    let frame = public
        .get_range(&key, frame_off..frame_off.saturating_add(frame_size))
        .await?;
    let place = Place {
        frame_off,
        frame_size,
        intra_off,
        intra_size,
    };
    let codec = file.name.codec();
    let text = tokio::task::spawn_blocking(move || place.extract(&frame, codec, FRAME_TEXT_MAX));
    let text = text.await.map_err(|_| Error::GivenUp)?;
    let text = text.map_err(|fault| Error::unusable(public, &key, &fault))?;
    match found.digest {
        Some(loaded) if loaded != Digest::of(&text).short() => Err(Error::NotAsLoaded {
            store: public.id().to_owned(),
            key,
            uid: found.uid.clone(),
        }),
        Some(_) | None => Ok(text),
    }
}
