//! The lakes on the dashboard, and the watch that keeps asking whether they can be reached.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cannery_lake::{Lake, Mirrors};
use cannery_runtime::Clock;
use cannery_serve::{Card, Check, Readiness, Section, State};
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

const SAMPLE_EVERY: Duration = Duration::from_secs(10);

/// An hour of samples.
const SAMPLES_MAX: usize = 360;

/// Every third sample also asks the store.
const ASK_EVERY: u64 = 3;

/// What the dashboard shows of the lakes.
#[derive(Debug)]
pub(super) struct LakeSection {
    mirrors: Mirrors,
    lake: String,
    samples: Mutex<Samples>,
}

/// Operations in each interval, for each lake.
#[derive(Debug, Default)]
struct Samples {
    seen: Vec<u64>,
    series: Vec<VecDeque<f64>>,
    unreachable: Vec<Option<String>>,
}

pub(super) fn check_name(lake: &Lake) -> String {
    format!("lake {}", lake.id())
}

impl LakeSection {
    pub(super) fn new(mirrors: Mirrors, lake: String) -> Self {
        let count = mirrors.iter().count();
        let seen = mirrors
            .iter()
            .map(|lake| lake.totals().operations)
            .collect();
        let samples = Samples {
            seen,
            series: vec![VecDeque::new(); count],
            unreachable: vec![None; count],
        };
        Self {
            mirrors,
            lake,
            samples: Mutex::new(samples),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Samples> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sample(&self) {
        let mut samples = self.lock();
        for (at, lake) in self.mirrors.iter().enumerate() {
            let now = lake.totals().operations;
            let since = now - std::mem::replace(&mut samples.seen[at], now);
            let series = &mut samples.series[at];
            series.push_back(f64::from(u32::try_from(since).unwrap_or(u32::MAX)));
            if series.len() > SAMPLES_MAX {
                series.pop_front();
            }
        }
    }

    fn card(&self, at: usize, lake: &Lake) -> Card {
        let samples = self.lock();
        let totals = lake.totals();
        let honours = lake.honours();
        let state = match &samples.unreachable[at] {
            Some(_) => State::Bad,
            None if !(honours.create && honours.update) => State::Warn,
            None => State::Good,
        };
        let mut card = Card::new(check_name(lake), state)
            .value(totals.operations.to_string(), "operations")
            .detail("where", lake.url())
            .detail("lake id", self.lake.as_str())
            .detail("read", indicatif::HumanBytes(totals.bytes_read).to_string())
            .detail(
                "written",
                indicatif::HumanBytes(totals.bytes_written).to_string(),
            )
            .detail("failures", totals.failures.to_string())
            .detail(
                "create if absent",
                if honours.create {
                    "one winner"
                } else {
                    "not honoured"
                },
            )
            .detail(
                "replace by version",
                if honours.update {
                    "one winner"
                } else {
                    "not honoured"
                },
            );
        if let Some(reason) = &samples.unreachable[at] {
            card = card.note(reason.as_str());
        }
        if samples.series[at].len() > 1 {
            card = card.series(
                "operations in 10 s, last hour",
                samples.series[at].iter().copied().collect(),
            );
        }
        card
    }
}

impl Section for LakeSection {
    fn slug(&self) -> &str {
        "lake"
    }

    fn title(&self) -> &str {
        "Lake"
    }

    fn cards(&self) -> BoxFuture<'_, Vec<Card>> {
        Box::pin(async move {
            self.mirrors
                .iter()
                .enumerate()
                .map(|(at, lake)| self.card(at, lake))
                .collect()
        })
    }
}

/// Samples the counters, and asks each lake now and then whether it is still there and still ours.
pub(super) async fn watch(
    section: std::sync::Arc<LakeSection>,
    mirrors: Mirrors,
    readiness: Readiness,
    clock: Clock,
    stop: CancellationToken,
) {
    for round in 1_u64.. {
        tokio::select! {
            () = stop.cancelled() => return,
            () = clock.sleep(SAMPLE_EVERY) => {}
        }
        section.sample();
        if !round.is_multiple_of(ASK_EVERY) {
            continue;
        }
        for (at, lake) in mirrors.iter().enumerate() {
            let asked = tokio::select! {
                () = stop.cancelled() => return,
                asked = lake.manifest() => asked,
            };
            let reason = match asked {
                Ok(Some(manifest)) if manifest.lake == section.lake => None,
                Ok(Some(manifest)) => Some(format!("it is now lake `{}`", manifest.lake)),
                Ok(None) => Some("its `cannery.json` is gone".to_owned()),
                Err(error) => Some(error.to_string()),
            };
            let was = std::mem::replace(&mut section.lock().unreachable[at], reason.clone());
            match reason {
                Some(reason) => {
                    if was.is_none() {
                        tracing::error!(lake = lake.id(), reason, "the lake cannot be used");
                    }
                    readiness.set(check_name(lake), Check::NotReady(reason));
                }
                None => {
                    if was.is_some() {
                        tracing::info!(lake = lake.id(), "the lake can be used again");
                    }
                    readiness.set(check_name(lake), Check::Ready);
                }
            }
        }
    }
}
