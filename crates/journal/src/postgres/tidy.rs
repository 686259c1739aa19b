//! What has to be done now and then: looking at everything, adding up the tally, giving space back.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Fault;
use super::journal::{PgJournal, View, lock};
use super::pool::ANSWER_LIMIT;
use super::row::{self, Place};
use super::tally;
use crate::date::Date;

/// An empty journal may keep this much; less is not worth a lock.
const KEPT_BYTES: i64 = 256 * 1024;
/// So many rows of the tally are worth adding up.
const TALLY_ROWS: i64 = 32;

/// What a look at a whole journal found.
struct Facts {
    now: i64,
    first_deadline: Option<i64>,
    others_deadline: Option<i64>,
    lowest_counter: i64,
    first_expiration: Option<i64>,
    tally_rows: i64,
    bytes: i64,
    empty: bool,
}

impl PgJournal {
    /// Looks at everything, and does what is to be done; says how long the looking took.
    pub(super) async fn tidy(&self) -> Result<Duration, Fault> {
        self.touched.store(false, Ordering::Relaxed);
        let view = self.view();
        let began = self.shared.timer.elapsed();
        let facts = self.examine(&view).await?;
        let looking = self.shared.timer.since(began);
        let late = |date: Option<i64>| date.is_some_and(|date| date < facts.now);
        if late(facts.first_deadline) || late(facts.first_expiration) {
            self.sweep().await?;
        }
        if facts.tally_rows >= TALLY_ROWS {
            self.add_up(&view).await?;
        }
        if facts.empty && facts.bytes > KEPT_BYTES {
            self.give_back_space(&view).await?;
        }
        Ok(looking)
    }

    /// Finds what the marks have missed, and the leases of others.
    async fn examine(&self, view: &View) -> Result<Facts, Fault> {
        let flight = self.marks().begin();
        let looked = self.look(view).await;
        let (facts, first) = match looked {
            Ok(found) => found,
            Err(fault) => {
                self.marks().fail(&flight);
                return Err(fault);
            }
        };
        self.shared.saw(facts.now);
        let due = {
            let mut marks = self.marks();
            marks.rebuild(&flight, &first, Date::from_millis(facts.now));
            marks.next_due()
        };
        self.note(&facts);
        if due.is_some_and(|due| due <= facts.now) {
            self.ring();
        }
        self.shared.rearm();
        Ok(facts)
    }

    fn note(&self, facts: &Facts) {
        self.leases().set_others(facts.others_deadline);
        let elapsed = self.shared.timer.elapsed();
        lock(&self.counters).note(elapsed, facts.lowest_counter);
    }

    async fn look(
        &self,
        view: &View,
    ) -> Result<(Facts, BTreeMap<i16, super::marks::Position>), Fault> {
        let tally_from = lock(&self.tallies).settled();
        let mut session = self.session().await?;
        let rows = session
            .query(
                &look_sql(self.id, view),
                &[
                    &self.shared.now(),
                    &self.lowest_counter(),
                    &self.shared.incarnation,
                    &tally_from,
                ],
            )
            .await?;
        let mut first = BTreeMap::new();
        for row in &rows {
            if let Some(place) = Place::read(row, 1)? {
                first.insert(place.priority, place.position);
            }
        }
        let Some(row) = rows.first() else {
            return Err(row::corrupt("a statement that always answers did not".to_owned()).into());
        };
        let facts = Facts {
            now: row::cell(row, 0)?,
            first_deadline: row::cell(row, 4)?,
            others_deadline: row::cell(row, 5)?,
            lowest_counter: row::cell(row, 6)?,
            first_expiration: row::cell(row, 7)?,
            tally_rows: row::cell(row, 8)?,
            bytes: row::cell(row, 9)?,
            empty: row::cell(row, 10)?,
        };
        Ok((facts, first))
    }

