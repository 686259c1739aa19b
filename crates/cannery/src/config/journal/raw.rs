//! A journal as it is written in the configuration.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use cannery_journal::{FieldType, OnEmpty, Period};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::EngineAddress;
use crate::config::units::Span;

/// One journal. What is left out is as in the journal `default`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map of keys")]
pub(crate) struct RawJournal {
    /// Where it is kept: `embedded`, in the workspace, or postgres://USER@HOST/DATABASE. Default: embedded
    pub(crate) engine: Option<EngineAddress>,
    /// How long a claim holds without a heartbeat. Default: 2m
    pub(crate) lease: Option<Span>,
    /// How often an entry may time out or fail before it goes to the dead list. Default: 5
    pub(crate) timeouts_max: Option<u64>,
    /// How long adds of the same key may put off the first one, or `none`. Default: none
    pub(crate) max_delay: Option<OrNone>,
    /// After how long the embedded engine takes new files. Default: 1d
    #[serde(deserialize_with = "word")]
    #[schemars(with = "Option<PeriodWord>")]
    pub(crate) period: Option<Period>,
    /// What the embedded engine does with the files of an empty journal. Default: reset
    #[serde(deserialize_with = "word")]
    #[schemars(with = "Option<OnEmptyWord>")]
    pub(crate) on_empty: Option<OnEmpty>,
    /// After how long an entry expires whose add does not say it, or `none`. Default: none
    pub(crate) expiry: Option<OrNone>,
    /// Whether the same key waiting twice becomes one entry. Default: on
    pub(crate) merge: Option<Switch>,
    /// Whether the embedded engine overwrites what it frees. Default: off
    pub(crate) wipe: Option<Switch>,
    /// The fields of the data that make the key. Default: none, and every add names its key
    pub(crate) key: Option<Vec<String>>,
    /// The fields of the data with their types. Default: none, and any JSON is taken
    #[schemars(with = "Option<BTreeMap<String, FieldWord>>")]
    pub(crate) fields: Option<BTreeMap<String, FieldType>>,
}

/// For the schema: the journal's own types know nothing of it.
#[derive(JsonSchema)]
#[schemars(rename = "Period")]
#[allow(dead_code, reason = "it is only described")]
enum PeriodWord {
    #[schemars(rename = "1h")]
    Hour,
    #[schemars(rename = "1d")]
    Day,
    #[schemars(rename = "1mo")]
    Month,
    #[schemars(rename = "none")]
    None,
}

#[derive(JsonSchema)]
#[schemars(rename = "OnEmpty", rename_all = "lowercase")]
#[allow(dead_code, reason = "it is only described")]
enum OnEmptyWord {
    Delete,
    Reset,
    Truncate,
}

#[derive(JsonSchema)]
#[schemars(rename = "FieldType", rename_all = "lowercase")]
#[allow(dead_code, reason = "it is only described")]
enum FieldWord {
    Bool,
    I64,
    U64,
    F64,
    String,
    Bytes,
    Time,
    Json,
}

fn word<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    Option::<T>::deserialize(from)
}

/// A duration, or `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OrNone(pub(crate) Option<Span>);

impl FromStr for OrNone {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(None)),
            span => span
                .parse()
                .map(|span| Self(Some(span)))
                .map_err(|reason: String| format!("{reason}, or `none`")),
        }
    }
}

impl<'de> Deserialize<'de> for OrNone {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl Serialize for OrNone {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(span) => span.serialize(to),
            None => to.serialize_str("none"),
        }
    }
}

impl JsonSchema for OrNone {
    fn schema_name() -> Cow<'static, str> {
        "DurationOrNone".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A duration such as 500ms, 5s, 2m, 1h30m or 1d, or none",
            "pattern": "^(none|([0-9]+(ms|s|m|h|d))+)$"
        })
    }
}

/// `on` or `off`: to some readers of YAML these are booleans, to others texts, and both mean the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Switch(pub(crate) bool);

impl FromStr for Switch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "on" | "true" | "yes" => Ok(Self(true)),
            "off" | "false" | "no" => Ok(Self(false)),
            _ => Err(format!("`{}` is neither on nor off", text.escape_debug())),
        }
    }
}

impl<'de> Deserialize<'de> for Switch {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(SwitchVisitor)
    }
}

struct SwitchVisitor;

impl Visitor<'_> for SwitchVisitor {
    type Value = Switch;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("on or off")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Switch, E> {
        Ok(Switch(value))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Switch, E> {
        text.parse().map_err(E::custom)
    }
}

impl JsonSchema for Switch {
    fn schema_name() -> Cow<'static, str> {
        "Switch".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": ["on", "off", true, false] })
    }
}
