//! Who hears of an execution: the metrics and the log, and the state where there is one.

use std::fmt;
use std::sync::Arc;

use cannery_pipeline::line::{Execution, History};
use cannery_pipeline::stage::Stage;
use jiff::Timestamp;

use super::PipelineMetrics;
use crate::history::StateHistory;

/// All of them.
pub(super) struct Told {
    pub(super) metrics: PipelineMetrics,
    pub(super) state: Option<Arc<StateHistory>>,
}

impl Told {
    /// Writes what the state has not got yet, for a bounded time.
    pub(super) async fn close(&self) {
        if let Some(state) = &self.state {
            state.close().await;
        }
    }
}

impl History for Told {
    fn began(&self, stage: Stage, key: &str, attempt: u32, start: Timestamp) {
        if let Some(state) = &self.state {
            state.began(stage, key, attempt, start);
        }
    }

    fn executed(&self, execution: &Execution) {
        self.metrics.executed(execution);
        if let Some(state) = &self.state {
            state.executed(execution);
        }
    }
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Told").finish_non_exhaustive()
    }
}
