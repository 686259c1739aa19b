//! What a sealed bucket holds, by its index.

use std::collections::BTreeSet;

use cannery_formats::can::{CannedFile, FileName, read_canned_index};
use cannery_formats::gz_lines::IndexLimits;
use cannery_formats::{BucketDate, Key};
use cannery_lake::{Lake, present};

use crate::cans::Indexes;
use crate::error::Error;

const INDEX_BYTES_MAX: u64 = 256 << 20;
const INDEX_TEXT_MAX: u64 = 2 << 30;

/// What was removed of a bucket on purpose, because it is kept no longer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Cans.
    pub cans: BTreeSet<FileName>,
    /// Archives, after their cans.
    pub archives: BTreeSet<FileName>,
}

/// What was removed of a bucket on purpose.
///
/// # Errors
/// Those of the lake.
pub async fn expired(raw: &Lake, bucket: BucketDate) -> Result<Expired, Error> {
    let state = Indexes::new(raw.clone()).state(bucket).await?;
    Ok(Expired {
        cans: state.expired_cans,
        archives: state.expired_archives,
    })
}

/// The cans of a bucket, in the order of its index; nothing when it is not sealed.
///
/// # Errors
/// [`Error::Unusable`] for an index that is damaged; those of the lake.
pub async fn sealed_files(
    raw: &Lake,
    bucket: BucketDate,
) -> Result<Option<Vec<CannedFile>>, Error> {
    let key = Key::canned_index(bucket);
    let Some(object) = present(raw.get(&key, INDEX_BYTES_MAX).await)? else {
        return Ok(None);
    };
    let limits = IndexLimits {
        total_bytes_max: INDEX_TEXT_MAX,
        ..IndexLimits::default()
    };
    let read = tokio::task::spawn_blocking(move || read_canned_index(&*object.bytes, limits));
    let index = read.await.map_err(|_| Error::GivenUp)?;
    let index = index.map_err(|fault| Error::unusable(raw, &key, &fault))?;
    Ok(Some(index.files))
}
