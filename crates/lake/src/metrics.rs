//! What the lakes of a process have done, by lake, operation and result.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::error::{ErrorKind, Failure, Operation};

/// The metrics of all lakes of a process.
#[derive(Clone, Debug)]
pub struct LakeMetrics {
    operations: Family<Outcome, Counter>,
    seconds: Family<Done, Histogram>,
    retries: Family<Done, Counter>,
    read: Family<Which, Counter>,
    written: Family<Which, Counter>,
    last_success: Family<Which, Gauge>,
    totals: Arc<Mutex<HashMap<String, Totals>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Which {
    lake: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Done {
    lake: String,
    operation: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    lake: String,
    operation: &'static str,
    result: &'static str,
}

impl Default for LakeMetrics {
    fn default() -> Self {
        let buckets = || {
            Histogram::new([
                0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
                60.0,
            ])
        };
        Self {
            operations: Family::default(),
            seconds: Family::new_with_constructor(buckets),
            retries: Family::default(),
            read: Family::default(),
            written: Family::default(),
            last_success: Family::default(),
            totals: Arc::default(),
        }
    }
}

impl LakeMetrics {
    /// Adds the metrics to what `/metrics` shows.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("cannery_lake");
        registry.register(
            "operations",
            "Lake operations by result",
            self.operations.clone(),
        );
        registry.register_with_unit(
            "operation",
            "Time of lake operations, retries included",
            Unit::Seconds,
            self.seconds.clone(),
        );
        registry.register(
            "retries",
            "Attempts that failed and were repeated",
            self.retries.clone(),
        );
        registry.register_with_unit(
            "read",
            "Bytes of objects read",
            Unit::Bytes,
            self.read.clone(),
        );
        registry.register_with_unit(
            "written",
            "Bytes of objects written",
            Unit::Bytes,
            self.written.clone(),
        );
        registry.register_with_unit(
            "last_success_timestamp",
            "When an operation last succeeded, since 1970",
            Unit::Seconds,
            self.last_success.clone(),
        );
    }

    pub(crate) fn count<T>(
        &self,
        lake: &str,
        operation: Operation,
        result: &Result<T, Failure>,
        took: Duration,
        now: jiff::Timestamp,
    ) {
        let lake = lake.to_owned();
        let name = operation.name();
        let result_name = match result {
            Ok(_) => "ok",
            Err(failure) => failure.kind.name(),
        };
        self.operations
            .get_or_create(&Outcome {
                lake: lake.clone(),
                operation: name,
                result: result_name,
            })
            .inc();
        self.seconds
            .get_or_create(&Done {
                lake: lake.clone(),
                operation: name,
            })
            .observe(took.as_secs_f64());
        let mut all = self.lock();
        let totals = all.entry(lake.clone()).or_default();
        totals.operations += 1;
        match result {
            Ok(_) => {
                self.last_success
                    .get_or_create(&Which { lake })
                    .set(now.as_second());
            }
            // To look for something and not find it is no failure.
            Err(failure) if failure.kind == ErrorKind::Absent => {}
            Err(_) => totals.failures += 1,
        }
    }

    pub(crate) fn retried(&self, lake: &str, operation: Operation, times: u32) {
        if times > 0 {
            self.retries
                .get_or_create(&Done {
                    lake: lake.to_owned(),
                    operation: operation.name(),
                })
                .inc_by(times.into());
        }
    }

    pub(crate) fn moved(&self, lake: &str, read: u64, written: u64) {
        let which = Which {
            lake: lake.to_owned(),
        };
        {
            let mut all = self.lock();
            let totals = all.entry(lake.to_owned()).or_default();
            totals.bytes_read += read;
            totals.bytes_written += written;
        }
        if read > 0 {
            self.read.get_or_create(&which).inc_by(read);
        }
        if written > 0 {
            self.written.get_or_create(&which).inc_by(written);
        }
    }

    /// What a lake has done so far, for the dashboard.
    #[must_use]
    pub fn totals(&self, lake: &str) -> Totals {
        self.lock().get(lake).copied().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Totals>> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`LakeMetrics::totals`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Operations begun and ended.
    pub operations: u64,
    /// Those of them that failed.
    pub failures: u64,
    /// Bytes of objects read.
    pub bytes_read: u64,
    /// Bytes of objects written.
    pub bytes_written: u64,
}
