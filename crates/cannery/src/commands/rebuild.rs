//! `cannery rebuild`: the catalog is made anew, from the lake alone, and so are the names of users' objects.

mod objects;

use cannery_catalog::{Beside, Difference, Filter};
use cannery_pipeline::rebuild::{Damaged, Progress, RebuildReport, Rebuilder, Rebuilt};
use cannery_pipeline::verify::Finding;
use indicatif::{HumanBytes, ProgressBar};
use serde_json::json;

use super::Context;
use super::archive::{Works, check_lakes};
use crate::cli::archive::RebuildArgs;
use crate::failure::{ExitCode, Failure};
use crate::output::counted;
use crate::plant;

pub(crate) async fn run(args: &RebuildArgs, context: &Context) -> Result<ExitCode, Failure> {
    if args.objects {
        objects::rebuild(objects::When::Always, context).await?;
        return Ok(ExitCode::Ok);
    }
    check_lakes(context).await?;
    // First: what is wrong with the catalog does not keep users from their objects.
    if !args.verify {
        objects::rebuild(objects::When::Behind, context).await?;
    }
    catalog(args, context).await
}

async fn catalog(args: &RebuildArgs, context: &Context) -> Result<ExitCode, Failure> {
    let works = Works::open(context).await?;
    let rebuilder = Rebuilder {
        plant: works.plant.clone(),
        features: plant::features(&works.config)?,
        generation: works.generation()?,
    };
    // It makes the folder of the catalog.
    plant::catalog(&works.config, context).await?.close().await;
    let address = works.config.catalog.address();
    let beside = async || Beside::open(&address, context.clock.clone()).await;
    let first = beside().await?;
    let damaged = match args.leave_out_damaged {
        true => Damaged::LeaveOut,
        false => Damaged::Refuse,
    };
    if !args.verify {
        return replace(&rebuilder, first, damaged, context).await;
    }
    let files = first.old().files(&Filter::default(), None, 1).await?;
    let second = match files.items.is_empty() {
        false => first,
        true => {
            let replaced = replace(&rebuilder, first, damaged, context).await?;
            if replaced != ExitCode::Ok {
                return Ok(replaced);
            }
            beside().await?
        }
    };
    verify(&rebuilder, second, context).await
}

async fn replace(
    rebuilder: &Rebuilder,
    beside: Beside,
    damaged: Damaged,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let bar = context.output.steps(0, "buckets");
    let done = rebuilder
        .replace(beside, damaged, &mut |progress| show(&bar, progress))
        .await;
    bar.finish_and_clear();
    let Rebuilt {
        report,
        is_replaced,
    } = done?;
    left_out(&report.left_out, context);
    let text = match is_replaced {
        true => format!("{}; the new catalog is in use", said(&report)),
        false => format!(
            "{}; the old catalog is in use: mend what was left out, or make it without with --leave-out-damaged",
            said(&report)
        ),
    };
    let mut value = serde_json::to_value(&report).expect("counts are JSON");
    value["replaced"] = is_replaced.into();
    context.output.event("rebuilt", text, &value);
    Ok(match report.left_out.is_empty() {
        true => ExitCode::Ok,
        false => ExitCode::Findings,
    })
}

async fn verify(
    rebuilder: &Rebuilder,
    beside: Beside,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let bar = context.output.steps(0, "buckets");
    let compared = rebuilder
        .compare(beside, &mut |progress| show(&bar, progress))
        .await;
    bar.finish_and_clear();
    let (report, differences) = compared?;
    left_out(&report.left_out, context);
    for difference in &differences {
        context
            .output
            .event("difference", different(difference), difference);
    }
    let is_equal = differences.is_empty() && report.left_out.is_empty();
    let text = match differences.len() as u64 {
        0 => format!("{}; the catalog is equal to it", said(&report)),
        count => format!(
            "{}; {} differ; run `cannery rebuild` to put the new one in its place",
            said(&report),
            counted(count, "table")
        ),
    };
    let value = json!({ "files": report.files, "measurements": report.measurements, "bytes_in": report.bytes_in,
        "left_out": report.left_out, "differences": differences.len(), "equal": is_equal });
    context.output.event("verified", text, &value);
    Ok(match is_equal {
        true => ExitCode::Ok,
        false => ExitCode::Findings,
    })
}

fn show(bar: &ProgressBar, progress: &Progress<'_>) {
    let (done, all) = progress.buckets;
    bar.set_length(all);
    bar.set_position(done);
    bar.set_message(format!(
        "{}, {}",
        progress.bucket,
        counted(progress.so_far.measurements, "measurement")
    ));
}

fn left_out(findings: &[Finding], context: &Context) {
    for finding in findings {
        let text = format!(
            "{}: {}; put a sound copy in its place",
            finding.key, finding.why
        );
        context.output.event("left_out", text, finding);
    }
}

fn said(report: &RebuildReport) -> String {
    format!(
        "{} with {} of {} loaded",
        counted(report.files, "file"),
        counted(report.measurements, "measurement"),
        HumanBytes(report.bytes_in)
    )
}

fn different(difference: &Difference) -> String {
    let row = |row: &Option<String>| row.clone().unwrap_or_else(|| "no more rows".to_owned());
    format!(
        "table {}: the catalog has {}, the lake {}",
        difference.table,
        row(&difference.left),
        row(&difference.right)
    )
}
