//! `cannery up`: one process that runs whatever exists, until it is told to stop.

mod journal_watch;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use cannery_collect::spool::SpoolMetrics;
use cannery_journal::metrics::JournalMetrics;
use cannery_lake::LakeMetrics;
use cannery_runtime::tasks::Stopped;
use cannery_runtime::workspace::WorkspaceLock;
use cannery_runtime::{RealDisk, Tasks};
use cannery_serve::{Audience, NextStep, Notices, Section, Shell, TlsFiles};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::archive_watch::ArchiveWatch;
use super::feed_watch::FeedWatch;
use super::lake_watch::LakeWatch;
use super::line_watch::LineWatch;
use super::reload::Reloads;
use super::spool_watch::{SpoolWatch, Until};
use super::{Context, Patience, collect, reload, signals};
use crate::api_service::ApiService;
use crate::cli::UpArgs;
use crate::config::Config;
use crate::config::journal::PIPELINE_JOURNAL;
use crate::failure::{ExitCode, Failure};
use crate::feeds::FeedTools;
use crate::journals::Journals;
use crate::pipeline::{PipelineMetrics, Recipe};
use crate::{lakes, version};
use journal_watch::JournalWatch;

const COMMAND: &str = "cannery up";

/// What a spool may take beyond its own limit.
const FLUSH_MARGIN: Duration = Duration::from_secs(5);

/// How long the start waits for users' objects.
const OPEN_LIMIT: Duration = Duration::from_secs(15);

/// How long journals may take to close even when the tasks used up all the time.
const CLOSE_AT_LEAST: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: &UpArgs, context: &Context) -> Result<ExitCode, Failure> {
    let stop = CancellationToken::new();
    let _signals = signals::follow(stop.clone())?;
    let (loaded, copy) = tokio::select! {
        loaded = context.loader.load() => loaded?,
        () = stop.cancelled() => return Ok(ExitCode::Ok),
    };
    let config = with_arguments(loaded.clone(), args);
    let _lock = WorkspaceLock::acquire(&RealDisk, &config.workspace, COMMAND, &context.clock)?;
    if let Some(copy) = copy {
        reload::keep(&context.loader, copy).await;
    }
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    let plant = Plant::new(&config, context, stop)?;
    let journals =
        Journals::new(&config, &context.clock, &context.rng).serving(plant.journal_metrics.clone());
    let served = plant.serve(&journals, &loaded).await;
    if served.is_err() {
        plant.feeds.give_up();
    }
    let stopped = plant.stop().await;
    let outcome = plant.spools.outcome().and(plant.feeds.outcome());
    journals.close().await;
    match served? {
        Served::ToTheEnd => {
            outcome?;
            end(&stopped, context)
        }
        Served::NotAtAll => Ok(ExitCode::Ok),
    }
}

/// All parts of the process.
struct Plant<'a> {
    config: &'a Config,
    context: &'a Context,
    stop: CancellationToken,
    tasks: Tasks,
    lake_metrics: LakeMetrics,
    lakes: Arc<LakeWatch>,
    journal_metrics: JournalMetrics,
    journals: Arc<JournalWatch>,
    spool_metrics: SpoolMetrics,
    spools: Arc<SpoolWatch>,
    feeds: Arc<FeedWatch>,
    recipe: Recipe,
    archive: Option<Arc<ArchiveWatch>>,
    pipeline_metrics: PipelineMetrics,
    notices: Notices,
    api: ApiService<'a>,
    reloads: Reloads,
}

/// Whether it ran before it was told to stop.
enum Served {
    NotAtAll,
    ToTheEnd,
}

