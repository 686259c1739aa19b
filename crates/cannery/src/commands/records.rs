//! `cannery ls` and `cannery get`: what was collected, as it lies in the lake.

use std::collections::BTreeMap;

use cannery_collect::records::{Day, Record, RecordError, Records};
use cannery_formats::spool::{Datatype, Experiment, ObjectHome, Organization, SpoolDate};
use indicatif::HumanBytes;
use serde_json::json;

use super::{Context, Patience};
use crate::cli::StorageArg;
use crate::cli::spool::ObjectHomeArgs;
use crate::config::Config;
use crate::failure::{ExitCode, Failure};
use crate::lakes;
use crate::output::counted;

/// What a person means by `ndt/foo1/2026/11/15/a.json`, or the beginning of it.
#[derive(Debug, Default)]
struct Place {
    experiment: Option<Experiment>,
    datatype: Option<Datatype>,
    date: Option<SpoolDate>,
    file: Option<String>,
}

impl Place {
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim_matches('/');
        if text.is_empty() {
            return Ok(Self::default());
        }
        let parts: Vec<&str> = text.splitn(6, '/').collect();
        let words = |error: &dyn std::fmt::Display| error.to_string();
        let experiment = Experiment::new(parts[0]).map_err(|error| words(&error))?;
        let datatype = match parts.get(1) {
            Some(name) => Some(Datatype::new(name).map_err(|error| words(&error))?),
            None => None,
        };
        let date = match parts.get(2..5) {
            Some(date) => {
                let date = SpoolDate::from_components(date[0], date[1], date[2]);
                Some(date.map_err(|error| words(&error))?)
            }
            None if parts.len() > 2 => return Err("a date is YYYY/MM/DD".to_owned()),
            None => None,
        };
        Ok(Self {
            experiment: Some(experiment),
            datatype,
            date,
            file: parts.get(5).map(|file| (*file).to_owned()),
        })
    }
}

pub(crate) async fn list(
    place: Option<&str>,
    objects: &ObjectHomeArgs,
    storage: &StorageArg,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let place = parse(place.unwrap_or_default())?;
    let records = open(objects, storage, place.experiment.as_ref(), context).await?;
    match (&place.experiment, &place.datatype, place.date) {
        (Some(experiment), Some(datatype), Some(date)) => {
            let only = place.file.as_deref();
            list_records(&records, experiment, datatype, date, only, context).await
        }
        (experiment, datatype, _) => {
            let days = records.days(experiment.as_ref(), datatype.as_ref()).await?;
            match datatype {
                Some(_) => days.iter().for_each(|day| show_day(day, context)),
                None => show_datatypes(&days, context),
            }
            Ok(ExitCode::Ok)
        }
    }
}

pub(crate) async fn get(
    record: &str,
    whole_row: bool,
    objects: &ObjectHomeArgs,
    storage: &StorageArg,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let place = parse(record)?;
    let Place {
        experiment: Some(experiment),
        datatype: Some(datatype),
        date: Some(date),
        file: Some(file),
    } = place
    else {
        let message = format!("`{}` names no record", record.escape_debug());
        return Err(misplaced(message));
    };
    let records = open(objects, storage, Some(&experiment), context).await?;
    let mut damaged = Vec::new();
    let found = records.find(&experiment, &datatype, date, &file, &mut damaged);
    let found = found.await?;
    if found.is_none()
        && let Some(error) = damaged.pop()
    {
        return Err(error.into());
    }
    let Some(found) = found else {
        let message = format!("there is no record `{}` in the lake", record.escape_debug());
        let next = format!("see what there is with `cannery ls {experiment}/{datatype}/{date}`");
        return Err(Failure::new(ExitCode::Absent, "absent", message, next));
    };
    let content = records.content(&found).await?;
    let mut bytes = if whole_row { content.row } else { content.raw };
    bytes.push(b'\n');
    context.output.raw(&bytes);
    partial(damaged, 1)
}

/// Something was printed, and something could not be read.
fn partial(mut damaged: Vec<RecordError>, given: usize) -> Result<ExitCode, Failure> {
    match damaged.pop() {
        Some(error) => Err(Failure::from(error).after_partial_output(given)),
        None => Ok(ExitCode::Ok),
    }
}

fn parse(text: &str) -> Result<Place, Failure> {
    Place::parse(text).map_err(|reason| {
        let message = format!(
            "`{}` is no place in the lake: {reason}",
            text.escape_debug()
        );
        misplaced(message)
    })
}

fn misplaced(message: String) -> Failure {
    let next = "write EXPERIMENT/DATATYPE/YYYY/MM/DD/FILE, for example ndt/foo1/2026/11/15/a.json";
    Failure::new(ExitCode::Usage, "invalid", message, next)
}

async fn open(
    objects: &ObjectHomeArgs,
    storage: &StorageArg,
    experiment: Option<&Experiment>,
    context: &Context,
) -> Result<Records, Failure> {
    let config = context.config().await?;
    let mirrors = lakes::open(&config, &context.tools(Patience::Person))?;
    let lake = lakes::chosen(&mirrors, storage)?.clone();
    lake.manifest().await?;
    let home = object_home(objects, experiment, &config)?;
    Ok(Records { lake, home })
}

