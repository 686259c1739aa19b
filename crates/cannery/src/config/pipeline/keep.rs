//! How long cans and archives are kept.

use std::collections::{BTreeMap, BTreeSet};

use cannery_formats::Kind;
use cannery_pipeline::keep::{Keep, Spans};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::units::Span;

/// Stands for every kind that is not named.
const OTHERS: &str = "*";

/// How long what is made of one kind is kept, after the day of its bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default, expecting = "a map of keys")]
pub(crate) struct RawSpans {
    /// Its cans: what came, unchanged. They go once their archives were read from end to end. Default: for ever
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) canned: Option<Span>,
    /// Its archives and what the catalog has of them: after that nothing is left. Default: for ever
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) autoclaved: Option<Span>,
}

/// The checked settings, as they were said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct KeepConfig(BTreeMap<String, RawSpans>);

impl KeepConfig {
    pub(super) fn check(raw: BTreeMap<String, RawSpans>) -> Result<Self, String> {
        let mut spellings = BTreeSet::new();
        if let Some(twice) = raw
            .keys()
            .find(|name| !spellings.insert(name.to_ascii_lowercase()))
        {
            return Err(format!(
                "`keep.{twice}` is there twice: kinds are the same in upper and lower case"
            ));
        }
        let others = raw.get(OTHERS).copied().unwrap_or_default();
        for (name, own) in &raw {
            if name != OTHERS && name.parse::<Kind>().is_err() {
                return Err(format!(
                    "`keep.{name}` is no kind; it must be the name of a test, `spool-<datatype>`, `feed-<id>`, or `*` for all others"
                ));
            }
            if *own == RawSpans::default() {
                return Err(format!(
                    "`keep.{name}` says nothing; give `canned`, `autoclaved` or both, or remove it"
                ));
            }
            let canned = own.canned.or(others.canned);
            let Some(autoclaved) = own.autoclaved.or(others.autoclaved) else {
                continue;
            };
            if canned.is_none_or(|canned| canned.0 > autoclaved.0) {
                return Err(format!(
                    "`keep.{name}`: `autoclaved` ({autoclaved}) needs a `canned` that is not longer, or the archives would be made again of the cans"
                ));
            }
        }
        Ok(Self(raw))
    }

    /// Whether no archive goes.
    pub(crate) fn is_for_ever(&self) -> bool {
        self.0.values().all(|spans| spans.autoclaved.is_none())
    }

    /// What the pipeline makes of it.
    pub(crate) fn checked(&self) -> Keep {
        let spans = |raw: &RawSpans| Spans {
            canned: raw.canned.map(|span| span.0),
            autoclaved: raw.autoclaved.map(|span| span.0),
        };
        let kinds = self.0.iter();
        let kinds = kinds.filter_map(|(name, raw)| Some((name.parse().ok()?, spans(raw))));
        Keep::new(kinds, self.0.get(OTHERS).map(spans).unwrap_or_default())
    }
}
