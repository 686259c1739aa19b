//! The statement that hands out, which may end leases before.

use std::sync::{Arc, PoisonError};

use super::columns::{ENTRY, SHOWN_PROCESSING, nulls, of};
use super::{Sql, TIME, ended_from};
use crate::op::Op;
use crate::priority::Priority;

/// Which claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in super::super) struct ClaimKind {
    pub(in super::super) count: u32,
    /// Leases are ended in the same statement.
    pub(in super::super) done: bool,
    /// There are priorities from [`Priority::SLOW`] on.
    pub(in super::super) slow: bool,
}

impl Sql {
    /// The statement of a claim.
    pub(in super::super) fn claim(&self, kind: ClaimKind) -> Arc<str> {
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(
            claims
                .entry(kind)
                .or_insert_with(|| self.make_claim(kind).into()),
        )
    }

    /// Parameters: date; priorities, dates and numbers of the marks; incarnation; nonces; workers, of which the
    /// last is that of all further entries; then, with `done`, the counters, incarnations and nonces of the tokens.
    fn make_claim(&self, kind: ClaimKind) -> String {
        let Self {
            waiting,
            processing,
            tally,
            ..
        } = self;
        let j = waiting.trim_end_matches("_waiting");
        let ClaimKind { count, done, slow } = kind;
        let slow_from = Priority::SLOW.0;
        let bytes_max = Op::BYTES_MAX;
        let ended_part = if done {
            // What ends frees its successor, which may lie before the mark.
            let freed = if self.merge {
                format!(
                    "select w.priority, w.process_date, w.seq from ended e \
                     join {waiting} w on w.key_hash = e.key_hash"
                )
            } else {
                "select 0::smallint as priority, 0::bigint as process_date, 0::bigint as seq \
                 from ended where false"
                    .to_owned()
            };
            format!(
                ", {}, freed as materialized ({freed}), \
                 m as materialized (select distinct on (priority) * from ( \
                    select * from unnest($2::smallint[], $3::bigint[], $4::bigint[]) \
                    union all select * from freed) m(priority, d, s) order by priority, d, s)",
                ended_from(processing, 8)
            )
        } else {
            ", m as materialized (select * from unnest($2::smallint[], $3::bigint[], \
                $4::bigint[]) as m(priority, d, s))"
                .to_owned()
        };
        let free = if !self.merge {
            String::new()
        } else if done {
            format!(
                " and not exists (select 1 from {processing} q where q.key_hash = w.key_hash \
                 and q.counter <> all(array(select counter from ended)))"
            )
        } else {
            format!(" and not exists (select 1 from {processing} q where q.key_hash = w.key_hash)")
        };
        // Lazy on purpose: the rows of a priority are looked at, and locked, only while more are wanted.
        let search = |which: &str| {
            format!(
                "select w.* from m cross join lateral ( \
                    select w.ctid as id, w.priority, w.process_date, w.seq, \
                        octet_length(w.data) as length \
                    from {waiting} w where w.priority = m.priority \
                        and (w.process_date, w.seq) >= (m.d, m.s) \
                        and w.process_date <= (select now from t) \
                        and w.expiration >= (select now from t){free} \
                    order by w.process_date, w.seq limit {count} for update of w skip locked) w \
                 where {which} limit {count}"
            )
        };
        let fast = search(&format!("m.priority < {slow_from}"));
        let picked = if slow {
            format!(
                "fast as materialized ({fast}), slow as materialized ({}), \
                 picked as (select * from fast union all select * from slow)",
                search(&format!(
                    "m.priority >= {slow_from} and not exists (select 1 from fast)"
                ))
            )
        } else {
            format!("picked as materialized ({fast})")
        };
        let bound = if count == 1 {
            "bound as materialized (select id, priority, process_date, seq from picked)".to_owned()
        } else {
            format!(
                "bound as materialized (select id, priority, process_date, seq from ( \
                    select *, row_number() over o as place, sum(length) over o as bytes \
                    from picked window o as (order by priority, process_date, seq)) b \
                 where place = 1 or bytes <= {bytes_max})"
            )
        };
        let (counted, counted_columns) = if done {
            (
                "(select count(*) from taken), (select count(*) from ended)",
                "claims, done",
            )
        } else {
            ("(select count(*) from taken)", "claims")
        };
        let some = if done {
            "exists (select 1 from taken) or exists (select 1 from ended)"
        } else {
            "exists (select 1 from taken)"
        };
        let ends = if done {
            format!(
                " union all select 2::smallint, {} from ended e \
                 union all select 3::smallint, {} from freed f",
                nulls(&[
                    ("counter", "e.counter"),
                    ("incarnation", "e.incarnation"),
                    ("nonce", "e.nonce")
                ]),
                nulls(&[
                    ("seq", "f.seq"),
                    ("process_date", "f.process_date"),
                    ("priority", "f.priority")
                ])
            )
        } else {
            String::new()
        };
        format!(
            "with {TIME}{ended_part}, {picked}, {bound}, \
             gone as (delete from {waiting} where ctid = any(array(select id from bound)) \
                returning {ENTRY}), \
             taken as (insert into {processing} (counter, incarnation, nonce, start, worker, {ENTRY}) \
                select nextval('cannery_journal.{j}_counter'), $5::bigint, \
                    ($6::bigint[])[row_number() over o], t.now, \
                    ($7::bytea[])[least(row_number() over o, cardinality($7::bytea[]))], {} \
                from gone g cross join t \
                window o as (order by g.priority, g.process_date, g.seq) \
                returning {}), \
             counted as (insert into {tally} ({counted_columns}) select {counted} where {some}), \
             ahead as (select m.priority, x.process_date, x.seq from m \
                left join lateral (select b.process_date, b.seq from bound b \
                    where b.priority = m.priority \
                    order by b.process_date desc, b.seq desc limit 1) l on true \
                cross join lateral (select w.process_date, w.seq from {waiting} w \
                    where w.priority = m.priority and (w.process_date, w.seq) >= \
                        (coalesce(l.process_date, m.d), coalesce(l.seq + 1, m.s)) \
                        and w.expiration >= (select now from t){free} \
                    order by w.process_date, w.seq limit 1) x) \
             select 0::smallint as kind, {} \
             union all select 1::smallint, * from taken \
             union all select 4::smallint, {} from ahead a{ends}",
            of("g", ENTRY),
            SHOWN_PROCESSING,
            nulls(&[
                ("start", "(select now from t)"),
                ("seq", "(select count(*) from picked)"),
                ("counter", "(select count(*) from bound)"),
            ]),
            nulls(&[
                ("seq", "a.seq"),
                ("process_date", "a.process_date"),
                ("priority", "a.priority")
            ]),
        )
    }
}
