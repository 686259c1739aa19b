//! `cannery collect`, `clean` and `import`: spools and feeds, without the rest of `up`.

use std::sync::Arc;
use std::time::Duration;

use cannery_collect::spool::{Passed, SpoolMetrics};
use cannery_lake::LakeMetrics;
use cannery_runtime::tasks::Stopped;
use cannery_runtime::workspace::WorkspaceError;
use cannery_runtime::{RealDisk, Tasks};
use cannery_serve::{Audience, Notices, Section, Shell};
use indicatif::{HumanBytes, HumanCount, ProgressBar};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::feed_watch::{self, FeedWatch};
use super::lake_watch::LakeWatch;
use super::reload::Reloads;
use super::spool_watch::{SpoolWatch, Until};
use super::{Context, Patience, reload, signals, up};
use crate::cli::spool::{CollectArgs, ImportArgs};
use crate::config::Config;
use crate::config::spool::{RawSpool, SpoolConfig};
use crate::failure::{ExitCode, Failure};
use crate::feeds::FeedTools;
use crate::lakes;
use crate::output::counted;
use crate::spools::{self, SpoolTools};

/// How long tasks may take beyond the flush of the spools.
const MARGIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// So many of the things that are not ours, or damaged, are named.
const ODD_SHOWN_MAX: usize = 20;

pub(crate) async fn run(args: &CollectArgs, context: &Context) -> Result<ExitCode, Failure> {
    let until = if args.once {
        Until::Drained
    } else {
        Until::Stopped
    };
    let way = Way {
        command: "cannery collect",
        backlog: false,
        // Who names a spool means that one alone.
        feeds: args.spool.experiment.is_none(),
        may_be_nothing: false,
        until,
        listen: (args.listen, args.monitoring_port),
    };
    collect(&args.spool.to_raw(), &way, context).await
}

/// Everything that is on the disk goes to the lake.
pub(crate) async fn clean(context: &Context) -> Result<ExitCode, Failure> {
    let way = Way {
        command: "cannery clean",
        backlog: false,
        feeds: true,
        may_be_nothing: true,
        until: Until::Drained,
        listen: (None, None),
    };
    collect(&RawSpool::default(), &way, context).await
}

pub(crate) async fn import(args: &ImportArgs, context: &Context) -> Result<ExitCode, Failure> {
    let found = std::fs::metadata(&args.folder);
    if !found.is_ok_and(|found| found.is_dir()) {
        let message = format!(
            "cannot import `{}`: there is no such folder",
            args.folder.display()
        );
        let next = "name the folder that holds EXPERIMENT/DATATYPE/YYYY/MM/DD/FILE";
        return Err(Failure::new(ExitCode::Absent, "absent", message, next));
    }
    let said = RawSpool {
        home: Some(args.folder.clone()),
        ..args.spool.to_raw()
    };
    let way = Way {
        command: "cannery import",
        backlog: true,
        feeds: false,
        may_be_nothing: false,
        until: Until::Drained,
        listen: (None, None),
    };
    collect(&said, &way, context).await
}

/// How a command collects.
struct Way {
    command: &'static str,
    /// Whether the files come from elsewhere, and the lake may have them.
    backlog: bool,
    feeds: bool,
    /// Whether it is well when there is nothing to do.
    may_be_nothing: bool,
    until: Until,
    listen: (Option<std::net::SocketAddr>, Option<u16>),
}

impl Way {
    /// Whether a process that has spools only follows a configuration that may get feeds. One that has nothing to do at all
    /// says so instead of waiting.
    fn may_get_feeds(&self, config: &Config, said: &RawSpool) -> bool {
        let has_spools = said.experiment.is_some() || !config.spools.is_empty();
        self.feeds && self.follows_config() && has_spools
    }

    fn follows_config(&self) -> bool {
        self.until == Until::Stopped && !self.backlog
    }
}

async fn collect(said: &RawSpool, way: &Way, context: &Context) -> Result<ExitCode, Failure> {
    let stop = CancellationToken::new();
    let _signals = signals::follow(stop.clone())?;
    let (config, copy) = tokio::select! {
        loaded = context.loader.load() => loaded?,
        () = stop.cancelled() => return Ok(ExitCode::Ok),
    };
    for warning in config
        .warnings()
        .iter()
        .filter(|_| way.until == Until::Stopped)
    {
        tracing::warn!("{warning}");
    }
    let line = Line::new(&config, said, way, context, stop)?;
    if let Some(copy) = copy.filter(|_| way.until == Until::Stopped) {
        reload::keep(&context.loader, copy).await;
    }
    let ran = line.run(way).await;
    if let (Err(_), Some(feeds)) = (&ran, &line.feeds) {
        feeds.give_up();
    }
    let stopped = line.tasks.stop(line.flush_timeout() + MARGIN).await;
    ran?;
    line.end(&stopped, way)
}

