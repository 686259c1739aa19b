//! Entries that come back: timed out, given back, failed; those that expire; and the dead that a person calls back.
//!
//! Each is decided by `rules.rs` on rows that are locked, and written in the same transaction.

use std::collections::HashMap;

use tokio_postgres::Row;

use super::Fault;
use super::add::{Change, delete_waiting, first_date, update_waiting};
use super::journal::{PgJournal, View};
use super::pool::{ANSWER_LIMIT, Params, Session, Step};
use super::row::{self, Metas, Place, Stored, Tokens};
use super::tally;
use crate::date::Date;
use crate::entry::Meta;
use crate::error::Error;
use crate::key::Key;
use crate::op::{Counts, Fate};
use crate::rules::{self, Absorb, Comeback, Return};
use crate::token::Token;

/// How many time-outs are done in one transaction; as in the statement.
const CHUNK: usize = 500;

/// A processing row without its data.
struct Held {
    token: Token,
    worker: String,
    hash: Vec<u8>,
    deadline: i64,
    stored: Stored,
}

impl Held {
    fn read(row: &Row) -> Result<Option<Self>, Error> {
        let Some(token) = row::token(row, 1)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            token,
            worker: String::from_utf8_lossy(row::cell::<&[u8]>(row, 4)?).into_owned(),
            hash: row::cell(row, 5)?,
            deadline: row::cell(row, 6)?,
            stored: Stored::read(row, 7)?,
        }))
    }

    fn counter(&self) -> i64 {
        self.token.counter.cast_signed()
    }
}

/// What is to be written.
#[derive(Default)]
struct Plan {
    /// Rows of the other table that wait again.
    wait: Vec<(i64, Meta)>,
    die: Vec<(i64, Meta, String)>,
    end: Vec<i64>,
    changes: Vec<(Place, Meta)>,
    removed: Vec<Place>,
    /// Where something can be handed out that could not before.
    places: Vec<Place>,
    counts: Counts,
}

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

/// Which table the rows of a [`Plan`] are in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Processing,
    Dead,
}

impl Plan {
    fn come_back(
        &mut self,
        view: &View,
        held: &Held,
        successor: Option<Stored>,
        how: Return,
        now: Date,
        reason: &str,
    ) -> Result<Fate, Error> {
        let old = &held.stored;
        if let Some(successor) = &successor {
            row::same_key(&successor.key, &old.key)?;
        }
        let reason = |meta: &Meta| match how {
            Return::TimedOut => rules::timeout_reason(meta, &held.worker),
            Return::Released(_) => String::new(),
            Return::Failed(_) => row::cut(reason).to_owned(),
        };
        match how {
            Return::TimedOut => self.counts.timeouts += 1,
            Return::Released(_) => self.counts.releases += 1,
            Return::Failed(_) => self.counts.failures += 1,
        }
        let declared = view.declared(old.meta.version);
        Ok(match rules::come_back(&old.meta, how, declared, now) {
            Comeback::Expires(meta) => {
                self.counts.expired += 1;
                self.end.push(held.counter());
                self.hand_down(&meta, successor);
                Fate::Expired
            }
            Comeback::Dies(meta) => {
                self.counts.died += 1;
                self.die.push((held.counter(), meta, reason(&meta)));
                self.hand_down(&meta, successor);
                Fate::Dead
            }
            Comeback::Waits(meta) => match successor {
                Some(successor) => {
                    self.absorb(view, held.counter(), old.seq, &meta, &successor);
                    Fate::Absorbed
                }
                None => {
                    self.wait_again(held.counter(), old.seq, meta);
                    Fate::Waiting
                }
            },
        })
    }

    /// Row `id` of the other table waits with this.
    fn wait_again(&mut self, id: i64, seq: i64, meta: Meta) {
        self.wait.push((id, meta));
        self.places.push(Place::of(&meta, seq));
    }

    fn change(&mut self, stored: &Stored, meta: Meta) {
        if stored.meta != meta {
            self.changes.push((stored.place(), meta));
        }
        self.places.push(Place::of(&meta, stored.seq));
    }

    fn hand_down(&mut self, old: &Meta, successor: Option<Stored>) {
        if let Some(successor) = successor {
            let meta = rules::inherit(old, &successor.meta);
            self.change(&successor, meta);
        }
    }

