//! What the journals of a process hold and do, for monitoring.
//!
//! | look here | for |
//! |---|---|
//! | `measured.rs` | the decorator around an engine, and the numbers that were last heard from it |
//! | `collector.rs` | these numbers as metrics |

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cannery_runtime::Clock;
use futures::future::join_all;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::engine::Engine;

mod collector;
mod measured;

pub use measured::Measured;

use collector::Numbers;

/// The metrics of all journals of a process; clones are the same.
#[derive(Clone, Debug)]
pub struct JournalMetrics {
    clock: Clock,
    meters: Meters,
    journals: Arc<Mutex<BTreeMap<String, Option<Arc<Measured>>>>>,
}

/// Operations, by journal and kind.
#[derive(Clone, Debug)]
struct Meters {
    operations: Family<Outcome, Counter>,
    seconds: Family<Kind, Histogram>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    journal: String,
    operation: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    journal: String,
    operation: &'static str,
    result: &'static str,
}

impl Default for Meters {
    fn default() -> Self {
        let buckets = || {
            Histogram::new([
                0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                0.5, 1.0, 2.5, 5.0, 10.0, 60.0,
            ])
        };
        Self {
            operations: Family::default(),
            seconds: Family::new_with_constructor(buckets),
        }
    }
}

impl JournalMetrics {
    /// No journals yet. `clock` says how long operations take and how old entries are.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            meters: Meters::default(),
            journals: Arc::default(),
        }
    }

    /// Adds the metrics to what `/metrics` shows, those of journals that come later too.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("cannery_journal");
        registry.register(
            "operations",
            "Journal operations by result",
            self.meters.operations.clone(),
        );
        registry.register_with_unit(
            "operation",
            "Time of journal operations",
            Unit::Seconds,
            self.meters.seconds.clone(),
        );
        registry.register_collector(Box::new(Numbers(self.clone())));
    }

    /// Names a journal that is not open yet: it counts as down until it is measured.
    pub fn expect(&self, name: &str) {
        self.lock().entry(name.to_owned()).or_default();
    }

    /// An engine that does the same and is measured. A journal of the same name takes the place of the one before.
    #[must_use]
    pub fn measure(&self, name: &str, engine: Arc<dyn Engine>) -> Arc<Measured> {
        let measured = Arc::new(Measured::new(name, engine, self));
        self.lock()
            .insert(name.to_owned(), Some(Arc::clone(&measured)));
        measured
    }

    /// The journal of that name, once it is measured.
    #[must_use]
    pub fn journal(&self, name: &str) -> Option<Arc<Measured>> {
        self.lock().get(name).cloned().flatten()
    }

    /// [`Measured::refresh`] for all journals at once.
    pub async fn refresh(&self) {
        let open: Vec<_> = self.lock().values().flatten().cloned().collect();
        join_all(open.iter().map(|journal| journal.refresh())).await;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Option<Arc<Measured>>>> {
        self.journals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
