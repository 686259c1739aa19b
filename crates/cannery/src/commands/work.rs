//! `cannery work`: a worker of the pipeline, without the rest of `up`.

use std::sync::Arc;
use std::time::Duration;

use cannery_journal::metrics::JournalMetrics;
use cannery_journal::worker::Summary;
use cannery_runtime::tasks::Stopped;
use cannery_runtime::{RealDisk, Tasks};
use cannery_serve::{Audience, Section, Shell};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::archive_watch::ArchiveWatch;
use super::lake_watch::LakeWatch;
use super::{Context, Patience, signals, up};
use crate::cli::archive::WorkArgs;
use crate::config::Config;
use crate::config::journal::PIPELINE_JOURNAL;
use crate::failure::{ExitCode, Failure};
use crate::journals::Journals;
use crate::lakes::{self, Tools};
use crate::output::counted;
use crate::pipeline::{Pace, Pipeline, PipelineMetrics, Recipe, Site, Waiting};

/// How long tasks may take beyond the stages.
const MARGIN: Duration = Duration::from_secs(5);

pub(crate) async fn run(args: &WorkArgs, context: &Context) -> Result<ExitCode, Failure> {
    let stop = CancellationToken::new();
    let _signals = signals::follow(stop.clone())?;
    let config = tokio::select! {
        config = context.config() => config?,
        () = stop.cancelled() => return Ok(ExitCode::Ok),
    };
    if config.pipeline.inputs.is_empty() {
        let message = "the pipeline is turned off: `pipeline.inputs` is an empty list";
        let next = "name inputs there, or leave it out for all";
        return Err(Failure::new(
            ExitCode::Usage,
            "config_invalid",
            message,
            next,
        ));
    }
    let recipe = Recipe::read(&config)?;
    let tasks = Tasks::new(context.clock.clone(), stop.clone());
    let worker = Work {
        args,
        config: &config,
        context,
        tools: context.tools(match args.once {
            true => Patience::Person,
            false => Patience::Daemon,
        }),
        metrics: PipelineMetrics::default(),
        journal_metrics: JournalMetrics::new(context.clock.clone()),
        tasks,
        stop,
    };
    let ran = worker.run(&recipe).await;
    let is_asked = worker.stop.is_cancelled();
    let stopped = worker.tasks.stop(MARGIN).await;
    let summary = ran?;
    worker.end(summary, is_asked, &stopped)
}

struct Work<'a> {
    args: &'a WorkArgs,
    config: &'a Config,
    context: &'a Context,
    tools: Tools,
    metrics: PipelineMetrics,
    journal_metrics: JournalMetrics,
    tasks: Tasks,
    stop: CancellationToken,
}

/// Nothing, when it was told to stop before it began.
type Worked = Option<Summary>;

