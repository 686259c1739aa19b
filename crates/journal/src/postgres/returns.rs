//! Entries that come back: timed out, given back, failed; those that expire; and the dead that a person calls back.
//!
//! Each is decided by `rules.rs` on rows that are locked, and written in the same transaction.

use std::collections::HashMap;

use tokio_postgres::Row;

use super::Fault;
use super::add::first_date;
use super::journal::{PgJournal, View};
use super::pool::{ANSWER_LIMIT, Session, Step};
use super::row::{self, Stored, Tokens};
use super::tally;
use crate::date::Date;
use crate::error::Error;
use crate::key::Key;
use crate::op::{Counts, Fate};
use crate::rules::{self, Return};
use crate::token::Token;

mod plan;

use plan::{Held, Plan, Source};

/// How many time-outs are done in one transaction; as in the statement.
const CHUNK: usize = 500;

impl PgJournal {
    pub(super) async fn release(
        &self,
        tokens: &[Token],
        at: Option<Date>,
    ) -> Result<Vec<Fate>, Fault> {
        self.give_back(tokens, Return::Released(at), "").await
    }

    pub(super) async fn give_back(
        &self,
        tokens: &[Token],
        how: Return,
        reason: &str,
    ) -> Result<Vec<Fate>, Fault> {
        let view = self.view();
        let columns = Tokens::new(tokens);
        let mut session = self.session().await?;
        let rows = session
            .begin(
                "begin",
                &view.sql.held,
                &[
                    &self.shared.now(),
                    &columns.counters,
                    &columns.incarnations,
                    &columns.nonces,
                ],
                ANSWER_LIMIT,
            )
            .await?;
        let now = first_date(&rows)?;
        let mut held = read_held(&rows)?;
        held.retain(|held| held.deadline >= now.as_millis());
        let (fates, _) = self
            .come_back(&mut session, &view, now, &held, how, reason)
            .await?;
        let mut fates: HashMap<Token, Fate> =
            held.iter().map(|held| held.token).zip(fates).collect();
        let fate = |token| fates.remove(token).unwrap_or(Fate::Lost);
        Ok(tokens.iter().map(fate).collect())
    }

    /// Decides about locked rows and commits it; says also how many expired entries it met and took out.
    async fn come_back(
        &self,
        session: &mut Session,
        view: &View,
        now: Date,
        held: &[Held],
        how: Return,
        reason: &str,
    ) -> Result<(Vec<Fate>, usize), Fault> {
        view.knows(held.iter().map(|held| held.stored.meta.version))?;
        let mut plan = Plan::default();
        let mut waiting = self.successors(session, view, now, held, &mut plan).await?;
        let gone = plan.removed.len();
        let mut fates = Vec::with_capacity(held.len());
        for held in held {
            let successor = waiting.remove(&held.hash);
            match plan.come_back(view, held, successor, how, now, reason) {
                Ok(fate) => fates.push(fate),
                Err(error) => {
                    session.rollback().await;
                    return Err(error.into());
                }
            }
        }
        let died = plan.die.len();
        session
            .commit(&plan.steps(view, now, Source::Processing))
            .await?;
        if died > 0 {
            tracing::warn!(journal = self.name(), died, "entries were given up");
        }
        self.arrived(&plan.places, now);
        let mut leases = self.leases();
        for held in held {
            leases.end(held.counter());
        }
        Ok((fates, gone))
    }

    /// The waiting entries of the keys, locked. What has expired is as good as gone.
    async fn successors(
        &self,
        session: &mut Session,
        view: &View,
        now: Date,
        held: &[Held],
        plan: &mut Plan,
    ) -> Result<HashMap<Vec<u8>, Stored>, Fault> {
        if !view.sql.merge || held.is_empty() {
            return Ok(HashMap::new());
        }
        let hashes: Vec<&[u8]> = held.iter().map(|held| held.hash.as_slice()).collect();
        let rows = session
            .within(&view.sql.successors, &[&hashes], ANSWER_LIMIT)
            .await?;
        let mut waiting = HashMap::new();
        for row in &rows {
            let stored = Stored::read(row, 1)?;
            view.knows([stored.meta.version].into_iter())?;
            if stored.meta.expiration.is_past(now) {
                plan.counts.expired += 1;
                plan.removed.push(stored.place());
            } else {
                waiting.insert(row::cell(row, 0)?, stored);
            }
        }
        Ok(waiting)
    }

    /// Does what time has brought as far as this process knows of it: an operation finds nothing that is overdue.
    pub(super) async fn sweep_if_late(&self) -> Result<(), Fault> {
        let late = || {
            let now = self.shared.estimate();
            let first = self.leases().first_deadline();
            first.is_some_and(|deadline| deadline < now)
        };
        if late() {
            let _one_at_a_time = self.sweeping.lock().await;
            if late() {
                self.sweep_alone().await?;
            }
        }
        Ok(())
    }

    /// Does what time has brought; says to how many entries.
    pub(super) async fn sweep(&self) -> Result<u64, Fault> {
        let _one_at_a_time = self.sweeping.lock().await;
        self.sweep_alone().await
    }

