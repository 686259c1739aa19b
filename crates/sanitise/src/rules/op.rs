//! What a rule does.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use serde::Serialize;

use crate::path::Path;

/// One rule: an operation, where, and when.
#[derive(Debug, Serialize)]
pub(crate) struct Rule {
    pub(crate) op: Op,
    pub(crate) at: Vec<Path>,
    pub(crate) when: When,
}

/// Which measurements a rule is for. An empty list is no condition.
#[derive(Debug, Default, Serialize)]
pub(crate) struct When {
    /// A kind, or the beginning of one and a star.
    pub(crate) kinds: Vec<String>,
    /// A data format version; `None` for documents without one.
    pub(crate) versions: Vec<Option<String>>,
}

#[derive(Debug, Serialize)]
pub(crate) enum Op {
    /// A string that the map has becomes what it maps to.
    Rename { map: BTreeMap<String, String> },
    /// A key that an object lacks is put in, with null.
    NullFill,
    /// A key is put in, or its value replaced.
    Stamp(Stamp),
    /// A key is put in, or its value replaced, by the measurement's uid.
    ContentId,
    /// A number becomes a text in UTC.
    EpochToTime { unit: Unit, format: String },
    /// Keys of the document get other names.
    RenameKeys { map: BTreeMap<String, String> },
    /// Keys of the document that are not listed move into an object in it.
    Nest {
        keep: BTreeSet<String>,
        into: String,
    },
    /// A string with bytes in it that are no text becomes an object with base64.
    Bytes,
    /// The member or element is left out.
    Drop,
    /// What a pattern finds in a string is replaced.
    Redact { pattern: Pattern, with: String },
    /// A value becomes a pseudonym: the same for the same value, and nothing that leads back without the lake's key.
    Hmac { domain: String },
    /// An address keeps its first bits.
    TruncateIp { v4: u8, v6: u8 },
    /// A string, or what a pattern finds in it, becomes what a table says.
    Lookup {
        table: String,
        pattern: Option<Pattern>,
        missing: Missing,
    },
}

/// What is stamped.
#[derive(Debug, Serialize)]
pub(crate) enum Stamp {
    BucketDate,
    Textname,
    Kind,
    ReportId,
    Text(String),
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) enum Unit {
    Seconds,
    Milliseconds,
}

/// What stands for a string that a table lacks.
#[derive(Debug, Serialize)]
pub(crate) enum Missing {
    Keep,
    Null,
    Hmac,
}

/// A regular expression that was checked.
#[derive(Debug, Serialize)]
pub(crate) struct Pattern {
    text: String,
    #[serde(skip)]
    regex: Regex,
}

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let regex = regex::RegexBuilder::new(text)
            .size_limit(1 << 20)
            .build()
            .map_err(|error| {
                let reason = error.to_string();
                let last = reason.lines().last().unwrap_or_default();
                let last = last.strip_prefix("error: ").unwrap_or(last);
                format!("`{text}` is not a regular expression: {last}")
            })?;
        Ok(Self {
            text: text.to_owned(),
            regex,
        })
    }

    pub(crate) fn regex(&self) -> &Regex {
        &self.regex
    }
}

impl Rule {
    /// Whether it puts in a key where that is missing.
    pub(crate) fn sets(&self) -> bool {
        matches!(self.op, Op::NullFill | Op::Stamp(_) | Op::ContentId)
    }

    /// Whether it arranges the keys of the document, before all other rules.
    pub(crate) fn restructures(&self) -> bool {
        matches!(self.op, Op::RenameKeys { .. } | Op::Nest { .. })
    }

    /// Whether it looks at every string.
    pub(crate) fn is_everywhere(&self) -> bool {
        matches!(self.op, Op::Bytes) && self.at.is_empty()
    }
}

impl When {
    /// Whether a measurement of this kind and version is meant. A version that the rules do not know is never meant by a
    /// rule that names versions.
    pub(crate) fn holds(&self, kind: &str, version: &crate::sanitiser::Version) -> bool {
        use crate::sanitiser::Version;
        // Kinds come from names that anybody may choose: another case must not be a way around a rule.
        let kind = kind.to_ascii_lowercase();
        let kind_fits = |wanted: &String| match wanted.to_ascii_lowercase().strip_suffix('*') {
            Some(start) => kind.starts_with(start),
            None => kind == wanted.to_ascii_lowercase(),
        };
        let version_fits = |wanted: &Option<String>| match version {
            Version::Absent => wanted.is_none(),
            Version::Known(version) => wanted.as_ref() == Some(version),
            Version::Unknown => false,
        };
        (self.kinds.is_empty() || self.kinds.iter().any(kind_fits))
            && (self.versions.is_empty() || self.versions.iter().any(version_fits))
    }
}

#[cfg(test)]
mod tests {
    use super::When;
    use crate::sanitiser::Version;

    #[test]
    fn another_case_is_no_way_around_a_rule() {
        let when = When {
            kinds: vec!["bridge_reachability".to_owned(), "spool-*".to_owned()],
            versions: Vec::new(),
        };
        for (kind, holds) in [
            ("bridge_reachability", true),
            ("Bridge_Reachability", true),
            ("spool-NDT", true),
            ("ndt", false),
        ] {
            assert_eq!(when.holds(kind, &Version::Absent), holds, "{kind}");
        }
    }
}
