//! The file that declares features: YAML, read and checked.

use cannery_catalog::{Aggregate, Column, Feature};
use cannery_formats::Kind;
use cannery_sanitise::rules::TimeFormat;
use serde::Deserialize;

use super::filter::Filter;
use super::interest::Step;
use super::{Declared, Features, TimeSource};

const DECLARATIONS_MAX: usize = 1000;

/// What is wrong with a file of declarations.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidFeatures(String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    time: Vec<RawTime>,
    #[serde(default)]
    features: Vec<RawFeature>,
    #[serde(default)]
    aggregates: Vec<RawAggregate>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTime {
    /// Keys with dots between them.
    at: String,
    format: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFeature {
    table: String,
    version: u64,
    #[serde(default)]
    min_compatible: Option<u64>,
    /// All, if it is left out.
    #[serde(default)]
    kinds: Option<Vec<Kind>>,
    filter: String,
    columns: Vec<Column>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAggregate {
    table: String,
    version: u64,
    query: String,
    columns: Vec<Column>,
}

pub(super) fn parse(text: &str) -> Result<Features, InvalidFeatures> {
    let raw: RawFile =
        serde_saphyr::from_str(text).map_err(|error| InvalidFeatures(error.to_string()))?;
    if raw.features.len() + raw.aggregates.len() + raw.time.len() > DECLARATIONS_MAX {
        let what = format!("there are more than {DECLARATIONS_MAX} declarations");
        return Err(InvalidFeatures(what));
    }
    let mut features: Vec<Declared> = Vec::new();
    for raw in raw.features {
        let table = raw.table.clone();
        if features.iter().any(|known| known.feature.name == table) {
            return Err(InvalidFeatures(format!(
                "feature `{table}` is declared twice"
            )));
        }
        let declared = raw.check();
        features
            .push(declared.map_err(|why| InvalidFeatures(format!("feature `{table}`: {why}")))?);
    }
    let times = raw.time.into_iter().map(RawTime::check);
    let aggregates = raw.aggregates.into_iter().map(|raw| Aggregate {
        name: raw.table,
        version: raw.version,
        columns: raw.columns,
        query: raw.query,
    });
    Ok(Features {
        features,
        aggregates: aggregates.collect(),
        times: times.collect::<Result<_, _>>()?,
    })
}

impl RawFeature {
    fn check(self) -> Result<Declared, String> {
        let feature = Feature {
            name: self.table,
            version: self.version,
            min_compatible: self.min_compatible.unwrap_or(self.version),
            columns: self.columns,
        };
        feature.check().map_err(|error| error.message)?;
        Ok(Declared {
            feature,
            kinds: self.kinds,
            filter: Filter::compile(&self.filter).map_err(|why| format!("its filter: {why}"))?,
        })
    }
}

impl RawTime {
    fn check(self) -> Result<TimeSource, InvalidFeatures> {
        let format = TimeFormat::parse(&self.format).map_err(InvalidFeatures)?;
        let keys = self.at.split('.').map(|key| Step::Key(key.to_owned()));
        Ok(TimeSource {
            path: keys.collect(),
            format,
        })
    }
}
