//! Statements that only read, which are not hot.

use super::columns::{SHOWN_DEAD, SHOWN_PROCESSING, SHOWN_WAITING};
use super::{Sql, TIME};

impl Sql {
    /// Whether something of its key is processed, of a waiting entry `w`.
    pub(in super::super) fn blocked(&self) -> String {
        if self.merge {
            format!(
                "exists (select 1 from {} q where q.key_hash = w.key_hash)",
                self.processing
            )
        } else {
            "false".to_owned()
        }
    }

    /// The entries of a key. Parameters: date, hash, key.
    pub(in super::super) fn get(&self) -> String {
        format!(
            "with {TIME} select 0::smallint as kind, false as blocked, {SHOWN_PROCESSING} from {} \
                where key_hash = $2::bytea and key = $3::bytea \
             union all select 1::smallint, {}, {SHOWN_WAITING} from {} w \
                where key_hash = $2::bytea and key = $3::bytea \
                and expiration >= (select now from t) \
             union all select 2::smallint, false, {SHOWN_DEAD} from {} \
                where key_hash = $2::bytea and key = $3::bytea \
             order by kind, seq",
            self.processing,
            self.blocked(),
            self.waiting,
            self.dead
        )
    }

    /// Entries by number. Parameters: numbers in processing, in waiting (with the other parts of their place), and dead.
    pub(in super::super) fn fetch(&self) -> String {
        format!(
            "select 0::smallint as kind, {}, {SHOWN_PROCESSING} from {} \
                where counter = any($1::bigint[]) \
             union all select 1::smallint, {}, {} from unnest($2::smallint[], $3::bigint[], \
                $4::bigint[]) k(p, d, s) join {} w \
                on w.priority = k.p and w.process_date = k.d and w.seq = k.s \
             union all select 2::smallint, false, {SHOWN_DEAD} from {} \
                where seq = any($5::bigint[])",
            false,
            self.processing,
            self.blocked(),
            SHOWN_WAITING,
            self.waiting,
            self.dead
        )
    }

    /// The first entry that can be handed out, now or later, of each priority there is.
    pub(in super::super) fn discover(&self) -> String {
        let waiting = &self.waiting;
        format!(
            "with recursive {TIME}, p(priority) as ( \
                (select priority from {waiting} order by priority limit 1) \
                union all select (select w.priority from {waiting} w \
                    where w.priority > p.priority order by w.priority limit 1) \
                from p where p.priority is not null) \
             select t.now, f.* from t left join ( \
                select p.priority, x.process_date, x.seq from p cross join lateral ( \
                    select w.process_date, w.seq from {waiting} w where w.priority = p.priority \
                        and w.expiration >= (select now from t) and not {} \
                    order by w.process_date, w.seq limit 1) x \
                where p.priority is not null) f on true",
            self.blocked()
        )
    }
}
