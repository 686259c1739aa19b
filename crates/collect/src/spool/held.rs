//! Files that are in a bundle and not gone yet: seen again, they are not taken again.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::place::FilePlace;

/// The files of all bundles that are open or in the outbox. Bounded by how many bundles
/// there may be, and how many files one holds.
#[derive(Debug, Default)]
pub(super) struct Held(Mutex<HashSet<FilePlace>>);

impl Held {
    fn lock(&self) -> MutexGuard<'_, HashSet<FilePlace>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds a file; false when it was held before.
    pub(super) fn hold(&self, place: &FilePlace) -> bool {
        self.lock().insert(place.clone())
    }

    pub(super) fn is_held(&self, place: &FilePlace) -> bool {
        self.lock().contains(place)
    }

    /// Lets go of files.
    pub(super) fn release<'a>(&self, places: impl IntoIterator<Item = &'a FilePlace>) {
        let mut held = self.lock();
        for place in places {
            held.remove(place);
        }
    }
}
