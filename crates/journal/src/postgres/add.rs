//! Adding. New keys go in with one statement; what meets a waiting entry is merged by the rules, in a transaction.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use super::Fault;
use super::journal::{PgJournal, View};
use super::pool::{ANSWER_LIMIT, Params, Step};
use super::row::{self, Metas, Place, Stored};
use super::tally;
use crate::add::Add;
use crate::date::Date;
use crate::entry::Meta;
use crate::error::Error;
use crate::key::Key;
use crate::op::{Added, Counts};
use crate::rules::{self, Merge};

type Hash = [u8; 32];

impl PgJournal {
    pub(super) async fn add(&self, adds: &[Add]) -> Result<Vec<Added>, Fault> {
        if adds.is_empty() {
            return Ok(Vec::new());
        }
        let view = self.view();
        let hashes: Vec<Hash> = adds.iter().map(|add| row::hash(&add.key)).collect();
        if self.likely_new(&view, &hashes) && self.add_new(&view, adds, &hashes).await? {
            return Ok(vec![Added::Inserted; adds.len()]);
        }
        self.add_merging(&view, adds, &hashes).await
    }

    /// Whether it pays to try without looking first. After a batch that met waiting entries, the next one probably
    /// will too.
    fn likely_new(&self, view: &View, hashes: &[Hash]) -> bool {
        if !view.sql.merge || hashes.len() == 1 {
            return true;
        }
        let distinct: HashSet<&Hash> = hashes.iter().collect();
        distinct.len() == hashes.len() && !self.merging.load(Ordering::Relaxed)
    }

    /// Adds what is all new; false, and nothing added, when it is not.
    async fn add_new(&self, view: &View, adds: &[Add], hashes: &[Hash]) -> Result<bool, Fault> {
        let mut session = self.session().await?;
        let rows = session
            .query(
                &view.sql.add,
                &[
                    &self.shared.now(),
                    &column(hashes, |hash| &hash[..]),
                    &column(adds, |add| add.key.as_str().as_bytes()),
                    &column(adds, |add| i16::from(add.priority.0)),
                    &column(adds, |add| add.process.as_millis()),
                    &column(adds, |add| add.insertion.as_millis()),
                    &column(adds, |add| row::expiration(add.expiration)),
                    &column(adds, |add| &add.data.as_bytes()[..]),
                    &row::version(view.version),
                    &row::allowed(view.declaration()),
                ],
            )
            .await?;
        drop(session);
        let now = first_date(&rows)?;
        let places = places(&rows, 1)?;
        self.arrived(&places, now);
        Ok(!places.is_empty())
    }

    async fn add_merging(
        &self,
        view: &View,
        adds: &[Add],
        hashes: &[Hash],
    ) -> Result<Vec<Added>, Fault> {
        let mut session = self.session().await?;
        let found = session
            .begin(
                "begin",
                &view.sql.add_find,
                &[&self.shared.now(), &column(hashes, |hash| &hash[..])],
                ANSWER_LIMIT,
            )
            .await?;
        let planned = plan(view, adds, hashes, &found);
        let plan = match planned {
            Ok(plan) => plan,
            Err(fault) => {
                session.rollback().await;
                return Err(fault);
            }
        };
        let written = session.commit(&plan.steps(view, adds)).await?;
        drop(session);
        // Also of what was only looked at: a claim beside this skipped what was locked here.
        let mut lowered: Vec<Place> = plan.updated().map(Slot::place).collect();
        lowered.extend(plan.untouched());
        if plan.fresh().next().is_some() {
            let inserted = written.get(usize::from(!plan.expired.is_empty()));
            lowered.extend(places(inserted.map_or(&[][..], Vec::as_slice), 0)?);
        }
        self.merging
            .store(plan.updated().next().is_some(), Ordering::Relaxed);
        self.arrived(&lowered, plan.now);
        Ok(plan.added)
    }
}

/// A column of many rows.
fn column<'a, S, T>(items: &'a [S], of: impl Fn(&'a S) -> T) -> Vec<T> {
    items.iter().map(of).collect()
}

pub(super) fn first_date(rows: &[tokio_postgres::Row]) -> Result<Date, Error> {
    match rows.first() {
        Some(row) => Ok(Date::from_millis(row::cell(row, 0)?)),
        None => Err(row::corrupt(
            "a statement that always answers did not".to_owned(),
        )),
    }
}