impl<'a> Plant<'a> {
    fn new(
        config: &'a Config,
        context: &'a Context,
        stop: CancellationToken,
    ) -> Result<Self, Failure> {
        let tools = context.tools(Patience::Daemon);
        let mirrors = lakes::open(config, &tools)?;
        let clock = context.clock.clone();
        let lakes = LakeWatch::new(mirrors, &config.workspace, clock.clone());
        let lakes = Arc::new(lakes);
        let journal_metrics = JournalMetrics::new(clock.clone());
        let journals =
            JournalWatch::new(config, journal_metrics.clone(), lakes.readiness(), context);
        let spool_metrics = SpoolMetrics::new(clock.clone());
        let spools = collect::watch(
            config,
            config.spools.clone(),
            &lakes,
            &spool_metrics,
            (context, COMMAND, false),
        )?;
        let feeds = FeedWatch::new(
            FeedTools::new(config, lakes.mirrors(), context, COMMAND),
            config.feeds.clone(),
            &lakes,
            config.flush_timeout.0,
        )?;
        let journals = Arc::new(journals);
        let recipe = Recipe::read(config)?;
        let entries = Arc::clone(&journals);
        let journal = move || entries.journal(PIPELINE_JOURNAL);
        let archive = ArchiveWatch::new(config, &recipe, &lakes, journal, context);
        let notices = Notices::new();
        Ok(Self {
            api: ApiService::new(config, context, &notices),
            config,
            context,
            tasks: Tasks::new(clock, stop.clone()),
            stop,
            lake_metrics: tools.metrics,
            lakes,
            journal_metrics,
            journals,
            spool_metrics,
            spools: Arc::new(spools),
            feeds: Arc::new(feeds),
            recipe,
            archive,
            pipeline_metrics: PipelineMetrics::default(),
            notices,
            reloads: Reloads::new(&context.clock),
        })
    }

    /// Runs until it is told to stop, perhaps before it has begun.
    async fn serve(&self, journals: &Journals<'_>, loaded: &Config) -> Result<Served, Failure> {
        // A person looks there while a store does not answer.
        let shell = self.shell();
        let serve = &self.config.serve;
        let dashboard = match &serve.tls {
            None => shell.listen(serve.listen, Audience::Main).await?,
            Some(tls) => {
                let files = TlsFiles {
                    certificate: tls.certificate.clone(),
                    key: tls.key.clone(),
                };
                shell
                    .listen_tls(serve.listen, Audience::Main, &files)
                    .await?
            }
        };
        let monitoring = match serve.monitoring_listen {
            Some(address) => Some(shell.listen(address, Audience::Monitoring).await?),
            None => None,
        };
        let admin = match serve.admin_listen {
            Some(address) => Some(shell.listen(address, Audience::Admin).await?),
            None => None,
        };
        let scheme = if serve.tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{dashboard}/");
        let starting = async {
            // They keep what they download on the disk until the lake is known: a store that is down does not hold them up.
            self.feeds.start(&self.tasks).await?;
            self.lakes.first().await?;
            self.journals.first(journals, &self.tasks).await?;
            if self.lakes.identity().is_some() {
                // What takes longer is tried again later, and holds up nobody else.
                let opening = self.api.try_open(self.lakes.mirrors(), &url);
                self.context.clock.timeout(OPEN_LIMIT, opening).await.ok();
            }
            self.spools
                .start(&self.lakes, &self.tasks, Until::Stopped)
                .await
        };
        tokio::select! {
            started = starting => started?,
            () = self.stop.cancelled() => return Ok(Served::NotAtAll),
        }
        let (lakes, entries) = (Arc::clone(&self.lakes), Arc::clone(&self.journals));
        self.tasks.spawn("lake watch", lakes.run(self.stop.clone()));
        self.tasks
            .spawn("journal watch", entries.run(self.stop.clone()));
        let spools = Arc::clone(&self.spools);
        self.tasks
            .spawn("spool watch", spools.run(self.stop.clone()));
        if let Some(archive) = &self.archive {
            let archive = Arc::clone(archive);
            self.tasks
                .spawn("archive watch", archive.run(self.stop.clone()));
        }
        let feeds = Arc::clone(&self.feeds);
        let apply = move |config: &Config| {
            feeds.reload(config.feeds.clone(), config.flush_timeout.0);
        };
        let told = (&self.notices, &self.reloads);
        reload::follow(&self.tasks, self.context, loaded, told, apply)?;
        self.greet(&url, monitoring, admin);
        self.api.invite(&url);
        let opening = async {
            tokio::select! {
                () = self.stop.cancelled() => {}
                () = self.journals.keep_opening(journals, &self.tasks) => {}
            }
        };
        let is_reached = || self.lakes.identity().is_some();
        let objects = self
            .api
            .run(self.lakes.mirrors(), is_reached, &url, &self.stop);
        tokio::join!(opening, objects, self.run_line());
        Ok(Served::ToTheEnd)
    }

