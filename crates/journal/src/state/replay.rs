//! Taking back what a ledger kept.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::slots::SlotId;
use super::{Effect, Handle, State, Whole};
use crate::declaration::Declaration;
use crate::entry::{Meta, Standing};
use crate::key::Key;
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
    /// Starts with a declaration, the first of its journal.
    #[must_use]
    pub fn new(declaration: Declaration) -> Self {
        Self {
            state: State::new(declaration),
            by_seq: HashMap::new(),
        }
    }

    /// Starts with all declarations that were last known; none where none is known.
    #[must_use]
    pub fn with(declarations: BTreeMap<u32, Declaration>) -> Option<Self> {
        let (_, last) = declarations.last_key_value()?;
        let mut replay = Self::new(last.clone());
        replay.state.declarations = declarations;
        Some(replay)
    }

    /// What was known of the journal as a whole at this point of the log; wins over what was replayed so far.
    pub fn checkpoint(&mut self, counts: Counts, next_seq: u64) {
        self.state.counts = counts;
        self.state.next_seq = self.state.next_seq.max(next_seq);
    }

    /// A declaration that some entry was written with.
    pub fn declare(&mut self, version: u32, declaration: Declaration) {
        let (last, before) = self.state.declaration();
        if version > last && declaration.merge != before.merge {
            // Only an empty journal changes this: what is still here ended in a part of the log that was lost.
            let ended: Vec<u64> = self.by_seq.keys().copied().collect();
            for seq in ended {
                self.remove(seq);
            }
        }
        // Older ones stay, even where nothing is here yet: an entry of one may follow.
        self.state.declarations.insert(version, declaration);
        if self.state.is_empty() {
            let merge = self.state.declaration().1.merge;
            self.state.keys.reset(merge);
        }
    }

    /// The declaration in force at this point of the log.
    #[must_use]
    pub fn declaration(&self) -> &Declaration {
        self.state.declaration().1
    }

    /// An entry with its data. Gives back the data that nobody refers to any more.
    pub fn restore(&mut self, whole: Whole, data: D) -> Option<D> {
        let own = self.by_seq.get(&whole.seq).copied();
        let rival = self.rival(&whole.key, &whole.standing);
        let lost = self.remove_rival(rival, own);
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
                self.change(seq, |meta| (meta, Standing::Processing(Box::new(lease))))
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
    pub fn finish(mut self) -> State<D> {
        let (last, _) = self.state.declaration();
        let slots = self.state.slots.iter();
        let used: BTreeSet<u32> = slots.map(|(_, slot)| slot.meta.version).collect();
        let is_used = |version: &u32| *version == last || used.contains(version);
        self.state
            .declarations
            .retain(|version, _| is_used(version));
        self.state
    }

    fn change(&mut self, seq: u64, to: impl FnOnce(Meta) -> (Meta, Standing)) -> Option<D> {
        let id = *self.by_seq.get(&seq)?;
        let slot = self.state.slot(id);
        let (meta, standing) = to(slot.meta);
        let rival = self.rival(&slot.key, &standing);
        let lost = self.remove_rival(rival, Some(id));
        self.state.change(id, meta, standing);
        lost
    }

    fn remove_rival(&mut self, rival: Option<SlotId>, own: Option<SlotId>) -> Option<D> {
        let rival = rival.filter(|rival| Some(*rival) != own)?;
        self.remove(self.state.slot(rival).seq)
    }

    fn remove(&mut self, seq: u64) -> Option<D> {
        let id = self.by_seq.remove(&seq)?;
        Some(self.state.leave(id))
    }

    /// An entry that stands where this one is to stand, of the same key: its end was lost with a damaged part of the log.
    fn rival(&self, key: &Key, standing: &Standing) -> Option<SlotId> {
        match standing {
            Standing::Waiting => self.state.pair(key).waiting,
            Standing::Processing(_) => self.state.pair(key).processing,
            Standing::Dead(_) => None,
        }
    }
}
