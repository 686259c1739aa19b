//! Documents that are sanitised as a whole.

use cannery_formats::uid::LakeKey;
use cannery_sanitise::{Bad, Context, Rules, Sanitiser};

use super::{CONTEXT, KEY, clean, rules};

const AWKWARD: &str =
    r#"{"n":[9007199254740993,1e999,-0.0,1E+2],"s":"\u0061\/\ud800",  "é":{"":null}}"#;

fn uid_of(text: &str, time_ms: i64) -> String {
    use hmac::{Hmac, KeyInit as _, Mac as _};
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&KEY).unwrap();
    for part in [time_ms.to_string().as_str(), "the-report", text] {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part.as_bytes());
    }
    let digest = mac.finalize().into_bytes();
    data_encoding::BASE32_NOPAD
        .encode(&digest[..20])
        .to_lowercase()
}

#[test]
fn without_rules_a_document_passes_byte_for_byte() {
    let (out, found) = clean(&Rules::none(), AWKWARD);
    assert_eq!(out, format!("{AWKWARD}\n"));
    assert_eq!(found.time_ms, CONTEXT.time_ms);
    assert_eq!(
        found.uid.to_string(),
        uid_of(&AWKWARD.replace("  ", ""), 1_483_228_800_000)
    );
    assert!(found.flags.lone_surrogates && !found.flags.unknown_version);
}