    fn absorb(&mut self, view: &View, id: i64, seq: i64, old: &Meta, successor: &Stored) {
        self.counts.absorbed += 1;
        let declared = view.declared(successor.meta.version);
        match rules::absorb(old, &successor.meta, declared) {
            Absorb::IntoSuccessor(meta) => {
                self.end.push(id);
                self.change(successor, meta);
            }
            Absorb::IntoOld(meta) => {
                self.removed.push(successor.place());
                self.wait_again(id, seq, meta);
            }
        }
    }

    /// Dead rows of one key become one waiting entry, together with what waits.
    fn requeue_merging(
        &mut self,
        view: &View,
        dead: &[Stored],
        waiting: Option<&Stored>,
        now: Date,
    ) {
        // Who waits in the end: a dead one, by its number, or what waited before; and as what.
        let mut current: Option<(Option<i64>, Meta)> = waiting.map(|stored| (None, stored.meta));
        for stored in dead {
            let meta = rules::requeue(&stored.meta, now);
            let Some((who, successor)) = current else {
                current = Some((Some(stored.seq), meta));
                continue;
            };
            self.counts.absorbed += 1;
            let declared = view.declared(successor.version);
            current = Some(match rules::absorb(&meta, &successor, declared) {
                Absorb::IntoSuccessor(meta) => (who, meta),
                Absorb::IntoOld(meta) => (Some(stored.seq), meta),
            });
        }
        let winner = current.and_then(|(who, _)| who);
        let losers = dead.iter().map(|stored| stored.seq);
        self.end = losers.filter(|seq| Some(*seq) != winner).collect();
        match (current, waiting) {
            (Some((Some(seq), meta)), waiting) => {
                self.removed.extend(waiting.map(Stored::place));
                self.wait_again(seq, seq, meta);
            }
            (Some((None, meta)), Some(stored)) => self.change(stored, meta),
            (Some((None, _)) | None, _) => {}
        }
    }

    /// The statements, in an order in which a key never waits twice.
    fn steps<'a>(&'a self, view: &'a View, now: Date, source: Source) -> Vec<Step<'a>> {
        let sql = &view.sql;
        let mut steps = Vec::new();
        steps.extend(delete_waiting(&sql.waiting_delete, &self.removed));
        if source == Source::Processing && !self.end.is_empty() {
            steps.push(Step {
                sql: &sql.processing_delete,
                params: vec![Box::new(&self.end)],
            });
        }
        if !self.die.is_empty() {
            steps.push(self.dying(view, now));
        }
        if !self.wait.is_empty() {
            let mut metas = Metas::default();
            for (_, meta) in &self.wait {
                metas.push(meta, view.declared(meta.version));
            }
            let ids: Vec<i64> = self.wait.iter().map(|(id, _)| *id).collect();
            let mut params: Params<'a> = vec![Box::new(ids)];
            metas.append_to(&mut params);
            let sql = match source {
                Source::Processing => &sql.to_waiting,
                Source::Dead => &sql.dead_to_waiting,
            };
            steps.push(Step { sql, params });
        }
        let changes: Vec<Change<'a>> = self
            .changes
            .iter()
            .map(|(old, meta)| Change {
                old: *old,
                meta: *meta,
                data: None,
            })
            .collect();
        steps.extend(update_waiting(view, &changes));
        steps.extend(tally::step(&sql.count, &self.counts));
        steps
    }

    fn dying<'a>(&'a self, view: &'a View, now: Date) -> Step<'a> {
        let mut metas = Metas::default();
        for (_, meta, _) in &self.die {
            metas.push(meta, view.declared(meta.version));
        }
        let mut params: Params<'a> = vec![
            Box::new(self.die.iter().map(|(id, _, _)| *id).collect::<Vec<_>>()),
            Box::new(vec![now.as_millis(); self.die.len()]),
            Box::new(
                self.die
                    .iter()
                    .map(|(_, _, reason)| reason.as_bytes())
                    .collect::<Vec<_>>(),
            ),
        ];
        metas.append_to(&mut params);
        Step {
            sql: &view.sql.to_dead,
            params,
        }
    }
}
