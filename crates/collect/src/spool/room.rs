//! How many bundles there may be, open or sealed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::lock;

/// How many bundles there may be.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) free: Arc<Semaphore>,
    /// Sealed bundles; one of an earlier run may be too many to have a place.
    pub(super) taken: Mutex<BTreeMap<String, Option<OwnedSemaphorePermit>>>,
    /// Of a bundle that was begun and has no name here yet.
    pub(super) begun: Mutex<Vec<OwnedSemaphorePermit>>,
}

impl Room {
    /// A sealed bundle keeps the place of the one that was begun.
    pub(super) fn name(&self, id: &str) {
        let permit = lock(&self.begun).pop();
        lock(&self.taken).insert(id.to_owned(), permit);
    }
}