pub(super) fn places(rows: &[tokio_postgres::Row], from: usize) -> Result<Vec<Place>, Error> {
    rows.iter()
        .filter_map(|row| Place::read(row, from).transpose())
        .collect()
}

/// One key of a batch.
struct Slot<'a> {
    hash: Hash,
    key: &'a Key,
    /// What waited before.
    stored: Option<Stored>,
    meta: Meta,
    /// Whose data it has, of the adds.
    data: Option<usize>,
}

impl Plan<'_> {
    /// Where entries lie that were locked and stay as they are.
    fn untouched(&self) -> impl Iterator<Item = Place> + '_ {
        let stay = |slot: &&Slot<'_>| slot.stored.is_some() && !slot.is_changed();
        self.slots.iter().filter(stay).map(Slot::place)
    }
}

impl Slot<'_> {
    fn place(&self) -> Place {
        Place::of(&self.meta, self.stored.as_ref().map_or(0, |old| old.seq))
    }

    fn is_changed(&self) -> bool {
        let same = self.stored.as_ref().map(|old| old.meta) == Some(self.meta);
        self.data.is_some() || !same
    }
}

/// What a batch comes to, as if its adds had come one by one.
struct Plan<'a> {
    now: Date,
    slots: Vec<Slot<'a>>,
    expired: Vec<Place>,
    counts: Counts,
    added: Vec<Added>,
}

fn plan<'a>(
    view: &View,
    adds: &'a [Add],
    hashes: &[Hash],
    found: &[tokio_postgres::Row],
) -> Result<Plan<'a>, Fault> {
    let mut plan = Plan {
        now: first_date(found)?,
        slots: Vec::new(),
        expired: Vec::new(),
        counts: Counts::default(),
        added: Vec::new(),
    };
    let mut waiting = plan.read(view, found)?;
    let mut by_hash: HashMap<Hash, usize> = HashMap::new();
    for (place, (add, hash)) in adds.iter().zip(hashes).enumerate() {
        let slot = by_hash.get(hash).copied();
        let slot = match (slot, waiting.remove(hash)) {
            (Some(slot), _) => Some(slot),
            (None, Some(stored)) => Some(plan.enter(*hash, add, Some(stored), None)),
            (None, None) => None,
        };
        let (insertion, clamped) = rules::clamp(add.insertion, plan.now);
        plan.counts.adds += 1;
        plan.counts.clamped += u64::from(clamped);
        match slot {
            Some(slot) if plan.slots[slot].meta.expiration.is_past(plan.now) => {
                // What had expired on arrival is as good as gone.
                plan.counts.expired += 1;
                plan.slots[slot].meta = rules::insert(add, insertion, plan.now, view.version);
                plan.slots[slot].data = Some(place);
                plan.added.push(Added::Inserted);
            }
            Some(slot) => {
                by_hash.insert(*hash, slot);
                plan.merge(slot, add, place, insertion, view)?;
            }
            None => {
                let slot = plan.enter(*hash, add, None, Some(place));
                plan.slots[slot].meta = rules::insert(add, insertion, plan.now, view.version);
                by_hash.insert(*hash, slot);
                plan.added.push(Added::Inserted);
            }
        }
    }
    Ok(plan)
}

impl<'a> Plan<'a> {
    /// What waits under these keys; what has expired is as good as gone.
    fn read(
        &mut self,
        view: &View,
        found: &[tokio_postgres::Row],
    ) -> Result<HashMap<Hash, Stored>, Fault> {
        let mut waiting = HashMap::new();
        for row in found {
            let Some(hash) = row::cell::<Option<&[u8]>>(row, 1)? else {
                continue;
            };
            let stored = Stored::read(row, 2)?;
            view.knows([stored.meta.version].into_iter())?;
            if stored.meta.expiration.is_past(self.now) {
                self.counts.expired += 1;
                self.expired.push(stored.place());
            } else if let Ok(hash) = hash.try_into() {
                waiting.insert(hash, stored);
            }
        }
        Ok(waiting)
    }

    fn enter(
        &mut self,
        hash: Hash,
        add: &'a Add,
        stored: Option<Stored>,
        data: Option<usize>,
    ) -> usize {
        let meta = stored.as_ref().map_or_else(
            || rules::insert(add, add.insertion, self.now, 0),
            |old| old.meta,
        );
        self.slots.push(Slot {
            hash,
            key: &add.key,
            stored,
            meta,
            data,
        });
        self.slots.len() - 1
    }

