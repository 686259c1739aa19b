//! A configuration as a tree whose every value knows its line.
//!
//! The step between YAML and the typed configuration exists because environment values are put in after parsing (so a
//! value with a newline stays one scalar) and because an error in a value names its line.

use serde::Deserialize;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::ConfigError;

/// A configuration is written by hand; more than this is a mistake or an attack.
pub(crate) const TEXT_BYTES_MAX: usize = 1024 * 1024;

const NODES_MAX: usize = 50_000;
const DEPTH_MAX: usize = 32;

/// A value and the line it stands on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) line: u64,
    pub(crate) value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// As written: `007` is a number to YAML, but may be meant as a name.
    Number(String),
    Text(String),
    List(Vec<Node>),
    /// In the order of the file; keys are unique.
    Map(Vec<(String, Node)>),
}

/// Reads a YAML document. An empty one is an empty map.
pub(crate) fn parse(text: &str) -> Result<Node, ConfigError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(ConfigError::new(
            0,
            format!(
                "it has {} bytes; a configuration has at most {TEXT_BYTES_MAX}",
                text.len()
            ),
        ));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: NODES_MAX, max_depth: DEPTH_MAX, max_aliases: 1_000 },
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::Error,
        with_snippet: false,
    };
    let quoted = quote_templates(text);
    let parsed: Option<Spanned<Raw>> = serde_saphyr::from_str_with_options(&quoted, options)
        .map_err(|error| {
            let line = error.location().map_or(0, |location| location.line());
            ConfigError::new(line, plain(&error))
        })?;
    match parsed.map(|raw| into_node(raw, &quoted)) {
        None
        | Some(Node {
            value: Value::Null, ..
        }) => Ok(Node {
            line: 0,
            value: Value::Map(Vec::new()),
        }),
        Some(node) => Ok(node),
    }
}

/// Whether there is nothing in the document, or only `null`.
pub(crate) fn is_blank(text: &str) -> bool {
    parse(text).is_ok_and(|node| node.line == 0 && node.value == Value::Map(Vec::new()))
}

/// The first line of the parser's message: the snippet that follows could quote a secret.
fn plain(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    text.lines().next().unwrap_or("it is not YAML").to_owned()
}

/// Puts quotes around every unquoted `{{ … }}`, which YAML would take for a map in a map.
fn quote_templates(text: &str) -> String {
    text.split_inclusive('\n').map(quote_line).collect()
}

fn quote_line(line: &str) -> String {
    let (mut quoted, mut done, mut from) = (String::with_capacity(line.len()), 0, 0);
    while let Some(found) = line[from..].find("{{") {
        let start = from + found;
        let Some(value) = template_at(line, start) else {
            from = start + 2;
            continue;
        };
        quoted.push_str(&line[done..start]);
        quoted.push('\'');
        quoted.push_str(&value.replace('\'', "''"));
        quoted.push('\'');
        (done, from) = (start + value.len(), start + value.len());
    }
    quoted + &line[done..]
}

/// The value of a line that begins at a `{{`, if one begins there.
fn template_at(line: &str, start: usize) -> Option<&str> {
    let before = line[..start].trim_end();
    let is_open = |quote: char| before.matches(quote).count() % 2 == 1;
    if before.trim_start().starts_with('#') || is_open('"') || is_open('\'') {
        return None;
    }
    let count = |brackets: [char; 2]| before.matches(brackets).count();
    let is_in_flow = count(['{', '[']) > count(['}', ']']);
    // Without white space between, a colon is no end of a key: it stands in a value such as `postgres://user:{{ … }}@host`.
    let is_apart = before.len() < start;
    let ends_a_key = before.ends_with(':') || before.trim() == "-" || before.ends_with(" -");
    let begins = (is_apart && ends_a_key) || (is_in_flow && before.ends_with(['[', ',']));
    match (begins, is_in_flow) {
        (false, _) => None,
        (true, true) => Some(flow_value(&line[start..])),
        (true, false) => {
            let value = &line[start..];
            let end = value.find(" #").unwrap_or(value.len());
            Some(without_brackets(value[..end].trim_end()))
        }
    }
}

/// In a flow map or list a value ends at a comma or a closing bracket that is none of a template.
fn flow_value(text: &str) -> &str {
    let mut from = 0;
    while let Some(close) = text[from..].find("}}") {
        let close = from + close + 2;
        let rest = &text[close..];
        let end = rest.find([',', '}', ']']).unwrap_or(rest.len());
        match rest[..end].find("{{") {
            Some(next) => from = close + next,
            None => return text[..close + end].trim_end(),
        }
    }
    text.trim_end()
}

/// Leaves out the closing brackets of a flow map or list around the value.
fn without_brackets(value: &str) -> &str {
    let mut end = 0;
    while let Some(close) = value[end..]
        .find("{{")
        .and_then(|open| value[end + open..].find("}}").map(|at| end + open + at + 2))
    {
        end = close;
    }
    let tail = value[end..].trim();
    if end > 0 && !tail.is_empty() && tail.chars().all(|c| "}],".contains(c)) {
        &value[..end]
    } else {
        value
    }
}

#[derive(Debug)]
enum Raw {
    Null,
    Bool(bool),
    Number,
    Text(String),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(String, Spanned<Raw>)>),
}

