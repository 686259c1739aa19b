//! How much passed through a spool in each interval, for curves.

use std::collections::VecDeque;
use std::sync::Arc;

use cannery_collect::spool::{Passed, Progress};

/// As many as a curve shows: 40 minutes.
const SAMPLES_MAX: usize = 240;

/// What was seen of one spool.
#[derive(Default)]
pub(super) struct Samples {
    progress: Option<Arc<Progress>>,
    before: Passed,
    files: VecDeque<f64>,
    bytes: VecDeque<f64>,
}

impl Samples {
    /// The spool runs from now on.
    pub(super) fn begin(&mut self, progress: Arc<Progress>) {
        self.progress = Some(progress);
    }

    /// The counters, also after the spool has ended.
    pub(super) fn progress(&self) -> Option<Arc<Progress>> {
        self.progress.clone()
    }

    pub(super) fn add(&mut self, now: Passed) {
        push(&mut self.files, now.taken - self.before.taken);
        push(
            &mut self.bytes,
            now.shipped_bytes - self.before.shipped_bytes,
        );
        self.before = now;
    }

    /// Files taken in each interval, the oldest first.
    pub(super) fn files(&self) -> Vec<f64> {
        self.files.iter().copied().collect()
    }

    /// Bytes shipped in each interval, the oldest first.
    pub(super) fn bytes(&self) -> Vec<f64> {
        self.bytes.iter().copied().collect()
    }
}

fn push(series: &mut VecDeque<f64>, value: u64) {
    series.push_back(f64::from(u32::try_from(value).unwrap_or(u32::MAX)));
    if series.len() > SAMPLES_MAX {
        series.pop_front();
    }
}
