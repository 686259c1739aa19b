//! What is to be written of entries that come back, decided before anything is.

use tokio_postgres::Row;

use super::super::add::{Change, delete_waiting, update_waiting};
use super::super::journal::View;
use super::super::pool::{Params, Step};
use super::super::row::{self, Metas, Place, Stored};
use super::super::tally;
use crate::date::Date;
use crate::entry::Meta;
use crate::error::Error;
use crate::op::{Counts, Fate};
use crate::rules::{self, Absorb, Comeback, Return};
use crate::token::Token;

/// A processing row without its data.
pub(super) struct Held {
    pub(super) token: Token,
    pub(super) worker: String,
    pub(super) hash: Vec<u8>,
    pub(super) deadline: i64,
    pub(super) stored: Stored,
}

impl Held {
    pub(super) fn read(row: &Row) -> Result<Option<Self>, Error> {
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

    pub(super) fn counter(&self) -> i64 {
        self.token.counter.cast_signed()
    }
}

/// What is to be written.
#[derive(Default)]
pub(super) struct Plan {
    /// Rows of the other table that wait again.
    pub(super) wait: Vec<(i64, Meta)>,
    pub(super) die: Vec<(i64, Meta, String)>,
    pub(super) end: Vec<i64>,
    pub(super) changes: Vec<(Place, Meta)>,
    pub(super) removed: Vec<Place>,
    /// Where something can be handed out that could not before.
    pub(super) places: Vec<Place>,
    pub(super) counts: Counts,
}

/// Which table the rows of a [`Plan`] are in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Processing,
    Dead,
}

impl Plan {
    pub(super) fn come_back(
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
    pub(super) fn wait_again(&mut self, id: i64, seq: i64, meta: Meta) {
        self.wait.push((id, meta));
        self.places.push(Place::of(&meta, seq));
    }

    pub(super) fn change(&mut self, stored: &Stored, meta: Meta) {
        if stored.meta != meta {
            self.changes.push((stored.place(), meta));
        }
        self.places.push(Place::of(&meta, stored.seq));
    }

    pub(super) fn hand_down(&mut self, old: &Meta, successor: Option<Stored>) {
        if let Some(successor) = successor {
            let meta = rules::inherit(old, &successor.meta);
            self.change(&successor, meta);
        }
    }

    pub(super) fn absorb(
        &mut self,
        view: &View,
        id: i64,
        seq: i64,
        old: &Meta,
        successor: &Stored,
    ) {
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
    pub(super) fn requeue_merging(
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
    pub(super) fn steps<'a>(&'a self, view: &'a View, now: Date, source: Source) -> Vec<Step<'a>> {
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

    pub(super) fn dying<'a>(&'a self, view: &'a View, now: Date) -> Step<'a> {
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
