//! What the catalog has of a bucket.

use std::collections::BTreeMap;

use cannery_catalog::{Catalog, FileInfo, Filter};
use cannery_formats::BucketDate;
use cannery_formats::archive::Generation;
use jiff::Timestamp;

use crate::error::Error;

const PAGE: u32 = 1_000;

/// A file of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loaded {
    pub(crate) generation: Generation,
    /// When it was loaded, or pointed at last.
    pub(crate) at: Timestamp,
}

/// The files of a bucket, by their names. One that the catalog describes in a way that nobody knows is left out: it counts
/// as not loaded.
pub(crate) async fn loaded(
    catalog: &Catalog,
    bucket: BucketDate,
) -> Result<BTreeMap<String, Loaded>, Error> {
    let mut files = BTreeMap::new();
    for file in all(catalog, bucket).await? {
        let generation = file.facts.generation.parse();
        let at = Timestamp::from_millisecond(file.ingested_ms);
        if let (Ok(generation), Ok(at)) = (generation, at) {
            files.insert(file.facts.name, Loaded { generation, at });
        }
    }
    Ok(files)
}

/// The files of a bucket, as the catalog has them.
pub(crate) async fn all(catalog: &Catalog, bucket: BucketDate) -> Result<Vec<FileInfo>, Error> {
    let filter = Filter {
        bucket: Some(bucket.to_string()),
        ..Filter::default()
    };
    let mut files = Vec::new();
    let mut after = None;
    loop {
        let mut page = catalog.files(&filter, after, PAGE).await?;
        files.append(&mut page.items);
        after = page.next;
        if after.is_none() {
            return Ok(files);
        }
    }
}
