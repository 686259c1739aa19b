//! The rules file as it is written.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_saphyr::Spanned;

use super::RulesError;

/// Rules are written by hand; more than this is a mistake or an attack.
const TEXT_BYTES_MAX: usize = 1024 * 1024;
const NODES_MAX: usize = 50_000;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawFile {
    pub(super) version: Option<Spanned<String>>,
    pub(super) data_format_versions: Vec<String>,
    pub(super) time: Vec<RawTime>,
    pub(super) tables: BTreeMap<String, RawTable>,
    pub(super) rules: Vec<RawRule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTime {
    pub(super) at: Spanned<String>,
    pub(super) format: Spanned<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTable {
    pub(super) file: Spanned<String>,
}

/// One rule with the keys of every operation: a check for each says which belong to it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRule {
    pub(super) op: Spanned<String>,
    pub(super) at: Option<Vec<Spanned<String>>>,
    pub(super) map: Option<BTreeMap<String, String>>,
    pub(super) from: Option<Spanned<String>>,
    pub(super) text: Option<String>,
    pub(super) unit: Option<Spanned<String>>,
    pub(super) format: Option<Spanned<String>>,
    pub(super) keep: Option<Vec<String>>,
    pub(super) into: Option<String>,
    pub(super) pattern: Option<Spanned<String>>,
    #[serde(rename = "with")]
    pub(super) with: Option<String>,
    pub(super) domain: Option<String>,
    pub(super) v4: Option<Spanned<String>>,
    pub(super) v6: Option<Spanned<String>>,
    pub(super) table: Option<Spanned<String>>,
    pub(super) missing: Option<Spanned<String>>,
    pub(super) kinds: Option<Vec<Spanned<String>>>,
    pub(super) data_format_versions: Option<Vec<Spanned<String>>>,
}

impl RawRule {
    /// The keys that are given, besides those that every rule may have.
    pub(super) fn given(&self) -> Vec<&'static str> {
        let keys = [
            ("at", self.at.is_some()),
            ("map", self.map.is_some()),
            ("from", self.from.is_some()),
            ("text", self.text.is_some()),
            ("unit", self.unit.is_some()),
            ("format", self.format.is_some()),
            ("keep", self.keep.is_some()),
            ("into", self.into.is_some()),
            ("pattern", self.pattern.is_some()),
            ("with", self.with.is_some()),
            ("domain", self.domain.is_some()),
            ("v4", self.v4.is_some()),
            ("v6", self.v6.is_some()),
            ("table", self.table.is_some()),
            ("missing", self.missing.is_some()),
        ];
        let given = keys.into_iter().filter(|(_, given)| *given);
        given.map(|(key, _)| key).collect()
    }
}

/// Reads the text of a rules file. An empty one is a file without rules.
pub(super) fn parse(text: &str) -> Result<RawFile, RulesError> {
    let file: Option<RawFile> = yaml(text, TEXT_BYTES_MAX, NODES_MAX, "a rules file")?;
    Ok(file.unwrap_or_default())
}

/// Reads YAML that may be hostile.
pub(super) fn yaml<T: DeserializeOwned>(
    text: &str,
    bytes_max: usize,
    nodes_max: usize,
    what: &str,
) -> Result<Option<T>, RulesError> {
    if text.len() > bytes_max {
        let length = text.len();
        return Err(RulesError::new(
            0,
            format!("it has {length} bytes; {what} has at most {bytes_max}"),
        ));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: nodes_max, max_events: nodes_max * 4, max_depth: 32, max_aliases: 1_000,
            max_total_scalar_bytes: bytes_max * 2, max_reader_input_bytes: None
        },
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::Error,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let line = error.location().map_or(0, |location| location.line());
        RulesError::new(line, plain(&error))
    })
}

/// The parser's message without the place, which stands before it, and without advice for programmers.
fn plain(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    let first = text.lines().next().unwrap_or("it is not YAML");
    let place = first.find(" at line ").unwrap_or(first.len());
    let advice = first
        .find(", set DuplicateKeyPolicy")
        .unwrap_or(first.len());
    let short = &first[..place.min(advice)];
    if advice < first.len() {
        return format!("{short}; remove one of the two");
    }
    short.to_owned()
}
