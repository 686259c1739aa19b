//! Taking back what a ledger kept.

use std::collections::HashMap;

use super::slots::SlotId;
use super::{Effect, Handle, State, Whole};
use crate::declaration::Declaration;
use crate::entry::{Meta, Standing};
use crate::op::Counts;

/// A state that is being restored, in the order in which the ledger was written.
///
/// A change of an entry that is not known is passed over: what it was about has been given up before, or its record was
/// lost with a damaged part of the log.
#[derive(Debug)]
pub struct Replay<D> {
    state: State<D>,
    by_seq: HashMap<u64, SlotId>,
}

impl<D: Handle> Replay<D> {
    /// Starts with what was last known of the journal as a whole.
    #[must_use]
    pub fn new(declaration: Declaration) -> Self {
        Self {
            state: State::new(declaration),
            by_seq: HashMap::new(),
        }
    }

    /// What was known of the journal as a whole at this point of the log; wins over what was replayed so far.
    pub fn checkpoint(&mut self, counts: Counts, next_seq: u64) {
        self.state.counts = counts;
        self.state.next_seq = self.state.next_seq.max(next_seq);
    }

    /// A declaration that some entry was written with.
    pub fn declare(&mut self, version: u32, declaration: Declaration) {
        self.state.put_declaration(version, declaration);
    }

    /// The declaration in force at this point of the log.
    #[must_use]
    pub fn declaration(&self) -> &Declaration {
        self.state.declaration().1
    }

    /// An entry with its data. Gives back the data that nobody refers to any more.
    pub fn restore(&mut self, whole: Whole, data: D) -> Option<D> {
        let own = self.by_seq.get(&whole.seq).copied();
        let lost = self.remove_rival(&whole, own);
        match own {
            Some(id) => Some(self.state.renew(id, whole.meta, whole.standing, data)),
            None => {
                let seq = whole.seq;
                let id = self.state.enter(whole, data);
                self.by_seq.insert(seq, id);
                lost
            }
        }
    }

    /// A change. Gives back the data that nobody refers to any more.
    pub fn replay(&mut self, effect: Effect) -> Option<D> {
        match effect {
            Effect::Wait { seq, meta } => self.change(seq, |_| (meta, Standing::Waiting)),
            Effect::Start { seq, lease } => {
                self.change(seq, |meta| (meta, Standing::Processing(lease)))
            }
            Effect::Die { seq, meta, death } => self.change(seq, |_| (meta, Standing::Dead(death))),
            Effect::Beat { seq, start } => {
                if let Some(id) = self.by_seq.get(&seq) {
                    self.state.beat(*id, start);
                }
                None
            }
            Effect::End { seq, .. } => self.remove(seq),
            Effect::Count(more) => {
                self.state.count(&more);
                None
            }
            Effect::Declare {
                version,
                declaration,
            } => {
                self.declare(version, *declaration);
                None
            }
        }
    }

    /// Makes the counts balance, which they do unless a part of the log was lost; there were `adds` adds at least. What is
    /// missing is counted as lost; says how much that is.
    pub fn reconcile(&mut self, adds: u64) -> u64 {
        let there = self.state.len() as u64;
        let counts = &mut self.state.counts;
        counts.adds = counts.adds.max(adds);
        let known = counts.gone() + there;
        let missing = counts.adds.saturating_sub(known);
        counts.lost += missing;
        counts.adds = counts.adds.max(known);
        missing
    }

    /// The state, with everything decided before the restart and nothing since.
    #[must_use]
    pub fn finish(self) -> State<D> {
        self.state
    }

    fn change(&mut self, seq: u64, to: impl FnOnce(Meta) -> (Meta, Standing)) -> Option<D> {
        let id = *self.by_seq.get(&seq)?;
        let (meta, standing) = to(self.state.slot(id).meta);
        let whole = Whole {
            standing,
            meta,
            ..self.state.whole(id)
        };
        let lost = self.remove_rival(&whole, Some(id));
        self.state.change(id, whole.meta, whole.standing);
        lost
    }

    fn remove_rival(&mut self, whole: &Whole, own: Option<SlotId>) -> Option<D> {
        let rival = self.rival(whole).filter(|rival| Some(*rival) != own)?;
        self.remove(self.state.slot(rival).seq)
    }

    fn remove(&mut self, seq: u64) -> Option<D> {
        let id = self.by_seq.remove(&seq)?;
        Some(self.state.leave(id))
    }

    /// An entry that stands where this one is to stand, of the same key: its end was lost with a damaged part of the log.
    fn rival(&self, whole: &Whole) -> Option<SlotId> {
        let state = &self.state;
        if !state.waiting_keys.is_one_a_key() {
            return None;
        }
        match &whole.standing {
            Standing::Waiting => state.waiting_of(&whole.key),
            Standing::Processing(_) => state
                .processing_keys
                .first(&whole.key, |id| &state.slot(id).key),
            Standing::Dead(_) => None,
        }
    }
}
