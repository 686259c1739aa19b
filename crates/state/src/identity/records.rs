//! Which users the lake knows of. The names and ids of users are also objects in the lake, which the crate `objects` writes, so
//! that a new database gets the same ids.

use cannery_database::Error;

use super::users::{COLUMNS, User};
use crate::state::State;

impl State {
    /// Users whose record is not known to be in the lake, by name.
    ///
    /// # Errors
    /// By kind.
    pub async fn unrecorded_users(&self) -> Result<Vec<User>, Error> {
        self.users_where("removed_ms is null and not is_recorded")
            .await
    }

    /// Removed users of whom the lake is not known to say so.
    ///
    /// # Errors
    /// By kind.
    pub async fn unrecorded_removals(&self) -> Result<Vec<User>, Error> {
        self.users_where("removed_ms is not null and not is_removal_recorded")
            .await
    }

    async fn users_where(&self, condition: &str) -> Result<Vec<User>, Error> {
        let sql = format!("select {COLUMNS} from account where {condition} order by name, id");
        let mut session = self.database.reader().await?;
        let rows = session.query(&sql, Vec::new()).await?;
        rows.iter().map(User::from_row).collect()
    }

    /// Remembers that the record of a user is in the lake. Safe to repeat.
    ///
    /// # Errors
    /// By kind.
    pub async fn set_user_recorded(&self, id: &str) -> Result<(), Error> {
        let sql = "update account set is_recorded = true where id = $1";
        let mut session = self.database.writer().await?;
        session.execute(sql, vec![id.into()]).await.map(drop)
    }

    /// Remembers that the lake knows of the removal of a user. Safe to repeat.
    ///
    /// # Errors
    /// By kind.
    pub async fn set_removal_recorded(&self, id: &str) -> Result<(), Error> {
        let sql = "update account set is_removal_recorded = true where id = $1";
        let mut session = self.database.writer().await?;
        session.execute(sql, vec![id.into()]).await.map(drop)
    }
}
