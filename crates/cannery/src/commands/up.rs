//! `cannery up`: one process that runs whatever exists, until it is told to stop.

mod lake_section;
mod reload;

use std::sync::Arc;

use cannery_lake::{Identity, Mirrors, probe};
use cannery_runtime::tasks::Stopped;
use cannery_runtime::workspace::WorkspaceLock;
use cannery_runtime::{RealDisk, Tasks, shutdown};
use cannery_serve::{Audience, Check, NextStep, Readiness, Shell};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Context, Patience};
use crate::cli::UpArgs;
use crate::config::Config;
use crate::failure::{ExitCode, Failure};
use crate::{lakes, version};
use lake_section::LakeSection;

pub(crate) async fn run(args: &UpArgs, context: &Context) -> Result<ExitCode, Failure> {
    let stop = CancellationToken::new();
    shutdown::cancel_on_signal(stop.clone()).map_err(|error| no_signals(&error))?;
    let config = with_arguments(context.config().await?, args);
    let _lock = WorkspaceLock::acquire(&RealDisk, &config.workspace, "cannery up", &context.clock)?;
    let tools = context.tools(Patience::Daemon);
    let mirrors = lakes::open(&config, &tools)?;
    let readiness = Readiness::new();
    let identity = tokio::select! {
        identity = ready_lake(&mirrors, &config, &readiness) => identity?,
        () = stop.cancelled() => return Ok(ExitCode::Ok),
    };
    let tasks = Tasks::new(context.clock.clone(), stop.clone());
    let mut registry = Registry::default();
    tools.metrics.register(&mut registry);
    let section = Arc::new(LakeSection::new(mirrors.clone(), identity.lake.clone()));
    let shell = Shell::builder(whoami(&config, context), &context.clock, &tasks)
        .readiness(&readiness)
        .metrics(Arc::new(registry))
        .section(Arc::clone(&section) as Arc<dyn cannery_serve::Section>)
        .next_steps(next_steps())
        .build();
    let dashboard = shell.listen(config.serve.listen, Audience::Main).await?;
    if let Some(address) = config.serve.monitoring_listen {
        shell.listen(address, Audience::Monitoring).await?;
    }
    let watch = lake_section::watch(
        section,
        mirrors.clone(),
        readiness,
        context.clock.clone(),
        stop.clone(),
    );
    tasks.spawn("lake watch", watch);
    let flush_timeout =
        reload::follow(&tasks, context, &config).map_err(|error| no_signals(&error))?;
    greet(
        &config,
        &mirrors,
        &identity,
        &format!("http://{dashboard}/"),
        context,
    );
    stop.cancelled().await;
    let limit = flush_timeout.borrow().0;
    end(&tasks.stop(limit).await, context)
}

/// What the command line says wins.
fn with_arguments(mut config: Config, args: &UpArgs) -> Config {
    if let Some(listen) = args.listen {
        config.serve.listen = listen;
    }
    if let Some(port) = args.monitoring_port {
        config.serve.monitoring_listen = Some((std::net::Ipv6Addr::UNSPECIFIED, port).into());
    }
    config
}

fn end(stopped: &Stopped, context: &Context) -> Result<ExitCode, Failure> {
    if stopped.unfinished.is_empty() {
        context
            .output
            .line("stopped", &json!({ "event": "stopped" }));
        return Ok(ExitCode::Ok);
    }
    let message = format!("gave up waiting for: {}", stopped.unfinished.join(", "));
    let next = "raise `flush_timeout`; what is left is taken up at the next start";
    Err(Failure::new(ExitCode::Partial, "unfinished", message, next))
}

fn no_signals(error: &std::io::Error) -> Failure {
    Failure::new(
        ExitCode::Error,
        "signals",
        format!("cannot listen for signals: {error}"),
        "check the limits of this process",
    )
}

/// Opens the lake for good: ours, the same in every mirror, noted in the workspace, and probed.
async fn ready_lake(
    mirrors: &Mirrors,
    config: &Config,
    readiness: &Readiness,
) -> Result<Identity, Failure> {
    let identity = lakes::establish(mirrors, &config.workspace).await?;
    lakes::note(&config.workspace, &identity).map_err(|source| {
        cannery_runtime::workspace::WorkspaceError::Io {
            path: config.workspace.clone(),
            source,
        }
    })?;
    for lake in mirrors.iter() {
        let report = probe::probe(lake).await?;
        for weakness in report.weaknesses() {
            tracing::warn!(
                lake = lake.id(),
                weakness,
                "the store is weaker than it should be; see `cannery doctor`"
            );
        }
        readiness.set(lake_section::check_name(lake), Check::Ready);
    }
    Ok(identity)
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

fn next_steps() -> Vec<NextStep> {
    let step = |title: &str, text: &str, command: &str| NextStep {
        title: title.to_owned(),
        text: text.to_owned(),
        command: Some(command.to_owned()),
    };
    vec![
        step(
            "Store a first object",
            "Objects are created once and never replaced.",
            "cannery lake put hello.txt README.md",
        ),
        step(
            "See what is there",
            "Every object of the lake, in the order of its key.",
            "cannery lake ls",
        ),
        step(
            "Check this machine",
            "Configuration, lake, disk, limits and clock.",
            "cannery doctor",
        ),
    ]
}

/// Says where everything is and what to do next.
fn greet(
    config: &Config,
    mirrors: &Mirrors,
    identity: &Identity,
    dashboard: &str,
    context: &Context,
) {
    let lakes: Vec<_> = mirrors
        .iter()
        .map(|lake| json!({ "id": lake.id(), "url": lake.url() }))
        .collect();
    let value = json!({
        "event": "started",
        "dashboard": dashboard,
        "workspace": config.workspace,
        "lake": identity.lake,
        "created": identity.created,
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
    for lake in mirrors.iter() {
        lines.push(format!("  lake       {} at {}", lake.id(), lake.url()));
    }
    lines.push(String::new());
    lines.push("Next, in another terminal:".to_owned());
    for step in next_steps() {
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