impl Work<'_> {
    async fn run(&self, recipe: &Recipe) -> Result<Worked, Failure> {
        let (config, context) = (self.config, self.context);
        cannery_runtime::disk::create_dir_all(&RealDisk, &config.workspace).map_err(|source| {
            let path = config.workspace.clone();
            Failure::from(cannery_runtime::workspace::WorkspaceError::Io { path, source })
        })?;
        let mirrors = lakes::open(config, &self.tools)?;
        let lakes = LakeWatch::new(mirrors, &config.workspace, context.clock.clone());
        let lakes = Arc::new(lakes);
        tokio::select! {
            established = lakes.establish() => established?,
            () = self.stop.cancelled() => return Ok(None),
        }
        let journals = Journals::new(config, &context.clock, &context.rng)
            .serving(self.journal_metrics.clone());
        let opened = journals.open_to_stay(PIPELINE_JOURNAL, &self.tasks).await?;
        opened.serve(&self.tasks).await;
        let site = Site {
            config,
            mirrors: lakes.mirrors(),
            journal: opened.journal.clone(),
            metrics: &self.metrics,
        };
        let pace = match self.args.once {
            true => Pace::AtOnce,
            false => Pace::Steady,
        };
        let worked = match Pipeline::open(site, recipe, pace, context).await {
            Ok(pipeline) => {
                let worked = self.work(&pipeline, recipe, &lakes).await;
                pipeline.close().await;
                worked
            }
            Err(failure) => Err(failure),
        };
        opened.close().await;
        journals.close().await;
        worked.map(Some)
    }

    async fn work(
        &self,
        pipeline: &Pipeline,
        recipe: &Recipe,
        lakes: &Arc<LakeWatch>,
    ) -> Result<Summary, Failure> {
        if self.args.once {
            let say = |waiting: &Waiting| self.say_waiting("settling", waiting);
            let drained = pipeline.drain(&self.stop, say).await?;
            for waiting in &drained.waiting {
                self.say_waiting("waiting", waiting);
            }
            return Ok(drained.summary);
        }
        self.serve(pipeline, recipe, lakes).await?;
        let watch = Arc::clone(lakes);
        self.tasks.spawn("lake watch", watch.run(self.stop.clone()));
        self.greet();
        Ok(pipeline.run(&self.stop).await)
    }

    async fn serve(
        &self,
        pipeline: &Pipeline,
        recipe: &Recipe,
        lakes: &Arc<LakeWatch>,
    ) -> Result<(), Failure> {
        let port = self.args.monitoring_port.map(up::on_all_addresses);
        let addresses = [
            (self.args.listen, Audience::Main),
            (port, Audience::Monitoring),
        ];
        if addresses.iter().all(|(address, _)| address.is_none()) {
            return Ok(());
        }
        let mut registry = Registry::default();
        self.tools.metrics.register(&mut registry);
        self.journal_metrics.register(&mut registry);
        self.metrics.register(&mut registry);
        let identity = up::whoami(self.config, self.context);
        let journal = pipeline.journal().clone();
        let journal = move || Some(journal.clone());
        let archive = ArchiveWatch::new(self.config, recipe, lakes, journal, self.context);
        let mut shell = Shell::builder(identity, &self.context.clock, &self.tasks)
            .readiness(lakes.readiness())
            .metrics(Arc::new(registry))
            .section(Arc::clone(lakes) as Arc<dyn Section>);
        if let Some(archive) = archive {
            shell = shell.section(Arc::clone(&archive) as Arc<dyn Section>);
            self.tasks
                .spawn("archive watch", archive.run(self.stop.clone()));
        }
        let shell = shell.build();
        for (address, audience) in addresses {
            if let Some(address) = address {
                let bound = shell.listen(address, audience).await?;
                let value = json!({ "address": bound });
                let text = format!("dashboard at http://{bound}/");
                self.context.output.event("listening", text, &value);
            }
        }
        Ok(())
    }

    fn greet(&self) {
        let lake = &self.config.object_storage[0];
        let engine = &self.config.journals[PIPELINE_JOURNAL].engine;
        let text = format!(
            "working on lake {} at {}, journal {PIPELINE_JOURNAL} ({engine}), catalog {}; Ctrl-C stops it",
            lake.id,
            lake.place(),
            self.config.catalog
        );
        let value = json!({
            "lake": lake.id, "journal": PIPELINE_JOURNAL, "engine": engine.to_string(),
            "catalog": self.config.catalog.to_string(), "inputs": self.config.pipeline.inputs,
        });
        self.context.output.event("started", text, &value);
    }

    fn say_waiting(&self, event: &str, waiting: &Waiting) {
        self.context.output.event(event, waiting.text(), waiting);
    }

    fn end(&self, summary: Worked, is_asked: bool, stopped: &Stopped) -> Result<ExitCode, Failure> {
        let Some(summary) = summary else {
            return Ok(ExitCode::Ok);
        };
        let tally = self.metrics.tally();
        let done = tally.done.iter();
        let done: Vec<String> = done
            .map(|(stage, count)| format!("{count} {stage}"))
            .collect();
        let done = match done.is_empty() {
            true => "nothing left to do".to_owned(),
            false => format!("done: {}", done.join(", ")),
        };
        let value =
            json!({ "done": tally.done, "troubled": tally.troubled, "failed": tally.failed });
        self.context.output.event("ended", &done, &value);
        if let Some(error) = summary.error {
            return Err(Failure::from(error));
        }
        if self.args.once && is_asked {
            let message = format!("it was stopped before everything was done; {done}");
            let next = "run it again: it goes on where it was";
            return Err(Failure::new(
                ExitCode::Interrupted,
                "interrupted",
                message,
                next,
            ));
        }
        if self.args.once && tally.failed + tally.troubled > 0 {
            let message = format!(
                "not everything was done: {} failed, {} put off",
                counted(tally.failed, "execution"),
                tally.troubled
            );
            let next = format!(
                "see `cannery journal dead ls {PIPELINE_JOURNAL}{0}` and `cannery journal ls {PIPELINE_JOURNAL}{0}`",
                self.context.same_place
            );
            return Err(Failure::new(
                ExitCode::Partial,
                "not_all_done",
                message,
                next,
            ));
        }
        up::end(stopped, self.context)
    }
}
