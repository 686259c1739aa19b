//! Where reports come from.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use cannery_formats::feed::FeedId;
use cannery_formats::spool::{Datatype, Experiment};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The reports that are in the lake.
const REPORTS_IN_LAKE: &str = "lake:reports-raw";

/// A place where reports come from: one of its keys.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map of keys")]
pub(crate) struct RawInput {
    /// A folder of report files, FOLDER/YYYY-MM-DD/FILE; `lake:reports-raw` for those in the lake.
    pub(crate) reports: Option<String>,
    /// Bundles of spools: `all`, or a list of EXPERIMENT and EXPERIMENT/DATATYPE.
    pub(crate) spools: Option<Selection>,
    /// Hours of feeds: `all`, or a list of their ids.
    pub(crate) feeds: Option<Selection>,
}

/// A place where reports come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Input {
    Reports(ReportsPlace),
    Spools(Selection),
    Feeds(Selection),
}

/// Where report files are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum ReportsPlace {
    #[serde(rename = "lake:reports-raw")]
    Lake,
    #[serde(untagged)]
    Folder(PathBuf),
}

/// All that there are, or some by their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    All,
    Only(Vec<String>),
}

impl Serialize for Selection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("all"),
            Self::Only(names) => names.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Selection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SelectionVisitor)
    }
}

struct SelectionVisitor;

impl<'de> Visitor<'de> for SelectionVisitor {
    type Value = Selection;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`all`, or a list of names")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Selection, E> {
        match text {
            "all" => Ok(Selection::All),
            _ => Err(E::custom("expected `all`, or a list of names")),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Selection, A::Error> {
        let mut only = Vec::new();
        while let Some(name) = names.next_element()? {
            only.push(name);
        }
        Ok(Selection::Only(only))
    }
}

impl JsonSchema for Selection {
    fn schema_name() -> Cow<'static, str> {
        "Selection".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "const": "all" },
                { "type": "array", "items": { "type": "string" } }
            ]
        })
    }
}

/// Everything, where nothing is said.
pub(super) fn check(raw: Option<Vec<RawInput>>, workspace: &Path) -> Result<Vec<Input>, String> {
    let Some(raw) = raw else {
        return Ok(vec![
            Input::Reports(ReportsPlace::Folder(workspace.join("reports-raw"))),
            Input::Spools(Selection::All),
            Input::Feeds(Selection::All),
        ]);
    };
    let mut inputs: Vec<Input> = Vec::new();
    for (at, raw) in raw.into_iter().enumerate() {
        let input = one(raw).map_err(|(key, reason)| match key {
            "" => format!("`inputs.{at}`: {reason}"),
            key => format!("`inputs.{at}.{key}`: {reason}"),
        })?;
        let is_same =
            |other: &Input| std::mem::discriminant(other) == std::mem::discriminant(&input);
        if inputs.iter().any(is_same) {
            let key = input.key();
            return Err(format!(
                "`inputs.{at}.{key}`: there is an entry with `{key}` before it"
            ));
        }
        inputs.push(input);
    }
    Ok(inputs)
}

impl RawInput {
    /// Whether reports come from a folder of this machine.
    pub(crate) fn names_folder(&self) -> bool {
        let reports = self.reports.as_deref();
        reports.is_some_and(|reports| reports != REPORTS_IN_LAKE)
    }
}

impl Input {
    fn key(&self) -> &'static str {
        match self {
            Self::Reports(_) => "reports",
            Self::Spools(_) => "spools",
            Self::Feeds(_) => "feeds",
        }
    }
}

fn one(raw: RawInput) -> Result<Input, (&'static str, String)> {
    match raw {
        RawInput {
            reports: Some(reports),
            spools: None,
            feeds: None,
        } => reports_place(&reports)
            .map(Input::Reports)
            .map_err(|reason| ("reports", reason)),
        RawInput {
            reports: None,
            spools: Some(spools),
            feeds: None,
        } => {
            check_names(&spools, is_spool, "an experiment or EXPERIMENT/DATATYPE")
                .map_err(|reason| ("spools", reason))?;
            Ok(Input::Spools(spools))
        }
        RawInput {
            reports: None,
            spools: None,
            feeds: Some(feeds),
        } => {
            check_names(&feeds, |name| FeedId::new(name).is_ok(), "the id of a feed")
                .map_err(|reason| ("feeds", reason))?;
            Ok(Input::Feeds(feeds))
        }
        _ => Err((
            "",
            "write one of `reports`, `spools` and `feeds`".to_owned(),
        )),
    }
}

fn reports_place(text: &str) -> Result<ReportsPlace, String> {
    match text {
        "" => Err("it is empty: write a folder, or `lake:reports-raw`".to_owned()),
        REPORTS_IN_LAKE => Ok(ReportsPlace::Lake),
        folder => Ok(ReportsPlace::Folder(Path::new(folder).to_owned())),
    }
}

fn is_spool(name: &str) -> bool {
    let (experiment, datatype) = match name.split_once('/') {
        Some((experiment, datatype)) => (experiment, Some(datatype)),
        None => (name, None),
    };
    Experiment::new(experiment).is_ok()
        && datatype.is_none_or(|datatype| Datatype::new(datatype).is_ok())
}

fn check_names(
    selection: &Selection,
    is_sound: impl Fn(&str) -> bool,
    what: &str,
) -> Result<(), String> {
    let Selection::Only(names) = selection else {
        return Ok(());
    };
    match names.iter().find(|name| !is_sound(name)) {
        Some(name) => Err(format!("`{}` is not {what}", name.escape_debug())),
        None => Ok(()),
    }
}
