//! From the tree to typed values: errors name the line, and an unknown key comes with the likely one.

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};

use super::ConfigError;
use super::tree::{Node, Value};

/// Reads `T` from the tree.
pub(crate) fn read<'de, T: Deserialize<'de>>(node: &'de Node) -> Result<T, ConfigError> {
    T::deserialize(Reader(node))
}

/// A text that is taken for one only if it is one to YAML, too: `no` and `1` are refused. For names that other programs read in the same
/// file, and that are kept for years.
#[derive(Debug, Deserialize)]
pub(crate) struct PlainText(pub(crate) String);

struct Reader<'de>(&'de Node);

impl Reader<'_> {
    fn at_line<T>(&self, result: Result<T, ConfigError>) -> Result<T, ConfigError> {
        result.map_err(|error| error.or_line(self.0.line))
    }
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = ConfigError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
        let result = match &self.0.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(text) => match text.parse::<i64>() {
                Ok(number) => visitor.visit_i64(number),
                Err(_) => visitor.visit_borrowed_str(text),
            },
            Value::Text(value) => visitor.visit_borrowed_str(value),
            Value::List(items) => visitor.visit_seq(List(items.iter())),
            Value::Map(entries) => visitor.visit_map(Map {
                entries: entries.iter(),
                value: None,
            }),
        };
        self.at_line(result)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
        match &self.0.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    /// Text that a person writes without quotes may look like a number to YAML, and a number may come from the environment
    /// as text: both are meant as what the key asks for.
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
        let text = match &self.0.value {
            Value::Number(text) => text.clone(),
            Value::Bool(value) => value.to_string(),
            _ => return self.deserialize_any(visitor),
        };
        let result = visitor.visit_string(text);
        self.at_line(result)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
        match &self.0.value {
            Value::Text(text) if text == "true" || text == "false" => {
                visitor.visit_bool(text == "true")
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
        match &self.0.value {
            Value::Text(text) | Value::Number(text) => match text.parse() {
                Ok(number) => self.at_line(visitor.visit_u64(number)),
                Err(_) => self.deserialize_any(visitor),
            },
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ConfigError> {
        let result = match &self.0.value {
            Value::Text(text) => {
                let variant: StrDeserializer<'_, ConfigError> = text.as_str().into_deserializer();
                visitor.visit_enum(variant)
            }
            _ => Err(ConfigError::new(
                self.0.line,
                format!("expected one of {}", quoted(variants)),
            )),
        };
        self.at_line(result)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ConfigError> {
        if name == "PlainText" && matches!(self.0.value, Value::Bool(_) | Value::Number(_)) {
            let found = match &self.0.value {
                Value::Number(_) => "a number",
                _ => "true or false",
            };
            let reason = format!("to YAML this is {found}, not a text; write it in quotes");
            return Err(ConfigError::new(self.0.line, reason));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ConfigError> {
        self.deserialize_map(visitor)
    }

    /// `serve:` with nothing after it means "all defaults".
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
        if self.0.value == Value::Null {
            return visitor.visit_map(Map {
                entries: [].iter(),
                value: None,
            });
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
        if self.0.value == Value::Null {
            return visitor.visit_seq(List([].iter()));
        }
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 u8 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

struct List<'de>(std::slice::Iter<'de, Node>);

impl<'de> SeqAccess<'de> for List<'de> {
    type Error = ConfigError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ConfigError> {
        self.0
            .next()
            .map(|node| seed.deserialize(Reader(node)))
            .transpose()
    }
}

struct Map<'de> {
    entries: std::slice::Iter<'de, (String, Node)>,
    value: Option<(&'de str, &'de Node)>,
}

impl<'de> MapAccess<'de> for Map<'de> {
    type Error = ConfigError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ConfigError> {
        let Some((key, node)) = self.entries.next() else {
            return Ok(None);
        };
        self.value = Some((key, node));
        let name: StrDeserializer<'de, ConfigError> = key.as_str().into_deserializer();
        seed.deserialize(name)
            .map(Some)
            .map_err(|error| error.or_line(node.line))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<T::Value, ConfigError> {
        let (key, node) = self
            .value
            .take()
            .expect("a value is asked for after its key");
        seed.deserialize(Reader(node))
            .map_err(|error| error.below(key))
    }
}

impl serde::de::Error for ConfigError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::new(0, message.to_string())
    }

    /// Names what was found and does not quote it: it may be a secret in the wrong place.
    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(0, format!("expected {expected}, found {}", kind_of(found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let hint = match likely(field, expected.iter().copied()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("known here: {}", quoted(expected)),
        };
        Self::new(0, format!("unknown key `{}`; {hint}", field.escape_debug()))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::new(
            0,
            format!(
                "`{}` is not one of {}",
                variant.escape_debug(),
                quoted(expected)
            ),
        )
    }
}

/// The name that was probably meant.
pub(super) fn likely<'n>(
    written: &str,
    known: impl IntoIterator<Item = &'n str>,
) -> Option<&'n str> {
    let known = known.into_iter();
    let mistakes = known.map(|name| (strsim::damerau_levenshtein(written, name), name));
    let few = mistakes.filter(|(mistakes, name)| *mistakes <= (name.len() / 3).max(1));
    few.min_by_key(|(mistakes, _)| *mistakes)
        .map(|(_, name)| name)
}

fn kind_of(found: Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "true or false",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => "a number",
        Unexpected::Str(_) | Unexpected::Char(_) => "a text",
        Unexpected::Unit | Unexpected::Option => "nothing",
        Unexpected::Seq => "a list",
        Unexpected::Map => "a map",
        _ => "something else",
    }
}

fn quoted(names: &[&str]) -> String {
    names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}
