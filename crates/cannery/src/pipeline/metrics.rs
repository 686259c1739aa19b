//! What the stages did, as metrics and in the log.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cannery_pipeline::admission::Admission;
use cannery_pipeline::line::{Ended, Execution, History};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// From 10 ms to about 40 minutes.
const BUCKETS: (f64, f64, u16) = (0.01, 3.0, 12);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Stage {
    stage: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Run {
    stage: &'static str,
    result: &'static str,
}

/// Counts executions of stages. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct PipelineMetrics {
    runs: Family<Run, Counter>,
    durations: Family<Stage, Histogram, fn() -> Histogram>,
    bytes_in: Family<Stage, Counter>,
    bytes_out: Family<Stage, Counter>,
    admission: Arc<Mutex<Option<Admission>>>,
    /// Executions that ended well, by stage, and all others.
    tally: Arc<Mutex<Tally>>,
}

/// What was done since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) done: BTreeMap<&'static str, u64>,
    /// Put off or tried again: perhaps done since.
    pub(crate) troubled: u64,
    pub(crate) failed: u64,
}

impl Default for PipelineMetrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || {
            let (start, factor, length) = BUCKETS;
            Histogram::new(exponential_buckets(start, factor, length))
        };
        Self {
            runs: Family::default(),
            durations: Family::new_with_constructor(histogram),
            bytes_in: Family::default(),
            bytes_out: Family::default(),
            admission: Arc::default(),
            tally: Arc::default(),
        }
    }
}

impl PipelineMetrics {
    /// Registers everything, below `cannery_pipeline`.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("cannery_pipeline");
        registry.register("executions", "Executions of stages.", self.runs.clone());
        registry.register_with_unit(
            "duration",
            "How long executions of stages took.",
            Unit::Seconds,
            self.durations.clone(),
        );
        registry.register_with_unit(
            "read",
            "What stages read.",
            Unit::Bytes,
            self.bytes_in.clone(),
        );
        registry.register_with_unit(
            "written",
            "What stages wrote.",
            Unit::Bytes,
            self.bytes_out.clone(),
        );
        registry.register_collector(Box::new(Admitted(Arc::clone(&self.admission))));
    }

    /// Shows how much of the memory is taken.
    pub(crate) fn watch(&self, admission: Admission) {
        *lock(&self.admission) = Some(admission);
    }

    /// What was done since the start.
    pub(crate) fn tally(&self) -> Tally {
        lock(&self.tally).clone()
    }

    fn count(&self, execution: &Execution) {
        let stage = execution.stage.name();
        let result = match &execution.ended {
            Ended::Done => "done",
            Ended::PutOff(_) => "put_off",
            Ended::Retried(_) => "retried",
            Ended::Failed(_) => "failed",
            Ended::Lost => "lost",
            Ended::CutOff => "cut_off",
        };
        self.runs.get_or_create(&Run { stage, result }).inc();
        let took = execution.end.duration_since(execution.start);
        let durations = self.durations.get_or_create(&Stage { stage });
        durations.observe(took.as_secs_f64().max(0.0));
        let labels = Stage { stage };
        self.bytes_in
            .get_or_create(&labels)
            .inc_by(execution.bytes_in);
        self.bytes_out
            .get_or_create(&labels)
            .inc_by(execution.bytes_out);
        let mut tally = lock(&self.tally);
        match &execution.ended {
            Ended::Done => *tally.done.entry(stage).or_default() += 1,
            Ended::Failed(_) => tally.failed += 1,
            Ended::PutOff(_) | Ended::Retried(_) | Ended::Lost | Ended::CutOff => {
                tally.troubled += 1;
            }
        }
    }
}

impl History for PipelineMetrics {
    fn executed(&self, execution: &Execution) {
        self.count(execution);
        let Execution {
            key,
            attempt,
            start,
            end,
            bytes_in,
            bytes_out,
            ended,
            ..
        } = execution;
        let took = end.duration_since(*start);
        match ended {
            Ended::Done => {
                tracing::info!(%key, attempt, ?took, bytes_in, bytes_out, "done");
            }
            // Those are told where they are handled.
            Ended::PutOff(_) | Ended::Retried(_) | Ended::Failed(_) => {
                tracing::debug!(%key, attempt, ?took, ?ended, "not done");
            }
            Ended::Lost | Ended::CutOff => {
                tracing::warn!(%key, attempt, ?took, ?ended, "not done; it comes back");
            }
        }
    }
}

/// The memory that stages take at the moment of a scrape.
#[derive(Debug)]
struct Admitted(Arc<Mutex<Option<Admission>>>);

impl Collector for Admitted {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let taken = lock(&self.0).as_ref().map_or(0, Admission::taken_bytes);
        let gauge = ConstGauge::new(i64::try_from(taken).unwrap_or(i64::MAX));
        let help = "The memory that stages take which run.";
        let unit = Unit::Bytes;
        let metric =
            encoder.encode_descriptor("admitted", help, Some(&unit), gauge.metric_type())?;
        gauge.encode(metric)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
