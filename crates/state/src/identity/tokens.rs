//! Tokens: secrets that stand for a user, with limits.
//!
//! The text of a token is `cannery_<id>_<secret>`. The table has its id and the SHA-256 of its secret, which is 128 random
//! bits: nothing can be tried out against it.

use std::time::Duration;

use cannery_database::{Error, Row, settle};
use cannery_formats::{Digest, UserName};
use cannery_runtime::Rng;
use cannery_runtime::secret::Secret;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::users::{known, moment};
use super::{IdentityError, Scope, Scopes, User};
use crate::state::State;

const PREFIX: &str = "cannery_";

/// A token, as far as it may be shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Token {
    /// What it is called; not secret.
    pub id: String,
    /// The user that it stands for.
    pub user: String,
    /// What it may do.
    pub scopes: Scopes,
    /// When it was made.
    pub created: Timestamp,
    /// Until when it is good; for ever if `None`.
    pub expires: Option<Timestamp>,
    /// Since when it is worth nothing.
    pub revoked: Option<Timestamp>,
}

/// A new token: the only time that its text is known.
#[derive(Debug)]
pub struct IssuedToken {
    /// Its text.
    pub text: Secret,
    /// The rest.
    pub token: Token,
}

/// Splits the text of a token into its id and its secret.
fn parts(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix(PREFIX)?.split_once('_')
}

fn hashed(secret: &str) -> String {
    Digest::of(secret.as_bytes()).to_string()
}

impl State {
    /// Makes a token for a user.
    ///
    /// # Errors
    /// `Absent`, `Database`.
    pub async fn create_token(
        &self,
        user: &UserName,
        scopes: &Scopes,
        lifetime: Option<Duration>,
        rng: &Rng,
    ) -> Result<IssuedToken, IdentityError> {
        let (id, secret) = (rng.id(), rng.id());
        let created = moment(self.clock.now().as_millisecond());
        let lifetime = lifetime.and_then(|time| SignedDuration::try_from(time).ok());
        let expires = lifetime.map(|time| created.saturating_add(time).unwrap_or(Timestamp::MAX));
        let mut session = self.database.begin().await?;
        let made = async {
            let user = known(session.as_mut(), user.as_str()).await?;
            let sql = "insert into token (id, account, secret_sha256, scopes, created_ms, expires_ms) \
                       values ($1, $2, $3, $4, $5, $6)";
            let values = vec![
                id.as_str().into(),
                user.id.into(),
                hashed(&secret).into(),
                scopes.to_string().into(),
                created.as_millisecond().into(),
                expires.map(Timestamp::as_millisecond).into(),
            ];
            session.execute(sql, values).await?;
            Ok(())
        };
        let made = made.await;
        settle::<(), IdentityError>(session, made).await?;
        Ok(IssuedToken {
            text: Secret::new(format!("{PREFIX}{id}_{secret}")),
            token: Token {
                id,
                user: user.to_string(),
                scopes: scopes.clone(),
                created,
                expires,
                revoked: None,
            },
        })
    }

    /// Whom a token stands for and what it may do; nothing unless it is good now.
    ///
    /// # Errors
    /// By kind.
    pub async fn authenticate(&self, text: &str) -> Result<Option<(User, Token)>, Error> {
        let Some((id, secret)) = parts(text) else {
            return Ok(None);
        };
        let sql = "select t.id, u.name, t.scopes, t.created_ms, t.expires_ms, t.revoked_ms, t.secret_sha256, \
                   u.id, u.bytes_max, u.created_ms \
                   from token t join account u on u.id = t.account \
                   where t.id = $1 and u.removed_ms is null";
        let mut session = self.database.reader().await?;
        let rows = session.query(sql, vec![id.into()]).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let token = from_row(row)?;
        let now = self.clock.now();
        let is_good = token.revoked.is_none() && token.expires.is_none_or(|expires| now < expires);
        // What is compared are hashes of random bits: how long it takes tells nothing.
        if !is_good || row.text(6)? != hashed(secret) {
            return Ok(None);
        }
        let user = User {
            id: row.text(7)?,
            name: token.user.clone(),
            bytes_max: row
                .maybe_int(8)?
                .map(|bytes| u64::try_from(bytes).unwrap_or(0)),
            created: moment(row.int(9)?),
        };
        Ok(Some((user, token)))
    }

    /// The tokens of all users that are there, or of one, in the order in which they were made.
    ///
    /// # Errors
    /// By kind.
    pub async fn tokens(&self, user: Option<&UserName>) -> Result<Vec<Token>, Error> {
        let sql = "select t.id, u.name, t.scopes, t.created_ms, t.expires_ms, t.revoked_ms \
                   from token t join account u on u.id = t.account \
                   where u.removed_ms is null and ($1 = '' or u.name = $1) order by t.created_ms, t.id";
        let mut session = self.database.reader().await?;
        let name = user.map_or("", UserName::as_str);
        let rows = session.query(sql, vec![name.into()]).await?;
        rows.iter().map(from_row).collect()
    }

    /// Forgets tokens that have been worth nothing for so long: browsers leave one behind with each login. Safe to repeat.
    ///
    /// # Errors
    /// By kind.
    pub async fn forget_tokens(&self, after: Duration) -> Result<u64, Error> {
        let sql = "delete from token where revoked_ms <= $1 or expires_ms <= $1";
        let until = self.clock.now().checked_sub(after);
        let until = until.unwrap_or(Timestamp::MIN).as_millisecond();
        let mut session = self.database.writer().await?;
        session.execute(sql, vec![until.into()]).await
    }

    /// Makes a token worth nothing, from now on. Safe to repeat.
    ///
    /// # Errors
    /// `Absent`, `Database`.
    pub async fn revoke_token(&self, id: &str) -> Result<(), IdentityError> {
        let sql = "update token set revoked_ms = coalesce(revoked_ms, $2) where id = $1";
        let mut session = self.database.writer().await?;
        let now = self.clock.now().as_millisecond();
        let revoked = session.execute(sql, vec![id.into(), now.into()]).await?;
        (revoked > 0).then_some(()).ok_or_else(|| {
            IdentityError::absent(format!("there is no token `{}`", id.escape_debug()))
        })
    }
}

fn from_row(row: &Row) -> Result<Token, Error> {
    let scopes = row.text(2)?;
    Ok(Token {
        id: row.text(0)?,
        user: row.text(1)?,
        // A scope that a newer program has written is one that this program does not grant.
        scopes: scopes.split(',').filter_map(Scope::stored).collect(),
        created: moment(row.int(3)?),
        expires: row.maybe_int(4)?.map(moment),
        revoked: row.maybe_int(5)?.map(moment),
    })
}
