//! `cannery consolidate`, `audit`, `delete` and `gaps`: the hours of feeds in the lake. They need the lake alone, and work beside a
//! running `cannery collect`.

use std::collections::BTreeSet;

use cannery_formats::feed::{FeedId, Hour};
use cannery_lake::{Lake, Mirrors};
use cannery_pipeline::audit::{Auditor, Finding, Mended, Progress};
use cannery_pipeline::consolidate::Consolidator;
use cannery_pipeline::gaps::{CoverageReader, HourCoverage, HourState, joined};
use cannery_pipeline::{Scope, Store, delete as removal, scan};
use indicatif::HumanBytes;
use jiff::SignedDuration;
use serde_json::json;

use super::{Context, Patience};
use crate::cli::feed::{AuditArgs, ConsolidateArgs, DeleteArgs, GapsArgs};
use crate::config::Config;
use crate::failure::{ExitCode, Failure};
use crate::output::counted;
use crate::{feeds, lakes, version};

const GAPS_BACK: SignedDuration = SignedDuration::from_hours(24);

pub(crate) async fn consolidate(
    args: &ConsolidateArgs,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let site = Site::open(context).await?;
    let consolidator = site.consolidator(context)?;
    let scope = checked(args.hours.scope())?;
    let (mut changed, mut hours) = (0, 0);
    let mut failed = Vec::new();
    for store in site.stores(&args.storages.object_storage_ids).await? {
        let unmerged = scan::whole_lake(store).await?.unmerged;
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
                    bar.suspend(|| context.output.line(report.to_string(), &report));
                }
                Err(error) => failed.push(error.to_string()),
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
    }
    let text = format!(
        "{} changed of {} that needed it",
        counted(changed, "hour"),
        counted(hours, "hour")
    );
    let value = json!({ "event": "consolidated", "hours": hours, "changed": changed, "failed": failed.len() });
    context.output.line(text, &value);
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

pub(crate) async fn audit(args: &AuditArgs, context: &Context) -> Result<ExitCode, Failure> {
    let site = Site::open(context).await?;
    let stores: Vec<Store> = site
        .stores(&args.storages.object_storage_ids)
        .await?
        .into_iter()
        .cloned()
        .collect();
    let scope = checked(args.hours.scope())?;
    let auditor = Auditor::new(site.consolidator(context)?);
    let bar = context.output.steps(0, "hours");
    let mut seen = |progress: Progress, findings: &[Finding]| {
        bar.set_length(progress.of as u64);
        bar.set_position(progress.done as u64);
        for finding in findings {
            bar.suspend(|| context.output.line(finding.to_string(), finding));
        }
    };
    let findings = auditor.audit(&stores, &scope, &mut seen).await?;
    bar.finish_and_clear();
    let mut open = findings.len();
    if args.fix {
        let mut show = |mended: &Mended| context.output.line(mended.to_string(), mended);
        auditor.fix(&stores, &findings, &mut show).await;
        let mut silent = |_: Progress, _: &[Finding]| {};
        open = auditor.audit(&stores, &scope, &mut silent).await?.len();
    }
    let text = match (findings.len(), args.fix) {
        (0, _) => "all hours are as they should be".to_owned(),
        (found, false) => counted(found as u64, "finding"),
        (found, true) => format!("{}, {open} left", counted(found as u64, "finding")),
    };
    let value = json!({ "event": "audited", "findings": findings.len(), "left": open });
    context.output.line(text, &value);
    Ok(match open {
        0 => ExitCode::Ok,
        _ => ExitCode::Findings,
    })
}

