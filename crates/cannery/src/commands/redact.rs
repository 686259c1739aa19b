//! `cannery redact`: one measurement is taken out of every archive, for good.

use cannery_formats::Uid;
use cannery_formats::redaction::Redaction;
use cannery_lake::Lake;
use cannery_pipeline::redact::{Redacted, Redactor, find};
use serde_json::json;

use super::Context;
use super::archive::Works;
use crate::cli::archive::RedactArgs;
use crate::config::Config;
use crate::failure::{ExitCode, Failure};
use crate::output::counted;
use crate::plant;
use crate::version;

pub(crate) async fn run(args: &RedactArgs, context: &Context) -> Result<ExitCode, Failure> {
    let works = Works::existing(context).await?;
    let redactor = Redactor {
        plant: works.plant.clone(),
        catalog: plant::catalog(&works.config, context).await?,
        features: plant::features(&works.config)?,
        rules: plant::rules(&works.config)?,
        by: version::NAME.to_owned(),
    };
    let done = match args.dry_run {
        true => show(args, &redactor, context).await,
        false => redact(args, &redactor, context).await,
    };
    redactor.catalog.close().await;
    match done? {
        true => Ok(ExitCode::Ok),
        false => Err(absent(&works.plant.raw, &args.uid, &works.config).await?),
    }
}

/// Whether any archive holds it. What the command would refuse is refused.
async fn show(args: &RedactArgs, redactor: &Redactor, context: &Context) -> Result<bool, Failure> {
    let holders = redactor.holders(&args.uid).await?;
    for key in &holders {
        let value = json!({ "uid": args.uid, "archive": key });
        context.output.event("holds", key.as_str(), &value);
    }
    redactor.expect_possible(&args.uid).await?;
    Ok(!holders.is_empty())
}

/// Whether anybody knows it.
async fn redact(
    args: &RedactArgs,
    redactor: &Redactor,
    context: &Context,
) -> Result<bool, Failure> {
    redactor.centrifuge().declare().await?;
    let Some(done) = redactor.run(&args.uid, &args.reason).await? else {
        return Ok(false);
    };
    context.output.event("redacted", said(&done), &done);
    Ok(true)
}

fn said(done: &Redacted) -> String {
    let before = match done.was_marked {
        true => format!(" (marked before, on {:.0})", done.redaction.redacted),
        false => String::new(),
    };
    format!(
        "{}: redacted{before}; {} made anew, {} removed",
        done.redaction.uid,
        counted(done.rewritten.len() as u64, "archive"),
        counted(done.removed.len() as u64, "object"),
    )
}

/// Why a measurement is not there: it was redacted, or nobody knows it.
pub(super) async fn absent(raw: &Lake, uid: &Uid, config: &Config) -> Result<Failure, Failure> {
    Ok(match find(raw, uid).await? {
        Some(mark) => was_redacted(&mark),
        None => Failure::new(
            ExitCode::Absent,
            "absent",
            format!(
                "there is no measurement `{uid}` in the catalog `{}`",
                config.catalog
            ),
            match config.pipeline.keep.is_for_ever() {
                true => "load its bucket with `cannery centrifuge YYYY-MM-DD`",
                false => {
                    "load its bucket with `cannery centrifuge YYYY-MM-DD`, unless it is gone because `pipeline.keep` says so"
                }
            },
        ),
    })
}

fn was_redacted(mark: &Redaction) -> Failure {
    let Redaction {
        uid,
        reason,
        redacted,
        ..
    } = mark;
    let message = format!("measurement `{uid}` was redacted on {redacted:.0}: {reason}");
    let next = "nothing is to be done; no archive holds it any more";
    Failure::new(ExitCode::Absent, "redacted", message, next)
}
