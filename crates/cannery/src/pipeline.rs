//! From the configuration to a line that runs: what `cannery up` and `cannery work` have in common.

mod metrics;
mod told;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use cannery_catalog::Catalog;
use cannery_formats::archive::Generation;
use cannery_journal::worker::{Summary, Worker};
use cannery_journal::{ErrorKind, Journal, Query, Status};
use cannery_lake::{Lake, Mirrors};
use cannery_pipeline::admission::Admission;
use cannery_pipeline::discover::{Discovered, Discoverer, Reach};
use cannery_pipeline::features::Features;
use cannery_pipeline::line::{History, Line, Parts, Timing};
use cannery_runtime::Clock;
use cannery_sanitise::Rules;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::commands::Context;
use crate::config::Config;
use crate::failure::{ExitCode, Failure};
use crate::history::StateHistory;
use crate::lakes::StageLakes;
use crate::plant;

pub(crate) use metrics::PipelineMetrics;
use told::Told;
use waiting::Forward;
pub(crate) use waiting::Waiting;

/// How often a run that shall end looks whether something is left to do.
const IDLE_EVERY: Duration = Duration::from_millis(50);

/// The files that the configuration names, read before anything runs.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    rules: Arc<Rules>,
    features: Arc<Features>,
}

impl Recipe {
    pub(crate) fn read(config: &Config) -> Result<Self, Failure> {
        Ok(Self {
            rules: plant::rules(config)?,
            features: plant::features(config)?,
        })
    }

    /// The generation that the rules make.
    pub(crate) fn generation(&self) -> Generation {
        Generation::of(self.rules.sha256())
    }
}

/// Whether work waits for more of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As the configuration says.
    Steady,
    /// All that is there now is done now.
    AtOnce,
}

/// A line with all its parts.
#[derive(Debug)]
pub(crate) struct Pipeline {
    line: Line,
    discoverer: Discoverer,
    journal: Journal,
    catalog: Catalog,
    clock: Clock,
    worker: Worker,
    told: Arc<Told>,
    /// Reports are gathered for so long at most, by whoever does it.
    debounce: Duration,
    /// What is written now has so long to be whole.
    settle: Duration,
}

/// How a run ended that was to do all that is there.
#[derive(Debug)]
pub(crate) struct Drained {
    pub(crate) summary: Summary,
    /// What is left for later.
    pub(crate) waiting: Vec<Waiting>,
}

/// Where a pipeline works.
pub(crate) struct Site<'a> {
    pub(crate) config: &'a Config,
    pub(crate) mirrors: &'a Mirrors,
    pub(crate) journal: Journal,
    pub(crate) metrics: &'a PipelineMetrics,
}

impl Pipeline {
    /// Opens it on a lake that is known to be ours.
    ///
    /// # Errors
    /// `store_too_weak` for a store on which two workers could overwrite each other's objects; those of the lake and the
    /// catalog.
    pub(crate) async fn open(
        site: Site<'_>,
        recipe: &Recipe,
        pace: Pace,
        context: &Context,
    ) -> Result<Self, Failure> {
        let Site {
            config,
            mirrors,
            journal,
            metrics,
        } = site;
        for lake in StageLakes::of(&config.pipeline.storage, mirrors).each() {
            refuse_weak(lake).await?;
        }
        let plant = plant::open(config, mirrors, context).await?;
        let catalog = plant::catalog(config, context).await?;
        let settings = &config.pipeline;
        let steady = Timing::new(settings.debounce.0, settings.grace.0)
            .gathering_from(settings.debounce_min.0);
        let timing = match pace {
            Pace::Steady => steady,
            Pace::AtOnce => steady.at_once(),
        };
        let admission = Admission::new(settings.memory_budget.0);
        metrics.watch(admission.clone());
        let told = Arc::new(Told {
            metrics: metrics.clone(),
            state: StateHistory::open_or_warn(config, context).await,
        });
        let inputs = plant::inputs(config, &plant);
        let line = Line::new(Parts {
            plant: plant.clone(),
            inputs: inputs.clone(),
            journal: journal.clone(),
            catalog: catalog.clone(),
            rules: Arc::clone(&recipe.rules),
            features: Arc::clone(&recipe.features),
            admission,
            history: Arc::clone(&told) as Arc<dyn History>,
            rng: context.rng.clone(),
            timing,
            reports_remove: settings.reports_remove,
            keep: Arc::new(settings.keep.checked()),
        });
        let rng = context.rng.clone();
        let mut discoverer = Discoverer::new(plant, inputs, journal.clone(), rng, settings.grace.0)
            .every(steady.look_every())
            .heeding(line.refusals());
        if pace == Pace::AtOnce {
            discoverer = discoverer.urgent();
        }
        expect(&discoverer, config);
        let name = format!("{}/{}", config.node, std::process::id());
        let (clock, rng) = (context.clock.clone(), context.rng.clone());
        let worker = Worker::new(journal.clone(), name, clock.clone(), rng)
            .concurrency(concurrency())
            .grace(config.flush_timeout.0);
        let opened = Self {
            line,
            discoverer,
            journal,
            catalog,
            clock,
            worker,
            told,
            debounce: settings.debounce.0,
            settle: settings.reports_settle.0,
        };
        opened.line.prepare().await?;
        Ok(opened)
    }

