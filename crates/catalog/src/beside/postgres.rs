//! The tables of a schema are moved into the place of those of another, in one transaction.

use super::NEW_NAMESPACE;
use crate::catalog::SCHEMA;
use crate::error::{Error, ErrorKind};
use cannery_database::Session;

/// Of the catalog that is there.
const NAMESPACE: &str = SCHEMA.namespace;

/// The number of the lock that who makes a new catalog has; its connection has it until it ends.
const LOCK: i64 = 0x6361_7461_6c6f_6732;

/// The tables of a catalog; whatever else stands in its schema is not ours.
const OURS: &str = "c.relkind = 'r' and (c.relname in ('migration', 'kind', 'reason', 'skeleton', 'file', 'feature', \
    'file_feature', 'aggregate', 'report', 'measurement', 'duplicate', 'badblob', 'badrow', 'residual', 'coverage', 'touched_date') \
    or c.relname like 'feature\\_%' or c.relname like 'aggregate\\_%')";

/// Takes the lock, and makes room for a new schema.
pub(super) async fn begin(session: &mut dyn Session) -> Result<(), Error> {
    // A session that may have tables of its own ends its connection, and with it the lock.
    session.own_prefix();
    let sql = format!("select cast(pg_try_advisory_lock({LOCK}) as int)::bigint");
    let rows = session.query(&sql, Vec::new()).await?;
    if rows.first().map_or(Ok(0), |row| row.int(0))? != 1 {
        return Err(Error::new(
            ErrorKind::Conflict,
            "cannot make a new catalog: somebody else makes one in this database; wait for it",
        ));
    }
    discard(session).await
}

/// Gives the lock back. The end of the connection would, too, but the server notices that a little later, and who comes next would
/// be refused; where this fails, that is all that happens.
pub(super) async fn end(session: &mut dyn Session) {
    let sql = format!("select cast(pg_advisory_unlock({LOCK}) as int)::bigint");
    if let Err(error) = session.query(&sql, Vec::new()).await {
        tracing::debug!(%error, "the lock ends with its connection");
    }
}

/// Drops the new schema.
pub(super) async fn discard(session: &mut dyn Session) -> Result<(), Error> {
    session
        .script(&format!("drop schema if exists {NEW_NAMESPACE} cascade"))
        .await
        .map_err(Error::from)
}

/// Moves the tables. Who may use the old ones may use the new ones.
pub(super) async fn take_over(session: &mut dyn Session) -> Result<(), Error> {
    let tables = |namespace: &str| {
        format!(
            "select c.relname as name, c.relowner as owner, c.relacl as acl from pg_class c \
             join pg_namespace n on n.oid = c.relnamespace \
             where n.nspname = '{namespace}' and {OURS}"
        )
    };
    let (old, new) = (tables(NAMESPACE), tables(NEW_NAMESPACE));
    let script = format!(
        "do $$ declare t record; begin \
         for t in select o.name, a.privilege_type as may, a.is_grantable as further, \
                case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end as who \
            from ({old}) o join ({new}) f on f.name = o.name, aclexplode(o.acl) a \
            where a.grantee <> o.owner loop \
            execute format('grant %s on {NEW_NAMESPACE}.%I to %s', t.may, t.name, t.who) \
                || case when t.further then ' with grant option' else '' end; \
         end loop; \
         for t in {old} loop execute format('drop table {NAMESPACE}.%I', t.name); end loop; \
         for t in {new} loop \
            execute format('alter table {NEW_NAMESPACE}.%I set schema {NAMESPACE}', t.name); \
         end loop; \
         drop schema {NEW_NAMESPACE}; \
         end $$"
    );
    session.begin().await?;
    match session.script(&script).await {
        Ok(()) => Ok(session.commit().await?),
        Err(error) => {
            session.rollback().await;
            let what = "cannot put the new catalog in the place of the old one, which is as it was; \
                        if something depends on its tables, drop that first";
            Err(Error::from(error).while_doing(what))
        }
    }
}
