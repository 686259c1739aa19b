//! `cannery journal`

mod add;
mod declare;
mod lease;
mod list;
mod stats;
mod view;
mod watch;
mod work;

use cannery_journal::{Journal, Key, Status};
use serde_json::json;

use super::{Context, signals};
use crate::cli::journal::{DeadCommand, JournalArg, JournalCommand, KeyArgs, WorkerArg};
use crate::config::Config;
use crate::failure::{ExitCode, Failure};
use crate::journals::{Journals, Opened};

pub(crate) async fn run(command: &JournalCommand, context: &Context) -> Result<ExitCode, Failure> {
    let config = context.config().await?;
    let journals = Journals::new(&config, &context.clock, &context.rng);
    let code = dispatch(command, &journals, &config, context).await;
    journals.close().await;
    code
}

async fn dispatch(
    command: &JournalCommand,
    journals: &Journals<'_>,
    config: &Config,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let with = Desk { journals, context };
    match command {
        JournalCommand::Names => declare::names(journals, context).await,
        JournalCommand::Declare(args) => declare::declare(args, journals, context).await,
        JournalCommand::Add(args) => add::add(args, journals, context).await,
        JournalCommand::Watch { journal, count } => {
            watch::watch(journals, &journal.name, *count, context).await
        }
        JournalCommand::Work(args) => work::work(args, journals, config, context).await,
        JournalCommand::Claim {
            journal,
            count,
            worker,
        } => {
            let worker = worker_name(worker, config);
            with.open(journal, async |open| {
                lease::claim(open, *count, &worker, context).await
            })
            .await
        }
        JournalCommand::Heartbeat { lease } => {
            with.open(&lease.journal, async |open| {
                lease::heartbeat(open, lease, context).await
            })
            .await
        }
        JournalCommand::Done { lease } => {
            with.open(&lease.journal, async |open| {
                lease::done(open, lease, context).await
            })
            .await
        }
        JournalCommand::Release { lease, at, delay } => {
            let when = (*at, *delay);
            with.open(&lease.journal, async |open| {
                lease::release(open, lease, when, context).await
            })
            .await
        }
        JournalCommand::Fail(args) => {
            with.open(&args.lease.journal, async |open| {
                lease::fail(open, args, context).await
            })
            .await
        }
        JournalCommand::Ls {
            journal,
            status,
            filter,
        } => {
            with.open(journal, async |open| {
                list::list(open, status, filter, context).await
            })
            .await
        }
        JournalCommand::Dead(DeadCommand::Ls { journal, filter }) => {
            with.open(journal, async |open| {
                list::list(open, &[Status::Dead], filter, context).await
            })
            .await
        }
        JournalCommand::Stats { journal } => {
            with.open(journal, async |open| stats::stats(open, context).await)
                .await
        }
        JournalCommand::Get { key } => with.key(key, list::get).await,
        JournalCommand::Cancel { key } => with.key(key, cancel).await,
        JournalCommand::Requeue { key } => with.key(key, requeue).await,
        JournalCommand::Dead(DeadCommand::Rm { key }) => with.key(key, forget).await,
    }
}

/// Opens a journal for one brief command, and closes it after it.
struct Desk<'a> {
    journals: &'a Journals<'a>,
    context: &'a Context,
}

impl Desk<'_> {
    async fn open(
        &self,
        journal: &JournalArg,
        command: impl AsyncFnOnce(&Opened) -> Result<ExitCode, Failure>,
    ) -> Result<ExitCode, Failure> {
        let opened = self.journals.open(&journal.name).await?;
        let code = command(&opened).await;
        opened.close().await;
        code
    }

    async fn key(
        &self,
        args: &KeyArgs,
        command: impl AsyncFnOnce(&Journal, Key, &Context) -> Result<ExitCode, Failure>,
    ) -> Result<ExitCode, Failure> {
        let key = Key::new(args.key.as_str())?;
        self.open(&args.journal, async |open| {
            command(&open.journal, key, self.context).await
        })
        .await
    }
}

/// Who claims, where nobody said it.
fn worker_name(worker: &WorkerArg, config: &Config) -> String {
    worker
        .worker
        .clone()
        .unwrap_or_else(|| format!("{}/{}", config.node, std::process::id()))
}

/// There is nothing of that key; `listing` is the command that shows what there is.
fn absent(journal: &Journal, key: &Key, what: &str, listing: &str) -> Failure {
    let name = journal.name();
    let key = view::line(key.as_str());
    let message = format!("journal `{name}` has no {what} of key `{key}`");
    let next = format!("see what there is with `cannery journal {listing} {name}`");
    Failure::new(ExitCode::Absent, "absent", message, next)
}

async fn cancel(journal: &Journal, key: Key, context: &Context) -> Result<ExitCode, Failure> {
    let cancelled = journal.cancel(key.clone()).await?;
    if cancelled.waiting + cancelled.processing == 0 {
        return Err(absent(journal, &key, "entry in the list", "ls"));
    }
    let text = format!(
        "cancelled {}: {} waiting, {} processing",
        view::line(key.as_str()),
        cancelled.waiting,
        cancelled.processing
    );
    let value = json!({ "key": key, "outcome": "cancelled", "waiting": cancelled.waiting, "processing": cancelled.processing });
    context.output.line(text, &value);
    Ok(ExitCode::Ok)
}

async fn requeue(journal: &Journal, key: Key, context: &Context) -> Result<ExitCode, Failure> {
    let count = journal.requeue(key.clone()).await?;
    if count == 0 {
        return Err(absent(journal, &key, "dead entry", "dead ls"));
    }
    context.output.line(
        format!("{} waits again", view::line(key.as_str())),
        &json!({ "key": key, "outcome": "requeued", "entries": count }),
    );
    Ok(ExitCode::Ok)
}

async fn forget(journal: &Journal, key: Key, context: &Context) -> Result<ExitCode, Failure> {
    let count = journal.forget(key.clone()).await?;
    if count == 0 {
        return Err(absent(journal, &key, "dead entry", "dead ls"));
    }
    context.output.line(
        format!("{} is off the dead list", view::line(key.as_str())),
        &json!({ "key": key, "outcome": "gone", "entries": count }),
    );
    Ok(ExitCode::Ok)
}
