//! One operation: what it means by the rules, told to the ledger, and done in memory.

use super::keys::Side;
use super::slots::SlotId;
use super::{Cause, Effect, Handle, Ledger, State, Whole};
use crate::add::Add;
use crate::date::Date;
use crate::declaration::Declaration;
use crate::entry::{Meta, Standing};
use crate::error::Error;
use crate::key::Key;
use crate::op::{Added, Cancelled, Counts, Op, Reply};
use crate::rules::{self, Merge};
use crate::token::TokenSource;

impl<D: Handle> State<D> {
    /// Does one operation at a date. Expiries and time-outs that are due come first.
    ///
    /// # Errors
    /// `Invalid` for a declaration that must not change now; nothing has changed then.
    pub fn apply<L: Ledger<D>>(
        &mut self,
        op: &Op,
        now: Date,
        tokens: &mut TokenSource,
        ledger: &mut L,
    ) -> Result<Reply<D>, Error> {
        let mut act = Act::new(self, ledger, now);
        let swept = act.sweep(usize::MAX);
        let reply = act.perform(op, tokens, swept);
        act.finish();
        reply
    }
}

impl<D: Handle> State<D> {
    /// How many entries are to be swept at a date, up to a bound.
    #[must_use]
    pub fn overdue(&self, now: Date, max: usize) -> usize {
        let leases = self.deadlines.iter().take_while(|(date, _)| *date < now);
        let expiries = self.expiries.iter().take_while(|(date, _)| *date < now);
        leases.chain(expiries).take(max).count()
    }

    /// Does what time has brought to at most so many entries.
    pub fn sweep_some<L: Ledger<D>>(&mut self, now: Date, max: usize, ledger: &mut L) {
        let mut act = Act::new(self, ledger, now);
        act.sweep(max);
        act.finish();
    }

    /// An entry whose data is damaged beyond reading goes to the dead list without it.
    pub fn bury<L: Ledger<D>>(&mut self, id: u32, now: Date, reason: &str, ledger: &mut L) {
        let mut act = Act::new(self, ledger, now);
        act.bury(id, reason);
        act.finish();
    }
}

/// One operation under way.
pub(super) struct Act<'a, D, L> {
    pub(super) state: &'a mut State<D>,
    pub(super) ledger: &'a mut L,
    pub(super) now: Date,
    /// What the operation adds to the counts; kept in one effect at its end.
    pub(super) counted: Counts,
}

impl<'a, D: Handle, L: Ledger<D>> Act<'a, D, L> {
    fn new(state: &'a mut State<D>, ledger: &'a mut L, now: Date) -> Self {
        Self {
            state,
            ledger,
            now,
            counted: Counts::default(),
        }
    }

    fn perform(
        &mut self,
        op: &Op,
        tokens: &mut TokenSource,
        swept: u64,
    ) -> Result<Reply<D>, Error> {
        Ok(match op {
            Op::Add(adds) => Reply::Added(adds.iter().map(|add| self.add(add)).collect()),
            Op::Claim { worker, count } => Reply::Claimed(self.claim(worker, *count, tokens)),
            Op::DoneAndClaim {
                done,
                worker,
                count,
            } => {
                let fates = self.done_all(done);
                Reply::DoneAndClaimed(fates, self.claim(worker, *count, tokens))
            }
            Op::Heartbeat(held) => {
                Reply::Beats(held.iter().map(|token| self.heartbeat(token)).collect())
            }
            Op::Done(held) => Reply::Fates(self.done_all(held)),
            Op::Release { tokens, at } => Reply::Fates(
                tokens
                    .iter()
                    .map(|token| self.release(token, *at))
                    .collect(),
            ),
            Op::Fail {
                tokens,
                reason,
                retry,
            } => Reply::Fates(
                tokens
                    .iter()
                    .map(|token| self.fail(token, reason, *retry))
                    .collect(),
            ),
            Op::Cancel(key) => Reply::Cancelled(self.cancel(key)),
            Op::Requeue(key) => Reply::Moved(self.requeue(key)),
            Op::Forget(key) => Reply::Moved(self.forget(key)),
            Op::Get(key) => Reply::Entries(self.state.get(key)),
            Op::List(query) => Reply::Page(self.state.list(query)),
            Op::Stats => Reply::Stats(Box::new(self.state.stats(self.now))),
            Op::Sweep => Reply::Swept(swept),
            Op::Declare(declaration) => Reply::Declared(self.declare(declaration)?),
        })
    }

