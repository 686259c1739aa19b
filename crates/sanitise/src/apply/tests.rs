use super::*;
use crate::rules::Rules;

/// What the only rule of a file makes of a value.
fn made(rule: &str, json: &str) -> Change {
    let table = "version: 1\nentries: {known: bridge, o: {a: 1}}\n";
    let text = format!("version: 1\ntables: {{t: {{file: t}}}}\nrules:\n  - {rule}\n");
    let text = match rule.contains("pattern") {
        true => text.replace("t: {file: t}", "t: {file: texts}"),
        false => text,
    };
    let rules = Rules::parse(&text, |file| match file {
        "t" => Ok(table.to_owned()),
        _ => Ok("version: 1\nentries: {known: bridge}\n".to_owned()),
    });
    let rules = rules.unwrap();
    let around = Around {
        meaning: &rules.meaning,
        key: &LakeKey::new([7; 32]),
        context: &Context {
            bucket: "2017-01-01",
            textname: "a/\"b\"",
            kind: "ndt",
            ..Context::default()
        },
        uid: Uid::from_bytes([0; 20]),
    };
    apply(&rules.meaning.rules[0].op, json, &around)
}

fn to(text: &str) -> Change {
    Change::To(text.to_owned())
}

#[test]
fn each_rule_does_what_it_says() {
    for (rule, json, change) in [
        ("{op: rename, at: [a], map: {x: y}}", r#""x""#, to(r#""y""#)),
        (
            "{op: rename, at: [a], map: {x: y}}",
            r#""\u0078""#,
            to(r#""y""#),
        ),
        ("{op: rename, at: [a], map: {x: y}}", r#""z""#, Change::Keep),
        ("{op: rename, at: [a], map: {x: y}}", "1", Change::Keep),
        (
            "{op: stamp, at: [a], from: bucket_date}",
            "1",
            to(r#""2017-01-01""#),
        ),
        (
            "{op: stamp, at: [a], from: textname}",
            "1",
            to(r#""a/\"b\"""#),
        ),
        ("{op: stamp, at: [a], from: kind}", "1", to(r#""ndt""#)),
        ("{op: stamp, at: [a], from: report_id}", "1", to("null")),
        ("{op: stamp, at: [a], text: x}", "1", to(r#""x""#)),
        (
            "{op: content_id, at: [a]}",
            "1",
            to(&format!("\"{}\"", "a".repeat(32))),
        ),
        (
            "{op: epoch_to_time, at: [a]}",
            "1325376000.9",
            to(r#""2012-01-01 00:00:00""#),
        ),
        (
            "{op: epoch_to_time, at: [a], unit: ms, format: \"%Y-%m\"}",
            "1325376000123",
            to(r#""2012-01""#),
        ),
        ("{op: epoch_to_time, at: [a]}", "1e99", Change::Keep),
        ("{op: epoch_to_time, at: [a]}", "\"1\"", Change::Keep),
        ("{op: epoch_to_time, at: [a]}", "null", Change::Keep),
        (
            "{op: bytes, at: [a]}",
            r#""x\udcff""#,
            to(r#"{"data":"eP8=","format":"base64"}"#),
        ),
        ("{op: bytes, at: [a]}", r#""\ud83d\ude00""#, Change::Keep),
        ("{op: drop, at: [a]}", "{}", Change::Drop),
        (
            "{op: redact, at: [a], pattern: '[0-9]+'}",
            r#""a1\n22""#,
            to(r#""a[redacted]\n[redacted]""#),
        ),
        (
            "{op: redact, at: [a], pattern: '[0-9]+', with: $0}",
            r#""a1""#,
            to(r#""a$0""#),
        ),
        (
            "{op: redact, at: [a], pattern: '[0-9]+'}",
            r#""\udcff1""#,
            to("\"\u{fffd}[redacted]\""),
        ),
        (
            "{op: redact, at: [a], pattern: '[0-9]+'}",
            r#""none""#,
            Change::Keep,
        ),
        (
            "{op: redact, at: [a], pattern: '[0-9]+'}",
            "11",
            Change::Keep,
        ),
        (
            "{op: truncate_ip, at: [a]}",
            r#""1.2.3.4""#,
            to(r#""1.2.3.0""#),
        ),
        ("{op: truncate_ip, at: [a]}", r#""1.2.3.4 x""#, to("null")),
        ("{op: truncate_ip, at: [a]}", "16909060", to("null")),
        ("{op: truncate_ip, at: [a]}", "[\"1.2.3.4\"]", to("null")),
        ("{op: truncate_ip, at: [a]}", "null", Change::Keep),
        ("{op: truncate_ip, at: [a]}", "\"\"", Change::Keep),
        (
            "{op: lookup, at: [a], table: t}",
            r#""known""#,
            to(r#""bridge""#),
        ),
        (
            "{op: lookup, at: [a], table: t}",
            r#""o""#,
            to(r#"{"a":1}"#),
        ),
        (
            "{op: lookup, at: [a], table: t, missing: keep}",
            r#""x""#,
            Change::Keep,
        ),
        (
            "{op: lookup, at: [a], table: t, missing: 'null'}",
            r#""x""#,
            to("null"),
        ),
        (
            "{op: lookup, at: [a], table: t, missing: 'null'}",
            "[1]",
            to("null"),
        ),
        (
            "{op: lookup, at: [a], table: t, pattern: '[a-z]+', missing: keep}",
            r#""1 known x""#,
            to(r#""1 bridge x""#),
        ),
        (
            "{op: lookup, at: [a], table: t, pattern: '[a-z]+', missing: 'null'}",
            r#""1 known x""#,
            to(r#""1 bridge ""#),
        ),
        (
            "{op: lookup, at: [a], table: t, pattern: '[a-z]+'}",
            r#"[["known"]]"#,
            to("null"),
        ),
        (
            "{op: lookup, at: [a], table: t, pattern: '[a-z]+', missing: keep}",
            r#"{"x":"known"}"#,
            Change::Keep,
        ),
        (
            "{op: lookup, at: [a], table: t, pattern: '[a-z]+'}",
            "17",
            Change::Keep,
        ),
    ] {
        assert_eq!(made(rule, json), change, "{rule} on {json}");
    }
}

#[test]
fn pseudonyms_are_the_same_for_the_same_value_only() {
    let one = made("{op: hmac, at: [a]}", r#""x""#);
    assert_eq!(one, made("{op: hmac, at: [a]}", r#""\u0078""#));
    assert_ne!(one, made("{op: hmac, at: [a], domain: d}", r#""x""#));
    assert_ne!(one, made("{op: hmac, at: [a]}", r#""y""#));
    assert_ne!(one, made("{op: hmac, at: [a]}", "1"));
    assert_eq!(
        made("{op: hmac, at: [a]}", "[1, 2]"),
        made("{op: hmac, at: [a]}", "[ 1,2]")
    );
    assert_eq!(made("{op: hmac, at: [a]}", "null"), Change::Keep);
    let missing = made("{op: lookup, at: [a], table: t}", r#""x""#);
    assert_eq!(missing, made("{op: hmac, at: [a], domain: t}", r#""x""#));
    let Change::To(text) = one else { panic!() };
    assert_eq!(text.len(), 34);
}
