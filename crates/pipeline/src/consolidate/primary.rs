//! One primary that only grows, replaced by compare-and-swap; it is never deleted, so what it holds may go elsewhere.

use std::sync::Arc;

use cannery_formats::Key;
use cannery_formats::feed::{Codec, Holding};
use cannery_lake::{PutNew, Swap, Version};

use super::hashed;
use super::plan::{Growth, grow};
use super::step::Step;
use super::visit::{Primary, Round, Visit};
use crate::error::Error;
use crate::fetched::{Fetch, Fetched};
use crate::scratch::ScratchFile;

/// One round: the primary takes in `parts`, is read back, and they are deleted.
pub(super) async fn round(visit: &mut Visit<'_>, parts: &[Key]) -> Result<Round, Error> {
    if parts.is_empty() {
        return Ok(Round::Settled(None));
    }
    let primary = match visit.primary().await? {
        Primary::Absent => None,
        Primary::There(primary) => Some(primary),
        // What is wrong with it is for people to look at; nothing else is lost until then.
        Primary::Unusable => return hashed::round(visit, parts, None).await,
    };
    let Some(found) = visit.gather(parts).await? else {
        return Ok(Round::Again);
    };
    let pieces: Vec<_> = found.iter().map(|archive| hashed::piece(archive)).collect();
    let Some(growth) = grow(primary.as_ref().map(|archive| archive.set()), &pieces) else {
        return Ok(Round::Settled(None));
    };
    if growth.is_new {
        match write(visit, primary.as_ref(), &found, &growth).await? {
            Written::Yes => {}
            Written::No => return Ok(Round::Again),
            Written::TooLarge(primary) => return overflow(visit, &primary, &found).await,
        }
    }
    if !holds(visit, &growth).await? {
        return Ok(Round::Again);
    }
    let covered: Vec<_> = found.iter().map(|archive| archive.key.clone()).collect();
    visit.delete(&covered).await?;
    Ok(Round::Again)
}

enum Written {
    Yes,
    /// Somebody else was first, or the hour was deleted: look again.
    No,
    /// The store cannot replace an object of that size in one step.
    TooLarge(Arc<Fetched>),
}

async fn write(
    visit: &mut Visit<'_>,
    primary: Option<&Arc<Fetched>>,
    found: &[Arc<Fetched>],
    growth: &Growth,
) -> Result<Written, Error> {
    let inputs: Vec<_> = primary.into_iter().chain(found).cloned().collect();
    let file = visit.unite(&inputs, &growth.set, Codec::Gzip).await?;
    let key = visit.name_of(Holding::Primary);
    let written = match primary {
        None => create(visit, &key, &file).await?,
        Some(primary) => {
            let bytes = file.len().map_err(|why| visit.fetcher.failed(why))?;
            match &primary.version {
                Some(version) if bytes <= visit.fetcher.swap_bytes_max => {
                    swap(visit, &key, version, &file).await?
                }
                Some(_) | None => return Ok(Written::TooLarge(Arc::clone(primary))),
            }
        }
    };
    if written {
        let (primary, entries) = (key, growth.set.len());
        visit.note(Step::Swapped { primary, entries });
        return Ok(Written::Yes);
    }
    visit.note(Step::Conflict { key });
    Ok(Written::No)
}

async fn create(visit: &Visit<'_>, key: &Key, file: &ScratchFile) -> Result<bool, Error> {
    Ok(match visit.put(key, file).await? {
        Some(PutNew::Created | PutNew::Same) => true,
        Some(PutNew::Different) | None => false,
    })
}

async fn swap(
    visit: &Visit<'_>,
    key: &Key,
    version: &Version,
    file: &ScratchFile,
) -> Result<bool, Error> {
    let content = visit.fetcher.content(file).await?;
    if visit.is_deleted().await? {
        return Ok(false);
    }
    let swapped = match visit.lake.put_if_version(key, version, content).await? {
        Swap::Swapped(_) => true,
        Swap::Conflict => false,
    };
    Ok(swapped && !visit.is_deleted().await?)
}

/// Reads the primary back: others may have made it grow, but it must hold what was meant.
async fn holds(visit: &mut Visit<'_>, growth: &Growth) -> Result<bool, Error> {
    let key = visit.name_of(Holding::Primary);
    let fetch = visit.fetcher.fetch(visit.lake, visit.subject, &key);
    match fetch.await? {
        Fetch::Archive(archive) if archive.set().contains_all(&growth.set) => Ok(true),
        Fetch::Archive(_) | Fetch::Vanished => {
            visit.note(Step::Conflict { key });
            Ok(false)
        }
        Fetch::Unusable(fault) => Err(visit.not_as_put(key, fault.why)),
    }
}

/// The primary stays as it is, and what it lacks stays in one archive beside it.
async fn overflow(
    visit: &mut Visit<'_>,
    primary: &Arc<Fetched>,
    found: &[Arc<Fetched>],
) -> Result<Round, Error> {
    visit.leave(&primary.key, "too large to be replaced in one step");
    let is_inside = |archive: &&Arc<Fetched>| primary.set().contains_all(archive.set());
    let (inside, outside): (Vec<_>, Vec<_>) = found.iter().partition(is_inside);
    let inside: Vec<_> = inside.iter().map(|archive| archive.key.clone()).collect();
    visit.delete(&inside).await?;
    let outside: Vec<_> = outside.into_iter().cloned().collect();
    match hashed::reduced(visit, &outside, None).await? {
        Round::Settled(whole) if inside.is_empty() => Ok(Round::Settled(whole)),
        Round::Settled(_) | Round::Again => Ok(Round::Again),
    }
}
