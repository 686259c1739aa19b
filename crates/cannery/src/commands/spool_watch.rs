//! The spools of a running process: opened as soon as the lake allows it, run until the end, shown on the dashboard.

mod page;
mod samples;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cannery_collect::spool::{Flushed, Progress, SpoolMetrics};
use cannery_runtime::{Clock, Tasks};
use cannery_serve::{Card, Check, Markup, Readiness, Section};
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::Context;
use super::lake_watch::LakeWatch;
use crate::config::spool::SpoolConfig;
use crate::failure::{ExitCode, Failure};
use crate::output::counted;
use crate::spools::{Opened, SpoolTools};
use samples::Samples;

const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);
const SAMPLE_EVERY: Duration = Duration::from_secs(10);

/// All spools of a process.
pub(super) struct SpoolWatch {
    clock: Clock,
    desks: Vec<Arc<Desk>>,
    readiness: Readiness,
    metrics: SpoolMetrics,
    same_place: String,
}

/// One spool.
struct Desk {
    config: SpoolConfig,
    tools: SpoolTools,
    phase: Mutex<Phase>,
    samples: Mutex<Samples>,
}

/// How far a spool is.
#[derive(Clone)]
enum Phase {
    /// Not open yet, perhaps because of something that may pass.
    Waiting(Option<String>),
    Running(Arc<Progress>),
    Ended(Flushed),
    Failed(String),
}

/// How spools run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    Stopped,
    Drained,
}

