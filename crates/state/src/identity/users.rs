//! Users.

use cannery_database::{Error, Row, Session, Value, settle, stored};
use cannery_formats::UserName;
use cannery_runtime::Rng;
use jiff::Timestamp;
use serde::Serialize;

use super::{IdentityError, IdentityErrorKind};
use crate::state::State;

/// The user of the machine itself, whom `cannery up` adds.
pub const LOCAL_USER: &str = "local";

/// Somebody who has objects and jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct User {
    /// Drawn when the user was added, and never used again.
    pub id: String,
    /// The first part of the addresses of the user's objects.
    pub name: String,
    /// How many bytes of objects the user may have; any number if `None`.
    pub bytes_max: Option<u64>,
    /// When the user was added.
    pub created: Timestamp,
}

pub(super) const COLUMNS: &str = "id, name, bytes_max, created_ms";

impl User {
    pub(super) fn from_row(row: &Row) -> Result<Self, Error> {
        let bytes_max = row.maybe_int(2)?;
        Ok(Self {
            id: row.text(0)?,
            name: row.text(1)?,
            bytes_max: bytes_max.map(|bytes| u64::try_from(bytes).unwrap_or(0)),
            created: moment(row.int(3)?),
        })
    }
}

/// A stored moment.
pub(super) fn moment(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap_or_default()
}

impl State {
    /// Adds a user.
    ///
    /// # Errors
    /// `Taken`, `Database`.
    pub async fn add_user(&self, name: &UserName, rng: &Rng) -> Result<User, IdentityError> {
        let user = User {
            id: rng.id(),
            name: name.to_string(),
            bytes_max: None,
            created: moment(self.clock.now().as_millisecond()),
        };
        let mut session = self.database.begin().await?;
        let added = insert(session.as_mut(), &user).await;
        settle(session, added).await?;
        Ok(user)
    }

    /// All users, by name.
    ///
    /// # Errors
    /// By kind.
    pub async fn users(&self) -> Result<Vec<User>, Error> {
        let sql = format!("select {COLUMNS} from account where removed_ms is null order by name");
        let mut session = self.database.reader().await?;
        let rows = session.query(&sql, Vec::new()).await?;
        rows.iter().map(User::from_row).collect()
    }

    /// The user of that name.
    ///
    /// # Errors
    /// By kind.
    pub async fn user(&self, name: &str) -> Result<Option<User>, Error> {
        let mut session = self.database.reader().await?;
        find(session.as_mut(), name).await
    }

    /// Changes how many bytes of objects a user may have.
    ///
    /// # Errors
    /// `Absent`, `Database`.
    pub async fn limit_user(
        &self,
        name: &str,
        bytes_max: Option<u64>,
    ) -> Result<(), IdentityError> {
        let bytes_max = bytes_max.map(stored).transpose()?.unwrap_or(Value::Null);
        let mut session = self.database.writer().await?;
        let changed = session
            .execute(
                "update account set bytes_max = $2 where name = $1 and removed_ms is null",
                vec![name.into(), bytes_max],
            )
            .await?;
        (changed > 0).then_some(()).ok_or_else(|| no_user(name))
    }

    /// Removes a user: keys and tokens are worth nothing from now on. The objects stay in the lake until they are swept.
    ///
    /// # Errors
    /// `Absent`, `Database`.
    pub async fn remove_user(&self, name: &str) -> Result<(), IdentityError> {
        let now = self.clock.now().as_millisecond();
        let mut session = self.database.begin().await?;
        let removed = remove(session.as_mut(), name, now).await;
        settle(session, removed).await
    }
}

/// The user of that name.
pub(super) async fn find(session: &mut dyn Session, name: &str) -> Result<Option<User>, Error> {
    let sql = format!("select {COLUMNS} from account where name = $1 and removed_ms is null");
    let rows = session.query(&sql, vec![name.into()]).await?;
    rows.first().map(User::from_row).transpose()
}

/// The user of that name, who must be there.
pub(super) async fn known(session: &mut dyn Session, name: &str) -> Result<User, IdentityError> {
    find(session, name).await?.ok_or_else(|| no_user(name))
}

fn no_user(name: &str) -> IdentityError {
    IdentityError::absent(format!("there is no user `{}`", name.escape_debug()))
}

async fn insert(session: &mut dyn Session, user: &User) -> Result<(), IdentityError> {
    if find(session, &user.name).await?.is_some() {
        let message = format!("there is a user `{}` already", user.name);
        return Err(IdentityError::new(IdentityErrorKind::Taken, message));
    }
    session
        .execute(
            "insert into account (id, name, bytes_max, created_ms) values ($1, $2, null, $3)",
            vec![
                user.id.as_str().into(),
                user.name.as_str().into(),
                user.created.as_millisecond().into(),
            ],
        )
        .await?;
    Ok(())
}

async fn remove(session: &mut dyn Session, name: &str, now: i64) -> Result<(), IdentityError> {
    let user = known(session, name).await?;
    for sql in [
        "update account set removed_ms = $2 where id = $1",
        "update token set revoked_ms = $2 where account = $1 and revoked_ms is null",
    ] {
        session
            .execute(sql, vec![user.id.as_str().into(), now.into()])
            .await?;
    }
    session
        .execute(
            "delete from account_key where account = $1",
            vec![user.id.into()],
        )
        .await?;
    Ok(())
}