    fn finish(&mut self) {
        if self.counted != Counts::default() {
            self.ledger.note(&Effect::Count(Box::new(self.counted)));
            self.state.count(&self.counted);
        }
    }

    fn add(&mut self, add: &Add) -> Added {
        self.counted.adds += 1;
        let (insertion, clamped) = rules::clamp(add.insertion, self.now);
        self.counted.clamped += u64::from(clamped);
        let (version, declared) = self.state.declaration();
        let waiting = if declared.merge {
            self.state.waiting_of(&add.key)
        } else {
            None
        };
        let Some(id) = waiting else {
            let id = self.insert(add, rules::insert(add, insertion, self.now, version));
            if add.expiration.is_past(self.now) {
                self.end(id, Cause::Expired);
            }
            return Added::Inserted;
        };
        match rules::merge(&self.state.slot(id).meta, add, insertion, declared, version) {
            Merge::Replace(meta) => {
                self.replace(id, meta, add);
                self.counted.merged += 1;
                Added::Merged
            }
            Merge::KeepData(meta) => {
                self.wait(id, meta);
                self.counted.stale += 1;
                Added::Stale
            }
        }
    }

    fn insert(&mut self, add: &Add, meta: Meta) -> SlotId {
        let whole = Whole {
            seq: self.state.next_seq,
            key: add.key.clone(),
            meta,
            standing: Standing::Waiting,
        };
        let data = self.ledger.put(&whole, &add.data);
        self.state.enter(whole, data)
    }

    fn replace(&mut self, id: SlotId, meta: Meta, add: &Add) {
        let slot = self.state.slot(id);
        let whole = Whole {
            seq: slot.seq,
            key: slot.key.clone(),
            meta,
            standing: Standing::Waiting,
        };
        let data = self.ledger.put(&whole, &add.data);
        let old = self.state.renew(id, meta, Standing::Waiting, data);
        self.ledger.free(&old);
    }

    /// The entry waits with this.
    pub(super) fn wait(&mut self, id: SlotId, meta: Meta) {
        let slot = self.state.slot(id);
        if slot.meta == meta && slot.standing == Standing::Waiting {
            return;
        }
        self.ledger.note(&Effect::Wait {
            seq: slot.seq,
            meta,
        });
        self.state.change(id, meta, Standing::Waiting);
    }

    /// The entry leaves.
    pub(super) fn end(&mut self, id: SlotId, cause: Cause) {
        let seq = self.state.slot(id).seq;
        self.ledger.note(&Effect::End { seq, cause });
        let data = self.state.leave(id);
        self.ledger.free(&data);
        let count = match cause {
            Cause::Done => &mut self.counted.done,
            Cause::Expired => &mut self.counted.expired,
            Cause::Cancelled => &mut self.counted.cancelled,
            Cause::Absorbed => &mut self.counted.absorbed,
            Cause::Forgotten => &mut self.counted.forgotten,
        };
        *count += 1;
    }

    fn cancel(&mut self, key: &Key) -> Cancelled {
        let most = Op::KEY_ENTRIES_MAX;
        let waiting = self.state.all_of(Side::Waiting, key, most);
        let processing = self.state.all_of(Side::Processing, key, most);
        for id in waiting.iter().chain(&processing) {
            self.end(*id, Cause::Cancelled);
        }
        Cancelled {
            waiting: waiting.len() as u64,
            processing: processing.len() as u64,
        }
    }

    fn forget(&mut self, key: &Key) -> u64 {
        let dead = self.state.dead_of(key);
        for id in &dead {
            self.end(*id, Cause::Forgotten);
        }
        dead.len() as u64
    }

    fn declare(&mut self, new: &Declaration) -> Result<u32, Error> {
        let (version, current) = self.state.declaration();
        if current == new {
            return Ok(version);
        }
        self.state.check_change(new)?;
        let version = version + 1;
        self.ledger.note(&Effect::Declare {
            version,
            declaration: Box::new(new.clone()),
        });
        self.state.put_declaration(version, new.clone());
        Ok(version)
    }
}