pub(crate) async fn delete(args: &DeleteArgs, context: &Context) -> Result<ExitCode, Failure> {
    let site = Site::open(context).await?;
    let scope = checked(args.range.scope())?;
    let (mut hours, mut bytes) = (0, 0);
    for store in site.stores(&args.object_storage_ids).await? {
        let lake = &store.lake;
        lake.ensure_probed().await?;
        if args.lift {
            hours += lift(lake, &scope, context).await?;
            continue;
        }
        let plan = removal::plan(lake, &scope).await?;
        if args.dry_run {
            for hour in &plan.hours {
                context.output.line(hour.to_string(), hour);
            }
            hours += plan.hours.len();
            bytes += plan.bytes();
            continue;
        }
        let mut gone = |hour: &removal::DoomedHour| {
            hours += 1;
            bytes += hour.bytes();
            context.output.line(format!("deleted {hour}"), hour);
        };
        let now = context.clock.now();
        removal::run(lake, &plan, version::NAME, now, &mut gone).await?;
    }
    let count = counted(hours as u64, "hour");
    let (text, event) = match (args.lift, args.dry_run) {
        (true, _) => (format!("{count} may be collected again"), "lifted"),
        (false, true) => (
            format!("would delete {count}, {}", HumanBytes(bytes)),
            "planned",
        ),
        (false, false) => (format!("deleted {count}, {}", HumanBytes(bytes)), "deleted"),
    };
    let value = json!({ "event": event, "hours": hours, "bytes": bytes });
    context.output.line(text, &value);
    Ok(match hours {
        0 => ExitCode::Absent,
        _ => ExitCode::Ok,
    })
}

async fn lift(lake: &Lake, scope: &Scope, context: &Context) -> Result<usize, Failure> {
    let lifted = removal::lift(lake, scope).await?;
    for (feed, hour) in &lifted {
        let value = json!({ "event": "lifted", "store": lake.id(), "feed": feed, "hour": hour });
        let text = format!("{feed} {hour} in `{}` may be collected again", lake.id());
        context.output.line(text, &value);
    }
    Ok(lifted.len())
}

pub(crate) async fn gaps(args: &GapsArgs, context: &Context) -> Result<ExitCode, Failure> {
    let site = Site::open(context).await?;
    let stores = match &args.object_storage_id {
        Some(id) => site.stores(std::slice::from_ref(id)).await?,
        None => site.first().await?,
    };
    let store = stores[0];
    let reader = CoverageReader::new(site.scratch(context)?);
    let scope = checked(args.hours.scope())?;
    let now = context.clock.now();
    let to = scope.to.unwrap_or(Hour::of(now));
    let back = to.begin().checked_sub(GAPS_BACK).unwrap_or(to.begin());
    let from = scope.from.unwrap_or(Hour::of(back));
    let feeds = match scope.feeds {
        Some(feeds) => feeds,
        None => site.feeds(store).await?,
    };
    let mut found = false;
    for feed in &feeds {
        let bar = context.output.steps(0, "hours");
        let mut seen = |_: &HourCoverage| bar.inc(1);
        let hours = reader.hours(&store.lake, feed, from, to, &mut seen).await?;
        bar.finish_and_clear();
        found |= show_gaps(feed, &hours, context);
    }
    if feeds.is_empty() {
        let message = "there is no feed in the lake or in the configuration";
        let next = "list feeds in the configuration under `feeds`, then run `cannery collect`";
        return Err(Failure::new(ExitCode::Absent, "absent", message, next));
    }
    Ok(match found {
        true => ExitCode::Findings,
        false => ExitCode::Ok,
    })
}

