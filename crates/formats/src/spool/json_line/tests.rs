use super::*;
use crate::JSON_DEPTH_MAX;
use proptest::prelude::*;
use serde::de::IgnoredAny;

fn line(text: &str) -> Result<String, JsonFault> {
    json_line(text.as_bytes()).map(|line| String::from_utf8(line.into_owned()).unwrap())
}

#[test]
fn one_line_stays_byte_for_byte() {
    for text in [
        r#"{"a": 9007199254740993, "b" :1e999, "a":-0.10}"#,
        r#""\u00e9\/ü""#,
        r#"[ 1 ,	2 ]"#,
        "0",
        "null",
        r#""\ud800""#,
    ] {
        let padded = format!("\r\n {text}\t\n\n");
        assert_eq!(line(&padded).as_deref(), Ok(text));
        let bytes = json_line(padded.as_bytes()).unwrap();
        assert!(matches!(bytes, Cow::Borrowed(_)), "{text} was copied");
    }
}

#[test]
fn many_lines_lose_only_the_space_between() {
    let text = "{\n  \"b\\\" c\" : [1.10, 9007199254740993,\r\n\t1E+999 ],\n \"a  b\": \" \\\\\",\n \"a  b\": {}\n}";
    assert_eq!(
        line(text).as_deref(),
        Ok(r#"{"b\" c":[1.10,9007199254740993,1E+999],"a  b":" \\","a  b":{}}"#)
    );
    // A lone carriage return ends a line for some readers.
    assert_eq!(line("[1,\r2]").as_deref(), Ok("[1,2]"));
}

#[test]
fn what_is_not_one_value_is_refused_with_the_place() {
    let syntax = |at, expected| JsonFault::Syntax { at, expected };
    for (bytes, fault) in [
        (&b""[..], JsonFault::Empty),
        (b" \n", JsonFault::Empty),
        (b"\xef\xbb\xbf{}", JsonFault::ByteOrderMark),
        (b"[\"\xff\"]", JsonFault::NotUtf8 { at: 2 }),
        (b"{} {}", JsonFault::Trailing { at: 3 }),
        (b"1\n2", JsonFault::Trailing { at: 2 }),
        (b"01", JsonFault::Trailing { at: 1 }),
        (b"[1,]", syntax(3, "a value")),
        (b"[1 2]", syntax(3, "`,` or `]`")),
        (b"{\"a\":1,}", syntax(7, "a string")),
        (b"{\"a\" 1}", syntax(5, "`:`")),
        (b"{a:1}", syntax(1, "a string")),
        (b"{", syntax(1, "a string")),
        (b"[", syntax(1, "a value")),
        (b"\"a", syntax(2, "the end of a string")),
        (b"\"\\x\"", syntax(1, "an escape that JSON knows")),
        (b"\"\\u12g4\"", syntax(1, "an escape that JSON knows")),
        (b"\"\\u123", syntax(1, "an escape that JSON knows")),
        (b"[,1]", syntax(1, "a value")),
        (b"\"\\u12", syntax(1, "an escape that JSON knows")),
        (b"\"a\nb\"", syntax(2, "no control character in a string")),
        (b"1.", syntax(2, "a digit")),
        (b"-", syntax(1, "a digit")),
        (b"1e", syntax(2, "a digit")),
        (b"+1", syntax(0, "a value")),
        (b"NaN", syntax(0, "a value")),
        (b"tru", syntax(0, "a value")),
        (b"\0", syntax(0, "a value")),
    ] {
        let text = String::from_utf8_lossy(bytes);
        assert_eq!(json_line(bytes), Err(fault), "{text}");
    }
}

#[test]
fn depth_is_bounded_for_arrays_and_objects() {
    let arrays = |depth| "[".repeat(depth) + &"]".repeat(depth);
    let objects = |depth| "{\"\":".repeat(depth) + "1" + &"}".repeat(depth);
    for nested in [arrays, objects] {
        assert!(line(&nested(JSON_DEPTH_MAX)).is_ok());
        let deep = line(&nested(JSON_DEPTH_MAX + 1)).unwrap_err();
        assert!(matches!(deep, JsonFault::TooDeep { .. }), "{deep}");
    }
    // Siblings do not add up.
    assert!(line(&format!("[{}1]", "[],{},".repeat(JSON_DEPTH_MAX))).is_ok());
    let hostile = line(&"[".repeat(10_000_000)).unwrap_err();
    assert_eq!(hostile, JsonFault::TooDeep { at: JSON_DEPTH_MAX });
}

#[test]
fn every_short_sequence_is_judged_as_serde_json_does() {
    let tokens = [
        "{", "}", "[", "]", ",", ":", "\"a\"", "1", "\n", "null", "-", ".0",
    ];
    let mut texts = vec![String::new()];
    for _ in 0..5 {
        let longer = |text: &String| tokens.map(|token| format!("{text}{token}"));
        texts = texts.iter().flat_map(longer).collect();
        for text in &texts {
            assert_eq!(
                json_line(text.as_bytes()).is_ok(),
                is_json(text.as_bytes()),
                "{text}"
            );
        }
    }
}

fn is_json(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// Pieces that make JSON, and nearly JSON, far more often than random bytes do.
fn nearly_json() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"", "\\", "\"a\"", "\"b\":", "1", "-0", "2.5e-3",
            "null", "true", "false", " ", "\n", "\\u00e9", "\\ud800", "\"\\n\"", "0", ".", "e",
            "ü", "\u{1}",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 1..3),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(|number| serde_json::json!(number)),
        "\\PC{0,20}|[\"\\\\\n\t\u{0}-\u{1f} ]{0,20}".prop_map(Into::into),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::vec(("\\PC{0,9}", inner), 0..6)
                .prop_map(|members| { serde_json::Value::Object(members.into_iter().collect()) }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn it_takes_what_serde_json_takes(bytes in nearly_json()) {
        prop_assert_eq!(json_line(&bytes).is_ok(), is_json(&bytes), "{:?}", String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn a_damaged_value_is_judged_as_serde_json_does(value in value(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = serde_json::to_vec_pretty(&value).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        prop_assert_eq!(json_line(&bytes).is_ok(), is_json(&bytes), "{:?}", String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn pretty_becomes_compact(value in value()) {
        let compact = serde_json::to_vec(&value).unwrap();
        prop_assert_eq!(json_line(&compact), Ok(Cow::Borrowed(&compact[..])));
        let pretty = serde_json::to_vec_pretty(&value).unwrap();
        prop_assert_eq!(json_line(&pretty), Ok(Cow::Borrowed(&compact[..])));
        let breaks_lines = String::from_utf8(pretty).unwrap().replace('\n', "\r\n");
        prop_assert_eq!(json_line(breaks_lines.as_bytes()), Ok(Cow::Borrowed(&compact[..])));
    }

    #[test]
    fn a_line_is_a_line_and_stays_one(bytes in nearly_json()) {
        if let Ok(line) = json_line(&bytes) {
            prop_assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
            let again = json_line(&line).unwrap();
            prop_assert_eq!(again.as_ref(), line.as_ref());
        }
    }
}
