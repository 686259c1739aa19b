//! Reads schemas, and checks at every depth what BigQuery would only find at the next load.

use serde_json::{Map, Value};

use super::field::{Field, Kind, Mode, RangeElement};

/// How many records may lie in each other. `raw` is one of them.
pub const RECORDS_DEEP_MAX: usize = 15;

const NAME_CHARS_MAX: usize = 300;
const DESCRIPTION_CHARS_MAX: usize = 1024;
const PROPERTIES: [&str; 6] = [
    "name",
    "type",
    "mode",
    "description",
    "fields",
    "rangeElementType",
];

/// Beginnings of names that BigQuery keeps for itself, in any case.
const RESERVED: [&str; 7] = [
    "_TABLE_",
    "_FILE_",
    "_PARTITION",
    "_ROW_TIMESTAMP",
    "__ROOT__",
    "_COLIDENTIFIER",
    "_CHANGE_",
];

/// What is wrong with a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid schema{}: {reason}", in_field(.path))]
pub struct SchemaFault {
    /// Which field, such as `raw.a.b`; `raw[2]` is the third of `raw` and has no name. Empty: the whole schema.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

fn in_field(path: &str) -> String {
    if path.is_empty() {
        return String::new();
    }
    format!(", field `{}`", path.escape_debug())
}

/// Reads a datatype's schema file: a JSON array of the fields of `raw`.
///
/// # Errors
/// [`SchemaFault`] names the field and what is wrong with it.
pub fn parse_datatype(text: &[u8]) -> Result<Vec<Field>, SchemaFault> {
    let fields = array_of(text)?;
    self::fields(&fields, "raw", 1)
}

/// Reads a table schema: a JSON array of columns.
pub(super) fn table(text: &[u8]) -> Result<Vec<Field>, SchemaFault> {
    let fields = array_of(text)?;
    self::fields(&fields, "", 0)
}

fn fault(path: &str, reason: impl Into<String>) -> SchemaFault {
    SchemaFault {
        path: path.to_owned(),
        reason: reason.into(),
    }
}

fn array_of(text: &[u8]) -> Result<Vec<Value>, SchemaFault> {
    match serde_json::from_slice(text) {
        Ok(Value::Array(fields)) => Ok(fields),
        Ok(_) => Err(fault("", "it must be a JSON array of fields")),
        Err(error) => Err(fault("", format!("it is not JSON: {error}"))),
    }
}

/// The fields of the record at `path`, which lies in `records` records, itself included.
fn fields(values: &[Value], path: &str, records: usize) -> Result<Vec<Field>, SchemaFault> {
    if values.is_empty() {
        return Err(fault(path, "it has no fields; name at least one"));
    }
    let mut fields: Vec<Field> = Vec::with_capacity(values.len());
    for (position, value) in values.iter().enumerate() {
        let unnamed = format!("{path}[{position}]");
        let Value::Object(properties) = value else {
            return Err(fault(&unnamed, "a field must be a JSON object"));
        };
        let Some(name) = text(properties, "name", &unnamed)? else {
            return Err(fault(&unnamed, "it has no `name`"));
        };
        let path = if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        };
        if let Some(reason) = fault_of_name(name) {
            return Err(fault(&path, reason));
        }
        if fields.iter().any(|other| other.is_named(name)) {
            return Err(fault(
                &path,
                "the name comes twice; upper and lower case are the same to BigQuery",
            ));
        }
        fields.push(field(properties, name, &path, records)?);
    }
    Ok(fields)
}

fn field(
    properties: &Map<String, Value>,
    name: &str,
    path: &str,
    records: usize,
) -> Result<Field, SchemaFault> {
    // A property that narrows what fits, such as `maxLength`, must not be passed over: rows are checked by this schema.
    let unknown = |name: &&String| !PROPERTIES.contains(&name.as_str());
    if let Some(unknown) = properties.keys().find(unknown) {
        let unknown = unknown.escape_debug();
        return Err(fault(path, format!("unknown property `{unknown}`")));
    }
    let kind = kind(properties, path)?;
    let mode = match text(properties, "mode", path)? {
        None => Mode::default(),
        Some(mode) => Mode::of(mode).ok_or_else(|| {
            let mode = mode.escape_debug();
            fault(
                path,
                format!("unknown mode `{mode}`; it must be NULLABLE, REQUIRED or REPEATED"),
            )
        })?,
    };
    let description = text(properties, "description", path)?;
    if description.is_some_and(|text| text.chars().count() > DESCRIPTION_CHARS_MAX) {
        return Err(fault(
            path,
            "its description is longer than 1024 characters",
        ));
    }
    Ok(Field {
        name: name.to_owned(),
        kind,
        mode,
        description: description.map(str::to_owned),
        fields: fields_of(properties, kind, path, records)?,
    })
}

fn fields_of(
    properties: &Map<String, Value>,
    kind: Kind,
    path: &str,
    records: usize,
) -> Result<Vec<Field>, SchemaFault> {
    let values = match properties.get("fields") {
        None | Some(Value::Null) => &[][..],
        Some(Value::Array(values)) => values,
        Some(_) => return Err(fault(path, "its `fields` must be an array")),
    };
    if kind == Kind::Record {
        if records == RECORDS_DEEP_MAX {
            return Err(fault(path, "more than 15 records lie in each other"));
        }
        fields(values, path, records + 1)
    } else if values.is_empty() {
        Ok(Vec::new())
    } else {
        let kind = kind.name();
        Err(fault(
            path,
            format!("only a RECORD has fields, not a {kind}"),
        ))
    }
}

fn kind(properties: &Map<String, Value>, path: &str) -> Result<Kind, SchemaFault> {
    let Some(name) = text(properties, "type", path)? else {
        return Err(fault(path, "it has no `type`"));
    };
    let range = range_element(properties, path)?;
    let is_range = name.eq_ignore_ascii_case("RANGE");
    match (is_range, range) {
        (true, None) => Err(fault(path, "a RANGE needs a `rangeElementType`")),
        (false, Some(_)) => Err(fault(path, "only a RANGE has a `rangeElementType`")),
        _ => Kind::of(name, range)
            .ok_or_else(|| fault(path, format!("unknown type `{}`", name.escape_debug()))),
    }
}

fn range_element(
    properties: &Map<String, Value>,
    path: &str,
) -> Result<Option<RangeElement>, SchemaFault> {
    let element = match properties.get("rangeElementType") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(element)) if element.len() == 1 => text(element, "type", path)?,
        Some(_) => None,
    };
    let element = element.and_then(RangeElement::of).ok_or_else(|| {
        let wanted = "its `rangeElementType` must be {\"type\": \"DATE\"}, DATETIME or TIMESTAMP";
        fault(path, wanted)
    })?;
    Ok(Some(element))
}

fn text<'a>(
    properties: &'a Map<String, Value>,
    name: &str,
    path: &str,
) -> Result<Option<&'a str>, SchemaFault> {
    match properties.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(fault(path, format!("its `{name}` must be a text"))),
    }
}

fn fault_of_name(name: &str) -> Option<&'static str> {
    let begins = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !name.as_bytes().first().is_some_and(begins) || !name.bytes().all(fits) {
        return Some("a name is letters, digits and `_`, and does not begin with a digit");
    }
    if name.len() > NAME_CHARS_MAX {
        return Some("its name is longer than 300 characters");
    }
    let upper = name.to_ascii_uppercase();
    let reserved = RESERVED.iter().any(|start| upper.starts_with(start));
    reserved.then_some("BigQuery keeps names with this beginning for itself")
}
