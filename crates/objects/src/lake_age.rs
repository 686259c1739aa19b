//! A database that knows fewer changes than the lake is an old one: what it would answer is not what was acknowledged, and what
//! it would sweep may be in use.

use cannery_formats::Key;
use cannery_lake::Mirrors;
use cannery_runtime::Rng;
use cannery_state::State;
use futures::stream::TryStreamExt as _;

use crate::error::{ObjectError, ObjectErrorKind};
use crate::ownership::check_owner;

/// The highest version that any part of the log, or any snapshot, has in any mirror.
pub(crate) async fn newest_version(mirrors: &Mirrors) -> Result<u64, ObjectError> {
    let mut newest = 0;
    for lake in mirrors.iter() {
        for folder in [Key::object_logs(), Key::object_snapshots()] {
            let mut listed = lake.list(Some(&folder));
            while let Some(entry) = listed.try_next().await? {
                let key = &entry.key;
                let version = key.as_object_log().or_else(|| key.as_object_snapshot());
                newest = newest.max(version.unwrap_or(0));
            }
        }
    }
    Ok(newest)
}

/// The version of the database.
///
/// # Errors
/// `BehindLake` when the lake has a higher one, or belongs to another database.
pub(crate) async fn check_age(
    state: &State,
    mirrors: &Mirrors,
    rng: &Rng,
) -> Result<u64, ObjectError> {
    check_owner(state, mirrors, rng).await?;
    let newest = newest_version(mirrors).await?;
    let known = state.object_version().await?;
    if newest <= known {
        return Ok(known);
    }
    Err(behind(newest, known))
}

/// Whether the lake has changes that the database does not know: it is new, or an old backup of it, or another database has the
/// objects.
///
/// # Errors
/// `Unavailable`.
pub async fn is_behind_lake(
    state: &State,
    mirrors: &Mirrors,
    rng: &Rng,
) -> Result<bool, ObjectError> {
    match check_age(state, mirrors, rng).await {
        Ok(_) => Ok(false),
        Err(error) if error.kind == ObjectErrorKind::BehindLake => Ok(true),
        Err(error) => Err(error),
    }
}

/// The refusal of a database that ends before a change that was made.
pub(crate) fn behind(newest: u64, known: u64) -> ObjectError {
    let message = format!(
        "change {newest} of users' objects was made, and the database ends at {known}: it is new, or an old backup of it was restored"
    );
    ObjectError::new(ObjectErrorKind::BehindLake, message)
}