/// Where the command line says, else where the configuration puts what this experiment collects.
fn object_home(
    objects: &ObjectHomeArgs,
    experiment: Option<&Experiment>,
    config: &Config,
) -> Result<ObjectHome, Failure> {
    if objects.object_home.is_none() && objects.organization.is_none() {
        let mut spools = config.spools.iter();
        let spool = spools.find(|spool| experiment.is_none_or(|name| *name == spool.experiment));
        return Ok(spool.map_or(ObjectHome::V1, |spool| spool.object_home.clone()));
    }
    let organization = objects.organization.as_deref();
    let invalid = |reason: String| {
        let next = "correct `--object-home` or `--organization`";
        Failure::new(ExitCode::Usage, "invalid", reason, next)
    };
    match (objects.object_home.as_deref(), organization) {
        (Some(home), _) => {
            ObjectHome::new(home, organization).map_err(|error| invalid(error.to_string()))
        }
        (None, None) => Ok(ObjectHome::V1),
        (None, Some(name)) => Organization::new(name)
            .map(ObjectHome::V2)
            .map_err(|error| invalid(error.to_string())),
    }
}

fn show_datatypes(days: &[Day], context: &Context) {
    let mut datatypes: BTreeMap<(&Experiment, &Datatype), Vec<&Day>> = BTreeMap::new();
    for day in days {
        datatypes
            .entry((&day.experiment, &day.datatype))
            .or_default()
            .push(day);
    }
    for ((experiment, datatype), days) in datatypes {
        let bundles: u64 = days.iter().map(|day| day.bundles).sum();
        let bytes: u64 = days.iter().map(|day| day.bytes).sum();
        let (first, last) = (days[0].date.dashed(), days[days.len() - 1].date.dashed());
        let text = format!(
            "{:<32} {first} to {last}  {}, {}, {}",
            format!("{experiment}/{datatype}"),
            counted(days.len() as u64, "day"),
            counted(bundles, "bundle"),
            HumanBytes(bytes)
        );
        let value = json!({
            "experiment": experiment.as_str(), "datatype": datatype.as_str(), "first": first, "last": last,
            "days": days.len(), "bundles": bundles, "bytes": bytes,
        });
        context.output.line(text, &value);
    }
}

fn show_day(day: &Day, context: &Context) {
    let text = format!(
        "{}/{}/{}  {}, {}",
        day.experiment,
        day.datatype,
        day.date,
        counted(day.bundles, "bundle"),
        HumanBytes(day.bytes)
    );
    let value = json!({
        "experiment": day.experiment.as_str(), "datatype": day.datatype.as_str(), "date": day.date.dashed(),
        "bundles": day.bundles, "bytes": day.bytes,
    });
    context.output.line(text, &value);
}

async fn list_records(
    records: &Records,
    experiment: &Experiment,
    datatype: &Datatype,
    date: SpoolDate,
    only: Option<&str>,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let (mut given, mut damaged) = (0, Vec::new());
    for bundle in records.bundles(experiment, datatype, date).await? {
        let read = match records.records(&bundle).await {
            Err(error @ RecordError::Damaged { .. }) => {
                damaged.push(error);
                continue;
            }
            read => read.map_err(|error| Failure::from(error).after_partial_output(given))?,
        };
        for record in read {
            if only.is_none_or(|only| only == record.name) {
                show_record(&record, context);
                given += 1;
            }
        }
    }
    partial(damaged, given)
}

fn show_record(record: &Record, context: &Context) {
    let bundle = &record.bundle;
    let place = format!(
        "{}/{}/{}/{}",
        bundle.experiment, bundle.datatype, bundle.date, record.name
    );
    let text = format!(
        "{place}  {:>9}  {:.0}",
        HumanBytes(record.size).to_string(),
        record.added
    );
    let value = json!({
        "record": place, "size": record.size, "sha256": record.sha256, "added": record.added,
        "bundle": bundle.data_key(), "row": record.row,
    });
    context.output.line(text, &value);
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Lake(error) => Self::from(error),
            RecordError::Damaged { .. } => {
                let next = "read another mirror with `--storage ID`";
                Self::new(ExitCode::Error, "corrupt", error.to_string(), next)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_as_deep_as_it_is_written() {
        let place = Place::parse("ndt/foo1/2026/11/15/a b.json").unwrap();
        assert_eq!(place.file.as_deref(), Some("a b.json"));
        assert_eq!(place.date.unwrap().dashed(), "2026-11-15");
        assert!(Place::parse("ndt/foo1").unwrap().date.is_none());
        assert!(Place::parse("").unwrap().experiment.is_none());
        for text in [
            "NDT",
            "ndt/foo1/2026",
            "ndt/foo1/2026/11",
            "ndt/foo1/2026/13/01",
            "ndt/../x",
        ] {
            assert!(Place::parse(text).is_err(), "{text}");
        }
    }
}
