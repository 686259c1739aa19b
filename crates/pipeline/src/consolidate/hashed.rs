//! Archives named for their content: the union is put and read back, then whatever is strictly less goes. A maximal set is
//! never deleted, and sets are finite, so no interleaving of replicas loses anything.

use std::sync::Arc;

use cannery_formats::Key;
use cannery_formats::feed::ContentSet;

use super::plan::{Piece, Whole, reduce};
use super::visit::{Round, Visit};
use crate::error::Error;
use crate::fetched::Fetched;

/// One round over the archives `parts`. The content of `beside` becomes part of the whole, but it stays as it is.
pub(super) async fn round(
    visit: &mut Visit<'_>,
    parts: &[Key],
    beside: Option<&Arc<Fetched>>,
) -> Result<Round, Error> {
    match visit.gather(parts).await? {
        Some(found) => reduced(visit, &found, beside).await,
        None => Ok(Round::Again),
    }
}

/// The same over archives that were read.
pub(super) async fn reduced(
    visit: &mut Visit<'_>,
    found: &[Arc<Fetched>],
    beside: Option<&Arc<Fetched>>,
) -> Result<Round, Error> {
    let nothing = ContentSet::default();
    let pieces: Vec<_> = found.iter().map(|archive| piece(archive)).collect();
    let plan = reduce(&pieces, beside.map_or(&nothing, |archive| archive.set()));
    match &plan.whole {
        Whole::Nothing => return Ok(Round::Settled(None)),
        Whole::There(key) if plan.redundant.is_empty() => {
            let whole = found.iter().find(|archive| archive.key == *key);
            return Ok(Round::Settled(whole.cloned()));
        }
        // It was read in this visit: what is there is what is meant.
        Whole::There(_) => {}
        Whole::Made(set) => {
            let inputs: Vec<_> = found.iter().chain(beside).cloned().collect();
            if visit.put_whole(&inputs, set).await?.is_none() {
                return Ok(Round::Again);
            }
        }
    }
    visit.delete(&plan.redundant).await?;
    Ok(Round::Again)
}

pub(super) fn piece(archive: &Fetched) -> Piece<'_> {
    Piece {
        key: &archive.key,
        set: archive.set(),
    }
}