fn into_node(raw: Spanned<Raw>, source: &str) -> Node {
    let line = raw.referenced.line();
    let value = match raw.value {
        Raw::Null => Value::Null,
        Raw::Bool(value) => Value::Bool(value),
        Raw::Number => Value::Number(written(raw.defined.span(), source)),
        Raw::Text(value) => Value::Text(value),
        Raw::List(items) => Value::List(
            items
                .into_iter()
                .map(|item| into_node(item, source))
                .collect(),
        ),
        Raw::Map(entries) => Value::Map(
            entries
                .into_iter()
                .map(|(key, value)| (key, into_node(value, source)))
                .collect(),
        ),
    };
    Node { line, value }
}

fn written(span: serde_saphyr::Span, source: &str) -> String {
    let place = |at: Option<u64>| usize::try_from(at.unwrap_or_default()).unwrap_or_default();
    let start = place(span.byte_offset());
    source
        .get(start..start + place(span.byte_len()))
        .unwrap_or_default()
        .trim()
        .to_owned()
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_some<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        Raw::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(value))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Raw, E> {
        Ok(Raw::Number)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Raw, E> {
        Ok(Raw::Number)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Raw, E> {
        Ok(Raw::Number)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Raw, E> {
        Ok(Raw::Number)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Raw, E> {
        Ok(Raw::Number)
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry::<String, Spanned<Raw>>()? {
            map.push(entry);
        }
        Ok(Raw::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get<'a>(node: &'a Node, key: &str) -> &'a Node {
        let Value::Map(entries) = &node.value else {
            panic!("not a map: {node:?}")
        };
        &entries.iter().find(|(name, _)| name == key).unwrap().1
    }

    #[test]
    fn values_know_their_lines() {
        let tree = parse("a: 1\nb:\n  c: x\n  d: [true, null]\n").unwrap();
        assert_eq!(
            get(&tree, "a"),
            &Node {
                line: 1,
                value: Value::Number("1".into())
            }
        );
        let b = get(&tree, "b");
        assert_eq!(
            get(b, "c"),
            &Node {
                line: 3,
                value: Value::Text("x".into())
            }
        );
        let Value::List(items) = &get(b, "d").value else {
            panic!()
        };
        assert_eq!(items[1].value, Value::Null);
    }

    #[test]
    fn nothing_is_an_empty_map() {
        for text in ["", "\n", "# only a comment\n", "---\n"] {
            assert_eq!(parse(text).unwrap().value, Value::Map(vec![]), "{text:?}");
            assert!(is_blank(text), "{text:?}");
        }
        assert!(is_blank("null") && is_blank("~\n"));
        assert!(!is_blank("{}\n") && !is_blank("a: 1\n") && !is_blank("["));
    }

    #[test]
    fn an_unquoted_template_is_one_value() {
        let tree =
            parse("a: {{ .NAME }}\nb: {{ env.X }}-tail # note\nc:\n  - {{ env.Y }}\nd: {x: 1}\n")
                .unwrap();
        assert_eq!(get(&tree, "a").value, Value::Text("{{ .NAME }}".into()));
        assert_eq!(
            get(&tree, "b").value,
            Value::Text("{{ env.X }}-tail".into())
        );
        let Value::List(items) = &get(&tree, "c").value else {
            panic!()
        };
        assert_eq!(
            items[0],
            Node {
                line: 4,
                value: Value::Text("{{ env.Y }}".into())
            }
        );
        assert!(matches!(get(&tree, "d").value, Value::Map(_)));
        let inside = parse("e: postgres://u:{{ .P }}@h/d # note\nf: 'x:{{ .P }}'\n").unwrap();
        assert_eq!(
            get(&inside, "e").value,
            Value::Text("postgres://u:{{ .P }}@h/d".into())
        );
        assert_eq!(get(&inside, "f").value, Value::Text("x:{{ .P }}".into()));
        let several = parse("h: {a: \"{{ .S }}\", b: {{ .O }}, d: {{ .Q }}-{{ .R }} }\n").unwrap();
        for (key, value) in [
            ("a", "{{ .S }}"),
            ("b", "{{ .O }}"),
            ("d", "{{ .Q }}-{{ .R }}"),
        ] {
            let found = get(get(&several, "h"), key);
            assert_eq!(found.value, Value::Text(value.into()), "{key}");
        }
        let list = parse("l: [{{ .A }}, \"b\", {{ .C }}]\n").unwrap();
        let Value::List(items) = &get(&list, "l").value else {
            panic!()
        };
        let items: Vec<_> = items.iter().map(|item| item.value.clone()).collect();
        let text = |text: &str| Value::Text(text.into());
        assert_eq!(items, [text("{{ .A }}"), text("b"), text("{{ .C }}")]);
        let flow = parse("s: {listen: {{ .L }}}\n").unwrap();
        assert_eq!(
            get(get(&flow, "s"), "listen").value,
            Value::Text("{{ .L }}".into())
        );
    }

    #[test]
    fn hostile_documents_are_refused_quickly() {
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for n in 1..12 {
            let before = n - 1;
            bomb += &format!(
                "a{n}: &a{n} [{}]\n",
                vec![format!("*a{before}"); 10].join(",")
            );
        }
        assert!(parse(&bomb).is_err());
        assert!(parse(&"[".repeat(10_000)).is_err());
        assert!(parse(&"a".repeat(TEXT_BYTES_MAX + 1)).is_err());
        let twice = parse("a: 1\na: 2\n").unwrap_err().to_string();
        assert!(twice.contains("duplicate"), "{twice}");
    }
}
