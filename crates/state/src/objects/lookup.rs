//! Looking: one entry, and the pages of a directory, each with the work of a page.

use cannery_database::{Dialect, Error, Value};
use cannery_formats::ObjectPath;

use super::entry_row::{ENTRY_COLUMNS, ENTRY_WIDTH, from_row, place};
use super::{EntryKey, VersionedEntry};
use crate::state::State;

/// What a directory is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortKey {
    /// The bytes of its names.
    Name,
    /// When its entries were written, then their names.
    Mtime,
}

/// In which direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortOrder {
    /// The smallest first.
    Forward,
    /// The largest first.
    Reverse,
}

/// Where a page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageStart {
    /// At the beginning.
    First,
    /// At this name, or the next one: for sorting by name.
    AtName(String),
    /// At this moment, or the next one: for sorting by time.
    AtMtime(i64),
    /// Behind this entry.
    After {
        /// When it was written.
        mtime_us: i64,
        /// Its name.
        name: String,
    },
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    /// Its name in the directory.
    pub name: String,
    /// What it is.
    pub entry: VersionedEntry,
}

/// A page of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryPage {
    /// Its entries.
    pub entries: Vec<ListedEntry>,
    /// Whether there are more behind them.
    pub has_more: bool,
    /// How many entries the whole directory has.
    pub children: u64,
}

impl State {
    /// What is at a path. The directory of an area has no row, and is nothing here.
    ///
    /// # Errors
    /// By kind.
    pub async fn object_entry(&self, key: &EntryKey) -> Result<Option<VersionedEntry>, Error> {
        let Some(place) = place(key) else {
            return Ok(None);
        };
        let sql = format!(
            "select {ENTRY_COLUMNS} from object o where o.account = $1 and o.parent = $2 and o.name = $3"
        );
        let mut session = self.database.reader().await?;
        let rows = session.query(&sql, place.into()).await?;
        rows.first().map(|row| from_row(row, 0)).transpose()
    }

    /// The id of the user of that name, and what is at a path of theirs, in one look; nothing if there is no such user.
    ///
    /// # Errors
    /// By kind.
    pub async fn object_entry_of(
        &self,
        user: &str,
        path: &ObjectPath,
    ) -> Result<Option<(String, Option<VersionedEntry>)>, Error> {
        let sql = format!(
            "select a.id, {ENTRY_COLUMNS} from account a \
             left join object o on o.account = a.id and o.parent = $2 and o.name = $3 \
             where a.name = $1 and a.removed_ms is null"
        );
        // The directory of an area has no row.
        let (parent, name) = match path.parent() {
            Some(parent) => (parent.as_str().to_owned(), path.name()),
            None => (String::new(), ""),
        };
        let values = vec![user.into(), parent.into(), name.into()];
        let mut session = self.database.reader().await?;
        let rows = session.query(&sql, values).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let entry = match row.maybe_int(1)? {
            Some(_) => Some(from_row(row, 1)?),
            None => None,
        };
        Ok(Some((row.text(0)?, entry)))
    }

    /// A page of at most `limit` entries of a directory.
    ///
    /// # Errors
    /// By kind.
    pub async fn list_directory(
        &self,
        directory: &EntryKey,
        sort: (SortKey, SortOrder),
        start: &PageStart,
        directories: Option<bool>,
        limit: usize,
    ) -> Result<DirectoryPage, Error> {
        let mut values: Vec<Value> = vec![
            directory.account.as_str().into(),
            directory.path.as_str().into(),
        ];
        let (key, order) = sort;
        let (more, direction) = match order {
            SortOrder::Forward => (">", "asc"),
            SortOrder::Reverse => ("<", "desc"),
        };
        let from = match (start, key) {
            (PageStart::First, _) => String::new(),
            (PageStart::After { name, .. }, SortKey::Name) => {
                values.push(name.as_str().into());
                format!("and o.name {more} $3")
            }
            (PageStart::After { mtime_us, name }, SortKey::Mtime) => {
                values.push((*mtime_us).into());
                values.push(name.as_str().into());
                format!("and (o.mtime_us, o.name) {more} ($3, $4)")
            }
            (PageStart::AtName(name), _) => {
                values.push(name.as_str().into());
                format!("and o.name {more}= $3")
            }
            (PageStart::AtMtime(mtime_us), _) => {
                values.push((*mtime_us).into());
                format!("and o.mtime_us {more}= $3")
            }
        };
        let only = match directories {
            None => "",
            Some(true) => "and o.is_directory",
            Some(false) => "and not o.is_directory",
        };
        // SQLite would rather pass by all objects in the order that it has them in.
        let using = match (self.database.dialect(), directories, key) {
            (Dialect::Sqlite, Some(true), SortKey::Name) => "indexed by object_subdirectory",
            (Dialect::Sqlite, Some(true), SortKey::Mtime) => "indexed by object_subdirectory_mtime",
            _ => "",
        };
        let by = match key {
            SortKey::Name => format!("o.name {direction}"),
            SortKey::Mtime => format!("o.mtime_us {direction}, o.name {direction}"),
        };
        let sql = format!(
            "select {ENTRY_COLUMNS}, o.name from object o {using} where o.account = $1 and o.parent = $2 {from} {only} \
             order by {by} limit {}",
            limit + 1
        );
        let mut session = self.database.reader().await?;
        let rows = session.query(&sql, values).await?;
        let mut entries = Vec::with_capacity(rows.len());
        for row in &rows {
            entries.push(ListedEntry {
                name: row.text(ENTRY_WIDTH)?,
                entry: from_row(row, 0)?,
            });
        }
        let has_more = entries.len() > limit;
        entries.truncate(limit);
        let sql = "select children from object_directory where account = $1 and path = $2";
        let values = vec![
            directory.account.as_str().into(),
            directory.path.as_str().into(),
        ];
        let rows = session.query(sql, values).await?;
        Ok(DirectoryPage {
            entries,
            has_more,
            children: rows.first().map_or(Ok(0), |row| row.size(0))?,
        })
    }
}