    /// Runs the pipeline; after a stop it ends what it has begun, or gives it back.
    async fn run_line(&self) {
        let watch = LineWatch {
            config: self.config,
            recipe: self.recipe.clone(),
            metrics: self.pipeline_metrics.clone(),
            notices: self.notices.clone(),
            context: self.context,
        };
        let journal = || self.journals.journal(PIPELINE_JOURNAL);
        watch.run(&self.lakes, journal, &self.stop).await;
    }

    fn shell(&self) -> Shell {
        let mut registry = Registry::default();
        self.lake_metrics.register(&mut registry);
        self.journal_metrics.register(&mut registry);
        self.spool_metrics.register(&mut registry);
        self.feeds.register(&mut registry);
        self.pipeline_metrics.register(&mut registry);
        self.reloads.register(&mut registry);
        let identity = whoami(self.config, self.context);
        let mut shell = Shell::builder(identity, &self.context.clock, &self.tasks)
            .readiness(self.lakes.readiness())
            .metrics(Arc::new(registry))
            .section(Arc::clone(&self.lakes) as Arc<dyn Section>);
        if !self.spools.is_empty() {
            shell = shell.section(Arc::clone(&self.spools) as Arc<dyn Section>);
        }
        let stop = self.stop.clone();
        shell = shell.section(Arc::clone(&self.feeds) as Arc<dyn Section>);
        if let Some(archive) = &self.archive {
            shell = shell.section(Arc::clone(archive) as Arc<dyn Section>);
        }
        shell
            .api(self.api.slot())
            .notices(&self.notices)
            .on_shutdown(move || stop.cancel())
            .section(Arc::clone(&self.journals) as Arc<dyn Section>)
            .next_steps(next_steps(self.context))
            .build()
    }

    /// Ends the tasks, then the journals, which the tasks may have needed to the last.
    async fn stop(&self) -> Stopped {
        let begun = self.context.clock.elapsed();
        // Spools have limits of their own; that of feeds is the one of the configuration as it is now.
        let limits = [self.feeds.flush_timeout(), self.spools.flush_timeout()];
        let limit = limits.into_iter().max().unwrap_or_default() + FLUSH_MARGIN;
        let mut stopped = self.tasks.stop(limit).await;
        let left = limit.saturating_sub(self.context.clock.since(begun));
        let late = self.journals.close(left.max(CLOSE_AT_LEAST)).await;
        stopped.unfinished.extend(late);
        stopped
    }
}

/// What the command line says wins.
fn with_arguments(mut config: Config, args: &UpArgs) -> Config {
    if let Some(listen) = args.listen {
        config.serve.listen = listen;
    }
    if let Some(port) = args.monitoring_port {
        config.serve.monitoring_listen = Some(on_all_addresses(port));
    }
    config
}

