//! Which rules are newer: a set of rules with what its author calls it, and the object that says which set is in force.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Generation;

/// A set of rules as it is recorded: what it makes, and what its files call themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edition {
    /// What it makes: it follows from all that the rules mean.
    pub generation: Generation,
    /// The `version` of the rules. Where there is none, anything with one is newer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The version of each lookup table.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<String, String>,
}

/// How one set of rules stands to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// They make the same, and nothing is to be recorded.
    Same,
    /// It is to take the place of the other.
    Newer,
    /// The other has taken its place.
    Older,
    /// They make different things and are called the same: only a person can tell.
    Unclear,
}

/// What `autoclaved/current.json` says. It is replaced only by naming the version that is replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Current {
    /// The generation that is to be read, and its rules.
    #[serde(flatten)]
    pub in_force: Edition,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The rules by which archives are made now; they are in force once everything was made by them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Edition>,
}

impl Edition {
    /// How it stands to another: by the versions of the rules, and where these are equal by those of the lookup tables.
    #[must_use]
    pub fn rank(&self, other: &Self) -> Rank {
        let order = match compare(self.version.as_deref(), other.version.as_deref()) {
            Ordering::Equal => self.compare_tables(other),
            order => Some(order),
        };
        match (order, self.generation == other.generation) {
            (Some(Ordering::Greater), _) => Rank::Newer,
            // What is called older and makes the same does no harm.
            (_, true) => Rank::Same,
            (Some(Ordering::Less), false) => Rank::Older,
            (Some(Ordering::Equal) | None, false) => Rank::Unclear,
        }
    }

    /// Nothing when some tables are newer and others older, or when they are others.
    fn compare_tables(&self, other: &Self) -> Option<Ordering> {
        if !self.tables.keys().eq(other.tables.keys()) {
            return None;
        }
        let versions = self.tables.values().zip(other.tables.values());
        let mut order = Ordering::Equal;
        for (ours, theirs) in versions {
            match (order, compare(Some(ours), Some(theirs))) {
                (_, Ordering::Equal) => {}
                (Ordering::Equal, one) => order = one,
                (before, one) if before == one => {}
                _ => return None,
            }
        }
        Some(order)
    }
}

impl Current {
    /// The rules by which archives are made.
    #[must_use]
    pub fn newest(&self) -> &Edition {
        self.next.as_ref().unwrap_or(&self.in_force)
    }

    /// The object.
    #[must_use]
    pub fn to_object(&self) -> Vec<u8> {
        let mut json = serde_json::to_vec(self).expect("texts with texts for keys are JSON");
        json.push(b'\n');
        json
    }

    /// Reads the object. Fields that are not known are passed over.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_object(content: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(content)
    }
}

