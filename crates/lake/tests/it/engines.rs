//! The stores that the suites run on.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cannery_lake::fault::{FaultStore, Faults};
use cannery_lake::{DiskStore, Lake, LakeMetrics, Parts, RetryPolicy};
use cannery_runtime::clock::SimulatedClock;
use cannery_runtime::{Clock, Disk, RealDisk, Rng};
use object_store::ObjectStore;
use object_store::memory::InMemory;

/// A store, and how to make lakes in it.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) url: String,
}

impl Engine {
    pub(crate) fn memory() -> Self {
        Self {
            store: Arc::new(InMemory::new()),
            url: "memory:".into(),
        }
    }

    pub(crate) fn disk(folder: &Path) -> Self {
        Self::on_disk(Arc::new(RealDisk), folder)
    }

    pub(crate) fn on_disk(disk: Arc<dyn Disk>, folder: &Path) -> Self {
        let store = Arc::new(DiskStore::new(disk, folder, Rng::from_os()));
        Self {
            store,
            url: format!("file:{}", folder.display()),
        }
    }

    /// The same store with faults in front of it.
    pub(crate) fn with_faults(&self, faults: &Faults) -> Self {
        let store = FaultStore::new(self.store.clone(), faults.clone(), Clock::real());
        Self {
            store: Arc::new(store),
            url: self.url.clone(),
        }
    }

    pub(crate) fn lake(&self, prefix: &str) -> Lake {
        self.lake_with(prefix, RetryPolicy::default(), Clock::real())
    }

    /// A lake whose pauses take no time and whose attempts are given up soon.
    pub(crate) fn impatient_lake(&self, prefix: &str) -> Lake {
        let clock = SimulatedClock::impatient("2026-11-15T00:00:00Z".parse().unwrap()).clock();
        let retry = RetryPolicy {
            attempt: Duration::from_millis(200),
            bytes_per_second: u64::MAX,
            deadline: Duration::from_secs(20),
            ..RetryPolicy::default()
        };
        self.lake_with(prefix, retry, clock)
    }

    pub(crate) fn lake_with(&self, prefix: &str, retry: RetryPolicy, clock: Clock) -> Lake {
        Lake::new(Parts {
            id: "main".into(),
            url: self.url.clone(),
            store: self.store.clone(),
            prefix: prefix.into(),
            clock,
            rng: Rng::from_os(),
            retry,
            metrics: LakeMetrics::default(),
        })
        .unwrap()
    }
}
