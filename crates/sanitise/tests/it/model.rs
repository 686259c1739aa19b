//! The same rules on a tree of the whole document: slow, simple, and written without a look at spans.

use std::net::IpAddr;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Map, Value, json};

use super::{CONTEXT, KEY};

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Rename,
    NullFill,
    Stamp,
    Drop,
    Redact,
    Hmac,
    TruncateIp,
    Epoch,
    Nest,
    RenameKeys,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key(&'static str),
    Any,
    Element,
}

#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) op: Op,
    pub(crate) at: Vec<Vec<Step>>,
    /// Only for documents without a version.
    pub(crate) legacy: bool,
}

impl Rule {
    pub(crate) fn yaml(&self) -> String {
        let paths: Vec<String> = self
            .at
            .iter()
            .map(|path| format!("'{}'", path_text(path)))
            .collect();
        let at = format!("at: [{}]", paths.join(", "));
        let rest = match self.op {
            Op::Rename => format!("op: rename, {at}, map: {{x: y, y: x}}"),
            Op::NullFill => format!("op: null_fill, {at}"),
            Op::Stamp => format!("op: stamp, {at}, from: bucket_date"),
            Op::Drop => format!("op: drop, {at}"),
            Op::Redact => format!("op: redact, {at}, pattern: '[0-9]'"),
            Op::Hmac => format!("op: hmac, {at}, domain: d"),
            Op::TruncateIp => format!("op: truncate_ip, {at}"),
            Op::Epoch => format!("op: epoch_to_time, {at}"),
            Op::Nest => "op: nest, keep: [a, data_format_version], into: c".to_owned(),
            Op::RenameKeys => "op: rename_keys, map: {a: b, b: d}".to_owned(),
        };
        let when = if self.legacy {
            ", data_format_versions: [none]"
        } else {
            ""
        };
        format!("  - {{{rest}{when}}}\n")
    }

    fn sets(&self) -> bool {
        matches!(self.op, Op::NullFill | Op::Stamp)
    }
}

/// What a key says that is written as in JSON.
pub(crate) fn said(written: &str) -> String {
    serde_json::from_str(&format!("\"{written}\"")).unwrap()
}

fn path_text(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Element => text += "[]",
            Step::Key(key) => text += &format!(".\"{key}\""),
            Step::Any => text += ".*",
        }
    }
    text.trim_start_matches('.').to_owned()
}

/// What the rules make of a document.
pub(crate) fn sanitise(rules: &[Rule], document: Value) -> Value {
    let legacy = document
        .get("data_format_version")
        .is_none_or(Value::is_null);
    let rules: Vec<&Rule> = rules.iter().filter(|rule| legacy || !rule.legacy).collect();
    let Value::Object(mut members) = document else {
        panic!("a document is an object")
    };
    for rule in &rules {
        match rule.op {
            Op::Nest => members = nest(members),
            Op::RenameKeys => members = rename_keys(members),
            _ => {}
        }
    }
    let paths = rules
        .iter()
        .flat_map(|rule| rule.at.iter().map(|path| (*rule, &path[..])));
    let paths: Vec<_> = paths.collect();
    inside(Value::Object(members), &paths)
}

fn nest(members: Map<String, Value>) -> Map<String, Value> {
    let mut inner = match members.get("c") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(inner)) => inner.clone(),
        Some(_) => return members,
    };
    let (mut stay, mut moved) = (Map::new(), false);
    for (key, value) in members {
        if ["a", "c", "data_format_version"].contains(&key.as_str()) || inner.contains_key(&key) {
            stay.insert(key, value);
        } else {
            moved = true;
            inner.insert(key, value);
        }
    }
    if moved {
        stay.insert("c".to_owned(), Value::Object(inner));
    }
    stay
}

/// `a` becomes `b`, `b` becomes `d`, unless somebody is there.
fn rename_keys(members: Map<String, Value>) -> Map<String, Value> {
    let b_goes = members.contains_key("b") && !members.contains_key("d");
    let a_goes = !members.contains_key("b") || b_goes;
    let name = |key: String| match key.as_str() {
        "a" if a_goes => "b".to_owned(),
        "b" if b_goes => "d".to_owned(),
        _ => key,
    };
    members
        .into_iter()
        .map(|(key, value)| (name(key), value))
        .collect()
}

