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

async fn collect(said: &RawSpool, way: &Way, context: &Context) -> Result<ExitCode, Failure> {
    let stop = CancellationToken::new();
    let _signals = signals::follow(stop.clone())?;
    let (config, copy) = tokio::select! {
        loaded = context.loader.load() => loaded?,
        () = stop.cancelled() => return Ok(ExitCode::Ok),
    };
    let line = Line::new(&config, said, way, context, stop)?;
    if let Some(copy) = copy.filter(|_| way.until == Until::Stopped) {
        reload::keep(&context.loader, copy).await;
    }
    let ran = line.run(way).await;
    let stopped = line.tasks.stop(line.flush_timeout() + MARGIN).await;
    ran?;
    line.end(&stopped)
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
            mirrors: lakes.mirrors().clone(),
            workspace: config.workspace.clone(),
            node: spools::node_of(config)?,
            command,
            backlog,
        };
        equipped.push((spool, tools));
    }
    Ok(SpoolWatch::new(equipped, lakes, metrics, context))
}

/// The feeds of a process, if it has any to collect or to ship.
fn feeds(
    config: &Config,
    lakes: &Arc<LakeWatch>,
    context: &Context,
    command: &'static str,
) -> Result<Option<Arc<FeedWatch>>, Failure> {
    let tools = FeedTools::new(config, lakes.mirrors(), context, command);
    let leftovers = tools
        .has_leftovers()
        .map_err(|error| feed_watch::unreadable(&error))?;
    if config.feeds.is_empty() && !leftovers {
        return Ok(None);
    }
    let (feeds, limit) = (config.feeds.clone(), config.flush_timeout.0);
    let watch = FeedWatch::new(tools, feeds, lakes, limit)?;
    Ok(Some(Arc::new(watch)))
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
            true => feeds(config, &lakes, context, way.command)?,
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
        tokio::select! {
            first = self.lakes.first() => first?,
            () = self.stop.cancelled() => return Ok(()),
        }
        tokio::select! {
            started = self.spools.start(&self.lakes, &self.tasks, way.until) => started?,
            () = self.stop.cancelled() => return Ok(()),
        }
        if let Some(feeds) = self.feeds.as_ref().filter(|_| way.until == Until::Stopped) {
            feeds.start(&self.tasks).await?;
        }
        self.serve(way).await?;
        let (lakes, spools) = (Arc::clone(&self.lakes), Arc::clone(&self.spools));
        self.tasks.spawn("lake watch", lakes.run(self.stop.clone()));
        self.tasks
            .spawn("spool watch", spools.run(self.stop.clone()));
        if way.until == Until::Stopped && !way.backlog {
            self.follow_config()?;
        }
        self.greet(way);
        let shown = self.context.output.counter();
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = self.all_ended(&shown), if self.may_end_by_itself(way) => {}
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

    /// Feeds never end by themselves.
    fn may_end_by_itself(&self, way: &Way) -> bool {
        self.feeds.is_none() || way.until == Until::Drained
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
            (port.map(up::on_all_addresses), Audience::Monitoring),
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

    async fn all_ended(&self, shown: &ProgressBar) {
        while !self.spools.all_ended() {
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
            self.context.clock.sleep(LOOK_EVERY).await;
        }
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

    fn end(&self, stopped: &Stopped) -> Result<ExitCode, Failure> {
        for (spool, progress) in self.spools.progress() {
            if let Some(progress) = progress {
                self.report(spool, progress.passed());
            }
        }
        self.spools.outcome()?;
        if let Some(feeds) = &self.feeds {
            feeds.outcome()?;
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
