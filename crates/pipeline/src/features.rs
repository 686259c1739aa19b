//! Features: what is taken out of measurements into tables, as a file declares it. Pure: no lake, no catalog.
//!
//! | look here | for |
//! |---|---|
//! | `features/declare.rs` | the file |
//! | `features/filter.rs` | a filter is compiled and run |
//! | `features/guard.rs` | what filters may do, and what it costs |
//! | `features/analyse.rs`, `interest.rs` | which parts of a document a filter looks at |
//! | `features/prune.rs` | a document is read, as far as somebody looks at it |
//! | `features/residual.rs` | what nobody looks at |

mod analyse;
mod declare;
mod filter;
mod guard;
mod interest;
mod prune;
mod residual;

#[cfg(test)]
mod tests;

use cannery_catalog::{Aggregate, Feature, FeatureVersion, NewBadRow, NewRow};
use cannery_formats::Kind;
use cannery_sanitise::rules::TimeFormat;
use serde_json::Value as Json;

pub use declare::InvalidFeatures;
use filter::Filter;
use interest::{Interest, Step};
pub use residual::Residual;

/// Of what could not become a row, so much is kept.
const DATA_BYTES_MAX: usize = 4 * 1024;

/// Everything that a file declares.
#[derive(Debug, Default)]
pub struct Features {
    features: Vec<Declared>,
    aggregates: Vec<Aggregate>,
    times: Vec<TimeSource>,
}

#[derive(Debug)]
struct Declared {
    feature: Feature,
    /// None for all.
    kinds: Option<Vec<Kind>>,
    filter: Filter,
}

/// Where the time of a measurement may stand.
#[derive(Debug)]
struct TimeSource {
    path: Vec<Step>,
    format: TimeFormat,
}

/// What the features make of the measurements of one kind. One serves all threads.
#[derive(Debug)]
pub struct Extractor<'f> {
    times: &'f [TimeSource],
    /// Each with whether its rows are wanted.
    features: Vec<(&'f Declared, bool)>,
    /// Of all features of the kind, wanted or not: what is left is read by none.
    interest: Interest,
}

/// What was made of one measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extracted {
    /// The time that the document says, in milliseconds since 1970.
    pub time_ms: Option<i64>,
    /// The rows, feature by feature.
    pub rows: Vec<NewRow>,
    /// What could not become a row.
    pub bad_rows: Vec<NewBadRow>,
}

impl Features {
    /// Reads a file of declarations.
    ///
    /// # Errors
    /// What is wrong with it, and in which declaration.
    pub fn parse(text: &str) -> Result<Self, InvalidFeatures> {
        declare::parse(text)
    }

    /// What is to be declared in a catalog.
    pub fn features(&self) -> impl Iterator<Item = &Feature> {
        self.features.iter().map(|declared| &declared.feature)
    }

    /// The declared aggregates.
    #[must_use]
    pub fn aggregates(&self) -> &[Aggregate] {
        &self.aggregates
    }

    /// The versions of the features that read measurements of this kind.
    #[must_use]
    pub fn versions(&self, kind: &Kind) -> Vec<FeatureVersion> {
        let features = self.of_kind(kind).map(|declared| FeatureVersion {
            name: declared.feature.name.clone(),
            version: declared.feature.version,
            min_compatible: declared.feature.min_compatible,
        });
        features.collect()
    }

    /// Makes rows of those features that read this kind and are `wanted`.
    pub fn extractor(&self, kind: &Kind, wanted: impl Fn(&str) -> bool) -> Extractor<'_> {
        let features = self.of_kind(kind);
        let features: Vec<_> = features
            .map(|declared| (declared, wanted(&declared.feature.name)))
            .collect();
        let mut interest = Interest::default();
        for (declared, _) in &features {
            interest.join(&declared.filter.interest);
        }
        for time in &self.times {
            interest.at(&time.path);
        }
        interest.settle();
        Extractor {
            times: &self.times,
            features,
            interest,
        }
    }

    fn of_kind(&self, kind: &Kind) -> impl Iterator<Item = &Declared> {
        self.features.iter().filter(|declared| {
            let kinds = declared.kinds.as_ref();
            kinds.is_none_or(|kinds| kinds.contains(kind))
        })
    }
}

impl Extractor<'_> {
    /// Makes what the features want of a measurement. What nobody reads is added to `residual`.
    ///
    /// What is no JSON document has no rows, and is no error: downloads may be anything.
    pub fn extract(&self, text: &[u8], residual: &mut Residual) -> Extracted {
        let mut extracted = Extracted::default();
        let Ok(document) = prune::prune(text, &self.interest, Some(residual)) else {
            return extracted;
        };
        extracted.time_ms = self.time(&document);
        for (declared, wanted) in &self.features {
            if *wanted {
                declared.rows(&document, text.len(), &mut extracted);
            }
        }
        extracted
    }

    fn time(&self, document: &jaq_json::Val) -> Option<i64> {
        self.times.iter().find_map(|source| source.read(document))
    }
}

impl TimeSource {
    fn read(&self, document: &jaq_json::Val) -> Option<i64> {
        let mut value = document;
        for step in &self.path {
            let (jaq_json::Val::Obj(entries), Step::Key(key)) = (value, step) else {
                return None;
            };
            value = entries.get(&jaq_json::Val::utf8_str(key.clone()))?;
        }
        match value {
            jaq_json::Val::TStr(text) => self.format.read(std::str::from_utf8(text).ok()?, true),
            jaq_json::Val::Num(number) => self.format.read(&number.to_string(), false),
            _ => None,
        }
    }
}

impl Declared {
    fn rows(&self, document: &jaq_json::Val, bytes: usize, out: &mut Extracted) {
        self.filter
            .run(document.clone(), filter::steps_for(bytes), |made| {
                let row = made
                    .map_err(|reason| (reason, Json::Null))
                    .and_then(|row| self.row(row));
                match row {
                    Ok(values) => out.rows.push(NewRow {
                        feature: self.feature.name.clone(),
                        values,
                    }),
                    Err((reason, data)) => out.bad_rows.push(NewBadRow {
                        feature: self.feature.name.clone(),
                        reason,
                        data: beginning(&data.to_string()),
                    }),
                }
            });
    }

    /// The values of the columns. A column that the row lacks is empty.
    fn row(&self, row: Json) -> Result<Vec<Json>, (String, Json)> {
        let Json::Object(mut entries) = row else {
            return Err(("the filter made something else than an object".into(), row));
        };
        let columns = &self.feature.columns;
        let unknown = entries
            .keys()
            .find(|key| !columns.iter().any(|column| column.name == **key));
        if let Some(unknown) = unknown {
            let reason = format!("there is no column `{}`", beginning(unknown));
            return Err((reason, Json::Object(entries)));
        }
        let values = columns.iter().map(|column| {
            let value = entries.get_mut(&column.name).map(Json::take);
            value.unwrap_or_default()
        });
        Ok(values.collect())
    }
}

fn beginning(text: &str) -> String {
    let mut end = text.len().min(DATA_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