fn compare(a: Option<&str>, b: Option<&str>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => compare_versions(a, b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

/// As a person counts: runs of digits are numbers, so `9` comes before `10`, and `2026-09-30` before `2026-11-01`.
fn compare_versions(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    while !a.is_empty() && !b.is_empty() {
        let (one, two) = (run(a), run(b));
        let order = match (number(one), number(two)) {
            (Some(one), Some(two)) => one.len().cmp(&two.len()).then_with(|| one.cmp(two)),
            _ => one.cmp(two),
        };
        if order != Ordering::Equal {
            return order;
        }
        (a, b) = (&a[one.len()..], &b[two.len()..]);
    }
    a.len().cmp(&b.len())
}

/// The digits, or all else, that a text begins with.
fn run(text: &str) -> &str {
    let is_digit = text.starts_with(|c: char| c.is_ascii_digit());
    let end = text.find(|c: char| c.is_ascii_digit() != is_digit);
    &text[..end.unwrap_or(text.len())]
}

fn number(run: &str) -> Option<&str> {
    let is_number = run.starts_with(|c: char| c.is_ascii_digit());
    is_number.then(|| run.trim_start_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Digest;

    fn edition(means: &str, version: Option<&str>, tables: &[(&str, &str)]) -> Edition {
        let tables = tables.iter();
        Edition {
            generation: Generation::of(Digest::of(means.as_bytes())),
            version: version.map(str::to_owned),
            tables: tables
                .map(|(name, version)| ((*name).to_owned(), (*version).to_owned()))
                .collect(),
        }
    }

    #[test]
    fn versions_are_in_the_order_in_which_a_person_counts() {
        let ordered = [
            "",
            "0",
            "1",
            "1.2",
            "1.10",
            "2",
            "9",
            "10",
            "2026-9-30",
            "2026-11-01",
            "2026-11-01b",
            "a",
            "a9",
            "a10",
            "b",
        ];
        for (at, a) in ordered.iter().enumerate() {
            for (other, b) in ordered.iter().enumerate() {
                assert_eq!(compare_versions(a, b), at.cmp(&other), "{a:?} and {b:?}");
            }
        }
        assert_eq!(compare_versions("2026-09-30", "2026-9-30"), Ordering::Equal);
        let long = "9".repeat(100);
        assert_eq!(compare_versions(&long, "10"), Ordering::Greater);
    }

    #[test]
    fn newer_rules_are_those_with_the_higher_version() {
        let t = |version| [("bridges", version)];
        for (ours, theirs, rank) in [
            (
                edition("a", Some("1"), &[]),
                edition("a", Some("1"), &[]),
                Rank::Same,
            ),
            (
                edition("a", Some("1"), &[]),
                edition("a", Some("2"), &[]),
                Rank::Same,
            ),
            (
                edition("a", Some("2"), &[]),
                edition("a", Some("1"), &[]),
                Rank::Newer,
            ),
            (
                edition("a", Some("2"), &[]),
                edition("b", Some("1"), &[]),
                Rank::Newer,
            ),
            (
                edition("a", Some("1"), &[]),
                edition("b", Some("2"), &[]),
                Rank::Older,
            ),
            (
                edition("a", Some("1"), &[]),
                edition("b", Some("1"), &[]),
                Rank::Unclear,
            ),
            (
                edition("a", Some("1"), &[]),
                edition("b", None, &[]),
                Rank::Newer,
            ),
            (
                edition("a", None, &[]),
                edition("b", Some("1"), &[]),
                Rank::Older,
            ),
            (
                edition("a", None, &[]),
                edition("b", None, &[]),
                Rank::Unclear,
            ),
            // Of the same rules, those with the newer table.
            (
                edition("a", Some("1"), &t("2")),
                edition("b", Some("1"), &t("1")),
                Rank::Newer,
            ),
            (
                edition("a", Some("1"), &t("1")),
                edition("b", Some("1"), &t("2")),
                Rank::Older,
            ),
            (
                edition("a", Some("1"), &t("1")),
                edition("b", Some("1"), &t("1")),
                Rank::Unclear,
            ),
            (
                edition("a", Some("1"), &t("1")),
                edition("b", Some("1"), &[]),
                Rank::Unclear,
            ),
            (
                edition("a", Some("1"), &[("x", "1"), ("y", "2")]),
                edition("b", Some("1"), &[("x", "2"), ("y", "1")]),
                Rank::Unclear,
            ),
            (
                edition("a", Some("1"), &[("x", "2"), ("y", "3")]),
                edition("b", Some("1"), &[("x", "1"), ("y", "3")]),
                Rank::Newer,
            ),
        ] {
            assert_eq!(ours.rank(&theirs), rank, "{ours:?} and {theirs:?}");
        }
    }

    #[test]
    fn the_object_of_an_older_program_and_of_a_newer_one_are_read() {
        let in_force = edition("abc", None, &[]);
        let generation = in_force.generation;
        let first = Current {
            in_force,
            since: None,
            next: None,
        };
        assert_eq!(first.to_object(), b"{\"generation\":\"rba7816bf\"}\n");
        let later = b"{\"generation\":\"rba7816bf\",\"colour\":1}";
        assert_eq!(Current::from_object(later).unwrap(), first);
        assert!(Current::from_object(b"{}").is_err());
        let whole = Current {
            in_force: edition("abc", Some("1"), &[("t", "7")]),
            since: Some("2026-11-17T12:00:00Z".parse().unwrap()),
            next: Some(edition("def", Some("2"), &[])),
        };
        assert_eq!(Current::from_object(&whole.to_object()).unwrap(), whole);
        let newest = whole.newest();
        assert_ne!(newest.generation, generation);
        assert_eq!(first.newest().generation, generation);
    }
}