impl SpoolWatch {
    pub(super) fn new(
        spools: Vec<(SpoolConfig, SpoolTools)>,
        lakes: &LakeWatch,
        metrics: &SpoolMetrics,
        context: &Context,
    ) -> Self {
        let readiness = lakes.readiness();
        let desks = spools.into_iter().map(|(config, tools)| {
            readiness.set(
                check_name(&config),
                Check::NotReady("not open yet".to_owned()),
            );
            Arc::new(Desk {
                config,
                tools,
                phase: Mutex::new(Phase::Waiting(None)),
                samples: Mutex::default(),
            })
        });
        Self {
            clock: context.clock.clone(),
            desks: desks.collect(),
            readiness: readiness.clone(),
            metrics: metrics.clone(),
            same_place: context.same_place.clone(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.desks.is_empty()
    }

    /// What is collected, for a greeting.
    pub(super) fn configs(&self) -> impl Iterator<Item = &SpoolConfig> {
        self.desks.iter().map(|desk| &desk.config)
    }

    /// How long the longest flush may take.
    pub(super) fn flush_timeout(&self) -> Duration {
        let limits = self.desks.iter().map(|desk| desk.config.flush_timeout.0);
        limits.max().unwrap_or_default()
    }

    /// Opens every spool, and starts to run it. A lake that cannot be reached is waited for; anything else is a failure.
    pub(super) async fn start(
        &self,
        lakes: &Arc<LakeWatch>,
        tasks: &Tasks,
        until: Until,
    ) -> Result<(), Failure> {
        for desk in &self.desks {
            // Nothing that a person has to mend waits for the lake.
            desk.tools.schema_files(&desk.config)?;
            let opened = match lakes.has_reached(&desk.tools.mirrors) {
                true => self.try_open(desk).await?,
                false => None,
            };
            let runner = Runner {
                desk: Arc::clone(desk),
                lakes: Arc::clone(lakes),
                readiness: self.readiness.clone(),
                metrics: self.metrics.clone(),
                stop: tasks.stopping(),
                until,
            };
            let name = check_name(&desk.config);
            tasks.spawn(&name, runner.run(opened));
        }
        Ok(())
    }

    async fn try_open(&self, desk: &Desk) -> Result<Option<Opened>, Failure> {
        match desk.tools.open(&desk.config).await {
            Ok(opened) => Ok(Some(opened)),
            Err(failure) if failure.kind == "unavailable" => {
                desk.set(Phase::Waiting(Some(failure.message)));
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Samples the counters, for curves.
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.clock.sleep(SAMPLE_EVERY) => {}
            }
            for desk in &self.desks {
                if let Phase::Running(progress) = desk.phase() {
                    lock(&desk.samples).add(progress.passed());
                    let ready = match progress.snapshot().full {
                        true => Check::NotReady("it is too full".to_owned()),
                        false => Check::Ready,
                    };
                    self.readiness.set(check_name(&desk.config), ready);
                }
            }
        }
    }

    /// Whether every spool has ended by itself.
    pub(super) fn all_ended(&self) -> bool {
        let has_ended =
            |desk: &Arc<Desk>| matches!(desk.phase(), Phase::Ended(_) | Phase::Failed(_));
        self.desks.iter().all(has_ended)
    }

    /// What became of the spools once they have ended.
    pub(super) fn outcome(&self) -> Result<(), Failure> {
        let mut left = Vec::new();
        for desk in &self.desks {
            let experiment = &desk.config.experiment;
            match desk.phase() {
                Phase::Failed(reason) => {
                    let next = "see the log; what is there is taken up at the next start";
                    return Err(Failure::new(ExitCode::Error, "spool", reason, next));
                }
                Phase::Ended(flushed) if !flushed.left.is_empty() => {
                    left.push(format!(
                        "{} of spool `{experiment}` ({})",
                        counted(flushed.left.len() as u64, "bundle"),
                        flushed.left.join(", ")
                    ));
                }
                Phase::Waiting(Some(reason)) => {
                    left.push(format!("anything of spool `{experiment}`: {reason}"));
                }
                Phase::Waiting(None) | Phase::Running(_) | Phase::Ended(_) => {}
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        let message = format!("not shipped: {}", left.join("; "));
        let next = "they are safe in the workspace and the next start ships them; raise `flush_timeout` to wait longer";
        Err(Failure::new(ExitCode::Partial, "unshipped", message, next))
    }

    /// How many files each spool left that was to be drained, if any.
    pub(super) fn waiting(&self) -> Vec<(&SpoolConfig, u64)> {
        let mut waiting = Vec::new();
        for desk in &self.desks {
            if let Phase::Ended(flushed) = desk.phase()
                && flushed.waiting > 0
            {
                waiting.push((&desk.config, flushed.waiting));
            }
        }
        waiting
    }

    /// What passed through each spool, in the order of the configuration.
    pub(super) fn progress(&self) -> impl Iterator<Item = (&SpoolConfig, Option<Arc<Progress>>)> {
        let desks = self.desks.iter();
        desks.map(|desk| (&desk.config, lock(&desk.samples).progress()))
    }
}

fn check_name(config: &SpoolConfig) -> String {
    format!("spool {}", config.experiment)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    fn phase(&self) -> Phase {
        lock(&self.phase).clone()
    }

    fn set(&self, phase: Phase) {
        *lock(&self.phase) = phase;
    }
}

/// Runs one spool.
struct Runner {
    desk: Arc<Desk>,
    lakes: Arc<LakeWatch>,
    readiness: Readiness,
    metrics: SpoolMetrics,
    stop: CancellationToken,
    until: Until,
}

impl Runner {
    async fn run(self, opened: Option<Opened>) {
        let opened = match opened {
            Some(opened) => Some(opened),
            None => self.open_at_last().await,
        };
        let Some(opened) = opened else { return };
        let name = check_name(&self.desk.config);
        let progress = opened.progress();
        lock(&self.desk.samples).begin(Arc::clone(&progress));
        self.metrics.show(Arc::clone(&progress));
        self.desk.set(Phase::Running(progress));
        self.readiness.set(name.as_str(), Check::Ready);
        let limit = self.desk.config.flush_timeout.0;
        let flushed = match self.until {
            Until::Stopped => opened.run(self.stop.clone(), limit).await,
            Until::Drained => opened.run_until_drained(self.stop.clone(), limit).await,
        };
        match flushed {
            Ok(flushed) => self.desk.set(Phase::Ended(flushed)),
            Err(error) => self.fail(format!(
                "spool `{}` ended: {error}",
                self.desk.config.experiment
            )),
        }
    }

    /// Opens the spool as soon as the lake is there; none when it is told to stop before.
    async fn open_at_last(&self) -> Option<Opened> {
        let mut pause = RETRY_FIRST;
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return None,
                () = self.desk.tools.clock.sleep(pause) => {}
            }
            pause = (pause * 2).min(RETRY_MAX);
            if !self.lakes.has_reached(&self.desk.tools.mirrors) {
                continue;
            }
            match self.desk.tools.open(&self.desk.config).await {
                Ok(opened) => return Some(opened),
                Err(failure) if failure.kind == "unavailable" => {
                    tracing::warn!(spool = %self.desk.config.experiment, reason = failure.message, "not open yet; trying on");
                    self.desk.set(Phase::Waiting(Some(failure.message)));
                }
                Err(failure) => {
                    self.fail(failure.message);
                    return None;
                }
            }
        }
    }

    fn fail(&self, reason: String) {
        let config = &self.desk.config;
        tracing::error!(spool = %config.experiment, reason, "the spool is not collected any more");
        self.readiness
            .set(check_name(config), Check::NotReady(reason.clone()));
        self.desk.set(Phase::Failed(reason));
    }
}

impl Section for SpoolWatch {
    fn slug(&self) -> &str {
        "spools"
    }

    fn title(&self) -> &str {
        "Spools"
    }

    fn cards(&self) -> BoxFuture<'_, Vec<Card>> {
        Box::pin(async { self.desks.iter().map(|desk| self.card(desk)).collect() })
    }

    fn page(&self) -> Option<BoxFuture<'_, Markup>> {
        Some(Box::pin(async { self.whole_page() }))
    }
}
