//! `cannery journal work`: a program for each entry that is due.

mod child;
mod lines;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cannery_journal::worker::{Handler, Outcome, Summary, Work, Worker};
use cannery_journal::{Date, Error, ErrorKind, Journal, Query, Status};
use cannery_runtime::{Clock, Tasks};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Context, signals, view, worker_name};
use crate::cli::journal::WorkArgs;
use crate::config::Config;
use crate::failure::{ExitCode, Failure};
use crate::journals::Journals;
use crate::output::Output;
use child::{Ending, Groups, Program};

/// How often `--once` looks whether something is left to do.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Handlers end by themselves when they are asked to; this is only the end of all patience.
const GRACE: Duration = Duration::from_secs(366 * 86_400);
/// How long an entry waits whose program could not be started.
const START_AGAIN: Duration = Duration::from_secs(5);
const STOP_LIMIT: Duration = Duration::from_secs(5);

pub(super) async fn work(
    args: &WorkArgs,
    journals: &Journals<'_>,
    config: &Config,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let program = find_program(&args.exec, context)?;
    let asked = CancellationToken::new();
    let groups = Groups::default();
    let all = groups.clone();
    let _signals = signals::follow_with(asked.clone(), move || all.kill())?;
    let tasks = Tasks::new(context.clock.clone(), CancellationToken::new());
    let opened = journals.open_to_stay(&args.journal.name, &tasks).await?;
    opened.serve(&tasks).await;
    let exec = Exec {
        program: Program {
            path: program,
            arguments: args.arguments.clone(),
            journal: opened.journal.name().to_owned(),
            output: context.output,
            clock: context.clock.clone(),
            groups,
        },
        release_in: args.release_in.0,
        asked,
        running: Arc::default(),
    };
    let name = worker_name(&args.worker, config);
    let summary = run(exec, &opened.journal, &name, args, context).await;
    tasks.stop(STOP_LIMIT).await;
    opened.close().await;
    end(&summary, args, context)
}

/// Works until a person asks to stop, or with `--once` until nothing is left to do.
async fn run(
    exec: Exec,
    journal: &Journal,
    name: &str,
    args: &WorkArgs,
    context: &Context,
) -> Summary {
    let stop = exec.asked.child_token();
    let running = Arc::clone(&exec.running);
    let worker = Worker::new(
        journal.clone(),
        name,
        context.clock.clone(),
        context.rng.clone(),
    )
    .concurrency(usize::from(args.concurrency))
    .grace(GRACE);
    let mut work = std::pin::pin!(worker.run(exec, stop.clone()));
    tokio::select! {
        summary = &mut work => summary,
        idle = wait_until_idle(journal, name, &running, &context.clock), if args.once => {
            if let Err(error) = idle {
                tracing::warn!(%error, "cannot tell whether something is left to do; stopping");
            }
            stop.cancel();
            work.await
        }
    }
}

/// The program itself, so that a typing error does not send every entry to the dead list.
fn find_program(program: &Path, context: &Context) -> Result<PathBuf, Failure> {
    let runnable = |path: &Path| {
        std::fs::metadata(path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let found = if program.components().count() > 1 {
        Some(program.to_owned()).filter(|path| runnable(path))
    } else {
        std::env::split_paths(&context.program_folders)
            .map(|folder| folder.join(program))
            .find(|path| runnable(path))
    };
    found.ok_or_else(|| {
        let message = format!(
            "cannot run `{}`: there is no such program, or it is not executable",
            program.display()
        );
        let next =
            "name a file that is executable, such as `./handle.sh`, or a program on the PATH";
        Failure::new(ExitCode::Usage, "no_program", message, next)
    })
}

/// Waits until nothing is due and nothing of this worker is in work.
async fn wait_until_idle(
    journal: &Journal,
    worker: &str,
    running: &AtomicUsize,
    clock: &Clock,
) -> Result<(), Error> {
    loop {
        let look = async {
            Ok::<bool, Error>(
                running.load(Ordering::SeqCst) == 0
                    && journal.stats().await?.due() == 0
                    && !has_leases(journal, worker).await?,
            )
        };
        match look.await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            // The owner changes, or the server restarts: the worker waits for it too.
            Err(error) if error.kind == ErrorKind::Unavailable => {}
            Err(error) => return Err(error),
        }
        clock.sleep(LOOK_EVERY).await;
    }
}

async fn has_leases(journal: &Journal, worker: &str) -> Result<bool, Error> {
    let mut query = Query {
        statuses: vec![Status::Processing],
        ..Query::all()
    };
    loop {
        let page = journal.list(query.clone()).await?;
        let mut leases = page.entries.iter().filter_map(|entry| entry.lease.as_ref());
        if leases.any(|lease| &*lease.worker == worker) {
            return Ok(true);
        }
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(false),
        }
    }
}

struct Exec {
    program: Program,
    release_in: Duration,
    /// Cancelled when a person asked to stop; not when `--once` has nothing left to claim.
    asked: CancellationToken,
    running: Arc<AtomicUsize>,
}

/// Counts a handler as running until it is dropped.
struct Running(Arc<AtomicUsize>);

impl Running {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Handler for Exec {
    async fn handle(&self, work: Work) -> Outcome {
        let _running = Running::new(&self.running);
        let reasons = [&work.lost, &self.asked];
        let ending = self.program.run(&work.entry, &reasons).await;
        tell(&ending, work.entry.key.as_str(), self.program.output);
        let later = |delay| Some(Date::from(self.program.clock.now()).plus(delay));
        match ending {
            Ending::Done => Outcome::Done,
            Ending::Later => Outcome::Release {
                at: later(self.release_in),
            },
            Ending::Stopped => Outcome::Release { at: None },
            Ending::NotStarted(_) => Outcome::Release {
                at: later(START_AGAIN),
            },
            Ending::Dead(reason) => Outcome::Dead { reason },
            Ending::Failed(reason) => Outcome::Retry {
                reason,
                after: None,
            },
        }
    }
}

fn tell(ending: &Ending, key: &str, output: Output) {
    let (word, reason) = match ending {
        Ending::Done => ("done", None),
        Ending::Later => ("later", None),
        Ending::Stopped => ("stopped", None),
        Ending::NotStarted(reason) => ("not started", Some(reason)),
        Ending::Dead(reason) => ("dead", Some(reason)),
        Ending::Failed(reason) => ("failed", Some(reason)),
    };
    let mut text = format!("{word}: {}", view::line(key));
    if let Some(reason) = reason {
        text += &format!(": {}", view::line(reason));
    }
    let event = word.replace(' ', "_");
    output.line(
        text,
        &json!({ "event": event, "key": key, "reason": reason }),
    );
}

fn end(summary: &Summary, args: &WorkArgs, context: &Context) -> Result<ExitCode, Failure> {
    let Summary {
        done,
        released,
        failed,
        dead,
        lost,
        error,
    } = summary;
    let text =
        format!("{done} done, {released} given back, {failed} failed, {dead} dead, {lost} lost");
    let value = json!({
        "event": "ended", "done": done, "released": released, "failed": failed, "dead": dead, "lost": lost,
    });
    context.output.line(&text, &value);
    if let Some(error) = error {
        return Err(Failure::from(error.clone()));
    }
    if args.once && released + failed + dead + lost > 0 {
        let name = &args.journal.name;
        let next = format!("see `cannery journal ls {name}` and `cannery journal dead ls {name}`");
        let message = format!("not every entry was done: {text}");
        return Err(Failure::new(
            ExitCode::Partial,
            "not_all_done",
            message,
            next,
        ));
    }
    Ok(ExitCode::Ok)
}
