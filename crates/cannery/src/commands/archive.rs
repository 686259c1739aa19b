//! `cannery can`, `autoclave`, `centrifuge`: one bucket through one stage; `get UID`: a measurement.

use std::collections::BTreeSet;
use std::future::ready;

use cannery_formats::archive::Generation;
use cannery_formats::can::{BucketFile, CannedFile, CannedObject};
use cannery_formats::{BucketDate, Uid};
use cannery_lake::Mirrors;
use cannery_pipeline::autoclave::{Autoclave, AutoclaveReport};
use cannery_pipeline::bucket::{expired, sealed_files};
use cannery_pipeline::canning::Canner;
use cannery_pipeline::centrifuge::{Centrifuge, CentrifugeReport, Target};
use cannery_pipeline::generation;
use cannery_pipeline::joined;
use cannery_pipeline::measurement;
use cannery_pipeline::seal::SealReport;
use cannery_pipeline::stage::{Plant, Stage, StageKey};
use futures::FutureExt as _;
use indicatif::HumanBytes;
use serde_json::json;

use super::redact::absent;
use super::{Context, Patience};
use crate::cli::archive::BucketArgs;
use crate::config::Config;
use crate::failure::{ExitCode, Failure};
use crate::history::ByHand;
use crate::lakes::StageLakes;
use crate::output::counted;
use crate::{lakes, plant};

/// A command's configuration and lake, which is there and ours.
pub(super) struct Works {
    pub(super) config: Config,
    pub(super) plant: Plant,
    history: ByHand,
}

/// Refuses where there is no lake yet; nothing is made.
pub(super) async fn check_lakes(context: &Context) -> Result<(), Failure> {
    let (config, mirrors) = site(context).await?;
    for lake in StageLakes::of(&config.pipeline.storage, &mirrors).each() {
        if lake.manifest().await?.is_none() {
            let message = format!("there is no lake at `{}`", lake.url());
            let next = "check `object_storage` in the configuration, or `--workspace`";
            return Err(Failure::new(ExitCode::Absent, "absent", message, next));
        }
    }
    Ok(())
}

impl Works {
    /// For commands that look at a lake: there must be one.
    pub(super) async fn existing(context: &Context) -> Result<Self, Failure> {
        check_lakes(context).await?;
        Self::open(context).await
    }

    /// The generation that the rules of the configuration make.
    pub(super) fn generation(&self) -> Result<Generation, Failure> {
        let rules = plant::rules(&self.config)?;
        let plant = self.plant.clone();
        Ok(Autoclave { rules, plant }.generation())
    }

    pub(super) async fn open(context: &Context) -> Result<Self, Failure> {
        let (config, mirrors) = site(context).await?;
        lakes::establish(&mirrors, &config.workspace).await?;
        let plant = plant::open(&config, &mirrors, context).await?;
        Ok(Self {
            history: ByHand::open(&config, context).await,
            config,
            plant,
        })
    }

    /// The cans of a bucket.
    async fn cans(&self, bucket: BucketDate) -> Result<Vec<CannedFile>, Failure> {
        let files = sealed_files(&self.plant.raw, bucket).await?;
        files.ok_or_else(|| {
            let message = format!("bucket `{bucket}` is not canned");
            let next = format!("run `cannery can {bucket}` first");
            Failure::new(ExitCode::Absent, "absent", message, next)
        })
    }
}

async fn site(context: &Context) -> Result<(Config, Mirrors), Failure> {
    let config = context.config().await?;
    let mirrors = lakes::open(&config, &context.tools(Patience::Person))?;
    Ok((config, mirrors))
}

/// Puts the reports of a bucket into cans, and seals it.
pub(crate) async fn can(args: &BucketArgs, context: &Context) -> Result<ExitCode, Failure> {
    let works = Works::open(context).await?;
    let done = can_all(args, &works, context).await;
    works.history.close().await;
    done
}

