//! Making the rows of all objects anew. What the lake says is staged in a table of its own, in any number of transactions; one
//! more then puts it in the place of what was there. So whoever reads sees the old rows or the new ones, and a rebuild that is
//! cut off has changed nothing.

use std::collections::{BTreeMap, BTreeSet};

use cannery_database::{Error, ErrorKind, Session, Value, settle, stored};
use cannery_formats::{ObjectChange, ObjectEntry};

use super::entry_row::{ENTRY_WIDTH, place, to_cells};
use super::transaction::{ROWS_AT_ONCE, counter, tuples};
use super::{EntryKey, VersionedEntry};
use crate::state::State;

/// What becomes of a user in a rebuild.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UserFix {
    /// The lake knows a user whom the database does not.
    Add {
        /// The id.
        id: String,
        /// The name.
        name: String,
    },
    /// The user was added again under another id, and gets the one back that has the objects.
    TakeId {
        /// The id in the database.
        from: String,
        /// The id in the lake.
        to: String,
    },
    /// The user was removed after the database was backed up.
    Remove {
        /// The id.
        id: String,
    },
}

const COLUMNS: &str = "account, parent, name, version, attempt, is_directory, mtime_us, etag, bytes, md5, sha256, data, data_offset, headers";

impl State {
    /// Begins a rebuild, which ends any other one that is under way; `attempt` is unique to it.
    ///
    /// # Errors
    /// By kind.
    pub async fn begin_rebuild(&self, attempt: &str) -> Result<(), Error> {
        let mut session = self.begin_objects().await?.into_session();
        let begun = begin(session.as_mut(), attempt).await;
        settle(session, begun).await
    }

    /// Stages changes. Of each path the highest version counts, in whatever order they come.
    ///
    /// # Errors
    /// `Invalid` when another rebuild has begun since.
    pub async fn stage_changes(
        &self,
        attempt: &str,
        changes: &[ObjectChange],
    ) -> Result<(), Error> {
        let mut newest: BTreeMap<EntryKey, &ObjectChange> = BTreeMap::new();
        for change in changes {
            let key = EntryKey {
                account: change.user.clone(),
                path: change.path.clone(),
            };
            let known = newest.entry(key).or_insert(change);
            if known.version < change.version {
                *known = change;
            }
        }
        let newest: Vec<(EntryKey, &ObjectChange)> = newest.into_iter().collect();
        let mut session = self.begin_objects().await?.into_session();
        let staged = stage(session.as_mut(), attempt, &newest).await;
        settle(session, staged).await
    }

    /// The users who have staged entries.
    ///
    /// # Errors
    /// By kind.
    pub async fn staged_accounts(&self) -> Result<BTreeSet<String>, Error> {
        let sql = "select distinct account from object_staged where not is_deleted";
        let mut session = self.database.reader().await?;
        let rows = session.query(sql, Vec::new()).await?;
        rows.iter().map(|row| row.text(0)).collect()
    }

    /// Puts what was staged in the place of all entries, except those of `removed` users, in one transaction; the number of
    /// entries. `version` is the last one that the lake knows, `expected` the one of the database when the rebuild began. The
    /// attempt becomes the id of the database: a copy of it that runs elsewhere is another one from now on.
    ///
    /// # Errors
    /// `Invalid` when another rebuild has begun since, or an object was changed: then nothing was done.
    pub async fn finish_rebuild(
        &self,
        attempt: &str,
        expected: u64,
        version: u64,
        removed: &BTreeSet<String>,
        fixes: &[UserFix],
    ) -> Result<u64, Error> {
        let now_ms = self.clock.now().as_millisecond();
        let mut session = self.begin_objects().await?.into_session();
        let done = async {
            let session = session.as_mut();
            check_attempt(session, attempt).await?;
            check_version(session, expected).await?;
            for fix in fixes {
                apply(session, fix, now_ms).await?;
            }
            swap(session, attempt, removed, version.max(expected)).await
        }
        .await;
        settle(session, done).await
    }
}

async fn begin(session: &mut dyn Session, attempt: &str) -> Result<(), Error> {
    session.script("delete from object_staged").await?;
    let sql = "insert into object_rebuild (id, attempt) values (1, $1) on conflict (id) do update set attempt = excluded.attempt";
    session.execute(sql, vec![attempt.into()]).await.map(drop)
}