/// A port of every address of this machine, of both families where the newer one exists.
pub(super) fn on_all_addresses(port: u16) -> SocketAddr {
    let all: IpAddr = match std::net::TcpListener::bind((std::net::Ipv6Addr::UNSPECIFIED, 0)) {
        Ok(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        Err(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
    };
    (all, port).into()
}

pub(super) fn end(stopped: &Stopped, context: &Context) -> Result<ExitCode, Failure> {
    let next = "raise `flush_timeout`; what is left is taken up at the next start";
    if !stopped.unfinished.is_empty() {
        let message = format!("gave up waiting for: {}", stopped.unfinished.join(", "));
        return Err(Failure::new(ExitCode::Partial, "unfinished", message, next));
    }
    if !stopped.panicked.is_empty() {
        let message = format!(
            "ended early by a mistake in the program: {}",
            stopped.panicked.join(", ")
        );
        return Err(Failure::new(
            ExitCode::Error,
            "bug",
            message,
            "report it with the log; nothing stored is affected",
        ));
    }
    context
        .output
        .line("stopped", &json!({ "event": "stopped" }));
    Ok(ExitCode::Ok)
}

pub(super) fn whoami(config: &Config, context: &Context) -> cannery_serve::Identity {
    cannery_serve::Identity {
        version: version::SHORT.to_owned(),
        commit: version::COMMIT.to_owned(),
        node: config.node.clone(),
        workspace: config.workspace.display().to_string(),
        started: context.clock.now(),
    }
}

fn next_steps(context: &Context) -> Vec<NextStep> {
    let step = |title: &str, text: &str, command: &str| NextStep {
        title: title.to_owned(),
        text: text.to_owned(),
        command: Some(format!("cannery {command}{}", context.same_place)),
    };
    vec![
        step(
            "Store a first object",
            "Objects are created once and never replaced.",
            "lake put hello.txt README.md",
        ),
        step(
            "See what is there",
            "Every object of the lake, in the order of its key.",
            "lake ls",
        ),
        step(
            "Give it work",
            "An entry waits in the journal until somebody claims it.",
            "journal add default --key hello",
        ),
        step(
            "Check this machine",
            "Configuration, lake, disk, limits and clock.",
            "doctor",
        ),
    ]
}

impl Plant<'_> {
    /// Says where everything is and what to do next.
    fn greet(&self, dashboard: &str, monitoring: Option<SocketAddr>, admin: Option<SocketAddr>) {
        let identity = self.lakes.identity();
        let lakes: Vec<_> = self
            .lakes
            .mirrors()
            .iter()
            .map(|lake| json!({ "id": lake.id(), "url": lake.url() }))
            .collect();
        let journals: Vec<_> = self
            .journals
            .places()
            .map(|(name, engine, open)| json!({ "name": name, "engine": engine, "open": open }))
            .collect();
        let value = json!({
            "event": "started",
            "dashboard": dashboard,
            "monitoring": monitoring,
            "admin": admin,
            "workspace": self.config.workspace,
            "lake": identity.map(|identity| &identity.lake),
            "created": identity.is_some_and(|identity| identity.created),
            "object_storage": lakes,
            "journals": journals,
            "feeds": self.feeds.configs().into_iter().map(|feed| feed.id).collect::<Vec<_>>(),
            "spools": self.spools.configs().map(|spool| spool.experiment.as_str()).collect::<Vec<_>>(),
        });
        let text = self.greeting(dashboard, monitoring, admin).join("\n");
        self.context.output.in_lines().line(text, &value);
    }

    fn greeting(
        &self,
        dashboard: &str,
        monitoring: Option<SocketAddr>,
        admin: Option<SocketAddr>,
    ) -> Vec<String> {
        let waiting = |reached: bool| {
            if reached {
                ""
            } else {
                " (not reached yet; trying on)"
            }
        };
        let mut lines = vec![
            format!(
                "{} is running in {}",
                version::NAME,
                self.config.workspace.display()
            ),
            String::new(),
            format!("  dashboard  {dashboard}"),
            format!("  metrics    {dashboard}metrics"),
        ];
        if let Some(address) = monitoring {
            lines.push(format!("  monitoring read-only on {address}"));
        }
        if let Some(address) = admin {
            lines.push(format!(
                "  admin      http://{address}/, where it can be stopped"
            ));
        }
        for (at, lake) in self.lakes.mirrors().iter().enumerate() {
            let state = waiting(self.lakes.is_usable(at));
            lines.push(format!(
                "  lake       {} at {}{state}",
                lake.id(),
                lake.url()
            ));
        }
        for (name, engine, open) in self.journals.places() {
            lines.push(format!("  journal    {name}, {engine}{}", waiting(open)));
        }
        for spool in self.spools.configs() {
            let names = spool.names();
            let (experiment, home) = (&spool.experiment, spool.home.display());
            lines.push(format!(
                "  spool      {experiment}: {} from {home}",
                names.join(", ")
            ));
        }
        for feed in self.feeds.configs() {
            let (id, every) = (&feed.id, feed.periodicity);
            lines.push(format!("  feed       {id}, every {every}"));
        }
        lines.push(String::new());
        lines.push("Next, in another terminal:".to_owned());
        for step in next_steps(self.context) {
            lines.push(format!(
                "  {:<40} {}",
                step.command.unwrap_or_default(),
                step.title.to_lowercase()
            ));
        }
        lines.push(String::new());
        lines.push("Ctrl-C stops it.".to_owned());
        lines
    }
}
