//! What is to be shipped, and when: a list in the journal, and one in memory for when the disk takes no more.

use std::sync::Arc;

use cannery_journal::{Data, Declaration, Error, Journal, Key, Memory, NewEntry};
use cannery_runtime::{Clock, Rng};

/// The lists. Losing them loses nothing: what waits on the disk is looked for at every start.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    journal: Journal,
    /// Shipping is what makes room on a full disk, so it must not need any.
    spare: Journal,
}

impl Schedule {
    pub(crate) fn new(journal: Journal, clock: &Clock, rng: &Rng) -> Self {
        let spare = Memory::new(Declaration::default(), clock.clone(), rng.clone());
        Self {
            journal,
            spare: Journal::new("in memory", Arc::new(spare)),
        }
    }

    /// Both lists, for workers.
    pub(crate) fn lists(&self) -> [Journal; 2] {
        [self.journal.clone(), self.spare.clone()]
    }

    /// Puts something on a list; may be done twice.
    pub(crate) async fn add(&self, id: &str) {
        let Err(error) = add_to(&self.journal, id).await else {
            return;
        };
        tracing::warn!(id, %error, "the journal does not take what is to be shipped; it is shipped all the same");
        self.add_to_spare(id).await;
    }

    /// Puts something on the list in memory.
    pub(crate) async fn add_to_spare(&self, id: &str) {
        if let Err(error) = add_to(&self.spare, id).await {
            tracing::error!(id, %error, "cannot schedule what is to be shipped; the next start ships it");
        }
    }

    /// The same at once, whatever was planned or begun: by a process that is dead, or by a pause that is too long now.
    pub(crate) async fn add_anew(&self, id: &str) {
        for list in self.lists() {
            if let Err(error) = cancel_in(&list, id).await {
                tracing::debug!(id, %error, "cannot take it off its list");
            }
        }
        self.add(id).await;
    }
}

async fn add_to(list: &Journal, id: &str) -> Result<(), Error> {
    list.add_one(NewEntry::new(id, Data::null()))
        .await
        .map(drop)
}

async fn cancel_in(list: &Journal, id: &str) -> Result<(), Error> {
    list.cancel(Key::new(id)?).await.map(drop)
}
