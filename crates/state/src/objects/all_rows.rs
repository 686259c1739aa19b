//! All entries of all users, page by page: for snapshots.

use cannery_database::{Error, ErrorKind, Value};
use cannery_formats::ObjectPath;

use super::entry_row::{ENTRY_COLUMNS, ENTRY_WIDTH, from_row, place};
use super::{EntryKey, VersionedEntry};
use crate::state::State;

impl State {
    /// At most `limit` entries behind one, in an order of their own. Pages are not of one moment.
    ///
    /// # Errors
    /// By kind.
    pub async fn object_entries_after(
        &self,
        last: Option<&EntryKey>,
        limit: usize,
    ) -> Result<Vec<(EntryKey, VersionedEntry)>, Error> {
        let values: Vec<Value> = last.and_then(place).map(Vec::from).unwrap_or_default();
        let behind = if values.is_empty() {
            ""
        } else {
            "where (o.account, o.parent, o.name) > ($1, $2, $3)"
        };
        let sql = format!(
            "select {ENTRY_COLUMNS}, o.account, o.parent, o.name from object o {behind} \
             order by o.account, o.parent, o.name limit {limit}"
        );
        let mut session = self.database.reader().await?;
        let rows = session.query(&sql, values).await?;
        let entry = |row: &cannery_database::Row| {
            let path = format!(
                "{}/{}",
                row.text(ENTRY_WIDTH + 1)?,
                row.text(ENTRY_WIDTH + 2)?
            );
            let path: ObjectPath = path.parse().map_err(|error| {
                let message = format!("the state contradicts itself: {error}");
                Error::new(ErrorKind::Corrupt, message)
            })?;
            let account = row.text(ENTRY_WIDTH)?;
            Ok((EntryKey { account, path }, from_row(row, 0)?))
        };
        rows.iter().map(entry).collect()
    }
}
