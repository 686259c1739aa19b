//! `cannery journal add`: one entry by flags, or many from standard input.

mod input;
mod line;

use std::time::Duration;

use cannery_journal::{Added, Data, Date, Declaration, ErrorKind, Journal, Key, NewEntry, Op};
use cannery_runtime::Tasks;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Context, view};
use crate::cli::journal::AddArgs;
use crate::failure::{ExitCode, Failure};
use crate::journals::{Journals, Opened};
use input::Batch;

/// How long lines wait for a journal that does not answer.
const AGAIN_LIMIT: Duration = Duration::from_secs(30);
const AGAIN_PAUSE: Duration = Duration::from_millis(200);

/// A command that takes longer lets others take part.
const A_MOMENT: Duration = Duration::from_millis(500);

pub(super) async fn add(
    args: &AddArgs,
    journals: &Journals<'_>,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let entry = by_flags(args)?;
    let tasks = Tasks::new(context.clock.clone(), CancellationToken::new());
    let opened = journals.open_to_stay(&args.journal.name, &tasks).await?;
    let added = match entry {
        Some(entry) => add_one(&opened.journal, entry, context).await,
        None => add_lines(&opened, &tasks, context).await,
    };
    tasks.stop(A_MOMENT).await;
    opened.close().await;
    added
}

/// The entry that the flags make; nothing when there are none.
fn by_flags(args: &AddArgs) -> Result<Option<NewEntry>, Failure> {
    let data = args.data.clone().map(Data::from_json).transpose();
    let entry = NewEntry {
        key: args.key.clone(),
        priority: args.priority,
        insertion_date: args.insertion_date,
        process_date: args.process_date,
        expiration_date: args.expiration_date,
        data: data.map_err(|error| Failure::from(error.while_doing("`--data`")))?,
    };
    if entry.key.is_none() && entry.data.is_none() && entry != NewEntry::default() {
        return Err(Failure::new(
            ExitCode::Usage,
            "invalid",
            "flags make one entry, and this one has no `--key`",
            "give `--key` too; for entries on standard input, say it in each line: `{\"key\": \"a\", \"priority\": 20}`",
        ));
    }
    Ok((entry != NewEntry::default()).then_some(entry))
}

async fn add_one(
    journal: &Journal,
    mut entry: NewEntry,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let key = check(&journal.declaration(), &mut entry, journal.now()).map_err(|reason| {
        let message = format!(
            "cannot add the entry to journal `{}`: {reason}",
            journal.name()
        );
        Failure::new(
            ExitCode::Usage,
            "invalid",
            message,
            "correct the entry; nothing was added",
        )
    })?;
    let outcome = journal.add_one(entry).await?;
    let text = format!("{} {}", word(outcome), view::line(key.as_str()));
    context
        .output
        .line(text, &json!({ "key": key, "outcome": outcome }));
    Ok(ExitCode::Ok)
}

/// What a journal of this declaration would say to an entry; gives back its key. The entry is dated here, so that the
/// journal, asked a little later, says the same.
fn check(declaration: &Declaration, entry: &mut NewEntry, now: Date) -> Result<Key, String> {
    entry.insertion_date.get_or_insert(now);
    let add = declaration
        .admit(entry.clone(), now)
        .map_err(|error| error.message)?;
    let key = add.key.clone();
    let op = Op::Add(vec![add]);
    op.check().map_err(|error| error.message)?;
    Ok(key)
}

/// What was added so far.
#[derive(Debug, Default)]
struct Sum {
    inserted: u64,
    merged: u64,
    stale: u64,
}

impl Sum {
    fn count(&mut self, outcome: Added) {
        match outcome {
            Added::Inserted => self.inserted += 1,
            Added::Merged => self.merged += 1,
            Added::Stale => self.stale += 1,
        }
    }

    fn all(&self) -> u64 {
        self.inserted + self.merged + self.stale
    }
}

