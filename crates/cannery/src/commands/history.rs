//! `cannery history`: what the stages did.

use std::time::Duration;

use cannery_state::{Execution, Filter, Outcome, StageSummary, State};
use indicatif::HumanBytes;
use jiff::Timestamp;

use super::Context;
use crate::cli::history::{HistoryArgs, Since};
use crate::failure::{ExitCode, Failure};
use crate::output::{counted, on_one_line};
use crate::plant;

/// So many executions are asked for at once.
const PAGE: u32 = 1_000;
/// The period of a summary, if nothing is said.
const DAY: Since = Since::Ago(Duration::from_secs(86_400));

pub(crate) async fn run(args: &HistoryArgs, context: &Context) -> Result<ExitCode, Failure> {
    let config = context.config().await?;
    let state = plant::state(&config, context).await?;
    let shown = show(args, &state, context).await;
    state.close().await;
    shown.map(|()| ExitCode::Ok)
}

async fn show(args: &HistoryArgs, state: &State, context: &Context) -> Result<(), Failure> {
    let now = context.clock.now();
    let mut filter = filter(args, now);
    if args.summary {
        filter.since = Some(args.since.unwrap_or(DAY).from(now));
        for stage in state.summary(&filter).await? {
            context.output.event("stage", summary_line(&stage), &stage);
        }
        return Ok(());
    }
    if args.last {
        for execution in state.last(&filter, args.limit).await? {
            show_one(&execution, now, context);
        }
        return Ok(());
    }
    let (mut after, mut left) = (None, args.limit);
    while left > 0 {
        let page = state.executions(&filter, after, left.min(PAGE)).await?;
        for execution in &page.items {
            show_one(execution, now, context);
        }
        left -= u32::try_from(page.items.len()).unwrap_or(left).min(left);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(())
}

fn filter(args: &HistoryArgs, now: Timestamp) -> Filter {
    let results = match (args.failed, args.running) {
        (true, _) => Outcome::TROUBLE.to_vec(),
        (_, true) => vec![Outcome::Running],
        (false, false) => Vec::new(),
    };
    Filter {
        stage: args.stage.map(|stage| stage.name().to_owned()),
        bucket: args.bucket.map(|bucket| bucket.to_string()),
        results,
        since: args.since.map(|since| since.from(now)),
        ..Filter::default()
    }
}

fn show_one(execution: &Execution, now: Timestamp, context: &Context) {
    let text = line(execution, now);
    let output = context.output.in_lines();
    output.event("execution", text, execution);
}

/// `2026-11-15T18:24:03Z  done      1.2s  autoclave/2026-11-15/ndt/ndt.0.tar.lz4  1.00 MiB to 200 KiB  on node-1`
fn line(execution: &Execution, now: Timestamp) -> String {
    let took = match (execution.ended, execution.result) {
        (Some(ended), _) => seconds(millis(execution.started, ended)),
        (None, Outcome::Running) => seconds(millis(execution.started, now)),
        (None, _) => "?".to_owned(),
    };
    let mut text = format!(
        "{:.0}  {:<8} {took:>8}  {}",
        execution.started, execution.result, execution.key
    );
    if execution.bytes_in > 0 || execution.bytes_out > 0 {
        let (read, written) = (
            HumanBytes(execution.bytes_in),
            HumanBytes(execution.bytes_out),
        );
        text += &format!("  {read} to {written}");
    }
    text += &format!("  on {}", execution.worker);
    if execution.attempt > 1 {
        text += &format!(", attempt {}", execution.attempt);
    }
    if let Some(reason) = &execution.reason {
        return format!("{}\n  {}", on_one_line(&text), on_one_line(reason));
    }
    on_one_line(&text)
}

fn summary_line(stage: &StageSummary) -> String {
    let mut text = format!(
        "{:<10}  {}, {} done",
        stage.stage,
        counted(stage.executions, "execution"),
        stage.done
    );
    for (count, what) in [
        (stage.failed, "failed"),
        (stage.retried, "retried"),
        (stage.put_off, "put off"),
        (stage.lost, "lost"),
        (stage.cut_off, "cut off"),
        (stage.running, "running"),
    ] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    if let (Some(half), Some(most)) = (stage.p50_ms, stage.p95_ms) {
        text += &format!("; half in {}, 95% in {}", seconds(half), seconds(most));
    }
    let (read, written) = (HumanBytes(stage.bytes_in), HumanBytes(stage.bytes_out));
    text + &format!("; {read} to {written}")
}

/// A clock may have been set back.
fn millis(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_millis()).unwrap_or(0)
}

fn seconds(ms: u64) -> String {
    let (whole, part) = (ms / 1000, ms % 1000);
    match whole {
        0..100 => format!("{whole}.{}s", part / 100),
        100..6_000 => format!("{}m{:02}s", whole / 60, whole % 60),
        _ => format!("{}h{:02}m", whole / 3600, whole % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        for (ms, text) in [
            (0, "0.0s"),
            (999, "0.9s"),
            (99_900, "99.9s"),
            (100_000, "1m40s"),
            (5_999_999, "99m59s"),
            (7_260_000, "2h01m"),
        ] {
            assert_eq!(seconds(ms), text);
        }
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(millis(now, Timestamp::MIN), 0);
    }
}
