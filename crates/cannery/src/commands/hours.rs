//! `cannery consolidate`, `audit` and `delete`: the hours of feeds in the lake. They need the lake alone, and work beside a running
//! `cannery collect`.

use std::collections::BTreeSet;

use cannery_formats::feed::{FeedId, Hour};
use cannery_lake::Lake;
use cannery_pipeline::audit::{Auditor, Finding, Mended, Progress};
use cannery_pipeline::consolidate::{Report, Step};
use cannery_pipeline::{Scope, Store, delete as removal};
use indicatif::HumanBytes;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::Context;
use super::site::{Site, checked, show_listed};
use crate::cli::feed::{AuditArgs, ConsolidateArgs, DeleteArgs};
use crate::failure::{ExitCode, Failure};
use crate::output::counted;
use crate::version;

pub(crate) async fn consolidate(
    args: &ConsolidateArgs,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let site = Site::open(context).await?;
    let consolidator = site.consolidator(context)?;
    let scope = checked(args.hours.scope())?;
    let (mut changed, mut hours, mut left_alone) = (0, 0, 0);
    let mut failed = Vec::new();
    let stores = site.stores(&args.storages.object_storage_ids).await?;
    site.known(&stores, scope.feeds.as_ref(), context).await?;
    for store in stores {
        let unmerged = site.scanned(store, context).await?.unmerged;
        let in_scope = |(feed, hour): &(FeedId, Hour)| {
            let meant = scope.feeds.as_ref();
            meant.is_none_or(|feeds| feeds.contains(feed)) && scope.contains(*hour)
        };
        let unmerged: Vec<_> = unmerged.into_iter().filter(in_scope).collect();
        let bar = context.output.steps(unmerged.len() as u64, "hours");
        for (feed, hour) in unmerged {
            hours += 1;
            match consolidator.consolidate(store, &feed, hour).await {
                Ok(report) => {
                    changed += u64::from(report.is_change());
                    left_alone += damaged(&report);
                    let text = report.to_string();
                    bar.suspend(|| context.output.event("consolidated_hour", text, &report));
                }
                Err(error) => failed.push(error.to_string()),
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
    }
    let mut text = format!(
        "{} changed of {} that needed it",
        counted(changed, "hour"),
        counted(hours, "hour")
    );
    if left_alone > 0 {
        let archives = counted(left_alone, "archive");
        text += &format!("; {archives} left alone: `cannery audit` says why, and what to do");
    }
    let value = json!({ "hours": hours, "changed": changed, "failed": failed.len(), "left_alone": left_alone });
    context.output.event("consolidated", text, &value);
    match failed.first() {
        None => Ok(ExitCode::Ok),
        Some(first) => {
            let message = format!(
                "{} not consolidated; the first: {first}",
                counted(failed.len() as u64, "hour")
            );
            let next = "nothing is lost; run it again";
            Err(Failure::new(ExitCode::Partial, "unmerged", message, next))
        }
    }
}

/// Archives that could not be used.
fn damaged(report: &Report) -> u64 {
    let is_left = |step: &&Step| matches!(step, Step::LeftAlone { .. });
    report.steps.iter().filter(is_left).count() as u64
}

pub(crate) async fn audit(args: &AuditArgs, context: &Context) -> Result<ExitCode, Failure> {
    let site = Site::open(context).await?;
    let stores = site.stores(&args.storages.object_storage_ids).await?;
    let scope = checked(args.hours.scope())?;
    site.known(&stores, scope.feeds.as_ref(), context).await?;
    let stores: Vec<Store> = stores.into_iter().cloned().collect();
    let auditor = Auditor::new(site.consolidator(context)?);
    let findings = audited(&auditor, &stores, &scope, context, true).await?;
    let mut open = findings.len();
    if args.fix {
        let show = &mut |mended: &Mended| {
            context.output.event("mended", mended.to_string(), mended);
        };
        let now = context.clock.now();
        auditor.fix(&stores, &findings, now, show).await;
        let left = audited(&auditor, &stores, &scope, context, false).await?;
        open = left.len();
    }
    let mendable = findings.iter().filter(|found| found.is_mendable()).count();
    let text = match (findings.len(), args.fix) {
        (0, _) => "all hours are as they should be".to_owned(),
        (found, false) => format!(
            "{}; `cannery audit --fix` does something about {mendable}",
            counted(found as u64, "finding")
        ),
        (found, true) => format!("{}, {open} left", counted(found as u64, "finding")),
    };
    let value = json!({ "findings": findings.len(), "mendable": mendable, "left": open });
    context.output.event("audited", text, &value);
    Ok(match open {
        0 => ExitCode::Ok,
        _ => ExitCode::Findings,
    })
}

/// A finding as a program gets it.
#[derive(Serialize)]
struct Found<'a> {
    #[serde(flatten)]
    finding: &'a Finding,
    mendable: bool,
    next: &'static str,
}

impl<'a> Found<'a> {
    fn of(finding: &'a Finding) -> Self {
        Self {
            finding,
            mendable: finding.is_mendable(),
            next: finding.next(),
        }
    }
}

async fn audited(
    auditor: &Auditor,
    stores: &[Store],
    scope: &Scope,
    context: &Context,
    is_shown: bool,
) -> Result<Vec<Finding>, Failure> {
    let bar = context.output.steps(0, "hours");
    let listing = context.output.counter();
    let mut seen = |progress: Progress, findings: &[Finding]| {
        match progress {
            Progress::Listing { objects } => show_listed(&listing, objects),
            Progress::Hours { done, of } => {
                listing.finish_and_clear();
                bar.set_length(of as u64);
                bar.set_position(done as u64);
            }
        }
        for finding in findings.iter().filter(|_| is_shown) {
            let text = finding.to_string();
            bar.suspend(|| context.output.event("found", text, &Found::of(finding)));
        }
    };
    let findings = auditor.audit(stores, scope, &mut seen).await;
    listing.finish_and_clear();
    bar.finish_and_clear();
    Ok(findings?)
}

pub(crate) async fn delete(args: &DeleteArgs, context: &Context) -> Result<ExitCode, Failure> {
    let site = Site::open(context).await?;
    let scope = checked(args.range.scope())?;
    let (mut hours, mut bytes, mut empty) = (0, 0, 0);
    let stores = site.stores(&args.object_storage_ids).await?;
    site.known(&stores, scope.feeds.as_ref(), context).await?;
    for store in &stores {
        store.lake.ensure_probed().await?;
    }
    let now = context.clock.now();
    let mut plans = Vec::new();
    if args.lift {
        for store in &stores {
            hours += lift(&store.lake, &scope, context).await?;
        }
    } else {
        // All of them before the first one runs: where one store is refused, the others are not changed, either.
        plans = plan_all(args, &site, &stores, &scope, now).await?;
    }
    for (store, plan) in stores.iter().zip(&plans) {
        empty += plan.empty_hours();
        if args.dry_run {
            show_plan(plan, context);
            hours += plan.hours.len();
            bytes += plan.bytes();
            continue;
        }
        let mut gone = |hour: &removal::DoomedHour| {
            hours += 1;
            bytes += hour.bytes();
            let text = format!("deleted {hour}");
            context.output.event("deleted_hour", text, hour);
        };
        removal::run(&store.lake, plan, version::NAME, now, &mut gone).await?;
    }
    let count = counted(hours as u64, "hour");
    let bytes_text = HumanBytes(bytes);
    let marked = counted(empty, "hour");
    let (text, event) = match (args.lift, args.dry_run) {
        (true, _) => (format!("{count} may be collected again"), "lifted"),
        (false, true) => (
            format!("would delete {count}, {bytes_text}, and mark {marked} without an archive"),
            "planned",
        ),
        (false, false) => (
            format!("deleted {count}, {bytes_text}, and marked {marked} without an archive"),
            "deleted",
        ),
    };
    let value = json!({ "hours": hours, "bytes": bytes, "empty_hours": empty });
    context.output.event(event, text, &value);
    Ok(match hours as u64 + empty {
        0 => ExitCode::Absent,
        _ => ExitCode::Ok,
    })
}

/// What would go in each store, in their order. Nothing is changed.
async fn plan_all(
    args: &DeleteArgs,
    site: &Site,
    stores: &[&Store],
    scope: &Scope,
    now: Timestamp,
) -> Result<Vec<removal::Plan>, Failure> {
    let known: BTreeSet<FeedId> = site
        .config
        .feeds
        .iter()
        .map(|feed| feed.id.clone())
        .collect();
    let mut plans = Vec::with_capacity(stores.len());
    for store in stores {
        let lake = &store.lake;
        plans.push(match args.archived_only {
            true => removal::plan(lake, scope).await?,
            false => removal::plan_with_empty_hours(lake, scope, &known, now).await?,
        });
    }
    Ok(plans)
}

fn show_plan(plan: &removal::Plan, context: &Context) {
    for hour in &plan.hours {
        context.output.event("planned_hour", hour.to_string(), hour);
    }
    for hours in &plan.empty {
        let text = format!("{hours}, to be marked");
        context.output.event("planned_marks", text, hours);
    }
}

async fn lift(lake: &Lake, scope: &Scope, context: &Context) -> Result<usize, Failure> {
    let lifted = removal::lift(lake, scope).await?;
    for (feed, hour) in &lifted {
        let value = json!({ "store": lake.id(), "feed": feed, "hour": hour });
        let text = format!("{feed} {hour} in `{}` may be collected again", lake.id());
        context.output.event("lifted_hour", text, &value);
    }
    Ok(lifted.len())
}