type Paths<'a> = Vec<(&'a Rule, &'a [Step])>;

fn after<'a>(paths: &Paths<'a>, fits: impl Fn(&Step) -> bool) -> Paths<'a> {
    let on = |(rule, path): &(&'a Rule, &'a [Step])| match path {
        [first, rest @ ..] if fits(first) => Some((*rule, rest)),
        _ => None,
    };
    paths.iter().filter_map(on).collect()
}

/// What becomes of a value and all in it; `None` when it is dropped.
fn value(before: Value, paths: &Paths<'_>) -> Option<Value> {
    let mut now = before.clone();
    // A rule acts once on a value, however many of its paths lead there.
    let mut here: Vec<&Rule> = paths
        .iter()
        .filter(|(_, path)| path.is_empty())
        .map(|(rule, _)| *rule)
        .collect();
    here.dedup_by_key(|rule| std::ptr::from_ref(*rule));
    for rule in here {
        now = apply(&rule.op, now)?;
    }
    Some(if now == before {
        inside(before, paths)
    } else {
        now
    })
}

fn inside(before: Value, paths: &Paths<'_>) -> Value {
    match before {
        Value::Array(items) => {
            let below = after(paths, |step| *step == Step::Element);
            items
                .into_iter()
                .filter_map(|item| value(item, &below))
                .collect()
        }
        Value::Object(members) => {
            let names: Vec<String> = members.keys().cloned().collect();
            let mut made = Map::new();
            for (key, member) in members {
                let fits = |step: &Step| {
                    *step == Step::Any || matches!(step, Step::Key(name) if said(name) == key)
                };
                if let Some(member) = value(member, &after(paths, fits)) {
                    made.insert(key, member);
                }
            }
            for (rule, path) in paths.iter().filter(|(rule, _)| rule.sets()) {
                if let [Step::Key(key)] = path
                    && !names.contains(&said(key))
                {
                    let key = said(key);
                    let stamped = made.get(&key).is_some_and(|value| !value.is_null());
                    match rule.op {
                        Op::NullFill if stamped => {}
                        Op::NullFill => drop(made.insert(key, Value::Null)),
                        _ => drop(made.insert(key, json!(CONTEXT.bucket))),
                    }
                }
            }
            Value::Object(made)
        }
        other => other,
    }
}

fn apply(op: &Op, value: Value) -> Option<Value> {
    Some(match (op, &value) {
        (Op::Drop, _) => return None,
        (Op::Stamp, _) => json!(CONTEXT.bucket),
        (Op::Rename, Value::String(text)) => match text.as_str() {
            "x" => json!("y"),
            "y" => json!("x"),
            _ => value,
        },
        (Op::Redact, Value::String(text)) => {
            let letters = text.chars().map(|char| match char {
                '0'..='9' => "[redacted]".to_owned(),
                other => other.to_string(),
            });
            json!(letters.collect::<String>())
        }
        (Op::Hmac | Op::TruncateIp, Value::Null) => value,
        (Op::Hmac, Value::String(text)) => json!(pseudonym(text)),
        (Op::Hmac, other) => json!(pseudonym(&other.to_string())),
        (Op::TruncateIp, Value::String(text)) if text.is_empty() => value,
        (Op::TruncateIp, Value::String(text)) => match text.parse() {
            Ok(IpAddr::V4(ip)) => {
                let [a, b, c, _] = ip.octets();
                json!(format!("{a}.{b}.{c}.0"))
            }
            Ok(IpAddr::V6(ip)) => {
                let [a, b, c, ..] = ip.segments();
                json!(std::net::Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0).to_string())
            }
            Err(_) => Value::Null,
        },
        (Op::TruncateIp, _) => Value::Null,
        // The documents have few numbers: the seconds of one minute.
        (Op::Epoch, Value::Number(number)) => {
            json!(format!("1970-01-01 00:00:{:02}", number.as_u64()?))
        }
        _ => value,
    })
}

fn pseudonym(value: &str) -> String {
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&KEY).unwrap();
    for part in ["-9223372036854775808", "d", value] {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part.as_bytes());
    }
    data_encoding::BASE32_NOPAD
        .encode(&mac.finalize().into_bytes()[..20])
        .to_lowercase()
}
