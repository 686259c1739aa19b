//! `cannery backfill`: the work of stages for a range of dates, added to the journal of the pipeline.

use cannery_pipeline::line::{Backfill, Planned};
use serde_json::json;

use super::{Context, Patience};
use crate::cli::archive::BackfillArgs;
use crate::config::journal::PIPELINE_JOURNAL;
use crate::failure::{ExitCode, Failure};
use crate::journals::Journals;
use crate::lakes;
use crate::output::counted;
use crate::pipeline::{Pace, Pipeline, PipelineMetrics, Recipe, Site};

pub(crate) async fn run(args: &BackfillArgs, context: &Context) -> Result<ExitCode, Failure> {
    if args.to < args.from {
        let message = format!("`--to {}` is before `--from {}`", args.to, args.from);
        let next = "write the earlier date first";
        return Err(Failure::new(ExitCode::Usage, "usage", message, next));
    }
    let config = context.config().await?;
    let recipe = Recipe::read(&config)?;
    let mirrors = lakes::open(&config, &context.tools(Patience::Person))?;
    lakes::establish(&mirrors, &config.workspace).await?;
    let journals = Journals::new(&config, &context.clock, &context.rng);
    let opened = journals.open(PIPELINE_JOURNAL).await?;
    let site = Site {
        config: &config,
        mirrors: &mirrors,
        journal: opened.journal.clone(),
        metrics: &PipelineMetrics::default(),
    };
    let outcome = match Pipeline::open(site, &recipe, Pace::Steady, context).await {
        Ok(pipeline) => {
            let outcome = fill(args, &pipeline, context).await;
            pipeline.close().await;
            outcome
        }
        Err(failure) => Err(failure),
    };
    opened.close().await;
    journals.close().await;
    outcome
}

async fn fill(
    args: &BackfillArgs,
    pipeline: &Pipeline,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let backfill = Backfill {
        from: args.from,
        to: args.to,
        stages: args.stages.iter().copied().collect(),
        kind: args.kind.clone(),
    };
    let planned = pipeline
        .line()
        .plan(&backfill, pipeline.discoverer())
        .await?;
    if planned.is_empty() {
        let message = format!("there is nothing to do from {} to {}", args.from, args.to);
        let next = "see which dates there are with `cannery lake ls canned`";
        return Err(Failure::new(ExitCode::Absent, "absent", message, next));
    }
    for one in &planned {
        tell(one, context);
    }
    if !args.dry_run {
        pipeline.line().add(&planned).await?;
    }
    let count = planned.len() as u64;
    let text = match args.dry_run {
        true => format!("{} would be added", counted(count, "key")),
        false => format!(
            "{} added to journal {PIPELINE_JOURNAL}",
            counted(count, "key")
        ),
    };
    let value = json!({ "keys": count, "added": !args.dry_run });
    context.output.event("backfill", text, &value);
    Ok(ExitCode::Ok)
}

fn tell(one: &Planned, context: &Context) {
    let key = one.key.to_string();
    let inputs = one.to_can.as_ref().map(|to_can| to_can.inputs.len());
    let text = match inputs {
        Some(inputs) => format!("{key}  {}", counted(inputs as u64, "input")),
        None => key.clone(),
    };
    let value = json!({ "key": key, "inputs": inputs });
    context.output.event("planned", text, &value);
}
