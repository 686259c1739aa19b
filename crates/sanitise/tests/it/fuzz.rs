//! Bytes that nobody meant well: no panic, and no opinion on JSON that others do not share.

use std::io::Cursor;

use cannery_formats::uid::LakeKey;
use cannery_sanitise::{Bad, Format, Measurements, Rules, Sanitiser};
use proptest::prelude::*;
use serde_json::Value;

use super::{CONTEXT, KEY, rules};

const SEEDS: [&str; 5] = [
    r#"{"a":[1,-2.5e3,true,null,"x\u00e9\n\ud83d\ude00"],"probe_ip":"1.2.3.4","b":{"c":{},"d":[]}}"#,
    r#"{ "a" : "\udcff" , "t" : { "x" : 0 } , "data_format_version" : "0.1.0" }"#,
    r#"{"k1":1,"k2":2,"k3":{"a":"é"},"t":{"y":[{"z":1}]}}"#,
    "---\nh: 1\nn: &a [x, *a]\n...\n---\na: !!binary /wA=\nb: |\n  text\n  more\nc: {x: [1, 2], 'y': ~}\n",
    "h: 1\n---\n? complex\n: - a\n  - \"q\\x41\"\nd: >-\n  folded\n\n  text\n# c\n---\n- a\n...\n%YAML 1.1\n---\nz: &z !!str 1\ny: *z\n",
];

fn all_rules() -> Rules {
    rules(
        "data_format_versions: [0.1.0]\nrules:\n  - {op: nest, keep: [a, probe_ip], into: t, data_format_versions: [0.1.0]}\n  - {op: null_fill, at: [id, t.x, \"t.y[].w\"]}\n  - {op: truncate_ip, at: [probe_ip]}\n  - {op: drop, at: [\"a[]\", b.*, k2]}\n  - {op: bytes}\n  - {op: redact, at: [k3.a, \"*\"], pattern: x}\n  - {op: hmac, at: [k1]}\n  - {op: stamp, at: [bucket_date], from: bucket_date}\n",
    )
}

fn check(raw: &[u8]) -> Result<(), TestCaseError> {
    let rules = all_rules();
    let sanitiser = Sanitiser::new(&rules, LakeKey::new(KEY));
    let mut out = Vec::new();
    let found = sanitiser.measurement(raw, &CONTEXT, &mut out);
    let theirs = serde_json::from_slice::<Value>(raw);
    match (&found, &theirs) {
        (Ok(_), Ok(Value::Object(_))) => {
            let made = serde_json::from_slice::<Value>(&out);
            prop_assert!(
                made.is_ok_and(|made| made.is_object()),
                "{}",
                String::from_utf8_lossy(&out)
            );
            prop_assert_eq!(memchr::memchr_iter(b'\n', &out).count(), 1);
            prop_assert_eq!(out.last(), Some(&b'\n'));
        }
        // Numbers that an `f64` cannot hold, and half surrogate pairs, are JSON.
        (Ok(_), Err(error)) => {
            let text = error.to_string();
            prop_assert!(
                text.contains("number out of range")
                    || text.contains("surrogate")
                    || text.contains("hex escape"),
                "{text}"
            );
        }
        (Ok(_), Ok(other)) => prop_assert!(false, "not an object: {other}"),
        (Err(Bad::DuplicateKey { .. } | Bad::TooDeep { .. } | Bad::NotAnObject), _) => {}
        (Err(bad), theirs) => {
            prop_assert!(theirs.is_err(), "{bad}: {}", String::from_utf8_lossy(raw));
        }
    }
    sanitiser.download(raw, &CONTEXT, &mut out);
    for format in [Format::Json, Format::Yaml, Format::Whole] {
        let mut measurements = Measurements::with_max(Cursor::new(raw), format, 5_000);
        let mut last = 0;
        while let Some(found) = measurements.next().unwrap() {
            prop_assert!(
                found.src_off >= last && found.src_off + found.src_size <= raw.len() as u64
            );
            last = found.src_off + found.src_size;
            if let (Format::Yaml, Ok(raw)) = (format, found.raw) {
                // What we wrote ourselves is JSON; a key may still be there twice.
                let found = sanitiser.measurement(raw, &CONTEXT, &mut out);
                prop_assert!(
                    matches!(
                        found,
                        Ok(_) | Err(Bad::DuplicateKey { .. } | Bad::TooDeep { .. })
                    ),
                    "{found:?} {}",
                    String::from_utf8_lossy(raw)
                );
            }
        }
    }
    Ok(())
}

#[derive(Clone, Debug)]
enum Harm {
    Set(u8),
    Insert(u8),
    Remove,
    Repeat(usize),
    CutOff,
}

fn harm() -> impl Strategy<Value = Harm> {
    let byte = prop_oneof![
        any::<u8>(),
        prop::sample::select(b"{}[]\",:\\u0eE.-+tfn \n\xef*&!|>#%?'~".to_vec())
    ];
    prop_oneof![
        4 => byte.clone().prop_map(Harm::Set),
        4 => byte.prop_map(Harm::Insert),
        2 => Just(Harm::Remove),
        1 => (1_usize..40).prop_map(Harm::Repeat),
        1 => Just(Harm::CutOff),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn random_bytes_do_no_harm(raw in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&raw)?;
    }

    #[test]
    fn damaged_documents_do_no_harm(
        seed in prop::sample::select(&SEEDS[..]),
        harms in prop::collection::vec((any::<prop::sample::Index>(), harm()), 0..5),
    ) {
        let mut raw = seed.as_bytes().to_vec();
        for (index, harm) in harms {
            let at = index.index(raw.len() + 1);
            match harm {
                Harm::Set(byte) if at < raw.len() => raw[at] = byte,
                Harm::Set(byte) | Harm::Insert(byte) => raw.insert(at, byte),
                Harm::Remove if at < raw.len() => drop(raw.remove(at)),
                Harm::Remove => {}
                Harm::Repeat(length) => {
                    let piece = raw[at..raw.len().min(at + length)].to_vec();
                    raw.splice(at..at, piece);
                }
                Harm::CutOff => raw.truncate(at),
            }
        }
        check(&raw)?;
    }
}
