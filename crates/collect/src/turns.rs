//! Who is at work on what: a lost lease may hand out a second time what is still being done.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The things that are being finished, each by one task.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<BTreeSet<String>>);

/// The right to finish something, until it is dropped.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    id: String,
}

impl Turns {
    /// None when somebody has it.
    pub(crate) fn take(&self, id: &str) -> Option<Turn<'_>> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.insert(id.to_owned()).then(|| Turn {
            turns: self,
            id: id.to_owned(),
        })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut taken = self.turns.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.remove(&self.id);
    }
}