    async fn sweep_alone(&self) -> Result<u64, Fault> {
        let mut swept = 0;
        let mut seen = Date::default();
        loop {
            let (now, count, gone) = self.time_out_some().await?;
            seen = seen.max(now);
            swept += (count + gone) as u64;
            if count < CHUNK {
                break;
            }
        }
        let view = self.view();
        loop {
            let mut session = self.session().await?;
            let rows = session
                .query(&view.sql.expire, &[&self.shared.now()])
                .await?;
            let count: i64 = match rows.first() {
                Some(row) => row::cell(row, 0)?,
                None => 0,
            };
            swept += u64::try_from(count).unwrap_or(0);
            if count < 1_000 {
                break;
            }
        }
        self.leases().forget_before(seen.as_millis());
        self.shared.rearm();
        Ok(swept)
    }

    async fn time_out_some(&self) -> Result<(Date, usize, usize), Fault> {
        let view = self.view();
        let mut session = self.session().await?;
        let rows = session
            .begin(
                "begin",
                &view.sql.timed_out,
                &[&self.shared.now(), &self.lowest_counter()],
                ANSWER_LIMIT,
            )
            .await?;
        let now = first_date(&rows)?;
        let held = read_held(&rows)?;
        if held.is_empty() {
            session.rollback().await;
            return Ok((now, 0, 0));
        }
        let (_, gone) = self
            .come_back(&mut session, &view, now, &held, Return::TimedOut, "")
            .await?;
        Ok((now, held.len(), gone))
    }

    /// Puts the dead entries of a key back, the oldest first, each meeting what waits as if it came back.
    pub(super) async fn requeue(&self, key: &Key) -> Result<u64, Fault> {
        let view = self.view();
        let hash = row::hash(key);
        let bytes = key.as_str().as_bytes();
        let mut session = self.session().await?;
        let rows = session
            .begin(
                "begin",
                &view.sql.dead_of,
                &[&self.shared.now(), &&hash[..], &bytes],
                ANSWER_LIMIT,
            )
            .await?;
        let now = first_date(&rows)?;
        let dead = read_stored(&rows)?;
        view.knows(dead.iter().map(|dead| dead.meta.version))?;
        let waiting = self.waiting_of(&mut session, &view, key, &hash).await?;
        let mut plan = Plan::default();
        let waiting = match waiting {
            Some(stored) if stored.meta.expiration.is_past(now) => {
                plan.counts.expired += 1;
                plan.removed.push(stored.place());
                None
            }
            other => other,
        };
        if view.sql.merge {
            plan.requeue_merging(&view, &dead, waiting.as_ref(), now);
        } else {
            for stored in &dead {
                plan.wait_again(stored.seq, stored.seq, rules::requeue(&stored.meta, now));
            }
        }
        let mut steps = plan.steps(&view, now, Source::Dead);
        if !plan.end.is_empty() {
            steps.push(Step {
                sql: &view.sql.dead_delete,
                params: vec![Box::new(hash.to_vec()), Box::new(plan.end.clone())],
            });
        }
        session.commit(&steps).await?;
        self.arrived(&plan.places, now);
        Ok(dead.len() as u64)
    }

    async fn waiting_of(
        &self,
        session: &mut Session,
        view: &View,
        key: &Key,
        hash: &[u8],
    ) -> Result<Option<Stored>, Fault> {
        if !view.sql.merge {
            return Ok(None);
        }
        let rows = session
            .within(&view.sql.successors, &[&vec![hash]], ANSWER_LIMIT)
            .await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let checked = Stored::read(row, 1)
            .and_then(|stored| row::same_key(&stored.key, key).map(|()| stored));
        if checked.is_err() {
            session.rollback().await;
        }
        let stored = checked?;
        view.knows([stored.meta.version].into_iter())?;
        Ok(Some(stored))
    }

    /// Takes the dead entries of a key off the list.
    pub(super) async fn forget(&self, key: &Key) -> Result<u64, Fault> {
        let view = self.view();
        let hash = row::hash(key);
        let bytes = key.as_str().as_bytes();
        let mut session = self.session().await?;
        let rows = session
            .begin(
                "begin",
                &view.sql.dead_of,
                &[&self.shared.now(), &&hash[..], &bytes],
                ANSWER_LIMIT,
            )
            .await?;
        let dead: Vec<i64> = read_stored(&rows)?.iter().map(|dead| dead.seq).collect();
        let counts = Counts {
            forgotten: dead.len() as u64,
            ..Counts::default()
        };
        let mut steps = vec![Step {
            sql: &view.sql.dead_delete,
            params: vec![Box::new(hash.to_vec()), Box::new(dead.clone())],
        }];
        steps.extend(tally::step(&view.sql.count, &counts));
        session.commit(&steps).await?;
        Ok(dead.len() as u64)
    }
}

fn read_held(rows: &[Row]) -> Result<Vec<Held>, Error> {
    rows.iter()
        .filter_map(|row| Held::read(row).transpose())
        .collect()
}

fn read_stored(rows: &[Row]) -> Result<Vec<Stored>, Error> {
    let mut found = Vec::new();
    for row in rows {
        if row::cell::<Option<&[u8]>>(row, 1)?.is_some() {
            found.push(Stored::read(row, 2)?);
        }
    }
    Ok(found)
}