    fn merge(
        &mut self,
        slot: usize,
        add: &Add,
        place: usize,
        insertion: Date,
        view: &View,
    ) -> Result<(), Error> {
        let slot = &mut self.slots[slot];
        if let Some(stored) = &slot.stored {
            row::same_key(&stored.key, &add.key)?;
        }
        row::same_key(slot.key, &add.key)?;
        match rules::merge(&slot.meta, add, insertion, view.declaration(), view.version) {
            Merge::Replace(meta) => {
                slot.meta = meta;
                slot.data = Some(place);
                self.counts.merged += 1;
                self.added.push(Added::Merged);
            }
            Merge::KeepData(meta) => {
                slot.meta = meta;
                self.counts.stale += 1;
                self.added.push(Added::Stale);
            }
        }
        Ok(())
    }

    fn fresh(&self) -> impl Iterator<Item = &Slot<'a>> {
        self.slots.iter().filter(|slot| slot.stored.is_none())
    }

    fn updated(&self) -> impl Iterator<Item = &Slot<'a>> {
        self.slots
            .iter()
            .filter(|slot| slot.stored.is_some() && slot.is_changed())
    }

    fn steps<'s>(&'s self, view: &'s View, adds: &'s [Add]) -> Vec<Step<'s>> {
        let mut steps = Vec::new();
        steps.extend(delete_waiting(&view.sql.waiting_delete, &self.expired));
        let data = |slot: &Slot<'a>| slot.data.map(|place| &adds[place].data.as_bytes()[..]);
        if self.fresh().next().is_some() {
            let mut metas = Metas::default();
            for slot in self.fresh() {
                metas.push(&slot.meta, view.declaration());
            }
            let mut params: Params<'s> = vec![
                Box::new(self.fresh().map(|slot| &slot.hash[..]).collect::<Vec<_>>()),
                Box::new(
                    self.fresh()
                        .map(|slot| slot.key.as_str().as_bytes())
                        .collect::<Vec<_>>(),
                ),
                Box::new(self.fresh().map(data).collect::<Vec<_>>()),
            ];
            metas.append_to(&mut params);
            steps.push(Step {
                sql: &view.sql.add_insert,
                params,
            });
        }
        let changes: Vec<Change<'s>> = self
            .updated()
            .map(|slot| Change {
                old: slot
                    .stored
                    .as_ref()
                    .map_or_else(|| slot.place(), Stored::place),
                meta: slot.meta,
                data: data(slot),
            })
            .collect();
        steps.extend(update_waiting(view, &changes));
        steps.extend(tally::step(&view.sql.count, &self.counts));
        steps
    }
}

/// A waiting row with what it becomes.
pub(super) struct Change<'a> {
    pub(super) old: Place,
    pub(super) meta: Meta,
    /// Other data, if it gets any.
    pub(super) data: Option<&'a [u8]>,
}

/// The step that changes waiting rows.
pub(super) fn update_waiting<'a>(view: &'a View, changes: &[Change<'a>]) -> Option<Step<'a>> {
    if changes.is_empty() {
        return None;
    }
    let mut metas = Metas::default();
    for change in changes {
        metas.push(&change.meta, view.declared(change.meta.version));
    }
    let mut params: Params<'a> = vec![
        Box::new(changes.iter().map(|c| c.old.priority).collect::<Vec<_>>()),
        Box::new(
            changes
                .iter()
                .map(|c| c.old.position.process)
                .collect::<Vec<_>>(),
        ),
        Box::new(
            changes
                .iter()
                .map(|c| c.old.position.seq)
                .collect::<Vec<_>>(),
        ),
        Box::new(changes.iter().map(|c| c.data).collect::<Vec<_>>()),
    ];
    metas.append_to(&mut params);
    Some(Step {
        sql: &view.sql.waiting_update,
        params,
    })
}

/// The step that takes waiting rows out.
pub(super) fn delete_waiting<'a>(sql: &'a str, places: &[Place]) -> Option<Step<'a>> {
    if places.is_empty() {
        return None;
    }
    let column = |of: fn(&Place) -> i64| places.iter().map(of).collect::<Vec<i64>>();
    Some(Step {
        sql,
        params: vec![
            Box::new(places.iter().map(|p| p.priority).collect::<Vec<_>>()),
            Box::new(column(|p| p.position.process)),
            Box::new(column(|p| p.position.seq)),
        ],
    })
}