    pub(crate) fn line(&self) -> &Line {
        &self.line
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(crate) fn discoverer(&self) -> &Discoverer {
        &self.discoverer
    }

    /// Looks for reports and does all work, until `stop` is cancelled.
    pub(crate) async fn run(&self, stop: &CancellationToken) -> Summary {
        let worker = self.worker.clone().run(self.line.clone(), stop.clone());
        let (summary, (), ()) = tokio::join!(
            worker,
            self.discoverer.run(stop.clone()),
            self.line.keep_up(stop.clone()),
        );
        summary
    }

    /// Does all that is to be done now, with what follows from it, and ends. What waits only because there may soon be more
    /// is done now, too. Before it waits for report files that may be half written, it says so.
    pub(crate) async fn drain(
        &self,
        stop: &CancellationToken,
        say: impl Fn(&Waiting),
    ) -> Result<Drained, Failure> {
        let ended = stop.child_token();
        let worker = self.worker.clone().run(self.line.clone(), ended.clone());
        let rounds = async {
            let rounds = tokio::select! {
                rounds = self.rounds(say) => rounds,
                () = stop.cancelled() => Ok(Vec::new()),
            };
            ended.cancel();
            rounds
        };
        let (summary, rounds) = tokio::join!(worker, rounds);
        let mut waiting = rounds?;
        waiting.extend(waiting::waiting(&self.journal, self.debounce).await?);
        Ok(Drained { summary, waiting })
    }

    /// Looks for work until there is none, or none but what was there before. Gives the report files that were left.
    async fn rounds(&self, say: impl Fn(&Waiting)) -> Result<Vec<Waiting>, Failure> {
        let begun = self.clock.now();
        let (mut before, mut forward) = (None, Forward::default());
        loop {
            let found = self.discoverer.discover(Reach::Whole).await?;
            let behind = self.line.catch_up().await?;
            self.idle().await?;
            if self.wait_to_settle(begun, &found, &say).await
                || forward.bring(&self.journal, self.debounce).await?
            {
                continue;
            }
            let left = Waiting::unsettled(&found);
            let now = self.clock.now();
            let is_due = found.to_seal.values().any(|due| *due <= now);
            if found.to_can.is_empty() && !is_due && !behind.is_behind() {
                return Ok(left);
            }
            let this = (found.to_can, found.to_seal, behind);
            if before.as_ref() == Some(&this) {
                return Ok(left);
            }
            before = Some(this);
        }
    }

    /// Waits for a report file that may be half written, but only if it was there before it all began: who goes on writing is
    /// not waited for. Says whether there was one.
    async fn wait_to_settle(
        &self,
        begun: Timestamp,
        found: &Discovered,
        say: impl Fn(&Waiting),
    ) -> bool {
        let patience = begun.checked_add(self.settle).unwrap_or(Timestamp::MAX);
        let Some(next) = found.settles_next().filter(|next| *next <= patience) else {
            return false;
        };
        let pause = next.duration_since(self.clock.now());
        if !pause.is_positive() {
            return true;
        }
        Waiting::unsettled(found).iter().for_each(say);
        self.clock.sleep(pause.unsigned_abs()).await;
        true
    }

    /// Waits until nothing is due, and nobody is at work: what another has begun, or died over, is part of what is there.
    async fn idle(&self) -> Result<(), Failure> {
        let processing = Query {
            statuses: vec![Status::Processing],
            ..Query::all()
        };
        loop {
            let look = async {
                let is_due = self.journal.stats().await?.due() > 0;
                let page = self.journal.list(processing.clone()).await?;
                Ok::<_, cannery_journal::Error>(!is_due && page.entries.is_empty())
            };
            match look.await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                // Its owner changes, or the server restarts: the worker waits for it too.
                Err(error) if error.kind == ErrorKind::Unavailable => {}
                Err(error) => return Err(error.into()),
            }
            self.clock.sleep(IDLE_EVERY).await;
        }
    }

    pub(crate) async fn close(&self) {
        self.catalog.close().await;
        self.told.close().await;
    }
}

async fn refuse_weak(lake: &Lake) -> Result<(), Failure> {
    lake.ensure_probed().await?;
    if lake.honours().create {
        return Ok(());
    }
    let message = format!(
        "the pipeline cannot run on object storage `{}`: it does not honour create-if-absent, so workers could overwrite each other's cans and archives",
        lake.id()
    );
    let next = "see `cannery lake probe`; use a store that honours it, or turn the pipeline off with `pipeline: {inputs: []}`";
    Err(Failure::new(
        ExitCode::Error,
        "store_too_weak",
        message,
        next,
    ))
}

/// What is collected here is looked for from the first moment on, before anything of it is in the lake.
fn expect(discoverer: &Discoverer, config: &Config) {
    for feed in &config.feeds {
        discoverer.add_feed(feed.id.clone());
    }
    for spool in &config.spools {
        for datatype in &spool.datatypes {
            let home = spool.object_home.clone();
            discoverer.add_spool(home, spool.experiment.clone(), datatype.name.clone());
        }
    }
}

/// Stages are let in by their memory; this many at most hold a lease.
fn concurrency() -> usize {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    2 * cores + 2
}
