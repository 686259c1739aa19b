//! Which user has which id after a rebuild: pure, from what the lake and the database know.

use std::collections::{BTreeMap, BTreeSet};

use cannery_formats::{Key, UserName, UserRecord};
use cannery_lake::Mirrors;
use cannery_state::State;
use cannery_state::objects::UserFix;
use futures::stream::TryStreamExt as _;

use crate::error::{ObjectError, ObjectErrorKind};
use crate::everywhere::put_everywhere;

/// A record is a few short texts.
const RECORD_BYTES_MAX: u64 = 64 * 1024;

/// What is known of users.
#[derive(Debug, Default)]
pub(super) struct KnownUsers {
    /// The names of all ids that the lake has a record of.
    pub(super) recorded: BTreeMap<String, UserName>,
    /// The ids of users who were removed, by the lake.
    pub(super) removed: BTreeSet<String>,
    /// The ids of users by the database, and their names.
    pub(super) rows: BTreeMap<String, String>,
}

/// What is to be done about users.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UsersPlan {
    pub(super) fixes: Vec<UserFix>,
    /// Ids whose name belongs to another id, and which have no objects: the lake is told that they are removed.
    pub(super) abandoned: BTreeSet<String>,
}

/// Reads what the lake, in all mirrors together, and the database know.
pub(super) async fn read(state: &State, mirrors: &Mirrors) -> Result<KnownUsers, ObjectError> {
    let mut known = KnownUsers::default();
    for lake in mirrors.iter() {
        let mut listed = lake.list(Some(&Key::user_records()));
        while let Some(entry) = listed.try_next().await? {
            let key = entry.key;
            if let Some(id) = key.as_user_removal() {
                known.removed.insert(id.to_owned());
            } else if let Some(id) = key.as_user_record() {
                let bytes = lake.get(&key, RECORD_BYTES_MAX).await?.bytes;
                let record = UserRecord::from_bytes(&bytes).ok();
                let record = record.filter(|record| record.id == id).ok_or_else(|| {
                    let message = format!(
                        "`{key}` is damaged; put a good copy of it there, from a mirror or a backup, and run `cannery rebuild` again"
                    );
                    ObjectError::new(ObjectErrorKind::Corrupt, message)
                })?;
                known.recorded.insert(record.id, record.name);
            }
        }
    }
    for user in state.users().await? {
        known.rows.insert(user.id, user.name);
    }
    Ok(known)
}

impl KnownUsers {
    /// Of the ids of one name that one is kept which has objects; if none has any, the one that the database knows.
    ///
    /// # Errors
    /// `Corrupt` when several of them have objects, or somebody has objects and the lake has no record of them.
    pub(super) fn plan(&self, used: &BTreeSet<String>) -> Result<UsersPlan, ObjectError> {
        let is_removed = |id: &String| self.removed.contains(id);
        for id in used {
            if !self.recorded.contains_key(id) && !is_removed(id) {
                let message = format!(
                    "user `{id}` has objects, and `users/.accounts/{id}.json` is missing; put it there, from a mirror or a backup, and run `cannery rebuild` again"
                );
                return Err(ObjectError::new(ObjectErrorKind::Corrupt, message));
            }
        }
        let mut plan = UsersPlan::default();
        let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (id, name) in &self.recorded {
            if !is_removed(id) {
                names.entry(name.as_str()).or_default().insert(id);
            }
        }
        for (id, name) in &self.rows {
            if is_removed(id) {
                plan.fixes.push(UserFix::Remove { id: id.clone() });
            } else {
                names.entry(name).or_default().insert(id);
            }
        }
        for (name, ids) in names {
            self.plan_name(name, &ids, used, &mut plan)?;
        }
        Ok(plan)
    }

    fn plan_name(
        &self,
        name: &str,
        ids: &BTreeSet<&str>,
        used: &BTreeSet<String>,
        plan: &mut UsersPlan,
    ) -> Result<(), ObjectError> {
        let in_use: Vec<&str> = ids
            .iter()
            .copied()
            .filter(|id| used.contains(*id))
            .collect();
        if in_use.len() > 1 {
            let message = format!(
                "several users with objects have the name `{name}`: {}; record that one was removed (`users/.accounts/<id>.removed.json`), and run `cannery rebuild` again",
                in_use.join(", ")
            );
            return Err(ObjectError::new(ObjectErrorKind::Corrupt, message));
        }
        let row = ids
            .iter()
            .copied()
            .find(|id| self.rows.get(*id).is_some_and(|of| of == name));
        let kept = in_use.first().copied().or(row).or(ids.first().copied());
        let Some(kept) = kept else { return Ok(()) };
        match row {
            Some(row) if row == kept => {}
            Some(row) => plan.fixes.push(UserFix::TakeId {
                from: row.to_owned(),
                to: kept.to_owned(),
            }),
            None => plan.fixes.push(UserFix::Add {
                id: kept.to_owned(),
                name: name.to_owned(),
            }),
        }
        let others = ids.iter().filter(|id| **id != kept);
        plan.abandoned.extend(others.map(|id| (*id).to_owned()));
        Ok(())
    }

    /// Tells the lake that these ids are removed.
    pub(super) async fn abandon(
        &self,
        mirrors: &Mirrors,
        ids: &BTreeSet<String>,
    ) -> Result<(), ObjectError> {
        for id in ids {
            if let (Some(key), Some(name)) = (Key::user_removal(id), self.recorded.get(id)) {
                let record = UserRecord::new(id, name.clone());
                put_everywhere(mirrors, &key, record.to_bytes()).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
