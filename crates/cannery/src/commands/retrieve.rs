//! `cannery retrieve`: what feeds had in a time, as files on this machine.

use cannery_pipeline::Store;
use cannery_pipeline::retrieve::{
    self, Error, HourDone, Outcome, Plan, Progress, RetrieveOptions, Retrieved, Workplace,
};
use indicatif::{HumanBytes, ProgressBar};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::site::Site;
use super::{Context, signals};
use crate::cli::feed::RetrieveArgs;
use crate::failure::{ExitCode, Failure};
use crate::output::{Output, counted};

/// So many of the things that are in the way are named.
const IN_THE_WAY_SHOWN_MAX: usize = 20;

pub(crate) async fn run(args: &RetrieveArgs, context: &Context) -> Result<ExitCode, Failure> {
    let stop = CancellationToken::new();
    let _signals = signals::follow(stop.clone())?;
    let site = Site::open(context).await?;
    let stores = match args.object_storage_ids.is_empty() {
        true => site.first().await?,
        false => site.stores(&args.object_storage_ids).await?,
    };
    site.known(&stores, args.range.feeds.set().as_ref(), context)
        .await?;
    let workplace = Workplace::new(site.scratch(context)?, context.rng.clone());
    let mut outcomes = Vec::new();
    for store in stores {
        let work = one(args, store, &workplace, context);
        tokio::select! {
            outcome = work => outcomes.push(outcome?),
            () = stop.cancelled() => {
                let message = "stopped; the files that were written are whole";
                let next = "run it again: what is there is not fetched twice";
                return Err(Failure::new(ExitCode::Interrupted, "interrupted", message, next));
            }
        }
    }
    Ok(match outcomes {
        all if all.contains(&Outcome::Partial) => ExitCode::Partial,
        all if all.contains(&Outcome::Whole) => ExitCode::Ok,
        _ => {
            let message = "no feed has anything in these times";
            let next = "check `--start-time`, `--end-time` and `--feed-ids`; `cannery gaps` shows what there is";
            return Err(Failure::new(ExitCode::Absent, "absent", message, next));
        }
    })
}

async fn one(
    args: &RetrieveArgs,
    store: &Store,
    workplace: &Workplace,
    context: &Context,
) -> Result<Outcome, Failure> {
    let range = &args.range;
    let feeds = range.feeds.set().map(|feeds| feeds.into_iter().collect());
    let options = RetrieveOptions {
        feeds,
        collapse_feeds: args.collapse_feeds,
        collapse_time: args.collapse_time,
        no_extract: args.no_extract,
        dedupe: args.dedupe,
        with_coverage: args.with_coverage,
        ..RetrieveOptions::new(&args.target_directory, range.start_time.0, range.end_time.0)
    };
    let plan = retrieve::plan(&store.lake, &options).await?;
    if args.dry_run {
        return Ok(show_plan(&plan, context.output));
    }
    let shown = Shown {
        bar: context.output.progress(plan.bytes(), store.id()),
        output: context.output,
    };
    let retrieved = retrieve::run(&store.lake, &plan, workplace, &shown).await;
    shown.bar.finish_and_clear();
    let retrieved = retrieved?;
    show(&retrieved, store.id(), context.output);
    Ok(retrieved.outcome())
}

fn show_plan(plan: &Plan, output: Output) -> Outcome {
    for hour in &plan.hours {
        output.event("planned_hour", hour.to_string(), hour);
    }
    let text = format!(
        "would fetch {} of {}, {}",
        counted(plan.archives() as u64, "archive"),
        counted(plan.hours.len() as u64, "hour"),
        HumanBytes(plan.bytes())
    );
    let value =
        json!({ "archives": plan.archives(), "hours": plan.hours.len(), "bytes": plan.bytes() });
    output.event("planned", text, &value);
    match plan.hours.is_empty() {
        true => Outcome::Nothing,
        false => Outcome::Whole,
    }
}

/// Says how far it is, and what was refused as soon as it is known.
struct Shown {
    bar: ProgressBar,
    output: Output,
}

impl Progress for Shown {
    fn hour_done(&self, done: &HourDone) {
        self.bar.inc(done.archive_bytes);
        for refused in &done.refused {
            let value = json!({ "event": "refused", "key": refused.key, "why": refused.why });
            self.bar
                .suspend(|| self.output.aside(format!("warning: {refused}"), &value));
        }
    }
}

fn show(retrieved: &Retrieved, store: &str, output: Output) {
    for renamed in &retrieved.renamed {
        output.event("renamed", renamed.to_string(), renamed);
    }
    for hour in &retrieved.deleted {
        let value = json!({ "event": "deleted", "hour": hour });
        output.line(format!("passed over, deleted on purpose: {hour}"), &value);
    }
    for key in &retrieved.set_aside {
        let text = format!("passed over, damaged and set aside: `{key}`");
        output.event("set_aside", text, &json!({ "key": key }));
    }
    for feed in &retrieved.without {
        let value = json!({ "event": "without", "feed": feed });
        output.line(format!("{feed}: nothing in these times"), &value);
    }
    for found in retrieved.in_the_way.iter().take(IN_THE_WAY_SHOWN_MAX) {
        let value = json!({ "event": "in_the_way", "path": found.path, "what": found.what });
        output.aside(format!("warning: {found}"), &value);
    }
    let shown = IN_THE_WAY_SHOWN_MAX as u64;
    if retrieved.in_the_way_count > shown {
        let more = retrieved.in_the_way_count - shown;
        let value = json!({ "event": "in_the_way_more", "count": more });
        output.aside(format!("warning: and {more} more in the way"), &value);
    }
    let mut parts = vec![format!(
        "{} of {} from `{store}`, {}",
        counted(retrieved.files, "file"),
        counted(retrieved.hours, "hour"),
        HumanBytes(retrieved.bytes)
    )];
    for (count, what) in [
        (retrieved.present, "there before"),
        (retrieved.duplicates, "left out as repeated"),
        (retrieved.renamed_count, "renamed"),
        (
            retrieved.in_the_way_count,
            "not written because something else has their name; move that away and run it again",
        ),
    ] {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    if !retrieved.refused.is_empty() {
        let archives = counted(retrieved.refused.len() as u64, "damaged archive");
        parts.push(format!("{archives} left out"));
    }
    output.line(
        parts.join("; "),
        &json!({ "event": "retrieved", "store": store, "result": retrieved }),
    );
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        let (code, kind, next) = match error {
            Error::Stage(error) => return Self::from(error),
            Error::Range { .. } => (
                ExitCode::Usage,
                "range",
                "choose an `--end-time` after `--start-time`",
            ),
            Error::Full { .. } => (
                ExitCode::Full,
                "full",
                "free some space and run it again; what is whole is kept",
            ),
            Error::Occupied { .. } => (
                ExitCode::Error,
                "occupied",
                "move it away, or choose another `--target-directory`",
            ),
            Error::Target { .. } => (
                ExitCode::Error,
                "target",
                "make the folder writable, or choose another `--target-directory`",
            ),
            Error::Scratch { .. } | Error::Worker(_) | Error::Stopped => {
                (ExitCode::Error, "retrieve", "run it again")
            }
        };
        Self::new(code, kind, text, next)
    }
}
