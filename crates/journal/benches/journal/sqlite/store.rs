//! The table, with the indexes that a journal needs.

use std::cell::Cell;
use std::path::Path;

use cannery_runtime::Clock;
use rusqlite::{Connection, params};

use crate::bench::{fresh_key, text};

const SCHEMA: &str = "
    pragma journal_mode = wal;
    pragma synchronous = full;
    create table entries (
        priority integer not null,
        process_date integer not null,
        seq integer not null,
        key text not null unique,
        expiration integer,
        lease integer,
        token integer,
        data blob not null,
        primary key (priority, process_date, seq)
    );
    create index expiring on entries (expiration) where expiration is not null;
    create index leased on entries (lease);
";

const LEASE_MS: i64 = 120_000;

/// What one client asks for in a cycle.
pub(super) enum Ask {
    Put,
    Claim,
    Done(Lease),
}

/// A claimed row.
#[derive(Clone, Copy)]
pub(super) struct Lease {
    row: i64,
    token: i64,
}

pub(super) struct Store {
    connection: Connection,
    clock: Clock,
    next_seq: Cell<i64>,
    data: Vec<u8>,
}

impl Store {
    pub(super) fn open(folder: &Path, clock: &Clock) -> Self {
        let connection = Connection::open(folder.join("entries.sqlite")).unwrap();
        connection.execute_batch(SCHEMA).unwrap();
        let synchronous: i64 = connection
            .query_row("pragma synchronous", [], |row| row.get(0))
            .unwrap();
        assert_eq!(synchronous, 2, "commits must be synced");
        Self {
            connection,
            clock: clock.clone(),
            next_seq: Cell::new(0),
            data: text().into_bytes(),
        }
    }

    /// Does something in a transaction.
    pub(super) fn commit<T>(&self, work: impl FnOnce(&Self) -> T) -> T {
        self.execute("begin immediate");
        let answer = work(self);
        self.execute("commit");
        answer
    }

    fn execute(&self, statement: &str) {
        let mut statement = self.connection.prepare_cached(statement).unwrap();
        statement.execute([]).unwrap();
    }

    fn now(&self) -> i64 {
        self.clock.now().as_millisecond()
    }

    pub(super) fn answer(&self, ask: &Ask) -> Option<Lease> {
        match ask {
            Ask::Put => {
                self.put(1);
                None
            }
            Ask::Claim => self.claim(1).pop(),
            Ask::Done(lease) => {
                self.done(&[*lease]);
                None
            }
        }
    }

    pub(super) fn put(&self, count: u64) -> u64 {
        let now = self.now();
        let mut insert = self
            .connection
            .prepare_cached(
                "insert into entries (priority, process_date, seq, key, data) \
                 values (20, ?1, ?2, ?3, ?4)",
            )
            .unwrap();
        for _ in 0..count {
            let seq = self.next_seq.replace(self.next_seq.get() + 1);
            insert
                .execute(params![now, seq, fresh_key(), self.data])
                .unwrap();
        }
        count
    }

    pub(super) fn claim(&self, count: u32) -> Vec<Lease> {
        let now = self.now();
        // The plus keeps the planner from the index of leases, after which it would have to sort.
        let mut select = self
            .connection
            .prepare_cached(
                "select rowid, key, data from entries where +lease is null and process_date <= ?1 \
                 order by priority, process_date, seq limit ?2",
            )
            .unwrap();
        let found = select.query_map(params![now, count], |row| {
            let (_, data): (String, Vec<u8>) = (row.get(1)?, row.get(2)?);
            assert_eq!(data.len(), self.data.len());
            row.get::<_, i64>(0)
        });
        let rows: Vec<i64> = found.unwrap().map(Result::unwrap).collect();
        let mut update = self
            .connection
            .prepare_cached("update entries set lease = ?2, token = ?3 where rowid = ?1")
            .unwrap();
        rows.into_iter()
            .map(|row| {
                let lease = Lease { row, token: now };
                let until = now + LEASE_MS;
                update.execute(params![row, until, lease.token]).unwrap();
                lease
            })
            .collect()
    }

    pub(super) fn done(&self, leases: &[Lease]) -> u64 {
        let mut delete = self
            .connection
            .prepare_cached("delete from entries where rowid = ?1 and token = ?2")
            .unwrap();
        let deleted = |lease: &Lease| delete.execute(params![lease.row, lease.token]).unwrap();
        leases.iter().map(deleted).sum::<usize>() as u64
    }

    pub(super) fn waiting(&self) -> u64 {
        let count: i64 = self
            .connection
            .query_row(
                "select count(*) from entries where lease is null",
                [],
                |row| row.get(0),
            )
            .unwrap();
        count.cast_unsigned()
    }
}
