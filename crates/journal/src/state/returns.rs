//! Entries that come back: timed out, given back, failed; those that expire; and the dead that a person calls back.

use std::sync::Arc;

use super::apply::Act;
use super::slots::SlotId;
use super::{Cause, Effect, Handle, Ledger, Whole};
use crate::data::Data;
use crate::date::Date;
use crate::entry::{Death, Meta, Standing};
use crate::key::Key;
use crate::op::{Fate, Op, Retry};
use crate::rules::{self, Absorb, Comeback, Return};
use crate::token::Token;

impl<D: Handle, L: Ledger<D>> Act<'_, D, L> {
    /// Does what time has brought to at most so many entries; says to how many.
    pub(super) fn sweep(&mut self, max: usize) -> u64 {
        let mut swept = 0;
        let max = max as u64;
        while let Some((date, id)) = self.state.expiries.first().copied() {
            if self.now <= date || swept == max {
                break;
            }
            self.end(id, Cause::Expired);
            swept += 1;
        }
        while let Some((deadline, id)) = self.state.deadlines.first().copied() {
            if self.now <= deadline || swept == max {
                break;
            }
            self.time_out(id);
            swept += 1;
        }
        swept
    }

    fn time_out(&mut self, id: SlotId) {
        self.counted.timeouts += 1;
        let worker = match &self.state.slot(id).standing {
            Standing::Processing(lease) => lease.worker.clone(),
            Standing::Waiting | Standing::Dead(_) => Arc::default(),
        };
        self.come_back(id, Return::TimedOut, |meta| {
            rules::timeout_reason(meta, &worker)
        });
    }

    pub(super) fn release(&mut self, token: &Token, at: Option<Date>) -> Fate {
        let Some(id) = self.lease_of(token) else {
            return Fate::Lost;
        };
        self.counted.releases += 1;
        self.come_back(id, Return::Released(at), |_| String::new())
    }

    pub(super) fn fail(&mut self, token: &Token, reason: &str, retry: Retry) -> Fate {
        let Some(id) = self.lease_of(token) else {
            return Fate::Lost;
        };
        self.counted.failures += 1;
        self.come_back(id, Return::Failed(retry), |_| cut(reason))
    }

    fn come_back(&mut self, id: SlotId, how: Return, reason: impl FnOnce(&Meta) -> String) -> Fate {
        let slot = self.state.slot(id);
        let declared = self.state.declared(slot.meta.version);
        let comeback = rules::come_back(&slot.meta, how, declared, self.now);
        let successor = if self.state.declaration().1.merge {
            self.state.waiting_of(&slot.key)
        } else {
            None
        };
        match comeback {
            Comeback::Expires(meta) => {
                self.end(id, Cause::Expired);
                self.hand_down(&meta, successor);
                Fate::Expired
            }
            Comeback::Dies(meta) => {
                let reason = reason(&meta);
                self.die(id, meta, reason);
                self.hand_down(&meta, successor);
                Fate::Dead
            }
            Comeback::Waits(meta) => match successor {
                Some(successor) => {
                    self.absorb(id, &meta, successor);
                    Fate::Absorbed
                }
                None => {
                    self.wait(id, meta);
                    Fate::Waiting
                }
            },
        }
    }

    fn hand_down(&mut self, old: &Meta, successor: Option<SlotId>) {
        if let Some(successor) = successor {
            let meta = rules::inherit(old, &self.state.slot(successor).meta);
            self.wait(successor, meta);
        }
    }

    /// One entry of two: an old one that comes back as `old`, and the one that waits.
    fn absorb(&mut self, id: SlotId, old: &Meta, successor: SlotId) {
        let waiting = self.state.slot(successor).meta;
        let declared = self.state.declared(waiting.version);
        match rules::absorb(old, &waiting, declared) {
            Absorb::IntoSuccessor(meta) => {
                self.end(id, Cause::Absorbed);
                self.wait(successor, meta);
            }
            Absorb::IntoOld(meta) => {
                self.end(successor, Cause::Absorbed);
                self.wait(id, meta);
            }
        }
    }

    fn die(&mut self, id: SlotId, meta: Meta, reason: String) {
        self.counted.died += 1;
        let death = Box::new(Death {
            date: self.now,
            reason: reason.into(),
        });
        self.ledger.note(&Effect::Die {
            seq: self.state.slot(id).seq,
            meta,
            death: death.clone(),
        });
        self.state.change(id, meta, Standing::Dead(death));
    }

    /// The entry goes to the dead list without its data.
    pub(super) fn bury(&mut self, id: SlotId, reason: &str) {
        self.counted.died += 1;
        let death = Box::new(Death {
            date: self.now,
            reason: cut(reason).into(),
        });
        let whole = Whole {
            standing: Standing::Dead(death),
            ..self.state.whole(id)
        };
        let data = self.ledger.put(&whole, &Data::null());
        let old = self.state.renew(id, whole.meta, whole.standing, data);
        self.ledger.free(&old);
    }

    /// Puts the dead entries of a key back, the oldest first, each meeting what waits as if it came back.
    pub(super) fn requeue(&mut self, key: &Key) -> u64 {
        let dead = self.state.dead_of(key);
        let merge = self.state.declaration().1.merge;
        for id in &dead {
            let meta = rules::requeue(&self.state.slot(*id).meta, self.now);
            match self.state.waiting_of(key).filter(|_| merge) {
                Some(successor) => self.absorb(*id, &meta, successor),
                None => self.wait(*id, meta),
            }
        }
        dead.len() as u64
    }
}

/// A reason as long as is kept.
fn cut(reason: &str) -> String {
    let end = (0..=Op::TEXT_BYTES_MAX.min(reason.len()))
        .rev()
        .find(|end| reason.is_char_boundary(*end))
        .unwrap_or(0);
    reason[..end].to_owned()
}
