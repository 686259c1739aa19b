//! Changes that were committed and are not known to be in the log of the lake.

use cannery_database::{Error, stored};

use super::transaction::counter;
use crate::state::State;

/// A change that waits for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxLine {
    /// Its version.
    pub version: u64,
    /// Its line, with the end.
    pub line: String,
}

impl State {
    /// The changes after one version and up to another that wait, oldest first, at most so many.
    ///
    /// # Errors
    /// By kind.
    pub async fn object_outbox(
        &self,
        after: u64,
        through: u64,
        limit: usize,
    ) -> Result<Vec<OutboxLine>, Error> {
        let sql = format!(
            "select version, line from object_outbox where version > $1 and version <= $2 order by version limit {limit}"
        );
        let mut session = self.database.reader().await?;
        let values = vec![stored(after)?, stored(through)?];
        let rows = session.query(&sql, values).await?;
        let line = |row: &cannery_database::Row| {
            Ok(OutboxLine {
                version: row.size(0)?,
                line: row.text(1)?,
            })
        };
        rows.iter().map(line).collect()
    }

    /// Forgets all changes up to a version, which are in the log. Nothing is forgotten by a database that does not know so many
    /// changes: it is not the one that they were made in. Safe to repeat.
    ///
    /// # Errors
    /// By kind.
    pub async fn forget_logged(&self, through: u64) -> Result<(), Error> {
        let sql = "delete from object_outbox where version <= $1 \
                   and (select version from object_counter where id = 1) >= $1";
        let mut session = self.database.writer().await?;
        session.execute(sql, vec![stored(through)?]).await?;
        Ok(())
    }

    /// The version of the last change to any object.
    ///
    /// # Errors
    /// By kind.
    pub async fn object_version(&self) -> Result<u64, Error> {
        let mut session = self.database.reader().await?;
        let sql = "select version from object_counter where id = 1";
        let rows = session.query(sql, Vec::new()).await?;
        counter(&rows)
    }

    /// The version that an attempt got, as far as it is still known: while its change waits for the log.
    ///
    /// # Errors
    /// By kind.
    pub async fn version_of_attempt(&self, attempt: &str) -> Result<Option<u64>, Error> {
        let sql = "select version from object_outbox where attempt = $1";
        let mut session = self.database.reader().await?;
        let rows = session.query(sql, vec![attempt.into()]).await?;
        rows.first().map(|row| row.size(0)).transpose()
    }
}
