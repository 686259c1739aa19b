//! Inputs that cannot be used. A line that shares this with its discovery looks at them again once an hour, not every minute.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cannery_formats::Key;

const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(3_600);
const KEPT_MAX: usize = 100_000;

/// What was refused, and when by the clock's elapsed time. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Refusals(Arc<Mutex<HashMap<Key, Duration>>>);

impl Refusals {
    /// Remembers an input.
    pub(super) fn note(&self, key: Key, now: Duration) {
        let mut kept = self.lock();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(key, now);
    }

    /// Whether an input was refused a short while ago.
    pub(crate) fn is_fresh(&self, key: &Key, now: Duration) -> bool {
        let kept = self.lock();
        kept.get(key)
            .is_some_and(|since| now.saturating_sub(*since) < LOOK_AGAIN_AFTER)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Duration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
