//! The binary: parse, check the configuration, build the parts, run, exit code. Only here is the environment read.

mod api_client;
mod api_service;
mod cli;
mod commands;
mod config;
mod failure;
mod feeds;
mod history;
mod journals;
mod lakes;
mod local_list;
mod logging;
mod output;
mod pipeline;
mod plant;
mod private_key;
mod spools;
mod version;

use std::sync::Arc;

use cannery_runtime::disk::Disk;
use cannery_runtime::{Clock, RealDisk};
use clap::Parser as _;

use cli::{Cli, Command};
use commands::Context;
use failure::{ExitCode, Failure};
use output::Output;

/// Gives memory back once it is not used: with the system's, a process that runs for months keeps several times its largest hour.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    logging::start(cli.global.verbose, cli.global.json);
    let output = Output::new(cli.global.json);
    let code = match start(&cli).and_then(|code| output.finish().map(|()| code)) {
        Ok(code) => code,
        Err(failure) => {
            output.failure(&failure);
            failure.code
        }
    };
    std::process::ExitCode::from(code as u8)
}

/// Help and version are not errors; a wrong use is one, and a script that asked for JSON gets it.
fn usage(error: &clap::Error) -> std::process::ExitCode {
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    if !error.use_stderr() || !wants_json {
        error.print().ok();
        return std::process::ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    }
    // The first paragraph says what is wrong, sometimes with names on lines of their own; the rest is help.
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.trim().is_empty());
    let message = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    let message = message.trim_start_matches("error: ");
    let failure = Failure::new(ExitCode::Usage, "usage", message, "see `cannery --help`");
    Output::new(true).failure(&failure);
    std::process::ExitCode::from(failure.code as u8)
}

fn start(cli: &Cli) -> Result<ExitCode, Failure> {
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let context = Context::new(&cli.global, clock()?, disk()?, variables.collect());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            let message = format!("cannot start threads: {error}");
            Failure::new(
                ExitCode::Error,
                "threads",
                message,
                "check the limits of this process with `ulimit -a`",
            )
        })?;
    let outcome = runtime.block_on(run(cli, &context));
    // A thread may hang in the kernel, on a dead mount for example; the process must still end.
    runtime.shutdown_timeout(std::time::Duration::from_secs(5));
    outcome
}

async fn run(cli: &Cli, context: &Context) -> Result<ExitCode, Failure> {
    match &cli.command {
        Command::Up(args) => commands::up::run(args, context).await,
        Command::Collect(args) => commands::collect::run(args, context).await,
        Command::Import(args) => commands::collect::import(args, context).await,
        Command::Clean => commands::collect::clean(context).await,
        Command::Feed(command) => commands::feed::run(command, context).await,
        Command::Consolidate(args) => commands::hours::consolidate(args, context).await,
        Command::Audit(args) => commands::hours::audit(args, context).await,

        Command::Retrieve(args) => commands::retrieve::run(args, context).await,
        Command::Delete(args) => commands::hours::delete(args, context).await,
        Command::Gaps(args) => commands::gaps::run(args, context).await,
        Command::Can(args) => commands::archive::can(args, context).await,
        Command::Autoclave(args) => commands::archive::autoclave(args, context).await,
        Command::Centrifuge(args) => commands::archive::centrifuge(args, context).await,
        Command::History(args) => commands::history::run(args, context).await,
        Command::Work(args) => commands::work::run(args, context).await,
        Command::Backfill(args) => commands::backfill::run(args, context).await,
        Command::Schema(args) => commands::schema::run(args, context).await,
        Command::Spool(command) => commands::spool::run(command, context).await,
        Command::Redact(args) => commands::redact::run(args, context).await,
        Command::Trace { uid } => commands::trace::run(uid, context).await,
        Command::Check(args) => commands::check::run(args, context).await,
        Command::Rebuild(args) => commands::rebuild::run(args, context).await,
        Command::Export(command) => commands::export::run(command, context).await,
        Command::Ls { archives, .. } if archives.is_asked() => {
            commands::archive_list::run(archives, context).await
        }
        Command::Ls {
            place,
            objects,
            storage,
            ..
        } => commands::records::list(place.as_deref(), objects, storage, context).await,
        Command::Get {
            record,
            row,
            objects,
            storage,
        } => match record.parse() {
            Ok(uid) => commands::archive::get(&uid, context).await,
            Err(_) => commands::records::get(record, *row, objects, storage, context).await,
        },
        Command::Config(command) => commands::config::run(command, context).await,
        Command::Lake(command) => commands::lake::run(command, context).await,
        Command::Journal(command) => commands::journal::run(command, context).await,
        Command::User(command) => commands::user::run(command, context).await,
        Command::Token(command) => commands::token::run(command, context).await,
        Command::Stor(args) => commands::stor::run(args, context).await,
        Command::Doctor(args) => commands::doctor::run(args, context).await,
        Command::Completions { shell } => Ok(commands::manual::completions(*shell, context)),
        Command::Man { dir } => commands::manual::man(dir.as_deref(), context),
    }
}

#[cfg(not(feature = "sim"))]
#[allow(clippy::unnecessary_wraps, reason = "the one that dies may fail")]
fn disk() -> Result<Arc<dyn Disk>, Failure> {
    Ok(Arc::new(RealDisk))
}

/// With the feature `sim`, the process kills itself before the operation on the disk whose number `CANNERY_SIM_KILL_AT` says, or the file
/// that `CANNERY_SIM_KILL_FILE` names.
#[cfg(feature = "sim")]
fn disk() -> Result<Arc<dyn Disk>, Failure> {
    use cannery_runtime::disk::MortalDisk;
    if let Some(file) = std::env::var_os("CANNERY_SIM_KILL_FILE") {
        let disk = MortalDisk::told_by(std::path::Path::new(&file));
        return Ok(Arc::new(disk));
    }
    let Some(number) = std::env::var_os("CANNERY_SIM_KILL_AT") else {
        return Ok(Arc::new(RealDisk));
    };
    let number = number.to_str().and_then(|number| number.parse().ok());
    let Some(number) = number else {
        let message = "`CANNERY_SIM_KILL_AT` is not a number";
        return Err(Failure::new(
            ExitCode::Usage,
            "disk",
            message,
            "write for example 17",
        ));
    };
    Ok(Arc::new(MortalDisk::new(number)))
}

#[cfg(not(feature = "sim"))]
#[allow(clippy::unnecessary_wraps, reason = "the simulated clock may fail")]
fn clock() -> Result<Clock, Failure> {
    Ok(Clock::real())
}

/// With the feature `sim`, the time may be read from the file that `CANNERY_SIM_CLOCK` names.
#[cfg(feature = "sim")]
fn clock() -> Result<Clock, Failure> {
    let Some(file) = std::env::var_os("CANNERY_SIM_CLOCK") else {
        return Ok(Clock::real());
    };
    cannery_runtime::clock::ScriptedClock::open(std::path::Path::new(&file)).map_err(|error| {
        let message = format!(
            "cannot read the simulated clock `{}`: {error}",
            file.display()
        );
        Failure::new(
            ExitCode::Usage,
            "clock",
            message,
            "write a timestamp such as 2026-11-15T18:24:03Z into it",
        )
    })
}
