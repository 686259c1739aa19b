//! The types of declared fields.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use data_encoding::BASE64;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::data::Data;
use crate::error::Error;
use crate::key::Key;

/// The type of a declared field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FieldType {
    /// `true` or `false`.
    Bool,
    /// A whole number that fits into 64 bits with a sign.
    I64,
    /// A whole number that fits into 64 bits without a sign.
    U64,
    /// Any number.
    F64,
    /// Text.
    String,
    /// Bytes, as base64.
    Bytes,
    /// Milliseconds since 1970, or a date as in RFC 3339.
    Time,
    /// Anything.
    Json,
}

impl FieldType {
    const ALL: [(&'static str, Self); 8] = [
        ("bool", Self::Bool),
        ("i64", Self::I64),
        ("u64", Self::U64),
        ("f64", Self::F64),
        ("string", Self::String),
        ("bytes", Self::Bytes),
        ("time", Self::Time),
        ("json", Self::Json),
    ];

    fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, known)| *known == self)
            .map_or("?", |(name, _)| name)
    }

    fn accepts(self, value: &Value) -> bool {
        match self {
            Self::Bool => value.is_boolean(),
            Self::I64 => value.is_i64(),
            Self::U64 => value.is_u64(),
            Self::F64 => value.is_number(),
            Self::String => value.is_string(),
            Self::Bytes => value
                .as_str()
                .is_some_and(|text| BASE64.decode(text.as_bytes()).is_ok()),
            Self::Time => {
                value.is_i64()
                    || value
                        .as_str()
                        .is_some_and(|text| jiff::Timestamp::from_str(text).is_ok())
            }
            Self::Json => true,
        }
    }
}

impl FromStr for FieldType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, known)| *known)
            .ok_or_else(|| {
                let names = Self::ALL.map(|(name, _)| name).join(", ");
                Error::invalid(format!("`{text}` is not a type; there are: {names}"))
            })
    }
}

/// Checks data against declared fields: an object without a field that is not declared, each of its type. A field may be
/// missing or null, unless it belongs to the key.
pub(super) fn check(
    fields: &BTreeMap<String, FieldType>,
    key: &[String],
    data: &Data,
) -> Result<Map<String, Value>, Error> {
    if !data.as_bytes().trim_ascii_start().starts_with(b"{") {
        return Err(Error::invalid(
            "the data is not an object with the declared fields",
        ));
    }
    let values = data.to::<Fields>()?.0;
    for (name, value) in &values {
        let Some(declared) = fields.get(name) else {
            return Err(Error::invalid(format!(
                "the field `{name}` is not declared"
            )));
        };
        if !value.is_null() && !declared.accepts(value) {
            return Err(Error::invalid(format!(
                "the field `{name}` is not of its declared type {}",
                declared.name()
            )));
        }
    }
    match key
        .iter()
        .find(|name| values.get(*name).is_none_or(Value::is_null))
    {
        Some(name) => Err(Error::invalid(format!("the key field `{name}` is missing"))),
        None => Ok(values),
    }
}

/// An object in which every name stands once: of two values with one name, readers do not agree which counts.
struct Fields(Map<String, Value>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Names;

        impl<'de> Visitor<'de> for Names {
            type Value = Fields;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("an object with the declared fields")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Fields, A::Error> {
                let mut fields = Map::new();
                while let Some((name, value)) = from.next_entry::<String, Value>()? {
                    if fields.contains_key(&name) {
                        let twice = format!("the field `{name}` is there twice");
                        return Err(serde::de::Error::custom(twice));
                    }
                    fields.insert(name, value);
                }
                Ok(Fields(fields))
            }
        }

        from.deserialize_map(Names)
    }
}

/// The key that the fields make: a single text is the key itself, anything else the JSON array of the values.
pub(super) fn key_of(names: &[String], values: &Map<String, Value>) -> Result<Key, Error> {
    let parts: Vec<&Value> = names.iter().filter_map(|name| values.get(name)).collect();
    match parts.as_slice() {
        [Value::String(text)] => Key::new(text.as_str()),
        _ => Key::new(serde_json::to_string(&parts).expect("JSON values become JSON")),
    }
}