async fn check_attempt(session: &mut dyn Session, attempt: &str) -> Result<(), Error> {
    let sql = "select 1 from object_rebuild where attempt = $1";
    if session.query(sql, vec![attempt.into()]).await?.is_empty() {
        let message = "another rebuild of the objects has begun since; this one changes nothing";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(())
}

async fn check_version(session: &mut dyn Session, expected: u64) -> Result<(), Error> {
    let sql = "select version from object_counter where id = 1";
    let version = counter(&session.query(sql, Vec::new()).await?)?;
    if version != expected {
        let message = "an object was changed during the rebuild, which changes nothing; stop all servers and run it again";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(())
}

async fn stage(
    session: &mut dyn Session,
    attempt: &str,
    changes: &[(EntryKey, &ObjectChange)],
) -> Result<(), Error> {
    check_attempt(session, attempt).await?;
    for some in changes.chunks(ROWS_AT_ONCE) {
        let mut values = Vec::new();
        let mut rows = 0;
        for (key, change) in some {
            let Some(place) = place(key) else { continue };
            rows += 1;
            values.extend(place);
            // A tombstone has the cells of a directory.
            let entry = change.entry.clone();
            let entry = VersionedEntry {
                version: change.version,
                attempt: change.attempt.clone(),
                entry: entry.unwrap_or(ObjectEntry::Directory { mtime_us: 0 }),
            };
            values.extend(to_cells(&entry)?);
            values.push(Value::Bool(change.entry.is_none()));
        }
        if rows == 0 {
            continue;
        }
        let sql = format!(
            "insert into object_staged ({COLUMNS}, is_deleted) values {} on conflict (account, parent, name) do update set \
             version = excluded.version, attempt = excluded.attempt, is_directory = excluded.is_directory, mtime_us = excluded.mtime_us, \
             etag = excluded.etag, bytes = excluded.bytes, md5 = excluded.md5, sha256 = excluded.sha256, data = excluded.data, \
             data_offset = excluded.data_offset, headers = excluded.headers, is_deleted = excluded.is_deleted \
             where object_staged.version < excluded.version",
            tuples(rows, 4 + ENTRY_WIDTH, &[])
        );
        session.execute(&sql, values).await?;
    }
    Ok(())
}

async fn apply(session: &mut dyn Session, fix: &UserFix, now_ms: i64) -> Result<(), Error> {
    match fix {
        UserFix::Add { id, name } => {
            let sql =
                "insert into account (id, name, bytes_max, created_ms) values ($1, $2, null, $3)";
            let values = vec![id.as_str().into(), name.as_str().into(), now_ms.into()];
            session.execute(sql, values).await?;
        }
        UserFix::TakeId { from, to } => {
            for sql in [
                "update account set id = $2, is_recorded = false where id = $1",
                "update account_key set account = $2 where account = $1",
                "update token set account = $2 where account = $1",
            ] {
                let values = vec![from.as_str().into(), to.as_str().into()];
                session.execute(sql, values).await?;
            }
        }
        UserFix::Remove { id } => {
            for sql in [
                "update account set removed_ms = $2, is_removal_recorded = true where id = $1",
                "update token set revoked_ms = $2 where account = $1 and revoked_ms is null",
            ] {
                let values = vec![id.as_str().into(), now_ms.into()];
                session.execute(sql, values).await?;
            }
            let sql = "delete from account_key where account = $1";
            session.execute(sql, vec![id.as_str().into()]).await?;
        }
    }
    Ok(())
}

async fn swap(
    session: &mut dyn Session,
    attempt: &str,
    removed: &BTreeSet<String>,
    version: u64,
) -> Result<u64, Error> {
    for id in removed {
        let sql = "delete from object_staged where account = $1";
        session.execute(sql, vec![id.as_str().into()]).await?;
    }
    session
        .script(
            "delete from object; delete from object_directory; delete from object_usage; \
                 delete from object_outbox; delete from object_garbage; delete from object_rebuild",
        )
        .await?;
    let sql = format!(
        "insert into object ({COLUMNS}) select {COLUMNS} from object_staged where not is_deleted"
    );
    let entries = session.execute(&sql, Vec::new()).await?;
    session
        .script("insert into object_directory (account, path, children) select account, parent, count(*) from object group by account, parent; \
                 insert into object_usage (account, bytes) select account, sum(bytes) from object where bytes is not null group by account; \
                 delete from object_staged")
        .await?;
    let sql = "update object_counter set version = $1, database_id = $2 where id = 1";
    let values = vec![stored(version)?, attempt.into()];
    session.execute(sql, values).await?;
    Ok(entries)
}
