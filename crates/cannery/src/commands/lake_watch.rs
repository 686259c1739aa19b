//! The lakes of a running process: made sure of at the start, asked again and again, shown on the dashboard.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use cannery_lake::{Identity, Lake, Mirrors, probe};
use cannery_runtime::Clock;
use cannery_runtime::workspace::WorkspaceError;
use cannery_serve::{Card, Check, Readiness, Section, State};
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;
use crate::lakes;

const SAMPLE_EVERY: Duration = Duration::from_secs(10);

/// As many as a curve shows.
const SAMPLES_MAX: usize = 240;

/// Every third sample also asks the store.
const ASK_EVERY: u64 = 3;

/// A store that is down must not keep the dashboard from starting: it is where a person looks.
const FIRST_LIMIT: Duration = Duration::from_secs(15);

/// The lakes, and what is known of them.
#[derive(Debug)]
pub(super) struct LakeWatch {
    mirrors: Mirrors,
    workspace: PathBuf,
    clock: Clock,
    identity: OnceLock<Identity>,
    readiness: Readiness,
    samples: Mutex<Samples>,
}

/// Operations in each interval, and why a lake cannot be used, for each lake.
#[derive(Debug, Default)]
struct Samples {
    seen: Vec<u64>,
    series: Vec<VecDeque<f64>>,
    unusable: Vec<Option<String>>,
}

impl LakeWatch {
    pub(super) fn new(mirrors: Mirrors, workspace: &Path, clock: Clock) -> Self {
        let count = mirrors.iter().count();
        let samples = Samples {
            seen: vec![0; count],
            series: vec![VecDeque::new(); count],
            unusable: vec![None; count],
        };
        Self {
            mirrors,
            workspace: workspace.to_owned(),
            clock,
            identity: OnceLock::new(),
            readiness: Readiness::new(),
            samples: Mutex::new(samples),
        }
    }

    pub(super) fn mirrors(&self) -> &Mirrors {
        &self.mirrors
    }

    pub(super) fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    /// The lake, once it was reached.
    pub(super) fn identity(&self) -> Option<&Identity> {
        self.identity.get()
    }

    /// The first look. A store that does not answer is no failure: the watch keeps trying. Anything else is.
    pub(super) async fn first(&self) -> Result<(), Failure> {
        match self.clock.timeout(FIRST_LIMIT, self.establish()).await {
            Ok(Err(failure)) if failure.kind == "unavailable" => self.mark_all(&failure.message),
            Ok(outcome) => outcome?,
            Err(late) => self.mark_all(&late.to_string()),
        }
        Ok(())
    }

    /// Opens the lake for good: ours, the same in every mirror, noted in the workspace, and probed.
    async fn establish(&self) -> Result<(), Failure> {
        let identity = lakes::establish(&self.mirrors, &self.workspace).await?;
        lakes::note(&self.workspace, &self.mirrors, &identity).map_err(|source| {
            WorkspaceError::Io {
                path: self.workspace.clone(),
                source,
            }
        })?;
        for (at, lake) in self.mirrors.iter().enumerate() {
            for weakness in probe::probe(lake).await?.weaknesses() {
                tracing::warn!(
                    lake = lake.id(),
                    weakness,
                    "the store is weaker than it should be; see `cannery doctor`"
                );
            }
            self.mark(at, lake, None);
        }
        self.identity.get_or_init(|| identity);
        Ok(())
    }

    /// Samples the counters, and asks each lake now and then whether it is still there and still ours.
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) {
        for round in 1_u64.. {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.clock.sleep(SAMPLE_EVERY) => {}
            }
            self.sample();
            let asking = async {
                match self.identity.get() {
                    None => {
                        if let Err(failure) = self.establish().await {
                            self.mark_all(&failure.message);
                        }
                    }
                    Some(identity) if round.is_multiple_of(ASK_EVERY) => self.ask(identity).await,
                    Some(_) => {}
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = asking => {}
            }
        }
    }

    async fn ask(&self, identity: &Identity) {
        for (at, lake) in self.mirrors.iter().enumerate() {
            let reason = match lake.manifest().await {
                Ok(Some(manifest)) if manifest.lake == identity.lake => None,
                Ok(Some(manifest)) => Some(format!("it is now lake `{}`", manifest.lake)),
                Ok(None) => Some("its `cannery.json` is gone".to_owned()),
                Err(error) => Some(error.to_string()),
            };
            self.mark(at, lake, reason);
        }
    }

    fn mark_all(&self, reason: &str) {
        for (at, lake) in self.mirrors.iter().enumerate() {
            self.mark(at, lake, Some(reason.to_owned()));
        }
    }

    /// Remembers whether a lake can be used, and tells about it when that changes.
    fn mark(&self, at: usize, lake: &Lake, reason: Option<String>) {
        let before = std::mem::replace(&mut self.lock().unusable[at], reason.clone());
        match reason {
            Some(reason) => {
                if before.is_none() {
                    tracing::error!(
                        lake = lake.id(),
                        reason,
                        "the lake cannot be used; trying on"
                    );
                }
                self.readiness
                    .set(check_name(lake), Check::NotReady(reason));
            }
            None => {
                if before.is_some() {
                    tracing::info!(lake = lake.id(), "the lake can be used again");
                }
                self.readiness.set(check_name(lake), Check::Ready);
            }
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
        let state = match &samples.unusable[at] {
            Some(_) => State::Bad,
            None if !(honours.create && honours.update) => State::Warn,
            None => State::Good,
        };
        let mut card = Card::new(check_name(lake), state)
            .value(totals.operations.to_string(), "operations")
            .detail("where", lake.url())
            .detail(
                "lake id",
                self.identity
                    .get()
                    .map_or("not known yet", |identity| identity.lake.as_str()),
            )
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
        if let Some(reason) = &samples.unusable[at] {
            card = card.note(reason.as_str());
        }
        if samples.series[at].len() > 1 {
            card = card.series(
                "operations in 10 s, last 40 minutes",
                samples.series[at].iter().copied().collect(),
            );
        }
        card
    }
}

fn check_name(lake: &Lake) -> String {
    format!("lake {}", lake.id())
}

impl Section for LakeWatch {
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
