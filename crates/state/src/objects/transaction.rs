//! One transaction about objects. It runs beside those of other parts of the state, but not beside another one of its kind,
//! whichever process that is of.

use std::collections::{BTreeMap, BTreeSet};

use cannery_database::{Error, ErrorKind, Row, Session, Statement, Value, stored};
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

/// What a transaction wants to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NeededRows {
    /// What is at these paths.
    pub entries: BTreeSet<EntryKey>,
    /// How many children these directories have.
    pub directories: BTreeSet<EntryKey>,
    /// What these users have, by their ids.
    pub accounts: BTreeSet<String>,
}

/// What it finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectRows {
    /// The version of the last change to any object.
    pub version: u64,
    /// What is at each path; those where nothing is are missing.
    pub entries: BTreeMap<EntryKey, VersionedEntry>,
    /// How many children each directory has.
    pub children: BTreeMap<EntryKey, u64>,
    /// How many bytes each user has, and may have; users who are not there are missing.
    pub usage: BTreeMap<String, AccountUsage>,
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

    /// Begins one that knows already what it needs.
    ///
    /// # Errors
    /// By kind.
    pub async fn begin_objects_knowing(
        &self,
        needed: &NeededRows,
    ) -> Result<(ObjectTransaction, ObjectRows), Error> {
        let begun = self.database.begin_asking(LOCK, needed.questions()?);
        let (session, rows) = begun.await?;
        let now_ms = self.clock.now().as_millisecond();
        Ok((ObjectTransaction { session, now_ms }, needed.read(rows)?))
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

impl NeededRows {
    fn questions(&self) -> Result<Vec<Statement>, Error> {
        let mut statements = vec![Statement {
            sql: "select version from object_counter where id = 1".to_owned(),
            params: Vec::new(),
        }];
        for some in self.placed().chunks(ROWS_AT_ONCE) {
            statements.push(entries_at(some)?);
        }
        for some in self.listed().chunks(ROWS_AT_ONCE) {
            statements.push(children_of(some)?);
        }
        let accounts: Vec<&String> = self.accounts.iter().collect();
        statements.extend(accounts.chunks(ROWS_AT_ONCE).map(usage_of));
        Ok(statements)
    }

    /// The entries that have a row.
    fn placed(&self) -> Vec<(&EntryKey, [Value; 3])> {
        let placed = self.entries.iter();
        placed.filter_map(|key| Some((key, place(key)?))).collect()
    }

    fn listed(&self) -> Vec<&EntryKey> {
        self.directories.iter().collect()
    }

    /// What was asked for, from the answers to its questions.
    fn read(&self, answers: Vec<Vec<Row>>) -> Result<ObjectRows, Error> {
        let mut answers = answers.into_iter();
        let mut next = || answers.next().unwrap_or_default();
        let mut found = ObjectRows {
            version: counter(&next())?,
            ..ObjectRows::default()
        };
        for some in self.placed().chunks(ROWS_AT_ONCE) {
            for row in next() {
                if let Some((key, _)) = some.get(number(&row)?) {
                    found.entries.insert((*key).clone(), from_row(&row, 1)?);
                }
            }
        }
        for some in self.listed().chunks(ROWS_AT_ONCE) {
            let empty = some.iter().map(|key| ((*key).clone(), 0));
            found.children.extend(empty);
            for row in next() {
                if let Some(key) = some.get(number(&row)?) {
                    found.children.insert((*key).clone(), row.size(1)?);
                }
            }
        }
        for row in answers.flatten() {
            let limit = row.maybe_int(2)?;
            let usage = AccountUsage {
                bytes: row.size(1)?,
                bytes_max: limit.and_then(|limit| u64::try_from(limit).ok()),
                is_recorded: matches!(row.0.get(3), Some(Value::Bool(true) | Value::Int(1))),
            };
            found.usage.insert(row.text(0)?, usage);
        }
        Ok(found)
    }
}

impl ObjectTransaction {
    /// Ends it without a change.
    pub async fn end(mut self) {
        self.session.rollback().await;
    }

    /// Looks at everything that is needed, together.
    ///
    /// # Errors
    /// By kind.
    pub async fn look(&mut self, needed: &NeededRows) -> Result<ObjectRows, Error> {
        let rows = self.session.query_all(needed.questions()?).await?;
        needed.read(rows)
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
        let statements = writes.statements(self.now_ms)?;
        let done = self.session.finish(statements).await;
        if done.is_err() {
            self.session.rollback().await;
        }
        done
    }
}

impl ObjectWrites {
    fn statements(&self, now_ms: i64) -> Result<Vec<Statement>, Error> {
        let mut statements = entry_changes(&self.entries)?;
        let children: Vec<[Value; 3]> = self
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
        statements.extend(inserts(
            "insert into object_directory (account, path, children) values",
            "on conflict (account, path) do update set children = object_directory.children + excluded.children",
            &children,
        ));
        let bytes: Vec<[Value; 2]> = self
            .bytes
            .iter()
            .map(|(account, more)| [account.as_str().into(), (*more).into()])
            .collect();
        statements.extend(inserts(
            "insert into object_usage (account, bytes) values",
            "on conflict (account) do update set bytes = object_usage.bytes + excluded.bytes",
            &bytes,
        ));
        statements.extend(outbox_lines(&self.changes)?);
        statements.extend(garbage(&self.garbage, now_ms));
        statements.push(Statement {
            sql: "update object_counter set version = $1 where id = 1".to_owned(),
            params: vec![stored(self.version)?],
        });
        Ok(statements)
    }
}

/// What is at each of these paths, behind the number of the path.
fn entries_at(some: &[(&EntryKey, [Value; 3])]) -> Result<Statement, Error> {
    let mut params = Vec::new();
    for (number, (_, place)) in some.iter().enumerate() {
        params.push(stored(number as u64)?);
        params.extend(place.iter().cloned());
    }
    // The order of the tables is the order of the work.
    let sql = format!(
        "with wanted (number, account, parent, name) as (values {}) \
         select w.number, {ENTRY_COLUMNS} from wanted w cross join object o \
         where o.account = w.account and o.parent = w.parent and o.name = w.name",
        tuples(some.len(), 4, &["bigint", "text", "text", "text"])
    );
    Ok(Statement { sql, params })
}

/// How many children each of these directories has, behind the number of the directory.
fn children_of(some: &[&EntryKey]) -> Result<Statement, Error> {
    let mut params = Vec::new();
    for (number, key) in some.iter().enumerate() {
        params.push(stored(number as u64)?);
        params.push(key.account.as_str().into());
        params.push(key.path.as_str().into());
    }
    let sql = format!(
        "with wanted (number, account, path) as (values {}) \
         select w.number, d.children from wanted w cross join object_directory d \
         where d.account = w.account and d.path = w.path",
        tuples(some.len(), 3, &["bigint", "text", "text"])
    );
    Ok(Statement { sql, params })
}

fn usage_of(some: &[&String]) -> Statement {
    let sql = format!(
        "with wanted (id) as (values {}) \
         select a.id, coalesce(u.bytes, 0), a.bytes_max, a.is_recorded from wanted w cross join account a \
         left join object_usage u on u.account = a.id where a.id = w.id and a.removed_ms is null",
        tuples(some.len(), 1, &["text"])
    );
    let params = some.iter().map(|id| id.as_str().into()).collect();
    Statement { sql, params }
}

/// Which of the wanted ones a row is of.
fn number(row: &Row) -> Result<usize, Error> {
    Ok(usize::try_from(row.size(0)?).unwrap_or(usize::MAX))
}

fn outbox_lines(changes: &[ObjectChange]) -> Result<Vec<Statement>, Error> {
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
    Ok(inserts(head, "", &rows?))
}

/// Lists bytes as candidates, since then.
pub(super) fn garbage(data: &BTreeSet<String>, since_ms: i64) -> Vec<Statement> {
    let rows: Vec<[Value; 3]> = data
        .iter()
        .map(|data| [data.as_str().into(), since_ms.into(), Value::Bool(false)])
        .collect();
    inserts(
        "insert into object_garbage (data, since_ms, is_doomed) values",
        "on conflict (data) do update set since_ms = excluded.since_ms where not object_garbage.is_doomed",
        &rows,
    )
}

/// Inserts rows, many a statement: `head` is what stands before their values, `tail` what stands behind them.
pub(super) fn inserts<const WIDTH: usize>(
    head: &str,
    tail: &str,
    rows: &[[Value; WIDTH]],
) -> Vec<Statement> {
    let statements = rows.chunks(ROWS_AT_ONCE).map(|some| Statement {
        sql: format!("{head} {} {tail}", tuples(some.len(), WIDTH, &[])),
        params: some.iter().flatten().cloned().collect(),
    });
    statements.collect()
}

/// Deletes the rows of these places, many a statement.
pub(super) fn deletes(places: &[[Value; 3]]) -> Vec<Statement> {
    let statements = places.chunks(ROWS_AT_ONCE).map(|some| Statement {
        sql: format!(
            "delete from object where (account, parent, name) in (values {})",
            tuples(some.len(), 3, &[])
        ),
        params: some.iter().flatten().cloned().collect(),
    });
    statements.collect()
}

fn entry_changes(
    entries: &BTreeMap<EntryKey, Option<VersionedEntry>>,
) -> Result<Vec<Statement>, Error> {
    let (mut there, mut gone) = (Vec::new(), Vec::new());
    for (key, entry) in entries {
        let Some(place) = place(key) else { continue };
        match entry {
            Some(entry) => there.push((place, entry)),
            None => gone.push(place),
        }
    }
    let mut statements = deletes(&gone);
    for some in there.chunks(ROWS_AT_ONCE) {
        let sql = format!(
            "insert into object (account, parent, name, version, attempt, is_directory, mtime_us, etag, bytes, md5, sha256, data, data_offset, headers) \
             values {} on conflict (account, parent, name) do update set \
             version = excluded.version, attempt = excluded.attempt, is_directory = excluded.is_directory, mtime_us = excluded.mtime_us, \
             etag = excluded.etag, bytes = excluded.bytes, md5 = excluded.md5, sha256 = excluded.sha256, data = excluded.data, \
             data_offset = excluded.data_offset, headers = excluded.headers",
            tuples(some.len(), 3 + ENTRY_WIDTH, &[])
        );
        let mut params = Vec::new();
        for (place, entry) in some {
            params.extend(place.iter().cloned());
            params.extend(to_cells(entry)?);
        }
        statements.push(Statement { sql, params });
    }
    Ok(statements)
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