    /// Many rows of the tally become one.
    async fn add_up(&self, view: &View) -> Result<(), Fault> {
        let table = &view.sql.tally;
        let names = tally::columns().join(", ");
        let sums = tally::columns()
            .map(|name| format!("nullif(sum({name}), 0)"))
            .join(", ");
        let journal = self.id;
        let from = lock(&self.tallies).settled();
        let mut session = self.session().await?;
        let rows = session
            .query(
                &format!(
                    "with mine as materialized ( \
                        select pg_try_advisory_xact_lock({ADD_UP_LOCK}, {journal}) as got), \
                     gone as (delete from {table} where id >= $1::bigint \
                        and (select got from mine) returning {names}) \
                     insert into {table} ({names}) select {sums} from gone having count(*) > 0 \
                     returning id"
                ),
                &[&from],
            )
            .await?;
        if let Some(row) = rows.first() {
            let elapsed = self.shared.timer.elapsed();
            let lowest: i64 = row::cell(row, 0)?;
            lock(&self.tallies).note(elapsed, lowest);
        }
        Ok(())
    }

    /// Gives the space of an empty journal back. It is looked again under the lock, and who holds the lock too long is
    /// not waited for.
    async fn give_back_space(&self, view: &View) -> Result<(), Fault> {
        let mut session = self.session().await?;
        let emptied = self.truncate(&mut session, view).await;
        match emptied {
            Ok(true) => tracing::debug!(journal = self.name(), "gave the space back"),
            Ok(false) => session.rollback().await,
            Err(fault) => {
                session.rollback().await;
                tracing::debug!(
                    journal = self.name(),
                    error = %fault.error,
                    "the space stays for now"
                );
            }
        }
        Ok(())
    }

    async fn truncate(
        &self,
        session: &mut super::pool::Session,
        view: &View,
    ) -> Result<bool, Fault> {
        let (w, p, t) = (&view.sql.waiting, &view.sql.processing, &view.sql.tally);
        session
            .script(&format!(
                "begin; set local lock_timeout = '50ms'; \
                 lock table {w}, {p}, {t} in access exclusive mode"
            ))
            .await?;
        let rows = session
            .within(
                &format!(
                    "select not exists (select 1 from {w}) and not exists (select 1 from {p}), {} \
                     from {t}",
                    tally::sums()
                ),
                &[],
                ANSWER_LIMIT,
            )
            .await?;
        let Some(row) = rows.first() else {
            return Ok(false);
        };
        if !row::cell::<bool>(row, 0)? {
            return Ok(false);
        }
        let counts = tally::read(row, 1);
        session.script(&format!("truncate {w}, {p}, {t}")).await?;
        let steps: Vec<_> = tally::step(&view.sql.count, &counts).into_iter().collect();
        session.commit(&steps).await?;
        Ok(true)
    }
}

/// The first part of the advisory locks under which tallies are added up.
const ADD_UP_LOCK: i32 = 0x6361_6e74;

/// The first claimable entry of each priority (or one row of nothing), each beside the facts.
fn look_sql(id: i32, view: &View) -> String {
    let sql = &view.sql;
    let (w, p, t) = (&sql.waiting, &sql.processing, &sql.tally);
    let discover = sql.discover();
    format!(
        "select d.*, f.* from ({discover}) d cross join lateral (select \
            (select min(start + lease) from {p} where counter >= $2::bigint), \
            (select min(start + lease) from {p} where counter >= $2::bigint \
                and incarnation <> $3::bigint), \
            coalesce((select min(counter) from {p} where counter >= $2::bigint), \
                (select last_value from cannery_journal.j{id}_counter)), \
            (select min(expiration) from {w} where expiration < 9223372036854775807), \
            (select count(*) from (select 1 from {t} where id >= $4::bigint limit 1000) n), \
            pg_total_relation_size('cannery_journal.{w}') \
                + pg_total_relation_size('cannery_journal.{p}') \
                + pg_total_relation_size('cannery_journal.{t}'), \
            not exists (select 1 from {w}) \
                and not exists (select 1 from {p} where counter >= $2::bigint) \
         ) f"
    )
}