/// Shows one feed; says whether it has gaps.
fn show_gaps(feed: &FeedId, hours: &[HourCoverage], context: &Context) -> bool {
    let total = |of: fn(&HourCoverage) -> u64| hours.iter().map(of).sum::<u64>();
    let unknown = hours.iter().filter(|hour| hour.state == HourState::Unknown);
    let gaps = joined(hours);
    for gap in &gaps {
        let value =
            json!({ "event": "gap", "feed": feed, "from": gap.from, "to": gap.to, "why": gap.why });
        context.output.line(format!("{feed}: {gap}"), &value);
    }
    let text = format!(
        "{feed}: {}; polls: {} stored, {} unchanged, {} failed, {} not made; {}",
        counted(hours.len() as u64, "hour"),
        total(|hour| hour.stored),
        total(|hour| hour.unchanged),
        total(|hour| hour.failed),
        total(|hour| hour.not_collected),
        counted(gaps.len() as u64, "gap")
    );
    let value = json!({
        "event": "covered", "feed": feed, "hours": hours.len(), "stored": total(|hour| hour.stored),
        "unchanged": total(|hour| hour.unchanged), "failed": total(|hour| hour.failed),
        "not_collected": total(|hour| hour.not_collected), "unknown_hours": unknown.count(), "gaps": gaps.len(),
    });
    context.output.line(text, &value);
    !gaps.is_empty()
}

/// Nothing is between an end and a start that is later: to say that all is well there would be a lie.
fn checked(scope: Scope) -> Result<Scope, Failure> {
    match (scope.from, scope.to) {
        (Some(from), Some(to)) if from >= to => {
            let message = format!("there is no hour from `{from}` to `{to}`");
            let next = "choose an `--end-time` after `--start-time`";
            Err(Failure::new(ExitCode::Usage, "range", message, next))
        }
        _ => Ok(scope),
    }
}

/// The lake of a command, with its configuration.
pub(super) struct Site {
    pub(super) config: Config,
    mirrors: Mirrors,
    stores: Vec<Store>,
}

impl Site {
    pub(super) async fn open(context: &Context) -> Result<Self, Failure> {
        let config = context.config().await?;
        let mirrors = lakes::open(&config, &context.tools(Patience::Person))?;
        Ok(Self {
            stores: feeds::stores(&config, &mirrors),
            config,
            mirrors,
        })
    }

    /// The stores with these ids, all of them when none is named; each of them there, and of the lake that this workspace belongs to. The
    /// others are not asked: what is read in an outage must not need them.
    pub(super) async fn stores(&self, ids: &[String]) -> Result<Vec<&Store>, Failure> {
        let chosen = self.named(ids)?;
        let lakes = chosen.iter().map(|store| store.lake.clone()).collect();
        if let Some(lakes) = Mirrors::new(lakes) {
            lakes::verify(&lakes, &self.config.workspace).await?;
        }
        Ok(chosen)
    }

    /// The first store alone.
    pub(super) async fn first(&self) -> Result<Vec<&Store>, Failure> {
        let first = self.mirrors.first().id().to_owned();
        self.stores(&[first]).await
    }

    fn named(&self, ids: &[String]) -> Result<Vec<&Store>, Failure> {
        if ids.is_empty() {
            return Ok(self.stores.iter().collect());
        }
        let mut chosen: Vec<&Store> = Vec::new();
        let mut seen = BTreeSet::new();
        for id in ids.iter().filter(|id| seen.insert(id.as_str())) {
            let named = crate::cli::StorageArg {
                storage: Some(id.clone()),
            };
            let lake = lakes::chosen(&self.mirrors, &named)?;
            chosen.extend(self.stores.iter().find(|store| store.id() == lake.id()));
        }
        Ok(chosen)
    }

    pub(super) fn scratch(&self, context: &Context) -> Result<cannery_pipeline::Scratch, Failure> {
        feeds::scratch(&self.config.workspace, &context.clock, &context.rng)
    }

    fn consolidator(&self, context: &Context) -> Result<Consolidator, Failure> {
        Ok(Consolidator::new(self.scratch(context)?))
    }

    /// The feeds of the configuration; those of the lake where there are none.
    async fn feeds(&self, store: &Store) -> Result<BTreeSet<FeedId>, Failure> {
        if !self.config.feeds.is_empty() {
            let feeds = self.config.feeds.iter();
            return Ok(feeds.map(|feed| feed.id.clone()).collect());
        }
        Ok(scan::whole_lake(store).await?.feeds)
    }
}
