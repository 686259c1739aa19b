//! Bytes that a name had and has no longer, or that never got one. Another name may still have them: that is found out before
//! they go.

use std::collections::BTreeSet;

use cannery_database::{Error, ErrorKind, Session, Value, settle};

use super::transaction::{self, ROWS_AT_ONCE, counter, deletes, inserts};
use crate::state::State;

/// Bytes that may have no name any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GarbageCandidate {
    /// Their key in the lake.
    pub data: String,
    /// Since when they may have no name, in milliseconds since 1970.
    pub since_ms: i64,
    /// Whether it is settled that they go.
    pub is_doomed: bool,
}

impl State {
    /// Candidates that are at least as old as that and come after `last`, oldest first, at most so many.
    ///
    /// # Errors
    /// By kind.
    pub async fn object_garbage(
        &self,
        until_ms: i64,
        last: Option<&GarbageCandidate>,
        limit: usize,
    ) -> Result<Vec<GarbageCandidate>, Error> {
        let mut values: Vec<Value> = vec![until_ms.into()];
        let behind = match last {
            None => "",
            Some(last) => {
                values.push(last.since_ms.into());
                values.push(last.data.as_str().into());
                "and (since_ms, data) > ($2, $3)"
            }
        };
        let sql = format!(
            "select data, since_ms, is_doomed from object_garbage where since_ms <= $1 {behind} \
             order by since_ms, data limit {limit}"
        );
        let mut session = self.database.reader().await?;
        let rows = session.query(&sql, values).await?;
        let candidate = |row: &cannery_database::Row| {
            Ok(GarbageCandidate {
                data: row.text(0)?,
                since_ms: row.int(1)?,
                is_doomed: matches!(row.0.get(2), Some(Value::Bool(true) | Value::Int(1))),
            })
        };
        rows.iter().map(candidate).collect()
    }

    /// Settles in one transaction which of these candidates go: those that no entry has, and that are still as old as `until_ms`: a
    /// name that was taken from them since has readers who may have begun. From then on no entry can get them,
    /// because an entry gets bytes from another entry or from an upload of its own alone. Bytes that an entry has are no
    /// candidates any more.
    ///
    /// # Errors
    /// `Invalid` when the database knows fewer changes than `version`: it is not the one that it was.
    pub async fn doom_garbage(
        &self,
        candidates: &BTreeSet<String>,
        until_ms: i64,
        version: u64,
    ) -> Result<BTreeSet<String>, Error> {
        let mut session = self.begin_objects().await?.into_session();
        let doomed = async {
            let session = session.as_mut();
            check_version(session, version).await?;
            let named = known(session, "object where", candidates).await?;
            let young = format!("object_garbage where since_ms > {until_ms} and not is_doomed and");
            let young = known(session, &young, candidates).await?;
            let mut unnamed: BTreeSet<String> = candidates.difference(&named).cloned().collect();
            unnamed.retain(|data| !young.contains(data));
            let sql = "delete from object_garbage where data in";
            each(session, sql, &named).await?;
            let sql = "update object_garbage set is_doomed = true where data in";
            each(session, sql, &unnamed).await?;
            Ok(unnamed)
        }
        .await;
        settle(session, doomed).await
    }

    /// The same for bytes that were found in the lake, and that nobody may know of: those go that no entry has and that are no
    /// candidates either. They are listed as settled, so that a deletion that is cut off is finished later.
    ///
    /// # Errors
    /// As [`State::doom_garbage`].
    pub async fn doom_orphans(
        &self,
        found: &BTreeSet<String>,
        version: u64,
    ) -> Result<BTreeSet<String>, Error> {
        let mut session = self.begin_objects().await?.into_session();
        let doomed = async {
            let session = session.as_mut();
            check_version(session, version).await?;
            let mut known_bytes = known(session, "object where", found).await?;
            known_bytes.extend(known(session, "object_garbage where", found).await?);
            let orphans: BTreeSet<String> = found.difference(&known_bytes).cloned().collect();
            let rows: Vec<[Value; 3]> = orphans
                .iter()
                .map(|data| [data.as_str().into(), 0.into(), Value::Bool(true)])
                .collect();
            let head = "insert into object_garbage (data, since_ms, is_doomed) values";
            session.execute_all(inserts(head, "", &rows)).await?;
            Ok(orphans)
        }
        .await;
        settle(session, doomed).await
    }

