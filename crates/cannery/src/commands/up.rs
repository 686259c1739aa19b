//! `cannery up`: one process that runs whatever exists, until it is told to stop.

mod lake_watch;
mod reload;

use std::sync::Arc;

use cannery_runtime::shutdown::StopRequests;
use cannery_runtime::tasks::Stopped;
use cannery_runtime::workspace::WorkspaceLock;
use cannery_runtime::{RealDisk, Tasks};
use cannery_serve::{Audience, NextStep, Shell};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::{Context, Patience};
use crate::cli::UpArgs;
use crate::config::Config;
use crate::failure::{ExitCode, Failure};
use crate::{lakes, version};
use lake_watch::LakeWatch;

pub(crate) async fn run(args: &UpArgs, context: &Context) -> Result<ExitCode, Failure> {
    let stop = CancellationToken::new();
    let _signals = follow_signals(stop.clone()).map_err(|error| no_signals(&error))?;
    let (loaded, copy) = tokio::select! {
        loaded = context.loader.load() => loaded?,
        () = stop.cancelled() => return Ok(ExitCode::Ok),
    };
    let config = with_arguments(loaded.clone(), args);
    let _lock = WorkspaceLock::acquire(&RealDisk, &config.workspace, "cannery up", &context.clock)?;
    if let Some(copy) = copy {
        reload::keep(&context.loader, copy).await;
    }
    let tools = context.tools(Patience::Daemon);
    let mirrors = lakes::open(&config, &tools)?;
    let watch = Arc::new(LakeWatch::new(
        mirrors.clone(),
        &config.workspace,
        context.clock.clone(),
    ));
    tokio::select! {
        established = watch.first() => established?,
        () = stop.cancelled() => return Ok(ExitCode::Ok),
    }
    let tasks = Tasks::new(context.clock.clone(), stop.clone());
    let mut registry = Registry::default();
    tools.metrics.register(&mut registry);
    let shell = Shell::builder(whoami(&config, context), &context.clock, &tasks)
        .readiness(watch.readiness())
        .metrics(Arc::new(registry))
        .section(Arc::clone(&watch) as Arc<dyn cannery_serve::Section>)
        .next_steps(next_steps(context))
        .build();
    let dashboard = shell.listen(config.serve.listen, Audience::Main).await?;
    let monitoring = match config.serve.monitoring_listen {
        Some(address) => Some(shell.listen(address, Audience::Monitoring).await?),
        None => None,
    };
    tasks.spawn("lake watch", Arc::clone(&watch).run(stop.clone()));
    let flush_timeout =
        reload::follow(&tasks, context, &loaded).map_err(|error| no_signals(&error))?;
    greet(
        &config,
        &watch,
        &format!("http://{dashboard}/"),
        monitoring,
        context,
    );
    stop.cancelled().await;
    let limit = flush_timeout.borrow().0;
    end(&tasks.stop(limit).await, context)
}

/// The first request to stop is passed on; the second ends the process at once, for the person who does not want to wait.
fn follow_signals(stop: CancellationToken) -> std::io::Result<AbortOnDropHandle<()>> {
    let mut requests = StopRequests::listen()?;
    Ok(AbortOnDropHandle::new(tokio::spawn(async move {
        let signal = requests.next().await;
        tracing::info!(signal, "stopping; once more to stop at once");
        stop.cancel();
        requests.next().await;
        #[allow(clippy::exit, reason = "the person asked twice")]
        std::process::exit(130);
    })))
}

/// What the command line says wins.
fn with_arguments(mut config: Config, args: &UpArgs) -> Config {
    if let Some(listen) = args.listen {
        config.serve.listen = listen;
    }
    if let Some(port) = args.monitoring_port {
        config.serve.monitoring_listen = Some((all_addresses(), port).into());
    }
    config
}

/// Every address of this machine, of both families where the newer one exists.
fn all_addresses() -> std::net::IpAddr {
    match std::net::TcpListener::bind((std::net::Ipv6Addr::UNSPECIFIED, 0)) {
        Ok(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        Err(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
    }
}

fn end(stopped: &Stopped, context: &Context) -> Result<ExitCode, Failure> {
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

fn no_signals(error: &std::io::Error) -> Failure {
    Failure::new(
        ExitCode::Error,
        "signals",
        format!("cannot listen for signals: {error}"),
        "check the limits of this process",
    )
}

fn whoami(config: &Config, context: &Context) -> cannery_serve::Identity {
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
            "Check this machine",
            "Configuration, lake, disk, limits and clock.",
            "doctor",
        ),
    ]
}

/// Says where everything is and what to do next.
fn greet(
    config: &Config,
    watch: &LakeWatch,
    dashboard: &str,
    monitoring: Option<std::net::SocketAddr>,
    context: &Context,
) {
    let identity = watch.identity();
    let lakes: Vec<_> = watch
        .mirrors()
        .iter()
        .map(|lake| json!({ "id": lake.id(), "url": lake.url() }))
        .collect();
    let value = json!({
        "event": "started",
        "dashboard": dashboard,
        "monitoring": monitoring,
        "workspace": config.workspace,
        "lake": identity.map(|identity| &identity.lake),
        "created": identity.is_some_and(|identity| identity.created),
        "object_storage": lakes,
    });
    let mut lines = vec![
        format!(
            "{} is running in {}",
            version::NAME,
            config.workspace.display()
        ),
        String::new(),
        format!("  dashboard  {dashboard}"),
        format!("  metrics    {dashboard}metrics"),
    ];
    if let Some(address) = monitoring {
        lines.push(format!("  monitoring read-only on {address}"));
    }
    for lake in watch.mirrors().iter() {
        let state = if identity.is_some() {
            ""
        } else {
            " (not reached yet; trying on)"
        };
        lines.push(format!(
            "  lake       {} at {}{state}",
            lake.id(),
            lake.url()
        ));
    }
    lines.push(String::new());
    lines.push("Next, in another terminal:".to_owned());
    for step in next_steps(context) {
        lines.push(format!(
            "  {:<40} {}",
            step.command.unwrap_or_default(),
            step.title.to_lowercase()
        ));
    }
    lines.push(String::new());
    lines.push("Ctrl-C stops it.".to_owned());
    context.output.line(lines.join("\n"), &value);
}
