//! Lookup tables: what is put in place of what, with a version that is recorded.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{RulesError, raw};

const TEXT_BYTES_MAX: usize = 64 * 1024 * 1024;
const NODES_MAX: usize = 4_000_000;

/// A table that was read.
#[derive(Debug, Serialize)]
pub(crate) struct Table {
    pub(crate) version: String,
    /// The JSON text that stands for each string.
    pub(crate) entries: BTreeMap<String, String>,
    /// The same where it is a string, for a part of a text.
    #[serde(skip)]
    texts: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTable {
    version: String,
    entries: BTreeMap<String, Value>,
}

impl Table {
    /// Reads the text of a table: YAML or JSON with `version` and `entries`.
    pub(crate) fn parse(text: &str) -> Result<Self, RulesError> {
        let raw: Option<RawTable> = raw::yaml(text, TEXT_BYTES_MAX, NODES_MAX, "a lookup table")?;
        let raw = raw.ok_or_else(|| {
            RulesError::new(0, "it is empty; a lookup table has `version` and `entries`")
        })?;
        let json = |(key, value): (&String, &Value)| (key.clone(), value.to_string());
        let text =
            |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        Ok(Self {
            version: raw.version,
            entries: raw.entries.iter().map(json).collect(),
            texts: raw.entries.iter().filter_map(text).collect(),
        })
    }

    /// What stands for a part of a text.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.texts.get(key).map(String::as_str)
    }

    /// The first key that has something else than a text.
    pub(crate) fn first_other(&self) -> Option<&str> {
        let mut others = self
            .entries
            .keys()
            .filter(|key| !self.texts.contains_key(*key));
        others.next().map(String::as_str)
    }
}
