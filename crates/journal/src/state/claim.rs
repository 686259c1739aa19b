//! Handing out, and hearing of those who hold.

use std::sync::Arc;

use super::apply::Act;
use super::slots::SlotId;
use super::{Cause, Effect, Handle, Ledger, State};
use crate::date::Date;
use crate::entry::{Lease, Standing};
use crate::op::{Beat, Claimed, Fate, Op};
use crate::priority::Priority;
use crate::rules;
use crate::token::{Token, TokenSource};

impl<D: Handle> State<D> {
    /// What a claim hands out: in order, due, and slow entries only when nothing else is due.
    fn due(&self, count: u32, now: Date) -> Vec<SlotId> {
        let wanted = count as usize;
        let first = self.due_in(..Priority::SLOW, wanted, now);
        if first.is_empty() {
            self.due_in(Priority::SLOW.., wanted, now)
        } else {
            first
        }
    }

    fn due_in(
        &self,
        priorities: impl std::ops::RangeBounds<Priority>,
        wanted: usize,
        now: Date,
    ) -> Vec<SlotId> {
        let mut bytes = 0;
        self.ready
            .range(priorities)
            .flat_map(|(_, lane)| lane.due_at(now))
            .take(wanted)
            .enumerate()
            .take_while(|(place, id)| {
                bytes += self.slot(*id).data.data_len();
                *place == 0 || bytes <= Op::BYTES_MAX
            })
            .map(|(_, id)| id)
            .collect()
    }

    /// Looks at what the ends of these leases will look for, all at once: one after the other, each would wait for memory
    /// by itself, and that is most of what an end costs.
    fn foresee(&self, tokens: &[Token]) {
        let ids = tokens.iter().filter_map(|token| self.held(token));
        self.keys.foresee(ids.map(|id| (&self.slot(id).key, id)));
    }

    /// The entry that a token still holds.
    fn held(&self, token: &Token) -> Option<SlotId> {
        let id = *self.leases.get(&(token.incarnation, token.counter))?;
        match &self.slot(id).standing {
            Standing::Processing(lease) if lease.token == *token => Some(id),
            Standing::Processing(_) | Standing::Waiting | Standing::Dead(_) => None,
        }
    }
}

impl<D: Handle, L: Ledger<D>> Act<'_, D, L> {
    pub(super) fn claim(
        &mut self,
        worker: &str,
        count: u32,
        tokens: &mut TokenSource,
    ) -> Claimed<D> {
        let due = self.state.due(count, self.now);
        let worker = Arc::from(worker);
        for id in &due {
            self.start(*id, &worker, tokens.next_token());
        }
        self.counted.claims += due.len() as u64;
        Claimed {
            entries: due.iter().map(|id| self.state.entry(*id)).collect(),
            next_wake: self.state.next_wake(),
        }
    }

    fn start(&mut self, id: SlotId, worker: &Arc<str>, token: Token) {
        let lease = Lease {
            token,
            start: self.now,
            worker: Arc::clone(worker),
        };
        let slot = self.state.slot(id);
        let meta = slot.meta;
        self.ledger.note(&Effect::Start {
            seq: slot.seq,
            lease: lease.clone(),
        });
        self.state
            .change(id, meta, Standing::Processing(Box::new(lease)));
    }

    pub(super) fn heartbeat(&mut self, token: &Token) -> Beat {
        let Some(id) = self.state.held(token) else {
            return Beat::Lost;
        };
        let slot = self.state.slot(id);
        let deadline = rules::deadline(self.now, self.state.declared(slot.meta.version));
        self.ledger.note(&Effect::Beat {
            seq: slot.seq,
            start: self.now,
        });
        self.state.beat(id, self.now);
        Beat::Until(deadline)
    }

    pub(super) fn done_all(&mut self, tokens: &[Token]) -> Vec<Fate> {
        self.state.foresee(tokens);
        tokens.iter().map(|token| self.done(token)).collect()
    }

    fn done(&mut self, token: &Token) -> Fate {
        let Some(id) = self.state.held(token) else {
            return Fate::Lost;
        };
        self.end(id, Cause::Done);
        Fate::Done
    }

    pub(super) fn lease_of(&self, token: &Token) -> Option<SlotId> {
        self.state.held(token)
    }
}
