//! One transaction about objects. It runs beside those of other parts of the state, but not beside another one of its kind,
//! whichever process that is of.

use std::collections::{BTreeMap, BTreeSet};

use cannery_database::{Error, ErrorKind, Row, Session, Value, stored};
use cannery_formats::ObjectChange;

use super::entry_row::{ENTRY_COLUMNS, ENTRY_WIDTH, from_row, place, to_cells};
use super::{EntryKey, VersionedEntry};
use crate::state::State;

/// The word `canobjct`.
const LOCK: i64 = 0x6361_6e6f_626a_6374;

/// Rows of one statement: all parameters of the widest stay well below the limit of SQLite.
pub(super) const ROWS_AT_ONCE: usize = 200;

/// What a user has, and may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountUsage {
    /// Bytes of objects.
    pub bytes: u64,
    /// At most so many; any number if `None`.
    pub bytes_max: Option<u64>,
    /// Whether the record of the user is in the lake.
    pub is_recorded: bool,
}

/// Everything that a transaction writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectWrites {
    /// What is at each path afterwards; nothing where it was deleted.
    pub entries: BTreeMap<EntryKey, Option<VersionedEntry>>,
    /// By how many each directory has more children.
    pub children: BTreeMap<EntryKey, i64>,
    /// By how many bytes each user has more.
    pub bytes: BTreeMap<String, i64>,
    /// Every change, for the log.
    pub changes: Vec<ObjectChange>,
    /// Names of bytes that an entry had and has no longer.
    pub garbage: BTreeSet<String>,
    /// The version of the last change.
    pub version: u64,
}

/// An open transaction; dropped, it leaves no trace.
pub struct ObjectTransaction {
    session: Box<dyn Session>,
    now_ms: i64,
}

impl State {
    /// Begins one.
    ///
    /// # Errors
    /// `Denied`, `Unavailable`.
    pub async fn begin_objects(&self) -> Result<ObjectTransaction, Error> {
        let session = self.database.begin_under(LOCK).await?;
        let now_ms = self.clock.now().as_millisecond();
        Ok(ObjectTransaction { session, now_ms })
    }

    /// The same for reading alone, which waits for nobody; it cannot be committed.
    ///
    /// # Errors
    /// `Denied`, `Unavailable`.
    pub async fn look_at_objects(&self) -> Result<ObjectTransaction, Error> {
        let session = self.database.reader().await?;
        let now_ms = self.clock.now().as_millisecond();
        Ok(ObjectTransaction { session, now_ms })
    }
}

impl ObjectTransaction {
    /// The version of the last change to any object.
    ///
    /// # Errors
    /// By kind.
    pub async fn version(&mut self) -> Result<u64, Error> {
        let sql = "select version from object_counter where id = 1";
        let rows = self.session.query(sql, Vec::new()).await?;
        counter(&rows)
    }

    /// Ends it without a change.
    pub async fn end(mut self) {
        self.session.rollback().await;
    }

    /// What is at each of these paths; those where nothing is are missing.
    ///
    /// # Errors
    /// By kind.
    pub async fn entries(
        &mut self,
        keys: &BTreeSet<EntryKey>,
    ) -> Result<BTreeMap<EntryKey, VersionedEntry>, Error> {
        let keys: Vec<(&EntryKey, [Value; 3])> = keys
            .iter()
            .filter_map(|key| Some((key, place(key)?)))
            .collect();
        let mut found = BTreeMap::new();
        for some in keys.chunks(ROWS_AT_ONCE) {
            // The number tells which one a row is of. The order of the tables is the order of the work.
            let sql = format!(
                "with wanted (number, account, parent, name) as (values {}) \
                 select w.number, {ENTRY_COLUMNS} from wanted w cross join object o \
                 where o.account = w.account and o.parent = w.parent and o.name = w.name",
                tuples(some.len(), 4, &["bigint", "text", "text", "text"])
            );
            let mut values = Vec::new();
            for (number, (_, place)) in some.iter().enumerate() {
                values.push(stored(number as u64)?);
                values.extend(place.iter().cloned());
            }
            for row in self.session.query(&sql, values).await? {
                let number = usize::try_from(row.size(0)?).unwrap_or(usize::MAX);
                if let Some((key, _)) = some.get(number) {
                    found.insert((*key).clone(), from_row(&row, 1)?);
                }
            }
        }
        Ok(found)
    }

