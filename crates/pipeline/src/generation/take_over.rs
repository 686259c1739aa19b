//! The next generation takes over once nothing is left that only the one in force has.

use std::collections::BTreeSet;

use cannery_catalog::Catalog;
use cannery_formats::archive::{Current, Generation};
use cannery_formats::can::{BucketFile, FileName};
use cannery_formats::key::AutoclavedObject;
use cannery_formats::{BucketDate, Key};
use cannery_lake::Swap;

use super::{ROUNDS_MAX, read, unsettled};
use crate::cans::{BucketState, Indexes};
use crate::error::Error;
use crate::stage::Plant;
use crate::sweep::files::loaded;

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakeOver {
    /// It is in force from now on.
    Done,
    /// This file is still to be made, or to be loaded.
    HeldUp(String),
    /// It is not the next.
    NotNext,
}

/// Puts a generation in force if it is the next, the catalog points at no other one, and every can that counts and has an
/// archive in the generation in force is loaded in this one. A can that has no archive yet does not hold it up: otherwise
/// a steady stream of reports would.
///
/// # Errors
/// Those of the lakes and the catalog; what is in force is then the old or the new one, and the call may be repeated.
pub async fn take_over(
    plant: &Plant,
    catalog: &Catalog,
    generation: Generation,
) -> Result<TakeOver, Error> {
    let (lake, key) = (&plant.public, Key::autoclaved_current());
    for _ in 0..ROUNDS_MAX {
        let Some((current, version)) = read(lake).await? else {
            return Ok(TakeOver::NotNext);
        };
        let Some(next) = current.next.filter(|next| next.generation == generation) else {
            return Ok(TakeOver::NotNext);
        };
        let before = current.in_force.generation;
        if let Some(file) = held_up(plant, catalog, before, generation).await? {
            return Ok(TakeOver::HeldUp(file));
        }
        let after = Current {
            in_force: next,
            since: Some(plant.clock.now()),
            next: None,
        };
        let swap = lake.put_if_version(&key, &version, after.to_object().into());
        match swap.await? {
            Swap::Swapped(_) => return Ok(TakeOver::Done),
            Swap::Conflict => {}
        }
    }
    Err(unsettled(lake, key))
}

/// The first file that has to be made or loaded before.
async fn held_up(
    plant: &Plant,
    catalog: &Catalog,
    before: Generation,
    generation: Generation,
) -> Result<Option<String>, Error> {
    // Asked first, because it costs least and is most often the reason.
    let indexes = Indexes::new(plant.raw.clone());
    let other = behind(&indexes, catalog, generation).await?;
    if other.is_some() {
        return Ok(other);
    }
    for state in indexes.buckets().await? {
        let archived = archived(plant, before, state.bucket).await?;
        if archived.is_empty() {
            continue;
        }
        let loaded = loaded(catalog, state.bucket).await?;
        for name in counting(&indexes, &state).await? {
            let file = BucketFile::new(state.bucket, name.clone()).to_string();
            let is_loaded = loaded
                .get(&file)
                .is_some_and(|file| file.generation == generation);
            let is_expired = state.expired_cans.contains(&name);
            if archived.contains(&name) && !is_loaded && !is_expired {
                return Ok(Some(file));
            }
        }
    }
    Ok(None)
}

/// The first of the files that the catalog has in another generation, from the newest bucket back. One whose can was
/// removed on purpose stays where it is.
async fn behind(
    indexes: &Indexes,
    catalog: &Catalog,
    generation: Generation,
) -> Result<Option<String>, Error> {
    let generation = generation.to_string();
    let (mut before, mut state) = (None, None::<BucketState>);
    loop {
        let page = catalog.files_of_other_generations(&generation, before.as_deref());
        let page = page.await?;
        let Some(last) = page.last() else {
            return Ok(None);
        };
        before = Some(last.clone());
        for name in page {
            let Ok(file) = name.parse::<BucketFile>() else {
                return Ok(Some(name));
            };
            let is_known = |state: &&BucketState| state.bucket == file.bucket;
            let known = match state.as_ref().filter(is_known) {
                Some(known) => known,
                None => state.insert(indexes.state(file.bucket).await?),
            };
            if !known.expired_cans.contains(&file.name) {
                return Ok(Some(name));
            }
        }
    }
}

/// The files of a bucket that have an index in a generation, or are in that of the bucket.
pub(crate) async fn archived(
    plant: &Plant,
    generation: Generation,
    bucket: BucketDate,
) -> Result<BTreeSet<FileName>, Error> {
    let folder = Key::autoclaved_generation(generation, Some(bucket));
    let entries = plant.public.list_all(Some(&folder)).await?;
    let (mut files, mut with_index, mut is_joined) = (BTreeSet::new(), BTreeSet::new(), false);
    for (_, _, object) in entries.iter().filter_map(|entry| entry.key.as_autoclaved()) {
        match object {
            AutoclavedObject::File(name) => drop(files.insert(name)),
            AutoclavedObject::FileIndex(name) => drop(with_index.insert(name)),
            AutoclavedObject::SealedIndex => is_joined = true,
        }
    }
    // The original's have one index for all.
    if is_joined {
        with_index.append(&mut files);
    }
    Ok(with_index)
}

/// The cans of a bucket that count.
pub(crate) async fn counting(
    indexes: &Indexes,
    state: &BucketState,
) -> Result<BTreeSet<FileName>, Error> {
    let mut counting = BTreeSet::new();
    for index in indexes.counting(state, None).await? {
        counting.extend(indexes.names(&index).await?.files.iter().cloned());
    }
    Ok(counting)
}
