//! Admission by weight: work says how much memory it takes, and runs when all that runs fits into a budget.
//!
//! Who asks first is let in first, so heavy work is not passed by light work for ever. What is heavier than the whole budget
//! runs alone.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A budget that work shares. Clones are the same.
#[derive(Clone, Debug)]
pub struct Admission {
    room: Arc<Semaphore>,
    /// The budget in units.
    units: u32,
    /// A semaphore counts no further than a `u32`, so larger budgets are counted in larger units.
    unit_bytes: u64,
}

/// Work that was let in. Dropping it gives the room back.
#[derive(Debug)]
#[must_use = "the room is given back when it is dropped"]
pub struct Admitted {
    _room: OwnedSemaphorePermit,
}

impl Admission {
    /// A budget of so many bytes.
    #[must_use]
    pub fn new(budget_bytes: u64) -> Self {
        let unit_bytes = budget_bytes.div_ceil(u64::from(u32::MAX)).max(1);
        // A budget of nothing still lets one in at a time.
        let units = u32::try_from(budget_bytes / unit_bytes).unwrap_or(u32::MAX);
        let units = units.max(1);
        let room = usize::try_from(units).unwrap_or(Semaphore::MAX_PERMITS);
        Self {
            room: Arc::new(Semaphore::new(room)),
            units,
            unit_bytes,
        }
    }

    /// Waits until there is room. Dropping the future gives up the place in the queue.
    pub async fn admit(&self, need_bytes: u64) -> Admitted {
        let units = u32::try_from(need_bytes.div_ceil(self.unit_bytes)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(units.clamp(1, self.units));
        Admitted {
            _room: room.await.expect("the semaphore is never closed"),
        }
    }

    /// How much of the budget is taken, or kept free for who waits first.
    #[must_use]
    pub fn taken_bytes(&self) -> u64 {
        let free = u64::try_from(self.room.available_permits()).unwrap_or(u64::MAX);
        u64::from(self.units).saturating_sub(free) * self.unit_bytes
    }
}

#[cfg(test)]
mod tests;
