//! `cannery check`: whether indexes, objects and the catalog agree.

use cannery_formats::BucketDate;
use cannery_pipeline::check::{CheckReport, Checker, Finding, Listener};
use indicatif::{HumanBytes, ProgressBar};

use super::Context;
use super::archive::Works;
use crate::cli::archive::CheckArgs;
use crate::failure::{ExitCode, Failure};
use crate::output::{Output, counted};
use crate::plant;

/// Shows findings as they come.
struct Shown {
    output: Output,
    bar: ProgressBar,
}

impl Listener for Shown {
    fn bucket(&mut self, bucket: BucketDate, done: u64, all: u64) {
        self.bar.set_length(all);
        self.bar.set_position(done);
        self.bar.set_message(bucket.to_string());
    }

    fn found(&mut self, finding: Finding) {
        let output = self.output;
        self.bar
            .suspend(|| output.event("finding", finding.to_string(), &finding));
    }
}

pub(crate) async fn run(args: &CheckArgs, context: &Context) -> Result<ExitCode, Failure> {
    let works = Works::existing(context).await?;
    let catalog = plant::catalog(&works.config, context).await?;
    let checker = Checker {
        plant: works.plant.clone(),
        catalog: catalog.clone(),
        features: plant::features(&works.config)?,
        generation: works.generation()?,
        grace: args.grace.0,
    };
    let mut shown = Shown {
        output: context.output,
        bar: context.output.steps(0, "buckets"),
    };
    let checked = checker.run(args.read_data_subset, &mut shown).await;
    shown.bar.finish_and_clear();
    catalog.close().await;
    let report = checked?;
    context.output.event("checked", said(&report), &report);
    Ok(match report.findings {
        0 => ExitCode::Ok,
        _ => ExitCode::Findings,
    })
}

fn said(report: &CheckReport) -> String {
    let mut text = format!(
        "{} in {}, {}",
        match report.findings {
            0 => "no finding".to_owned(),
            count => counted(count, "finding"),
        },
        counted(report.buckets, "bucket"),
        format_args!(
            "{} and {}",
            counted(report.cans, "can"),
            counted(report.archives, "archive")
        ),
    );
    if report.files_read > 0 {
        let bytes = HumanBytes(report.bytes_read);
        text += &format!("; {} of {bytes} read", counted(report.files_read, "file"));
    }
    text
}