async fn can_all(args: &BucketArgs, works: &Works, context: &Context) -> Result<ExitCode, Failure> {
    let inputs = plant::inputs(&works.config, &works.plant);
    let canner = Canner::new(works.plant.clone(), inputs.clone(), None);
    for bucket in &args.buckets {
        if sealed_files(&works.plant.raw, *bucket).await?.is_none()
            && inputs.reports_of(*bucket).await?.is_empty()
        {
            let message = format!("there is no report of `{bucket}`");
            let next = "put report files into FOLDER/YYYY-MM-DD/ where `pipeline.inputs` says, by default reports-raw in the workspace";
            return Err(Failure::new(ExitCode::Absent, "absent", message, next));
        }
        let key = StageKey {
            stage: Stage::Can,
            bucket: *bucket,
            kind: None,
            slice: None,
        };
        let bytes = |report: &SealReport| (report.bytes_in, report.bytes_out);
        let work = canner.bucket(*bucket);
        let report = works.history.run(&key, bytes, work).await?;
        let text = match report.was_sealed {
            true => format!("{bucket}: sealed before; nothing to do"),
            false => format!(
                "{bucket}: {} of {} in {} of {}",
                counted(report.reports, "report"),
                HumanBytes(report.bytes_in),
                counted(report.cans, "can"),
                HumanBytes(report.bytes_out)
            ),
        };
        let value = json!({ "bucket": bucket.to_string(), "reports": report.reports, "cans": report.cans,
            "bytes_in": report.bytes_in, "bytes_out": report.bytes_out, "was_sealed": report.was_sealed });
        context.output.event("canned", text, &value);
    }
    Ok(ExitCode::Ok)
}

/// Makes the archives of a bucket's cans.
pub(crate) async fn autoclave(args: &BucketArgs, context: &Context) -> Result<ExitCode, Failure> {
    let works = Works::open(context).await?;
    let done = autoclave_all(args, &works, context).await;
    works.history.close().await;
    done
}

async fn autoclave_all(
    args: &BucketArgs,
    works: &Works,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let autoclave = Autoclave {
        rules: plant::rules(&works.config)?,
        plant: works.plant.clone(),
    };
    generation::claim(&works.plant, &autoclave.rules.edition()).await?;
    for bucket in &args.buckets {
        let cans = works.cans(*bucket).await?;
        let expired = expired(&works.plant.raw, *bucket).await?;
        let bar = context.output.steps(cans.len() as u64, "cans");
        for can in &cans {
            if expired.cans.contains(&can.filename.name) {
                bar.suspend(|| kept_no_longer("its can is", &can.filename, context));
                bar.inc(1);
                continue;
            }
            let key = key_of(Stage::Autoclave, &can.filename);
            let bytes = |report: &AutoclaveReport| (report.bytes_in, report.bytes_out);
            let work = autoclave.run(can);
            let report = works.history.run(&key, bytes, work).await?;
            let text = match report.was_there {
                true => format!("{}: there already", can.filename),
                false => format!(
                    "{}: {}, {} bad, {} to {}",
                    can.filename,
                    counted(report.measurements, "measurement"),
                    report.bad_blobs,
                    HumanBytes(report.text_bytes_in),
                    HumanBytes(report.bytes_out)
                ),
            };
            let mut value = serde_json::to_value(&report).expect("counts are JSON");
            value["file"] = can.filename.to_string().into();
            value["generation"] = autoclave.generation().to_string().into();
            bar.suspend(|| context.output.event("autoclaved", text, &value));
            bar.inc(1);
        }
        joined::join(&works.plant, *bucket, autoclave.generation()).await?;
        bar.finish_and_clear();
    }
    Ok(ExitCode::Ok)
}

fn kept_no_longer(what: &str, file: &BucketFile, context: &Context) {
    let text = format!("{file}: {what} kept no longer");
    let value = json!({ "file": file });
    context.output.event("kept_no_longer", text, &value);
}

/// Loads the archives of a bucket into the catalog.
pub(crate) async fn centrifuge(args: &BucketArgs, context: &Context) -> Result<ExitCode, Failure> {
    let works = Works::open(context).await?;
    let done = centrifuge_all(args, &works, context).await;
    works.history.close().await;
    done
}

