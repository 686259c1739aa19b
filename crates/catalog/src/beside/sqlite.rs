//! The tables of a file are copied over those of another, in one transaction of the other.

use std::path::Path;

use crate::error::{Error, ErrorKind};
use cannery_database::Session;

/// Makes the tables of the session's file those of `file`.
pub(super) async fn take_over(session: &mut dyn Session, file: &Path) -> Result<(), Error> {
    let text = file.display().to_string().replace('\'', "''");
    session
        .script(&format!("attach database '{text}' as fresh"))
        .await?;
    let done = in_one_transaction(session).await;
    // What failed is what the caller should hear of; a connection with one more file attached does no harm.
    let detached = session.script("detach database fresh").await;
    done.and(detached.map_err(Error::from))
}

async fn in_one_transaction(session: &mut dyn Session) -> Result<(), Error> {
    session.begin().await?;
    match copy(session).await {
        Ok(()) => Ok(session.commit().await?),
        Err(error) => {
            session.rollback().await;
            Err(error)
        }
    }
}

async fn copy(session: &mut dyn Session) -> Result<(), Error> {
    for (name, _) in made(session, "main", "table").await? {
        session.script(&format!("drop table main.{name}")).await?;
    }
    for (name, sql) in made(session, "fresh", "table").await? {
        session
            .script(&format!(
                "{sql}; insert into main.{name} select * from fresh.{name}"
            ))
            .await?;
    }
    for (_, sql) in made(session, "fresh", "index").await? {
        session.script(&sql).await?;
    }
    Ok(())
}

/// The tables or indexes of a file that somebody made, with how.
async fn made(
    session: &mut dyn Session,
    file: &str,
    what: &str,
) -> Result<Vec<(String, String)>, Error> {
    let sql = format!(
        "select name, sql from {file}.sqlite_master \
         where type = $1 and sql is not null and name not like 'sqlite\\_%' escape '\\' order by rowid"
    );
    let rows = session.query(&sql, vec![what.into()]).await?;
    let mut made = Vec::new();
    for row in rows {
        let name = row.text(0)?;
        if name.contains('"') {
            let message = format!("`{name}` is no table of a catalog");
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        made.push((format!("\"{name}\""), row.text(1)?));
    }
    Ok(made)
}
