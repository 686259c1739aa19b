//! Declarations: read, compared, changed.

use std::collections::BTreeMap;

use super::Fault;
use super::journal::{PgJournal, View};
use super::pool::{ANSWER_LIMIT, Session, Step};
use super::{row, schema};
use crate::declaration::Declaration;
use crate::error::{Error, ErrorKind};

const STORED: &str = "select j.id, d.version, d.body::text from journals j \
    join declarations d on d.journal = j.id where j.name = $1::text order by d.version";

/// How long a journal may have a name.
const NAME_BYTES_MAX: usize = 200;

/// A journal as it is stored.
pub(super) struct Known {
    pub(super) id: i32,
    pub(super) declarations: BTreeMap<u32, Declaration>,
}

fn read(rows: &[tokio_postgres::Row]) -> Result<Option<Known>, Error> {
    let Some(first) = rows.first() else {
        return Ok(None);
    };
    let mut declarations = BTreeMap::new();
    for row in rows {
        let version = u32::try_from(row::cell::<i32>(row, 1)?).unwrap_or(0);
        let declaration = serde_json::from_str(row::cell(row, 2)?).map_err(|error| {
            row::corrupt(format!(
                "version {version} of the declaration cannot be read: {error}"
            ))
        })?;
        declarations.insert(version, declaration);
    }
    Ok(Some(Known {
        id: row::cell(first, 0)?,
        declarations,
    }))
}

pub(super) fn check_name(name: &str) -> Result<(), Error> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(Error::invalid(format!(
            "the name of a journal has 1 to {NAME_BYTES_MAX} bytes and no control characters"
        )));
    }
    Ok(())
}

/// The stored journal; nothing when there is none.
pub(super) async fn find(session: &mut Session, name: &str) -> Result<Option<Known>, Fault> {
    let rows = session.query(STORED, &[&name]).await?;
    Ok(read(&rows)?)
}

/// The stored journal, which is made when there is none.
pub(super) async fn find_or_create(
    session: &mut Session,
    name: &str,
    declaration: &Declaration,
) -> Result<Known, Fault> {
    declaration.check()?;
    if let Some(known) = find(session, name).await? {
        return Ok(known);
    }
    let made = create(session, name, declaration).await;
    if made.is_err() {
        session.rollback().await;
    }
    made
}

async fn create(
    session: &mut Session,
    name: &str,
    declaration: &Declaration,
) -> Result<Known, Fault> {
    session.script(&schema::begin()).await?;
    // Somebody else may have been first.
    let rows = session.within(STORED, &[&name], ANSWER_LIMIT).await?;
    if let Some(known) = read(&rows)? {
        session.rollback().await;
        return Ok(known);
    }
    let rows = session
        .within(
            "insert into journals (name, version) values ($1::text, 1) returning id",
            &[&name],
            ANSWER_LIMIT,
        )
        .await?;
    let id: i32 = match rows.first() {
        Some(row) => row::cell(row, 0)?,
        None => return Err(Fault::collided("the list of journals")),
    };
    session
        .script(&schema::create(id, declaration.merge))
        .await?;
    session.commit(&[store(id, 1, declaration)?]).await?;
    Ok(Known {
        id,
        declarations: BTreeMap::from([(1, declaration.clone())]),
    })
}

fn store(id: i32, version: u32, declaration: &Declaration) -> Result<Step<'static>, Error> {
    let body = serde_json::to_string(declaration).map_err(|error| {
        Error::invalid(format!("the declaration does not become JSON: {error}"))
    })?;
    Ok(Step {
        sql: "insert into declarations (journal, version, body) \
              values ($1::int, $2::int, $3::text::json)",
        params: vec![
            Box::new(id),
            Box::new(row::version(version)),
            Box::new(body),
        ],
    })
}

impl PgJournal {
    /// Reads the declarations again: another process may have changed them.
    pub(super) async fn reload(&self) -> Result<(), Error> {
        let mut session = self.session().await?;
        let Some(known) = find(&mut session, self.name()).await? else {
            return Err(Error::new(
                ErrorKind::Unknown,
                "the journal is not in the database any more",
            ));
        };
        self.set_view(View::new(self.id, known.declarations)?);
        Ok(())
    }

    /// Changes the declaration; gives back the version in force.
    pub(super) async fn declare(&self, new: &Declaration) -> Result<u32, Fault> {
        self.reload().await?;
        let view = self.view();
        if view.declaration() == new {
            return Ok(view.version);
        }
        let mut session = self.session().await?;
        let declared = self.declare_locked(&mut session, new).await;
        match declared {
            Ok(view) => {
                let version = view.version;
                self.set_view(view);
                self.shared.announce_declaration(self.id);
                Ok(version)
            }
            Err(fault) => {
                session.rollback().await;
                Err(fault)
            }
        }
    }

    async fn declare_locked(
        &self,
        session: &mut Session,
        new: &Declaration,
    ) -> Result<View, Fault> {
        session.script(&schema::begin()).await?;
        let rows = session
            .within(STORED, &[&self.name()], ANSWER_LIMIT)
            .await?;
        let Some(known) = read(&rows)? else {
            return Err(Fault::collided("the journal"));
        };
        let mut declarations = known.declarations;
        let current = View::new(self.id, declarations.clone())?;
        if current.declaration() == new {
            session.commit(&[]).await?;
            return Ok(current);
        }
        if current.sql.merge != new.merge {
            self.change_merge(session, &current, new.merge).await?;
        }
        let version = current.version + 1;
        let update = Step {
            sql: "update journals set version = $2::int where id = $1::int",
            params: vec![Box::new(self.id), Box::new(row::version(version))],
        };
        session
            .commit(&[store(self.id, version, new)?, update])
            .await?;
        declarations.insert(version, new.clone());
        Ok(View::new(self.id, declarations)?)
    }

    /// Other indexes, which is possible while there is nothing in them.
    async fn change_merge(
        &self,
        session: &mut Session,
        view: &View,
        merge: bool,
    ) -> Result<(), Fault> {
        let sql = &view.sql;
        session
            .script(&format!(
                "set local lock_timeout = '5s'; lock table {}, {}, {} in access exclusive mode",
                sql.waiting, sql.processing, sql.dead
            ))
            .await?;
        let rows = session
            .within(
                &format!(
                    "select exists (select 1 from {}) or exists (select 1 from {}) \
                     or exists (select 1 from {})",
                    sql.waiting, sql.processing, sql.dead
                ),
                &[],
                ANSWER_LIMIT,
            )
            .await?;
        if rows.first().is_none_or(|row| row.get(0)) {
            return Err(Error::invalid(
                "`merge` cannot change while the journal holds entries; let it drain first",
            )
            .into());
        }
        session.script(&schema::index_keys(self.id, merge)).await
    }
}