async fn centrifuge_all(
    args: &BucketArgs,
    works: &Works,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let edition = plant::rules(&works.config)?.edition();
    generation::claim(&works.plant, &edition).await?;
    let generation = edition.generation;
    let centrifuge = Centrifuge {
        catalog: plant::catalog(&works.config, context).await?,
        features: plant::features(&works.config)?,
        plant: works.plant.clone(),
    };
    centrifuge.declare().await?;
    let mut dates = BTreeSet::new();
    for bucket in &args.buckets {
        let cans = works.cans(*bucket).await?;
        let expired = expired(&works.plant.raw, *bucket).await?;
        let bar = context.output.steps(cans.len() as u64, "archives");
        for can in cans {
            let (name, file) = (&can.filename.name, can.filename.to_string());
            if expired.archives.contains(name) {
                bar.suspend(|| kept_no_longer("it is", &can.filename, context));
                bar.inc(1);
                continue;
            }
            // Newer rules cannot make it anew without its can: it stays where it is.
            let known = match expired.cans.contains(name) {
                true => centrifuge.catalog.known(&file).await?,
                false => None,
            };
            let known = known.and_then(|known| known.facts.generation.parse().ok());
            let target = Target {
                generation: known.unwrap_or(generation),
                file: can.filename,
                replaces: Vec::new(),
            };
            let key = key_of(Stage::Centrifuge, &target.file);
            let bytes = |report: &CentrifugeReport| (report.bytes_in + report.index_bytes, 0);
            let fence = || ready(Ok(())).boxed();
            let work = centrifuge.run(&target, &fence);
            let report = works.history.run(&key, bytes, work).await?;
            let committed = &report.committed;
            dates.extend(committed.dates.iter().cloned());
            let text = format!(
                "{}: {} added, {} removed, {}, {}",
                target.file,
                committed.added,
                committed.removed,
                counted(committed.duplicates, "duplicate"),
                counted(committed.bad_rows, "bad row"),
            );
            let mut value = serde_json::to_value(&report).expect("counts are JSON");
            value["file"] = target.file.to_string().into();
            bar.suspend(|| context.output.event("centrifuged", text, &value));
            bar.inc(1);
        }
        bar.finish_and_clear();
        // Also of what was loaded before: whoever loaded it may have died right after that.
        dates.extend(centrifuge.catalog.dates_of(&bucket.to_string()).await?);
    }
    if !centrifuge.features.aggregates().is_empty() {
        // Also what others left, and what another definition of an aggregate asks for.
        dates.extend(centrifuge.catalog.touched_dates().await?);
        let dates = dates.iter().map(String::as_str);
        centrifuge.catalog.recompute(dates).await?;
    }
    generation::take_over(&works.plant, &centrifuge.catalog, generation).await?;
    centrifuge.catalog.close().await;
    Ok(ExitCode::Ok)
}

/// The key of the work of a stage on one file; a file of one report has no kind in its name.
fn key_of(stage: Stage, file: &BucketFile) -> StageKey {
    let kind = match CannedObject::parse(file.name.as_str()) {
        Some(CannedObject::Open { kind, .. } | CannedObject::Sealed { kind, .. }) => Some(kind),
        _ => None,
    };
    StageKey {
        stage,
        bucket: file.bucket,
        kind,
        slice: Some(file.name.to_string()),
    }
}

/// Prints one measurement.
pub(crate) async fn get(uid: &Uid, context: &Context) -> Result<ExitCode, Failure> {
    let (config, mirrors) = site(context).await?;
    let catalog = plant::catalog(&config, context).await?;
    let StageLakes { public, .. } = StageLakes::of(&config.pipeline.storage, &mirrors);
    let read = measurement::read(&public, &catalog, uid).await;
    catalog.close().await;
    let Some(measurement) = read? else {
        return Err(absent(mirrors.first(), uid, &config).await?);
    };
    let mut text = measurement.text;
    text.push(b'\n');
    context.output.raw(&text);
    Ok(ExitCode::Ok)
}