    /// Forgets bytes that were deleted from the lake. Safe to repeat.
    ///
    /// # Errors
    /// By kind.
    pub async fn forget_garbage(&self, deleted: &BTreeSet<String>) -> Result<(), Error> {
        let mut session = self.database.writer().await?;
        let sql = "delete from object_garbage where data in";
        each(session.as_mut(), sql, deleted).await
    }

    /// Removes at most so many entries of users who were removed, and of whose removal the lake knows; their bytes become
    /// candidates. False when there are no more.
    ///
    /// # Errors
    /// As [`State::doom_garbage`].
    pub async fn remove_entries_of_removed_users(
        &self,
        limit: usize,
        version: u64,
    ) -> Result<bool, Error> {
        let now_ms = self.clock.now().as_millisecond();
        let mut session = self.begin_objects().await?.into_session();
        let removed = async {
            let session = session.as_mut();
            check_version(session, version).await?;
            remove_entries(session, limit, now_ms).await
        }
        .await;
        settle(session, removed).await
    }
}

async fn check_version(session: &mut dyn Session, version: u64) -> Result<(), Error> {
    let sql = "select version from object_counter where id = 1";
    let known = counter(&session.query(sql, Vec::new()).await?)?;
    if known < version {
        let message = format!(
            "change {version} of users' objects was made, and the database ends at {known}: an old backup of it was restored; run `cannery rebuild`"
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(())
}

/// Which of these keys stand in the column `data` of the rows that `rows` names: a table, `where`, and what else must hold.
async fn known(
    session: &mut dyn Session,
    rows: &str,
    keys: &BTreeSet<String>,
) -> Result<BTreeSet<String>, Error> {
    let keys: Vec<&String> = keys.iter().collect();
    let mut found = BTreeSet::new();
    for some in keys.chunks(ROWS_AT_ONCE) {
        let sql = format!(
            "select distinct data from {rows} data in ({})",
            numbers(some.len())
        );
        let values = some.iter().map(|key| key.as_str().into()).collect();
        for row in session.query(&sql, values).await? {
            found.insert(row.text(0)?);
        }
    }
    Ok(found)
}

/// A statement that ends with `in`, for all keys.
async fn each(session: &mut dyn Session, sql: &str, keys: &BTreeSet<String>) -> Result<(), Error> {
    let keys: Vec<&String> = keys.iter().collect();
    for some in keys.chunks(ROWS_AT_ONCE) {
        let sql = format!("{sql} ({})", numbers(some.len()));
        let values = some.iter().map(|key| key.as_str().into()).collect();
        session.execute(&sql, values).await?;
    }
    Ok(())
}

/// `$1, $2, $3`.
fn numbers(count: usize) -> String {
    let numbers: Vec<String> = (1..=count).map(|number| format!("${number}")).collect();
    numbers.join(", ")
}

async fn remove_entries(
    session: &mut dyn Session,
    limit: usize,
    now_ms: i64,
) -> Result<bool, Error> {
    let sql =
        "select id from account where is_removal_recorded and not is_emptied order by id limit 1";
    let rows = session.query(sql, Vec::new()).await?;
    let Some(row) = rows.first() else {
        return Ok(false);
    };
    let account: Value = row.text(0)?.into();
    let sql = format!(
        "select parent, name, data from object where account = $1 order by parent, name limit {limit}"
    );
    let rows = session.query(&sql, vec![account.clone()]).await?;
    if rows.is_empty() {
        for sql in [
            "delete from object_directory where account = $1",
            "delete from object_usage where account = $1",
            "update account set is_emptied = true where id = $1",
        ] {
            session.execute(sql, vec![account.clone()]).await?;
        }
        return Ok(true);
    }
    let mut places = Vec::new();
    let mut garbage = BTreeSet::new();
    for row in &rows {
        places.push([account.clone(), row.text(0)?.into(), row.text(1)?.into()]);
        garbage.extend(row.maybe_text(2)?);
    }
    let mut statements = deletes(&places);
    statements.extend(transaction::garbage(&garbage, now_ms));
    session.execute_all(statements).await?;
    Ok(true)
}