/// The spools of a process that calls itself `command`.
pub(super) fn watch(
    config: &Config,
    spools: Vec<SpoolConfig>,
    lakes: &LakeWatch,
    metrics: &SpoolMetrics,
    (context, command, backlog): (&Context, &'static str, bool),
) -> Result<SpoolWatch, Failure> {
    let mut equipped = Vec::new();
    for spool in spools {
        let tools = SpoolTools {
            disk: context.disk(),
            clock: context.clock.clone(),
            rng: context.rng.clone(),
            mirrors: lakes::collecting(config, lakes.mirrors()),
            workspace: config.workspace.clone(),
            node: spools::node_of(config)?,
            command,
            backlog,
        };
        equipped.push((spool, tools));
    }
    Ok(SpoolWatch::new(equipped, lakes, metrics, context))
}

/// The feeds of a process: if it has any to collect or to ship, or `may_get_some` from a configuration that is read again.
fn feeds(
    config: &Config,
    lakes: &Arc<LakeWatch>,
    (context, command): (&Context, &'static str),
    may_get_some: bool,
) -> Result<Option<Arc<FeedWatch>>, Failure> {
    let tools = FeedTools::new(config, lakes.mirrors(), context, command);
    if !may_get_some && !has_feeds(config, &tools)? {
        return Ok(None);
    }
    let (feeds, limit) = (config.feeds.clone(), config.flush_timeout.0);
    let watch = FeedWatch::new(tools, feeds, lakes, limit)?;
    Ok(Some(Arc::new(watch)))
}

/// Whether there is anything to collect or to ship.
fn has_feeds(config: &Config, tools: &FeedTools) -> Result<bool, Failure> {
    let leftovers = tools.has_leftovers();
    let leftovers = leftovers.map_err(|error| feed_watch::unreadable(&error))?;
    Ok(!config.feeds.is_empty() || leftovers)
}

/// Everything that runs.
struct Line<'a> {
    config: &'a Config,
    context: &'a Context,
    stop: CancellationToken,
    tasks: Tasks,
    lakes: Arc<LakeWatch>,
    spools: Arc<SpoolWatch>,
    feeds: Option<Arc<FeedWatch>>,
    notices: Notices,
    reloads: Reloads,
    lake_metrics: LakeMetrics,
    spool_metrics: SpoolMetrics,
}

impl<'a> Line<'a> {
    fn new(
        config: &'a Config,
        said: &RawSpool,
        way: &Way,
        context: &'a Context,
        stop: CancellationToken,
    ) -> Result<Self, Failure> {
        let tools = context.tools(Patience::Daemon);
        let mirrors = lakes::open(config, &tools)?;
        let lake_metrics = tools.metrics;
        let lakes = LakeWatch::new(mirrors, &config.workspace, context.clock.clone());
        let lakes = Arc::new(lakes);
        let spool_metrics = SpoolMetrics::new(context.clock.clone());
        let feeds = match way.feeds {
            true => {
                let may_get_some = way.may_get_feeds(config, said);
                feeds(config, &lakes, (context, way.command), may_get_some)?
            }
            false => None,
        };
        let spools = match (
            &feeds,
            said.experiment.is_none() && config.spools.is_empty(),
        ) {
            (Some(_), true) => Vec::new(),
            (None, true) if way.may_be_nothing => Vec::new(),
            (Some(_) | None, _) => spools::chosen(config, said)?,
        };
        let spools = watch(
            config,
            spools,
            &lakes,
            &spool_metrics,
            (context, way.command, way.backlog),
        )?;
        Ok(Self {
            config,
            context,
            tasks: Tasks::new(context.clock.clone(), stop.clone()),
            stop,
            lakes,
            spools: Arc::new(spools),
            feeds,
            notices: Notices::new(),
            reloads: Reloads::new(&context.clock),
            lake_metrics,
            spool_metrics,
        })
    }

    async fn run(&self, way: &Way) -> Result<(), Failure> {
        self.make_workspace()?;
        // They keep what they download on the disk until the lake is known: a store that is down does not hold them up.
        if let Some(feeds) = self.feeds.as_ref().filter(|_| way.until == Until::Stopped) {
            feeds.start(&self.tasks).await?;
        }
        // A person looks there while a store does not answer.
        self.serve(way).await?;
        tokio::select! {
            first = self.lakes.first() => first?,
            () = self.stop.cancelled() => return Ok(()),
        }
        tokio::select! {
            started = self.spools.start(&self.lakes, &self.tasks, way.until) => started?,
            () = self.stop.cancelled() => return Ok(()),
        }
        let (lakes, spools) = (Arc::clone(&self.lakes), Arc::clone(&self.spools));
        self.tasks.spawn("lake watch", lakes.run(self.stop.clone()));
        self.tasks
            .spawn("spool watch", spools.run(self.stop.clone()));
        if way.follows_config() {
            self.follow_config()?;
        }
        self.greet(way);
        let shown = self.context.output.counter();
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = self.ended_by_itself(way, &shown) => {}
        }
        shown.finish_and_clear();
        match &self.feeds {
            Some(feeds) if way.until == Until::Drained => feeds.flush().await,
            Some(_) | None => Ok(()),
        }
    }

    /// Feeds change with the configuration; spools at the next start.
    fn follow_config(&self) -> Result<(), Failure> {
        let feeds = self.feeds.clone();
        let apply = move |config: &Config| {
            if let Some(feeds) = &feeds {
                feeds.reload(config.feeds.clone(), config.flush_timeout.0);
            }
        };
        let told = (&self.notices, &self.reloads);
        reload::follow(&self.tasks, self.context, self.config, told, apply)
    }

    /// Feeds never end by themselves, once there are any.
    fn may_end_by_itself(&self, way: &Way) -> bool {
        let feeds = self.feeds.as_ref();
        way.until == Until::Drained || feeds.is_none_or(|feeds| feeds.is_idle())
    }

    fn flush_timeout(&self) -> Duration {
        let feeds = self.feeds.as_ref().map(|feeds| feeds.flush_timeout());
        self.spools.flush_timeout().max(feeds.unwrap_or_default())
    }

    fn make_workspace(&self) -> Result<(), Failure> {
        let path = &self.config.workspace;
        cannery_runtime::disk::create_dir_all(&RealDisk, path).map_err(|source| {
            let path = path.clone();
            Failure::from(WorkspaceError::Io { path, source })
        })
    }

    /// The dashboard, where somebody asked for it.
    async fn serve(&self, way: &Way) -> Result<(), Failure> {
        let (listen, port) = way.listen;
        let addresses = [
            (listen, Audience::Main),
            (
                port.map(up::on_all_addresses).or(self
                    .config
                    .serve
                    .monitoring_listen
                    .filter(|_| way.until == Until::Stopped)),
                Audience::Monitoring,
            ),
            (
                self.config
                    .serve
                    .admin_listen
                    .filter(|_| way.until == Until::Stopped),
                Audience::Admin,
            ),
        ];
        if addresses.iter().all(|(address, _)| address.is_none()) {
            return Ok(());
        }
        let mut registry = Registry::default();
        self.lake_metrics.register(&mut registry);
        self.spool_metrics.register(&mut registry);
        if let Some(feeds) = &self.feeds {
            feeds.register(&mut registry);
        }
        self.reloads.register(&mut registry);
        let identity = up::whoami(self.config, self.context);
        let mut shell = Shell::builder(identity, &self.context.clock, &self.tasks)
            .readiness(self.lakes.readiness())
            .metrics(Arc::new(registry))
            .notices(&self.notices)
            .section(Arc::clone(&self.lakes) as Arc<dyn Section>);
        if !self.spools.is_empty() {
            shell = shell.section(Arc::clone(&self.spools) as Arc<dyn Section>);
        }
        if let Some(feeds) = &self.feeds {
            shell = shell.section(Arc::clone(feeds) as Arc<dyn Section>);
        }
        let stop = self.stop.clone();
        let shell = shell.on_shutdown(move || stop.cancel()).build();
        for (address, audience) in addresses {
            if let Some(address) = address {
                let bound = shell.listen(address, audience).await?;
                let text = format!("dashboard at http://{bound}/");
                self.context
                    .output
                    .line(text, &json!({ "event": "listening", "address": bound }));
            }
        }
        Ok(())
    }

    /// Waits until there is nothing to wait for: for ever once feeds have come with a configuration that was read again.
    async fn ended_by_itself(&self, way: &Way, shown: &ProgressBar) {
        while self.may_end_by_itself(way) {
            if self.spools.all_ended() {
                return;
            }
            self.show_passed(shown);
            self.context.clock.sleep(LOOK_EVERY).await;
        }
        std::future::pending::<()>().await;
    }

    fn show_passed(&self, shown: &ProgressBar) {
        let passed = self.spools.progress().filter_map(|(_, progress)| progress);
        let passed: Vec<Passed> = passed.map(|progress| progress.passed()).collect();
        let total = |of: fn(&Passed) -> u64| HumanCount(passed.iter().map(of).sum());
        shown.set_message(format!(
            "{} files taken, {} in the lake and removed, {} bad",
            total(|passed| passed.taken),
            total(|passed| passed.removed),
            total(|passed| passed.bad),
        ));
        shown.tick();
    }

    fn greet(&self, way: &Way) {
        let polled = self.feeds.iter().filter(|_| way.until == Until::Stopped);
        for feed in polled.flat_map(|feeds| feeds.configs()) {
            let text = format!("collecting feed {} every {}", feed.id, feed.periodicity);
            let value =
                json!({ "event": "collecting", "feed": feed.id, "periodicity": feed.periodicity });
            self.context.output.line(text, &value);
        }
        for spool in self.spools.configs() {
            let names = spool.names();
            let text = format!(
                "collecting {} of {} from {}",
                names.join(", "),
                spool.experiment,
                spool.home.display()
            );
            let value = json!({
                "event": "collecting",
                "experiment": spool.experiment.as_str(),
                "datatypes": names,
                "home": spool.home,
            });
            self.context.output.line(text, &value);
        }
    }

    fn end(&self, stopped: &Stopped, way: &Way) -> Result<ExitCode, Failure> {
        for (spool, progress) in self.spools.progress() {
            if let Some(progress) = progress {
                self.report(spool, progress.passed());
            }
        }
        self.spools.outcome()?;
        if let Some(feeds) = &self.feeds {
            self.report_feeds(feeds, way);
            feeds.outcome()?;
            let damaged = feeds.damaged().len() as u64;
            if way.until == Until::Drained && damaged > 0 {
                let message = format!(
                    "damaged on this disk and not shipped: {} in `damaged/` of the workspace",
                    counted(damaged, "file")
                );
                let next =
                    "look at the disk; move them elsewhere once you have what can be had of them";
                return Err(Failure::new(ExitCode::Partial, "damaged", message, next));
            }
        }
        let left = self.spools.waiting().into_iter().map(|(spool, files)| {
            format!("{} of spool `{}`", counted(files, "file"), spool.experiment)
        });
        let left: Vec<String> = left.collect();
        if !left.is_empty() {
            let message = format!("left where they are: {}", left.join(", "));
            let next = "somebody writes to them, they changed meanwhile, or they are wrong and younger than `min_file_age`; run it again later";
            return Err(Failure::new(ExitCode::Partial, "left", message, next));
        }
        up::end(stopped, self.context)
    }

    fn report_feeds(&self, feeds: &FeedWatch, way: &Way) {
        for path in feeds.odd().iter().take(ODD_SHOWN_MAX) {
            let path = path.display().to_string();
            let text = format!("warning: not a body of a feed, left where it is: {path}");
            let value = json!({ "event": "odd", "path": path });
            self.context.output.aside(text, &value);
        }
        for path in feeds.damaged().iter().take(ODD_SHOWN_MAX) {
            let path = path.display().to_string();
            let text = format!("warning: damaged on this disk, not shipped and set aside: {path}");
            let value = json!({ "event": "damaged", "path": path });
            self.context.output.aside(text, &value);
        }
        if way.until == Until::Drained {
            let feed_watch::Flushed { packed, uploaded } = feeds.flushed();
            let text = format!(
                "feeds: {} packed, {}",
                counted(packed, "hour"),
                counted(uploaded, "upload")
            );
            let value = json!({ "hours_packed": packed, "uploads": uploaded });
            self.context.output.event("flushed", text, &value);
        }
    }

    fn report(&self, spool: &SpoolConfig, passed: Passed) {
        let text = format!(
            "{}: {} collected in {}, {} shipped; {}",
            spool.experiment,
            counted(passed.removed, "file"),
            counted(passed.shipped, "bundle"),
            HumanBytes(passed.shipped_bytes),
            counted(passed.bad, "bad file"),
        );
        let value = json!({
            "event": "collected",
            "experiment": spool.experiment.as_str(),
            "files_removed": passed.removed,
            "bundles_shipped": passed.shipped,
            "bytes_shipped": passed.shipped_bytes,
            "files_bad": passed.bad,
        });
        self.context.output.line(text, &value);
    }
}
