//! Prints schemas, always in the same way: the same schema is the same bytes.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::field::{Field, Kind, Mode, RangeElement};

pub(super) fn to_bytes(fields: &[Field]) -> Vec<u8> {
    let mut text = Vec::new();
    let one_space = serde_json::ser::PrettyFormatter::with_indent(b" ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, one_space);
    fields
        .serialize(&mut serializer)
        .expect("a schema is plain data, and memory takes it");
    text.push(b'\n');
    text
}

impl Serialize for Field {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut properties = serializer.serialize_map(None)?;
        if let Some(description) = &self.description {
            properties.serialize_entry("description", description)?;
        }
        if !self.fields.is_empty() {
            properties.serialize_entry("fields", &self.fields)?;
        }
        if self.mode != Mode::Nullable {
            properties.serialize_entry("mode", self.mode.name())?;
        }
        properties.serialize_entry("name", &self.name)?;
        if let Kind::Range(element) = &self.kind {
            properties.serialize_entry("rangeElementType", element)?;
        }
        properties.serialize_entry("type", self.kind.name())?;
        properties.end()
    }
}

impl Serialize for RangeElement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut properties = serializer.serialize_map(Some(1))?;
        properties.serialize_entry("type", self.name())?;
        properties.end()
    }
}
