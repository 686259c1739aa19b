//! The primary where nothing can be replaced safely: a copy. The archive that it is a copy of stays for good, so it does not
//! matter to anybody's data when the copy is old or missing for a moment.
//!
//! All replicas must agree that the store is one of this kind: one that replaces the primary by compare-and-swap relies on
//! nobody deleting it. `Store::agree` sees to that before either begins.

use std::sync::Arc;

use cannery_formats::Key;
use cannery_formats::feed::{Codec, Holding};
use cannery_formats::hour_archive::Origin;
use cannery_lake::PutNew;

use super::hashed;
use super::step::Step;
use super::visit::{Primary, Round, Visit};
use crate::error::Error;
use crate::fetched::{Fetch, Fetched};

/// One round: what is beside the primary becomes one archive with everything, also what only the primary has; then the
/// primary becomes a copy of it.
pub(super) async fn round(visit: &mut Visit<'_>, parts: &[Key]) -> Result<Round, Error> {
    let primary = visit.primary().await?;
    let beside = match &primary {
        Primary::There(primary) => Some(primary),
        Primary::Absent | Primary::Unusable => None,
    };
    let whole = match hashed::round(visit, parts, beside).await? {
        Round::Again => return Ok(Round::Again),
        Round::Settled(None) => return Ok(Round::Settled(None)),
        Round::Settled(Some(whole)) => whole,
    };
    match primary {
        Primary::Unusable => return Ok(Round::Settled(Some(whole))),
        Primary::There(old) if old.set() == whole.set() => {
            return Ok(Round::Settled(Some(whole)));
        }
        // All of it is in the whole, which was read in this visit and stays.
        Primary::There(old) => visit.delete(std::slice::from_ref(&old.key)).await?,
        Primary::Absent => {}
    }
    copy(visit, &whole).await?;
    Ok(Round::Again)
}

async fn copy(visit: &mut Visit<'_>, whole: &Arc<Fetched>) -> Result<(), Error> {
    let key = visit.name_of(Holding::Primary);
    let is_plain = whole.survey.codec == Codec::Gzip && whole.survey.origin == Origin::Ours;
    let put = if is_plain {
        visit.put(&key, &whole.file).await?
    } else {
        let inputs = std::slice::from_ref(whole);
        let file = visit.unite(inputs, whole.set(), Codec::Gzip).await?;
        visit.put(&key, &file).await?
    };
    if !matches!(put, Some(PutNew::Created | PutNew::Same)) {
        visit.note(Step::Conflict { key });
        return Ok(());
    }
    let fetch = visit.fetcher.fetch(visit.lake, visit.subject, &key);
    match fetch.await? {
        Fetch::Archive(archive) if archive.set() == whole.set() => visit.note(Step::Copied {
            from: whole.key.clone(),
            primary: key,
        }),
        // Another replica has replaced it already.
        Fetch::Archive(_) | Fetch::Vanished => visit.note(Step::Conflict { key }),
        Fetch::Unusable(fault) => return Err(visit.not_as_put(key, fault.why)),
    }
    Ok(())
}
