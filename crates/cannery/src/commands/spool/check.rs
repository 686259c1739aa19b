//! `cannery spool check`: what this node shipped, compared with what is in the lake.

use cannery_collect::inventory::{self, Report};
use cannery_formats::inventory::InventoryHome;
use cannery_lake::Lake;
use indicatif::HumanCount;
use serde_json::json;

use super::Context;
use crate::cli::StorageArg;
use crate::commands::Patience;
use crate::config::Config;
use crate::config::spool::SpoolConfig;
use crate::failure::{ExitCode, Failure};
use crate::{lakes, spools};

pub(super) async fn run(
    spools: &[&SpoolConfig],
    contents: bool,
    storage: &StorageArg,
    config: &Config,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let mirrors = lakes::open(config, &context.tools(Patience::Person))?;
    let node = spools::node_of(config)?;
    // Every mirror has an inventory of its own, and may have lost objects of its own.
    let lakes: Vec<&Lake> = match storage.storage {
        Some(_) => vec![lakes::chosen(&mirrors, storage)?],
        None => {
            let storage = &config.pipeline.storage;
            let all = mirrors.iter();
            all.filter(|lake| !storage.is_apart(lake.id())).collect()
        }
    };
    let mut clean = true;
    for lake in lakes {
        lake.manifest().await?;
        for spool in spools {
            let home = InventoryHome {
                node: node.clone(),
                experiment: spool.experiment.clone(),
            };
            let report = match contents {
                true => inventory::check_contents(lake, &home).await?,
                false => inventory::check(lake, &home).await?,
            };
            // Who removes everything removes the inventory, too.
            clean &= report.is_clean() && report.days > 0;
            show(&report, lake, spool, context);
        }
    }
    Ok(if clean {
        ExitCode::Ok
    } else {
        ExitCode::Findings
    })
}

fn show(report: &Report, lake: &Lake, spool: &SpoolConfig, context: &Context) {
    let finding = |kind: &str, text: String| {
        let value = json!({ "lake": lake.id(), "experiment": spool.experiment.as_str(), "finding": kind, "text": text });
        context.output.line(format!("{kind}: {text}"), &value);
    };
    for missing in &report.missing.first {
        finding("missing", missing.to_string());
    }
    for changed in &report.changed.first {
        finding("changed", changed.to_string());
    }
    for altered in &report.altered.first {
        let text = format!(
            "`{}` has another content than on {}",
            altered.key,
            altered.day.dashed()
        );
        finding("altered", text);
    }
    for key in &report.twice.first {
        finding("twice", format!("`{key}` has two lines"));
    }
    for broken in &report.broken.first {
        finding("broken", broken.to_string());
    }
    for gap in &report.gaps.first {
        finding("gap", gap.to_string());
    }
    let counts = [
        ("missing", report.missing.count),
        ("changed", report.changed.count),
        ("altered", report.altered.count),
        ("twice", report.twice.count),
        ("broken", report.broken.count),
        ("gaps", report.gaps.count),
    ];
    let found: u64 = counts.iter().map(|(_, count)| count).sum();
    let text = format!(
        "{} in {}: {} objects of {} days, {}",
        spool.experiment,
        lake.id(),
        HumanCount(report.lines),
        HumanCount(report.days),
        if report.days == 0 {
            "there is no inventory: nothing was shipped yet, or it was removed".to_owned()
        } else if found == 0 {
            "all there".to_owned()
        } else {
            format!("{} findings", HumanCount(found))
        }
    );
    let value = json!({
        "lake": lake.id(), "experiment": spool.experiment.as_str(), "days": report.days, "objects": report.lines,
        "missing": report.missing.count, "changed": report.changed.count, "altered": report.altered.count, "twice": report.twice.count,
        "broken": report.broken.count, "gaps": report.gaps.count,
    });
    context.output.line(text, &value);
}
