//! Changes that were committed and are not known to be in the log of the lake.

use cannery_database::{Error, ErrorKind, stored};

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

    /// The id of this database among those that may have had the objects of a lake; `new` if it has none yet.
    ///
    /// # Errors
    /// By kind.
    pub async fn object_database_id(&self, new: &str) -> Result<String, Error> {
        let sql = "select database_id from object_counter where id = 1";
        let mut session = self.database.reader().await?;
        let rows = session.query(sql, Vec::new()).await?;
        drop(session);
        if let Some(id) = rows
            .first()
            .map(|row| row.maybe_text(0))
            .transpose()?
            .flatten()
        {
            return Ok(id);
        }
        let mut session = self.database.writer().await?;
        let set = "update object_counter set database_id = $1 where id = 1 and database_id is null";
        session.execute(set, vec![new.into()]).await?;
        let rows = session.query(sql, Vec::new()).await?;
        let id = rows.first().map(|row| row.maybe_text(0)).transpose()?;
        id.flatten().ok_or_else(|| {
            let message = "the state contradicts itself: the table `object_counter` is empty";
            Error::new(ErrorKind::Corrupt, message)
        })
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