#[test]
fn the_uid_is_of_the_raw_text_whatever_the_rules_do() {
    let rules = rules("rules:\n  - {op: drop, at: [a]}\n  - {op: content_id, at: [id]}\n");
    let (out, one) = clean(&rules, r#"{"a":1,"id":"forged"}"#);
    assert_eq!(
        one.uid.to_string(),
        uid_of(r#"{"a":1,"id":"forged"}"#, 1_483_228_800_000)
    );
    assert_eq!(out, format!("{{\"id\":\"{}\"}}\n", one.uid));
    let (_, other) = clean(&rules, r#"{"a":2,"id":"forged"}"#);
    assert_ne!(one.uid, other.uid);
}

#[test]
fn the_time_is_the_first_that_can_be_read() {
    let rules = rules(
        "time:\n  - {at: m.t, format: \"%Y-%m-%d %H:%M:%S\"}\n  - {at: e, format: epoch}\n  - {at: r, format: rfc3339}\n",
    );
    for (raw, time_ms) in [
        (
            r#"{"e":1.5,"m":{"t":"2012-01-01 00:00:01"}}"#,
            1_325_376_001_000,
        ),
        (r#"{"e":1.5,"m":{"t":"yesterday"}}"#, 1_500),
        (
            r#"{"e":"1.5","r":"2012-01-01T00:00:00.5Z"}"#,
            1_325_376_000_500,
        ),
        (r#"{"e":null}"#, 1_483_228_800_000),
    ] {
        let (_, found) = clean(&rules, raw);
        assert_eq!(found.time_ms, Some(time_ms), "{raw}");
        assert_eq!(found.uid.to_string(), uid_of(raw, time_ms));
    }
}

#[test]
fn a_document_on_many_lines_becomes_one() {
    let raw = "{\r\n  \"a b\": [\n 1 ]\n}\n";
    let (out, found) = clean(&Rules::none(), raw);
    assert_eq!(out, "{\"a b\":[1]}\n");
    assert_eq!(
        found.uid.to_string(),
        uid_of("{\"a b\":[1]}", 1_483_228_800_000)
    );
}

#[test]
fn an_unknown_version_never_takes_the_legacy_path() {
    let rules = rules(
        "data_format_versions: [0.1.0, 0.2.0]\nrules:\n  - {op: nest, keep: [probe_ip, data_format_version], into: test_keys, data_format_versions: [none, 0.1.0]}\n  - {op: truncate_ip, at: [probe_ip]}\n",
    );
    for (version, nested, unknown) in [
        ("", true, false),
        (r#""data_format_version":null,"#, true, false),
        (r#""data_format_version":"0.1.0","#, true, false),
        (r#""data_format_version":"0.2.0","#, false, false),
        (r#""data_format_version":"0.10.0","#, false, true),
        (r#""data_format_version":0.1,"#, false, true),
        (r#""data_format_version":["0.1.0"],"#, false, true),
    ] {
        let (out, found) = clean(
            &rules,
            &format!(r#"{{{version}"probe_ip":"1.2.3.4","x":1}}"#),
        );
        assert_eq!(found.flags.unknown_version, unknown, "{version}");
        assert_eq!(
            out.contains(r#""test_keys":{"x":1}"#),
            nested,
            "{version}: {out}"
        );
        // What is unknown is still no reason to show an address.
        assert!(out.contains(r#""probe_ip":"1.2.3.0""#), "{version}: {out}");
    }
}

#[test]
fn rules_are_for_their_kinds() {
    let rules = rules("rules:\n  - {op: drop, at: [a], kinds: [dash, spool-*]}\n");
    let sanitiser = Sanitiser::new(&rules, LakeKey::new(KEY));
    for (kind, dropped) in [
        ("dash", true),
        ("spool-x", true),
        ("dashes", false),
        ("ndt", false),
    ] {
        let mut out = Vec::new();
        let context = Context { kind, ..CONTEXT };
        sanitiser
            .measurement(br#"{"a":1}"#, &context, &mut out)
            .unwrap();
        assert_eq!(out == b"{}\n", dropped, "{kind}");
    }
}

#[test]
fn bytes_become_objects_everywhere() {
    let raw = r#"{"a":"x\udcff","b":["\udc80",{"c":"fine\n"}],"ip":"\udcff"}"#;
    let rules = rules("rules:\n  - {op: truncate_ip, at: [ip]}\n  - {op: bytes}\n");
    let (out, found) = clean(&rules, raw);
    assert_eq!(
        out,
        "{\"a\":{\"data\":\"eP8=\",\"format\":\"base64\"},\"b\":[{\"data\":\"gA==\",\"format\":\"base64\"},{\"c\":\"fine\\n\"}],\"ip\":null}\n"
    );
    assert!(!found.flags.lone_surrogates);
}

#[test]
fn items_are_dropped_with_one_comma() {
    let rules = rules("rules:\n  - {op: drop, at: [a, c, \"l[].x\", \"m[].y[]\", n.*]}\n");
    for (raw, expected) in [
        (r#"{"a":1}"#, "{}"),
        (r#"{ "a" : 1 , "b" : 2 }"#, r#"{ "b" : 2 }"#),
        (r#"{"b":2, "a":1}"#, r#"{"b":2}"#),
        (r#"{"a":1,"c":3}"#, "{}"),
        (r#"{"a":1,"b":2,"c":3}"#, r#"{"b":2}"#),
        (r#"{"b":2,"c":3,"a":1,"d":4}"#, r#"{"b":2,"d":4}"#),
        (r#"{"a":{"c":1},"c":[1,{}],"d":[","]}"#, r#"{"d":[","]}"#),
        (
            r#"{"l":[{"x":1},{"x":1,"z":2},3]}"#,
            r#"{"l":[{},{"z":2},3]}"#,
        ),
        (
            r#"{"m":[{"y":[1,2,3]},{"y":[ ]}]}"#,
            r#"{"m":[{"y":[]},{"y":[ ]}]}"#,
        ),
        (r#"{"a":1,"n":{"p":1,"q":{}},"c":1}"#, r#"{"n":{}}"#),
    ] {
        assert_eq!(clean(&rules, raw).0, format!("{expected}\n"), "{raw}");
    }
}

#[test]
fn missing_keys_are_put_in() {
    let rules = rules(
        "rules:\n  - {op: drop, at: [gone]}\n  - {op: null_fill, at: [a, b, t.x, \"l[].y\", gone]}\n  - {op: stamp, at: [b], text: B}\n  - {op: stamp, at: [bucket_date], from: bucket_date}\n",
    );
    for (raw, expected) in [
        (
            "{}",
            r#"{"gone":null,"a":null,"b":"B","bucket_date":"2017-01-01"}"#,
        ),
        (
            r#"{"gone":1}"#,
            r#"{"a":null,"b":"B","bucket_date":"2017-01-01"}"#,
        ),
        (
            r#"{"a":1,"b":2,"t":{ },"l":[{},{"y":1},2],"bucket_date":"forged" , "gone":1}"#,
            r#"{"a":1,"b":"B","t":{ "x":null},"l":[{"y":null},{"y":1},2],"bucket_date":"2017-01-01"}"#,
        ),
    ] {
        let (out, _) = clean(&rules, raw);
        let value: serde_json::Value = serde_json::from_str(&out).unwrap();
        let expected: serde_json::Value = serde_json::from_str(expected).unwrap();
        assert_eq!(value, expected, "{raw}: {out}");
    }
}

#[test]
fn what_is_bad_says_why_and_writes_nothing() {
    let rules = Rules::none();
    let sanitiser = Sanitiser::new(&rules, LakeKey::new(KEY));
    let deep = "[".repeat(100_000);
    let mut texts = String::new();
    for raw in [
        &b""[..],
        b" \n",
        b"{\"a\":1",
        b"{\"a\":\"x",
        b"{\"a\":NaN}",
        b"{\"a\":1}{}",
        b"{\"a\":1,\"a\":2}",
        b"{\"a\":\"\xe9\"}",
        b"{'a':1}",
        b"[1]",
        b"\xef\xbb\xbf{}",
        b"{\"a\":\"\x00\"}",
        deep.as_bytes(),
    ] {
        let mut out = b"kept".to_vec();
        let bad: Bad = sanitiser.measurement(raw, &CONTEXT, &mut out).unwrap_err();
        assert_eq!(out, b"kept");
        let shown = String::from_utf8_lossy(&raw[..raw.len().min(20)]);
        texts += &format!("{shown:?}: {bad}\n");
        // A download may be anything.
        let found = sanitiser.download(raw, &CONTEXT, &mut out);
        assert_eq!((&out[4..], found.flags.not_json), (raw, true));
    }
    insta::assert_snapshot!(texts);
}

#[test]
fn many_keys_and_long_strings_take_no_long_time() {
    let keys: Vec<String> = (0..200_000)
        .map(|n| format!("\"k{n}\":\"\\ud800\""))
        .collect();
    let raw = format!(
        "{{{},\"long\":\"{}\"}}",
        keys.join(","),
        "x".repeat(10_000_000)
    );
    let (out, _) = clean(
        &rules("rules:\n  - {op: bytes}\n  - {op: null_fill, at: [z]}\n"),
        &raw,
    );
    assert!(out.ends_with("\"z\":null}\n"));
}
