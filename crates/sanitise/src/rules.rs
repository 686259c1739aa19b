//! The rules file: what is done to measurements before anybody may read them.
//!
//! YAML. `version` names the state of the file and is recorded beside what was made with it; [`Rules::hash`] says what the
//! rules mean and names the generation of archives.

mod check;
mod op;
mod raw;
mod table;
mod time;

use std::collections::{BTreeMap, BTreeSet};

use cannery_formats::Digest;
use cannery_formats::archive::{Edition, Generation};
use serde::Serialize;

use crate::plan::Plan;
pub(crate) use op::{Missing, Op, Pattern, Rule, Stamp, Unit, When};
pub(crate) use table::Table;
pub use time::TimeFormat;
pub(crate) use time::{TimeSource, format_time, milliseconds};

/// To be raised when the same rules make something else than before: it is part of the hash.
const SEMANTICS: u32 = 1;

/// The version of rules that are in no file.
const NO_FILE: &str = "none";

/// Rules that were checked, with their lookup tables.
#[derive(Debug)]
pub struct Rules {
    version: String,
    pub(crate) meaning: Meaning,
    pub(crate) plan: Plan,
}

/// All that decides what is made of a measurement.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Meaning {
    /// The data format versions that the rules know; empty when they do not care.
    pub(crate) versions: BTreeSet<String>,
    pub(crate) time: Vec<TimeSource>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) tables: BTreeMap<String, Table>,
}

/// What is wrong with a rules file or a lookup table, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesError {
    line: u64,
    reason: String,
}

impl RulesError {
    pub(crate) fn new(line: u64, reason: impl Into<String>) -> Self {
        Self {
            line,
            reason: reason.into(),
        }
    }

    /// The line, from 1; 0 when it is about the file as a whole.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.line
    }
}

impl std::fmt::Display for RulesError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        f.write_str(&self.reason)
    }
}

impl std::error::Error for RulesError {}

impl Rules {
    /// Rules that change nothing: what applies when there is no file.
    #[must_use]
    pub fn none() -> Self {
        Self::of(NO_FILE.to_owned(), Meaning::default()).expect("no rules have no paths that clash")
    }

    /// Reads and checks a rules file. `table` is called with the `file` of each lookup table and gives its text, or says why
    /// it cannot.
    pub fn parse(
        text: &str,
        table: impl FnMut(&str) -> Result<String, String>,
    ) -> Result<Self, RulesError> {
        let raw = raw::parse(text)?;
        let (version, meaning) = check::check(raw, table)?;
        Self::of(version, meaning)
    }

    fn of(version: String, meaning: Meaning) -> Result<Self, RulesError> {
        let plan = Plan::of(&meaning).map_err(|reason| RulesError::new(0, reason))?;
        Ok(Self {
            version,
            meaning,
            plan,
        })
    }

    /// What the file calls itself.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Eight hexadecimal digits: a function of what the rules and the content of their tables mean, whatever the order of
    /// keys, the comments and the `version` are.
    #[must_use]
    pub fn hash(&self) -> String {
        let mut hash = self.sha256().to_string();
        hash.truncate(8);
        hash
    }

    /// The whole of what [`Rules::hash`] is the beginning of.
    #[must_use]
    pub fn sha256(&self) -> Digest {
        let meaning = serde_json::to_vec(&(SEMANTICS, &self.meaning))
            .expect("rules are plain data with text for keys");
        Digest::of(&meaning)
    }

    /// The same, beside what the files call themselves: what tells newer rules from older ones. Rules that are in no file
    /// are older than any.
    #[must_use]
    pub fn edition(&self) -> Edition {
        let tables = self.tables();
        Edition {
            generation: Generation::of(self.sha256()),
            version: (self.version != NO_FILE).then(|| self.version.clone()),
            tables: tables
                .map(|(name, version)| (name.to_owned(), version.to_owned()))
                .collect(),
        }
    }

    /// Each lookup table's name and version, by name.
    pub fn tables(&self) -> impl Iterator<Item = (&str, &str)> {
        let tables = self.meaning.tables.iter();
        tables.map(|(name, table)| (name.as_str(), table.version.as_str()))
    }
}

#[cfg(test)]
mod tests;
