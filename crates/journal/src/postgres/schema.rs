//! The tables, and how they come to be.
//!
//! Everything is in the schema `cannery_journal`. `journals` and `declarations` say which journals there are; each journal
//! has tables and sequences of its own, `j<id>_…`, so that TRUNCATE and autovacuum work on one journal at a time.
//!
//! | table | rows |
//! |---|---|
//! | `j<id>_waiting` | what waits, in the order of claims |
//! | `j<id>_processing` | what is handed out, by the counter of its token |
//! | `j<id>_dead` | what was given up, by arrival |
//! | `j<id>_tally` | what happened, one row a transaction, added up from time to time |

use super::pool::{LONG_LIMIT, Session};
use crate::error::{Error, ErrorKind};

/// Any number that nobody else uses for an advisory lock in this database.
const LOCK: i64 = 0x6361_6e6e_6a72_6e6c;

/// The steps from nothing to the schema of this program; one that was published never changes.
const MIGRATIONS: [&str; 1] = ["
    create table cannery_journal.journals (
        id int generated always as identity primary key,
        name text not null unique,
        version int not null
    );
    create table cannery_journal.declarations (
        journal int not null references cannery_journal.journals,
        version int not null,
        body json not null,
        primary key (journal, version)
    );
    create sequence cannery_journal.incarnations;
"];

/// Brings the schema up to date. Any number of processes may do so at once.
pub(super) async fn migrate(session: &mut Session) -> Result<(), Error> {
    let made = migrate_locked(session).await;
    if made.is_err() {
        session.rollback().await;
    }
    made
}

async fn migrate_locked(session: &mut Session) -> Result<(), Error> {
    session.script(&begin()).await?;
    session
        .script(
            "do $$ begin \
                if to_regnamespace('cannery_journal') is null then \
                    create schema cannery_journal; \
                end if; \
                if to_regclass('cannery_journal.migrations') is null then \
                    create table cannery_journal.migrations ( \
                        number int primary key, \
                        applied timestamptz not null default now()); \
                end if; \
            end $$",
        )
        .await?;
    let reached = session
        .within(
            "select coalesce(max(number), 0) from cannery_journal.migrations",
            &[],
            LONG_LIMIT,
        )
        .await?;
    let reached: i32 = reached.first().map_or(0, |row| row.get(0));
    let reached = usize::try_from(reached).unwrap_or(0);
    if reached > MIGRATIONS.len() {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "the schema `cannery_journal` has version {reached}, this program knows {}; use the newer program",
                MIGRATIONS.len()
            ),
        ));
    }
    for (place, migration) in MIGRATIONS.iter().enumerate().skip(reached) {
        let number = place + 1;
        session
            .script(&format!(
                "{migration}; insert into cannery_journal.migrations (number) values ({number})"
            ))
            .await?;
    }
    session.commit(&[]).await?;
    Ok(())
}

/// Begins a transaction that nobody else does such things beside.
pub(super) fn begin() -> String {
    format!(
        "begin; set local statement_timeout = '50s'; set local lock_timeout = '40s'; \
         select pg_advisory_xact_lock({LOCK})"
    )
}

/// The tables of a new journal.
pub(super) fn create(id: i32, merge: bool) -> String {
    // What is known of an entry.
    let entry = "\
        seq bigint not null, \
        key_hash bytea not null, \
        key bytea not null, \
        priority smallint not null, \
        process_date bigint not null, \
        insertion bigint not null, \
        newest bigint not null, \
        arrived bigint not null, \
        expiration bigint not null, \
        timeouts smallint not null, \
        strikes int not null, \
        version int not null, \
        lease bigint not null, \
        data bytea not null";
    // Rows live for seconds: the default of a fifth of the table would never come about.
    let vacuum = "\
        autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, \
        autovacuum_vacuum_insert_scale_factor = 1, \
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000, \
        autovacuum_vacuum_cost_delay = 0";
    let counts = super::tally::columns()
        .map(|name| format!("{name} bigint"))
        .join(", ");
    let keys = index_keys(id, merge);
    let j = format!("cannery_journal.j{id}");
    format!(
        "create sequence {j}_seq; \
         create sequence {j}_counter; \
         create table {j}_waiting ({entry}, primary key (priority, process_date, seq)) with ({vacuum}); \
         create index j{id}_waiting_expiration on {j}_waiting (expiration) \
            where expiration < 9223372036854775807; \
         create table {j}_processing (counter bigint primary key, incarnation bigint not null, \
            nonce bigint not null, start bigint not null, worker bytea not null, {entry}) \
            with (fillfactor = 50, {vacuum}); \
         {keys}; \
         create table {j}_dead (died bigint not null, reason bytea not null, {entry}, primary key (seq)); \
         create index j{id}_dead_key on {j}_dead (key_hash); \
         create table {j}_tally (id bigint generated always as identity primary key, {counts}) with ({vacuum})"
    )
}

/// The indexes by key: where the same key waiting twice is one entry, the database makes sure of it.
pub(super) fn index_keys(id: i32, merge: bool) -> String {
    let unique = if merge { "unique " } else { "" };
    let j = format!("cannery_journal.j{id}");
    format!(
        "drop index if exists {j}_waiting_key, {j}_processing_key; \
         create {unique}index j{id}_waiting_key on {j}_waiting (key_hash); \
         create {unique}index j{id}_processing_key on {j}_processing (key_hash)"
    )
}