async fn add_lines(opened: &Opened, tasks: &Tasks, context: &Context) -> Result<ExitCode, Failure> {
    let mut batches = input::from_stdin();
    let begun = context.clock.elapsed();
    let mut served = false;
    let mut sum = Sum::default();
    let ended = loop {
        let patience = A_MOMENT.saturating_sub(context.clock.since(begun));
        if patience.is_zero() && !served {
            served = true;
            opened.serve(tasks).await;
        }
        let next = match context.clock.timeout(patience, batches.recv()).await {
            Ok(next) => next,
            Err(_) if served => batches.recv().await,
            Err(_) => {
                served = true;
                opened.serve(tasks).await;
                batches.recv().await
            }
        };
        match next {
            None => break Ok(ExitCode::Ok),
            Some(batch) => {
                if let Err(failure) = add_batch(&opened.journal, batch, &mut sum, context).await {
                    break Err(after_part(failure, sum.all()));
                }
            }
        }
    };
    let worth_telling = ended.is_ok() || sum.all() > 0;
    if worth_telling && !context.output.json {
        let Sum {
            inserted,
            merged,
            stale,
        } = sum;
        let text = format!(
            "added {}: {inserted} inserted, {merged} merged, {stale} stale",
            sum.all()
        );
        context.output.line(text, &());
    }
    ended
}

/// Adds the lines of a batch in one commit; when one of them is wrong, those before it.
async fn add_batch(
    journal: &Journal,
    batch: Batch,
    sum: &mut Sum,
    context: &Context,
) -> Result<(), Failure> {
    let declaration = journal.declaration();
    let mut good = Vec::new();
    let mut entries = Vec::new();
    let mut bad = batch.bad;
    for (number, text) in batch.lines {
        let read = line::read(&text).and_then(|mut entry| {
            let key = check(&declaration, &mut entry, journal.now())?;
            Ok((key, entry))
        });
        match read {
            Ok((key, entry)) => {
                good.push((number, key));
                entries.push(entry);
            }
            Err(reason) => {
                bad = Some((number, reason));
                break;
            }
        }
    }
    if !entries.is_empty() {
        let outcomes = add_again(journal, entries, context).await?;
        for ((number, key), outcome) in good.into_iter().zip(outcomes) {
            sum.count(outcome);
            if context.output.json {
                let value = json!({ "line": number, "key": key, "outcome": outcome });
                context.output.json(&value);
            }
        }
    }
    match bad {
        None => Ok(()),
        Some((number, reason)) => Err(wrong_line(journal, number, &reason)),
    }
}

/// Adds entries; where the same key waiting twice is one entry, also again when nobody knows whether they were added.
async fn add_again(
    journal: &Journal,
    entries: Vec<NewEntry>,
    context: &Context,
) -> Result<Vec<Added>, Failure> {
    let begun = context.clock.elapsed();
    loop {
        match journal.add(entries.clone()).await {
            Err(error)
                if error.kind == ErrorKind::Unavailable
                    && journal.declaration().merge
                    && context.clock.since(begun) < AGAIN_LIMIT =>
            {
                tracing::warn!(%error, "the journal does not answer; trying on");
                context.clock.sleep(AGAIN_PAUSE).await;
            }
            added => return Ok(added?),
        }
    }
}

fn wrong_line(journal: &Journal, number: u64, reason: &str) -> Failure {
    let message = format!(
        "cannot add line {number} to journal `{}`: {}",
        journal.name(),
        view::line(reason)
    );
    let next = "correct the line, then add it and those after it";
    Failure::new(ExitCode::Usage, "invalid", message, next)
}

/// The same failure when entries were added before it.
fn after_part(failure: Failure, added: u64) -> Failure {
    if added == 0 {
        return failure;
    }
    let message = format!(
        "{} (the {added} entries before were added)",
        failure.message
    );
    Failure {
        code: ExitCode::Partial,
        message,
        ..failure
    }
}

fn word(outcome: Added) -> &'static str {
    match outcome {
        Added::Inserted => "inserted",
        Added::Merged => "merged",
        Added::Stale => "stale",
    }
}
