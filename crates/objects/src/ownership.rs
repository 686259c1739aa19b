//! One database has the names of users' objects in a lake: two would give out the same versions, and each would sweep the bytes of
//! the other.
//!
//! The first database that writes to the log claims the lake; a rebuild takes it over. Who finds another owner writes nothing.

use std::collections::BTreeSet;

use cannery_formats::{Key, NamespaceOwner};
use cannery_lake::Mirrors;
use cannery_runtime::Rng;
use cannery_state::State;
use futures::stream::TryStreamExt as _;

use crate::error::{ObjectError, ObjectErrorKind};
use crate::everywhere::put_everywhere;

/// A record is one short text.
const RECORD_BYTES_MAX: u64 = 64 * 1024;

/// What the lake says of its owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OwnerRecord {
    /// The number of the record; 0 if there is none.
    number: u64,
    /// The databases that it names: mirrors may disagree after two claims at once.
    databases: BTreeSet<String>,
}

async fn read(mirrors: &Mirrors) -> Result<OwnerRecord, ObjectError> {
    let mut record = OwnerRecord::default();
    for lake in mirrors.iter() {
        let mut listed = lake.list(Some(&Key::namespace_owners()));
        let mut newest = 0;
        while let Some(entry) = listed.try_next().await? {
            newest = newest.max(entry.key.as_namespace_owner().unwrap_or(0));
        }
        if newest == 0 || newest < record.number {
            continue;
        }
        if newest > record.number {
            record.databases.clear();
            record.number = newest;
        }
        let bytes = lake
            .get(&Key::namespace_owner(newest), RECORD_BYTES_MAX)
            .await?
            .bytes;
        // What cannot be read is nobody: only a rebuild puts another record in its place.
        let owner = NamespaceOwner::from_bytes(&bytes).map_or(String::new(), |one| one.database);
        record.databases.insert(owner);
    }
    Ok(record)
}

impl OwnerRecord {
    fn is_owned_by(&self, database: &str) -> bool {
        self.databases.iter().all(|owner| owner == database)
    }
}

/// # Errors
/// `BehindLake` when the lake says that another database has the names of the objects in it.
pub(crate) async fn check_owner(
    state: &State,
    mirrors: &Mirrors,
    rng: &Rng,
) -> Result<(), ObjectError> {
    let own = state.object_database_id(&rng.id()).await?;
    match read(mirrors).await?.is_owned_by(&own) {
        true => Ok(()),
        false => Err(foreign()),
    }
}

/// The same, and nobody else becomes the owner from now on but by a rebuild. Safe to repeat.
///
/// # Errors
/// As [`check_owner`].
pub(crate) async fn claim(state: &State, mirrors: &Mirrors, rng: &Rng) -> Result<(), ObjectError> {
    let own = state.object_database_id(&rng.id()).await?;
    let record = read(mirrors).await?;
    match record.number {
        0 => put(mirrors, 1, &own).await,
        _ if record.is_owned_by(&own) => Ok(()),
        _ => Err(foreign()),
    }
}

/// Makes this database the owner, after a rebuild.
///
/// # Errors
/// As [`check_owner`], when somebody else does the same at once.
pub(crate) async fn take_over(
    state: &State,
    mirrors: &Mirrors,
    rng: &Rng,
) -> Result<(), ObjectError> {
    let own = state.object_database_id(&rng.id()).await?;
    let record = read(mirrors).await?;
    if record.number > 0 && record.is_owned_by(&own) {
        return Ok(());
    }
    put(mirrors, record.number + 1, &own).await
}

async fn put(mirrors: &Mirrors, number: u64, own: &str) -> Result<(), ObjectError> {
    let record = NamespaceOwner::new(own).to_bytes();
    let put = put_everywhere(mirrors, &Key::namespace_owner(number), record).await;
    put.map_err(|error| match error.kind {
        ObjectErrorKind::Corrupt => foreign(),
        _ => error,
    })
}

fn foreign() -> ObjectError {
    let message = "another database has the names of the users' objects in this lake: `state` is not the one that it was, or another `cannery up` uses the same lake with a `state` of its own";
    ObjectError::new(ObjectErrorKind::BehindLake, message)
}
