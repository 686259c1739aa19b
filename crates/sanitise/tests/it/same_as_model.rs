//! Any rules on any document: the same as on a tree, and what they do not touch keeps every byte.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::model::{self, Op, Rule, Step, said};
use super::{clean, rules};

/// As they are written in JSON and in paths.
const KEYS: [&str; 5] = ["a", "b", "c", "d", "k.\\\"é"];
/// Written in a way that a parser would not write again.
const UNTOUCHED: &str = r#"[ 1E+2,	"\u0061\/", {"a" :-0.0}  ]"#;

fn key() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&KEYS[..])
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0_u64..60).prop_map(Value::from),
        prop::sample::select(vec![
            "x",
            "y",
            "",
            "10.1.2.3",
            "2001:db8:1:2::3",
            "a1\"\n2",
            "é, ]}",
            "no address"
        ])
        .prop_map(Value::from),
    ]
}

fn tree() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key(), inner), 0..5).prop_map(object),
        ]
    })
}

fn object(members: Vec<(&'static str, Value)>) -> Value {
    let members = members.into_iter().map(|(key, value)| (said(key), value));
    Value::Object(members.collect::<Map<_, _>>())
}

fn document() -> impl Strategy<Value = Value> {
    let members = prop::collection::vec((key(), tree()), 0..6);
    (members, prop::option::of(Just("0.2.0"))).prop_map(|(members, version)| {
        let mut document = object(members);
        if let Some(version) = version {
            document["data_format_version"] = json!(version);
        }
        document
    })
}

fn path() -> impl Strategy<Value = Vec<Step>> {
    let next = prop_oneof![
        4 => key().prop_map(Step::Key),
        1 => Just(Step::Any),
        2 => Just(Step::Element),
    ];
    let first = prop_oneof![5 => key().prop_map(Step::Key), 1 => Just(Step::Any)];
    (first, prop::collection::vec(next, 0..3)).prop_map(|(first, mut path)| {
        path.insert(0, first);
        path
    })
}

fn rule() -> impl Strategy<Value = Rule> {
    let op = prop_oneof![
        Just(Op::Rename),
        Just(Op::NullFill),
        Just(Op::Stamp),
        Just(Op::Drop),
        Just(Op::Drop),
        Just(Op::Redact),
        Just(Op::Hmac),
        Just(Op::TruncateIp),
        Just(Op::Epoch),
        Just(Op::Nest),
        Just(Op::RenameKeys),
    ];
    (
        op,
        prop::collection::vec(path(), 1..4),
        any::<bool>(),
        key(),
    )
        .prop_map(|(op, mut at, legacy, last)| {
            match op {
                Op::Nest | Op::RenameKeys => at.clear(),
                Op::NullFill | Op::Stamp => {
                    at.iter_mut().for_each(|path| path.push(Step::Key(last)));
                }
                _ => {}
            }
            Rule { op, at, legacy }
        })
}

/// Writes a document with white space where JSON allows it.
fn write(value: &Value, spaces: &mut impl Iterator<Item = &'static str>, out: &mut String) {
    let mut space = |out: &mut String| out.push_str(spaces.next().unwrap_or_default());
    space(out);
    match value {
        Value::Array(items) => {
            out.push('[');
            for (number, item) in items.iter().enumerate() {
                out.push_str(if number > 0 { "," } else { "" });
                write(item, spaces, out);
            }
            out.push_str(spaces.next().unwrap_or_default());
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (number, (key, member)) in members.iter().enumerate() {
                out.push_str(if number > 0 { "," } else { "" });
                out.push_str(spaces.next().unwrap_or_default());
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push_str(spaces.next().unwrap_or_default());
                out.push(':');
                write(member, spaces, out);
            }
            out.push_str(spaces.next().unwrap_or_default());
            out.push('}');
        }
        scalar => {
            out.push_str(&scalar.to_string());
            space(out);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_engine_does_what_the_model_does(
        document in document(),
        list in prop::collection::vec(rule(), 0..6),
        spaces in prop::collection::vec(prop::sample::select(vec!["", "", "", " ", "\t "]), 1..40),
        place in 0_usize..6,
    ) {
        let yaml: String = list.iter().map(Rule::yaml).collect();
        let text = format!("data_format_versions: [0.2.0]\nrules:\n{yaml}");
        let checked = if yaml.is_empty() { rules("") } else { rules(&text) };
        let mut raw = String::new();
        write(&document, &mut spaces.iter().copied().cycle(), &mut raw);
        let (out, found) = clean(&checked, &raw);
        prop_assert_eq!(out.matches('\n').count(), 1);
        let made: Value = serde_json::from_str(&out).expect(&out);
        let wanted = model::sanitise(&list, document.clone());
        prop_assert_eq!(&made, &wanted, "{} on {} gives {}", text, raw, out);
        let order = |value: &Value| value.as_object().map(|object| object.keys().cloned().collect::<Vec<_>>());
        prop_assert_eq!(order(&made), order(&wanted), "the order of keys: {} on {}", text, raw);
        prop_assert!(!found.flags.unknown_version);

        // The same with a member that no rule is about.
        let touches = |rule: &Rule| {
            matches!(rule.op, Op::Nest) || rule.at.iter().any(|path| path.contains(&Step::Any))
        };
        if !list.iter().any(touches) {
            let mut more = document.as_object().unwrap().clone();
            let after = more.split_off(&place);
            more.insert("untouched".to_owned(), json!("PLACE"));
            more.extend(after);
            let mut raw = String::new();
            write(&Value::Object(more), &mut spaces.iter().copied().cycle(), &mut raw);
            let raw = raw.replace("\"PLACE\"", UNTOUCHED);
            let (out, _) = clean(&checked, &raw);
            prop_assert!(out.contains(UNTOUCHED), "{} on {} gives {}", text, raw, out);
        }
    }
}

trait SplitOff {
    fn split_off(&mut self, at: &usize) -> Map<String, Value>;
}

impl SplitOff for Map<String, Value> {
    fn split_off(&mut self, at: &usize) -> Map<String, Value> {
        let mut members: Vec<(String, Value)> = std::mem::take(self).into_iter().collect();
        let after = members.split_off((*at).min(members.len()));
        self.extend(members);
        after.into_iter().collect()
    }
}
