//! The statements of one journal.
//!
//! Dates are milliseconds in `bigint`. The first parameter of most is the date: nothing for the server's own clock.
//! LIMIT is written out, because with a parameter there the planner prefers to sort.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::tally;

mod claim;
mod columns;
mod read;

pub(super) use claim::ClaimKind;
use columns::{META, meta_arrays, of};

/// The date of a statement, evaluated once.
const TIME: &str = "t as materialized (select coalesce($1::bigint, \
    floor(extract(epoch from statement_timestamp()) * 1000)::bigint) as now)";

/// The statements of one journal, by what they are for.
#[derive(Debug)]
pub(super) struct Sql {
    pub(super) merge: bool,
    pub(super) waiting: String,
    pub(super) processing: String,
    pub(super) dead: String,
    pub(super) tally: String,
    pub(super) add: String,
    pub(super) add_find: String,
    pub(super) add_insert: String,
    pub(super) waiting_update: String,
    pub(super) waiting_delete: String,
    pub(super) done: String,
    pub(super) heartbeat: String,
    pub(super) held: String,
    pub(super) timed_out: String,
    pub(super) successors: String,
    pub(super) to_waiting: String,
    pub(super) to_dead: String,
    pub(super) processing_delete: String,
    pub(super) dead_of: String,
    pub(super) dead_to_waiting: String,
    pub(super) dead_delete: String,
    pub(super) expire: String,
    pub(super) cancel: String,
    pub(super) count: String,
    claims: Mutex<HashMap<ClaimKind, Arc<str>>>,
}

impl Sql {
    pub(super) fn new(id: i32, merge: bool) -> Self {
        let waiting = format!("j{id}_waiting");
        let processing = format!("j{id}_processing");
        let dead = format!("j{id}_dead");
        let tally = format!("j{id}_tally");
        let meta = META;
        let arrays = meta_arrays;
        let find_columns = format!("seq, key, {META}");
        Self {
            merge,
            add: add(id, merge),
            // Both locked and read in the order of hashes, so that two batches do not wait for each other crosswise.
            add_find: format!(
                "with {TIME} select t.now, w.key_hash, {} from t left join ( \
                    select * from {waiting} where key_hash = any($2::bytea[]) \
                    order by key_hash for update) w on true",
                of("w", &find_columns)
            ),
            add_insert: format!(
                "insert into {waiting} (seq, key_hash, key, data, {meta}) \
                 select nextval('cannery_journal.j{id}_seq'), * from (select {} from unnest( \
                    $1::bytea[], $2::bytea[], $3::bytea[], {}) with ordinality \
                    as k(key_hash, key, data, {meta}, place) order by place) k \
                 returning priority, process_date, seq",
                of("k", &format!("key_hash, key, data, {meta}")),
                arrays(4)
            ),
            waiting_update: format!(
                "update {waiting} w set ({meta}, data) = ({}, coalesce(k.new_data, w.data)) \
                 from unnest($1::smallint[], $2::bigint[], $3::bigint[], $4::bytea[], {}) \
                    as k(old_priority, old_process, old_seq, new_data, {meta}) \
                 where w.priority = k.old_priority and w.process_date = k.old_process \
                    and w.seq = k.old_seq",
                of("k", meta),
                arrays(5)
            ),
            waiting_delete: format!(
                "delete from {waiting} w \
                 using unnest($1::smallint[], $2::bigint[], $3::bigint[]) \
                    as k(priority, process_date, seq) \
                 where w.priority = k.priority and w.process_date = k.process_date \
                    and w.seq = k.seq"
            ),
            done: format!(
                "with {TIME}, {}, counted as ( \
                    insert into {tally} (done) select count(*) from ended having count(*) > 0) \
                 {}",
                ended(&processing),
                if merge {
                    format!(
                        "select t.now, e.counter, e.incarnation, e.nonce, \
                            w.priority, w.process_date, w.seq \
                         from ended e cross join t left join {waiting} w \
                         on w.key_hash = e.key_hash and w.expiration >= t.now"
                    )
                } else {
                    "select t.now, e.counter, e.incarnation, e.nonce, null::smallint, null::bigint, null::bigint \
                     from ended e cross join t"
                        .to_owned()
                }
            ),
            heartbeat: format!(
                "with {TIME} update {processing} p set start = greatest(p.start, t.now) \
                 from t, unnest($2::bigint[], $3::bigint[], $4::bigint[]) \
                    as k(counter, incarnation, nonce) \
                 where p.counter = k.counter and p.incarnation = k.incarnation \
                    and p.nonce = k.nonce and p.start + p.lease >= t.now \
                 returning p.counter, p.incarnation, p.nonce, p.start + p.lease"
            ),
            held: format!(
                "with {TIME} select t.now, p.counter, p.incarnation, p.nonce, p.worker, p.key_hash, \
                    p.start + p.lease, {} \
                 from t left join ( \
                    select p.* from unnest($2::bigint[], $3::bigint[], $4::bigint[]) \
                        as k(counter, incarnation, nonce) \
                    join {processing} p on p.counter = k.counter \
                        and p.incarnation = k.incarnation and p.nonce = k.nonce \
                    order by p.counter for update of p) p on true",
                of("p", &find_columns)
            ),
            timed_out: format!(
                "with {TIME} select t.now, p.counter, p.incarnation, p.nonce, p.worker, p.key_hash, \
                    p.start + p.lease, {} \
                 from t left join ( \
                    select * from {processing} p \
                    where p.counter >= $2::bigint and p.start + p.lease < (select now from t) \
                    order by p.counter limit 500 for update of p skip locked) p on true",
                of("p", &find_columns)
            ),
            successors: format!(
                "select w.key_hash, {} from {waiting} w where w.key_hash = any($1::bytea[]) \
                 order by w.key_hash for update",
                of("w", &find_columns)
            ),
            to_waiting: moved(&processing, "counter", &waiting, ""),
            to_dead: moved(&processing, "counter", &dead, "died, reason, "),
            processing_delete: format!(
                "delete from {processing} where counter = any($1::bigint[])"
            ),
            dead_of: format!(
                "with {TIME} select t.now, w.key_hash, {} from t left join ( \
                    select * from {dead} where key_hash = $2::bytea and key = $3::bytea \
                    order by seq for update) w on true",
                of("w", &find_columns)
            ),
            dead_to_waiting: moved(&dead, "seq", &waiting, ""),
            dead_delete: format!(
                "delete from {dead} where key_hash = $1::bytea and seq = any($2::bigint[])"
            ),
            expire: format!(
                "with {TIME}, late as materialized ( \
                    select ctid as id from {waiting} \
                    where expiration < 9223372036854775807 and expiration < (select now from t) \
                    order by expiration limit 1000 for update skip locked), \
                 gone as (delete from {waiting} \
                    where ctid = any(array(select id from late)) returning 1), \
                 counted as (insert into {tally} (expired) \
                    select count(*) from gone having count(*) > 0) \
                 select count(*) from gone"
            ),
            cancel: format!(
                "with {TIME}, w as (delete from {waiting} \
                    where key_hash = $2::bytea and key = $3::bytea returning expiration), \
                 p as (delete from {processing} \
                    where key_hash = $2::bytea and key = $3::bytea returning counter), \
                 n as (select (select count(*) from w, t where expiration >= now) as live, \
                    (select count(*) from w, t where expiration < now) as late, \
                    (select count(*) from p) as held), \
                 counted as (insert into {tally} (cancelled, expired) \
                    select live + held, late from n where live + held + late > 0) \
                 select live, held, array(select counter from p) from n"
            ),
            count: tally::insert(&tally),
            claims: Mutex::default(),
            waiting,
            processing,
            dead,
            tally,
        }
    }
}