    /// How many children each of these directories has.
    ///
    /// # Errors
    /// By kind.
    pub async fn children(
        &mut self,
        directories: &BTreeSet<EntryKey>,
    ) -> Result<BTreeMap<EntryKey, u64>, Error> {
        let keys: Vec<&EntryKey> = directories.iter().collect();
        let mut found: BTreeMap<EntryKey, u64> =
            keys.iter().map(|key| ((*key).clone(), 0)).collect();
        for some in keys.chunks(ROWS_AT_ONCE) {
            let sql = format!(
                "with wanted (number, account, path) as (values {}) \
                 select w.number, d.children from wanted w cross join object_directory d \
                 where d.account = w.account and d.path = w.path",
                tuples(some.len(), 3, &["bigint", "text", "text"])
            );
            let mut values = Vec::new();
            for (number, key) in some.iter().enumerate() {
                values.push(stored(number as u64)?);
                values.push(key.account.as_str().into());
                values.push(key.path.as_str().into());
            }
            for row in self.session.query(&sql, values).await? {
                let number = usize::try_from(row.size(0)?).unwrap_or(usize::MAX);
                if let Some(key) = some.get(number) {
                    found.insert((*key).clone(), row.size(1)?);
                }
            }
        }
        Ok(found)
    }

    /// How many bytes each of these users has, and may have.
    ///
    /// # Errors
    /// By kind.
    pub async fn usage(
        &mut self,
        accounts: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, AccountUsage>, Error> {
        let accounts: Vec<&String> = accounts.iter().collect();
        let mut found = BTreeMap::new();
        for some in accounts.chunks(ROWS_AT_ONCE) {
            let sql = format!(
                "with wanted (id) as (values {}) \
                 select a.id, coalesce(u.bytes, 0), a.bytes_max, a.is_recorded from wanted w cross join account a \
                 left join object_usage u on u.account = a.id where a.id = w.id and a.removed_ms is null",
                tuples(some.len(), 1, &["text"])
            );
            let values = some.iter().map(|id| id.as_str().into()).collect();
            for row in self.session.query(&sql, values).await? {
                let limit = row.maybe_int(2)?;
                let usage = AccountUsage {
                    bytes: row.size(1)?,
                    bytes_max: limit.and_then(|limit| u64::try_from(limit).ok()),
                    is_recorded: matches!(row.0.get(3), Some(Value::Bool(true) | Value::Int(1))),
                };
                found.insert(row.text(0)?, usage);
            }
        }
        Ok(found)
    }

    /// The session of the transaction, for its own kind of work.
    pub(super) fn into_session(self) -> Box<dyn Session> {
        self.session
    }

    /// Writes all of it and commits. After an error nothing was changed, except `Unavailable`: then it may or may not have been.
    ///
    /// # Errors
    /// By kind.
    pub async fn commit(mut self, writes: &ObjectWrites) -> Result<(), Error> {
        let done = self.write(writes).await;
        cannery_database::settle(self.session, done).await
    }

    async fn write(&mut self, writes: &ObjectWrites) -> Result<(), Error> {
        let session = self.session.as_mut();
        put_entries(session, &writes.entries).await?;
        let children: Vec<[Value; 3]> = writes
            .children
            .iter()
            .map(|(directory, more)| {
                [
                    directory.account.as_str().into(),
                    directory.path.as_str().into(),
                    (*more).into(),
                ]
            })
            .collect();
        insert(
            session,
            "insert into object_directory (account, path, children) values",
            "on conflict (account, path) do update set children = object_directory.children + excluded.children",
            &children,
        )
        .await?;
        let bytes: Vec<[Value; 2]> = writes
            .bytes
            .iter()
            .map(|(account, more)| [account.as_str().into(), (*more).into()])
            .collect();
        insert(
            session,
            "insert into object_usage (account, bytes) values",
            "on conflict (account) do update set bytes = object_usage.bytes + excluded.bytes",
            &bytes,
        )
        .await?;
        put_changes(session, &writes.changes).await?;
        put_garbage(session, &writes.garbage, self.now_ms).await?;
        let sql = "update object_counter set version = $1 where id = 1";
        let counted = session.execute(sql, vec![stored(writes.version)?]).await?;
        if counted == 1 {
            Ok(())
        } else {
            Err(no_counter())
        }
    }
}

async fn put_changes(session: &mut dyn Session, changes: &[ObjectChange]) -> Result<(), Error> {
    let rows: Result<Vec<[Value; 3]>, Error> = changes
        .iter()
        .map(|change| {
            Ok([
                stored(change.version)?,
                change.attempt.as_str().into(),
                change.to_line().into(),
            ])
        })
        .collect();
    let head = "insert into object_outbox (version, attempt, line) values";
    insert(session, head, "", &rows?).await
}

/// Lists bytes as candidates, since now.
pub(super) async fn put_garbage(
    session: &mut dyn Session,
    garbage: &BTreeSet<String>,
    now_ms: i64,
) -> Result<(), Error> {
    let rows: Vec<[Value; 3]> = garbage
        .iter()
        .map(|data| [data.as_str().into(), now_ms.into(), Value::Bool(false)])
        .collect();
    insert(
        session,
        "insert into object_garbage (data, since_ms, is_doomed) values",
        "on conflict (data) do update set since_ms = excluded.since_ms where not object_garbage.is_doomed",
        &rows,
    )
    .await
}

/// Inserts rows, many a statement: `head` is what stands before their values, `tail` what stands behind them.
pub(super) async fn insert<const WIDTH: usize>(
    session: &mut dyn Session,
    head: &str,
    tail: &str,
    rows: &[[Value; WIDTH]],
) -> Result<(), Error> {
    for some in rows.chunks(ROWS_AT_ONCE) {
        let sql = format!("{head} {} {tail}", tuples(some.len(), WIDTH, &[]));
        let values = some.iter().flatten().cloned().collect();
        session.execute(&sql, values).await?;
    }
    Ok(())
}

async fn put_entries(
    session: &mut dyn Session,
    entries: &BTreeMap<EntryKey, Option<VersionedEntry>>,
) -> Result<(), Error> {
    let (mut there, mut gone) = (Vec::new(), Vec::new());
    for (key, entry) in entries {
        let Some(place) = place(key) else { continue };
        match entry {
            Some(entry) => there.push((place, entry)),
            None => gone.push(place),
        }
    }
    for some in gone.chunks(ROWS_AT_ONCE) {
        let sql = format!(
            "delete from object where (account, parent, name) in (values {})",
            tuples(some.len(), 3, &[])
        );
        let values = some.iter().flatten().cloned().collect();
        session.execute(&sql, values).await?;
    }
    for some in there.chunks(ROWS_AT_ONCE) {
        let sql = format!(
            "insert into object (account, parent, name, version, attempt, is_directory, mtime_ms, etag, bytes, md5, sha256, data, data_offset, headers) \
             values {} on conflict (account, parent, name) do update set \
             version = excluded.version, attempt = excluded.attempt, is_directory = excluded.is_directory, mtime_ms = excluded.mtime_ms, \
             etag = excluded.etag, bytes = excluded.bytes, md5 = excluded.md5, sha256 = excluded.sha256, data = excluded.data, \
             data_offset = excluded.data_offset, headers = excluded.headers",
            tuples(some.len(), 3 + ENTRY_WIDTH, &[])
        );
        let mut values = Vec::new();
        for (place, entry) in some {
            values.extend(place.iter().cloned());
            values.extend(to_cells(entry)?);
        }
        session.execute(&sql, values).await?;
    }
    Ok(())
}

/// The version in the one row of the counter.
pub(super) fn counter(rows: &[Row]) -> Result<u64, Error> {
    rows.first().ok_or_else(no_counter)?.size(0)
}

fn no_counter() -> Error {
    let message = "the state contradicts itself: the counter of changes to objects is missing";
    Error::new(ErrorKind::Corrupt, message)
}

/// `($1, $2), ($3, $4)`; the first tuple says its types, where the statement alone does not.
pub(super) fn tuples(rows: usize, width: usize, types: &[&str]) -> String {
    let cell = |row: usize, column: usize| {
        let number = row * width + column + 1;
        match types.get(column) {
            Some(kind) if row == 0 => format!("cast(${number} as {kind})"),
            _ => format!("${number}"),
        }
    };
    let tuple = |row| {
        let cells: Vec<String> = (0..width).map(|column| cell(row, column)).collect();
        format!("({})", cells.join(", "))
    };
    let tuples: Vec<String> = (0..rows).map(tuple).collect();
    tuples.join(", ")
}
