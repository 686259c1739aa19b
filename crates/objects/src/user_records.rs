//! The names and ids of users go to the lake, so that a new database gives the same ids to them.

use cannery_formats::{Key, UserName, UserRecord};
use cannery_lake::Mirrors;
use cannery_state::State;
use cannery_state::identity::User;

use crate::error::{ObjectError, ObjectErrorKind};
use crate::everywhere::put_everywhere;

/// Writes the records of users who were added and of users who were removed, as far as they are not known to be in every
/// mirror. To be called after a user was added or removed; a server does it by itself, too, before a user has the first object.
/// Safe to repeat, and to be cut off anywhere.
///
/// # Errors
/// `NoSpace`, `Unavailable`, `Corrupt`.
pub async fn record_users(state: &State, mirrors: &Mirrors) -> Result<(), ObjectError> {
    for user in state.unrecorded_users().await? {
        put(mirrors, Key::user_record(&user.id), &user).await?;
        state.set_user_recorded(&user.id).await?;
    }
    for user in state.unrecorded_removals().await? {
        put(mirrors, Key::user_removal(&user.id), &user).await?;
        state.set_removal_recorded(&user.id).await?;
    }
    Ok(())
}

async fn put(mirrors: &Mirrors, key: Option<Key>, user: &User) -> Result<(), ObjectError> {
    let damaged = || {
        let message = format!("the state contradicts itself: user `{}`", user.id);
        ObjectError::new(ObjectErrorKind::Corrupt, message)
    };
    let name = UserName::new(&user.name).map_err(|_| damaged())?;
    let record = UserRecord::new(&user.id, name);
    put_everywhere(mirrors, &key.ok_or_else(damaged)?, record.to_bytes()).await
}