/// The leases of tokens that still hold, ended.
fn ended(processing: &str) -> String {
    ended_from(processing, 2)
}

fn ended_from(processing: &str, from: usize) -> String {
    format!(
        "ended as (delete from {processing} p \
            using unnest(${}::bigint[], ${}::bigint[], ${}::bigint[]) \
                as k(counter, incarnation, nonce) \
            where p.counter = k.counter and p.incarnation = k.incarnation and p.nonce = k.nonce \
                and p.start + p.lease >= (select now from t) \
            returning p.counter, p.incarnation, p.nonce, p.key_hash)",
        from,
        from + 1,
        from + 2
    )
}

/// New entries: all of them, or none when a key waits already.
fn add(id: i32, merge: bool) -> String {
    let w = format!("j{id}_waiting");
    let only = if merge {
        format!("where not exists (select 1 from i join {w} w on w.key_hash = i.key_hash)")
    } else {
        String::new()
    };
    let ahead = crate::rules::CLOCK_AHEAD_MAX.as_millis();
    format!(
        "with {TIME}, i as materialized (select * from unnest($2::bytea[], $3::bytea[], \
            $4::smallint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bytea[]) with ordinality \
            as i(key_hash, key, priority, process_date, insertion, expiration, data, place)), \
         fresh as (insert into {w} (seq, key_hash, key, priority, process_date, insertion, newest, \
                arrived, expiration, timeouts, strikes, version, lease, data) \
            select nextval('cannery_journal.j{id}_seq'), i.key_hash, i.key, i.priority, \
                case when i.process_date = i.insertion then least(i.insertion, t.now + {ahead}) \
                    else i.process_date end, least(i.insertion, t.now + {ahead}), \
                least(i.insertion, t.now + {ahead}), t.now, i.expiration, 0, 0, \
                $9::int, $10::bigint, i.data \
            from (select * from i order by place) i cross join t {only} \
            returning priority, process_date, seq), \
         counted as (insert into j{id}_tally (adds, clamped) select count(*), \
                (select count(*) from i, t where i.insertion > t.now + {ahead}) \
            from fresh having count(*) > 0) \
         select t.now, f.priority, f.process_date, f.seq from t left join ( \
            select distinct on (priority) priority, process_date, seq from fresh \
            order by priority, process_date, seq) f on true"
    )
}

/// Moves rows with their data from one table to another, with what is known of them anew.
fn moved(from: &str, id: &str, to: &str, extra: &str) -> String {
    let extra_arrays = if extra.is_empty() {
        ""
    } else {
        "$2::bigint[], $3::bytea[], "
    };
    let first = if extra.is_empty() { 2 } else { 4 };
    let extra_values = if extra.is_empty() {
        ""
    } else {
        "k.died, k.reason, "
    };
    format!(
        "with k as materialized (select * from unnest($1::bigint[], {extra_arrays}{}) \
            as k(id, {extra}{META})), \
         gone as (delete from {from} o using k where o.{id} = k.id \
            returning o.{id} as id, o.seq, o.key_hash, o.key, o.data) \
         insert into {to} (seq, key_hash, key, data, {extra}{META}) \
            select g.seq, g.key_hash, g.key, g.data, {extra_values}{} from gone g join k on k.id = g.id \
            returning priority, process_date, seq",
        meta_arrays(first),
        of("k", META)
    )
}
