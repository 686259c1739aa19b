//! The example rules on a bucket like OONI's, from report files to lines.

use std::collections::HashSet;
use std::io::Cursor;

use cannery_formats::uid::{LakeKey, Uid};
use cannery_sanitise::{Context, Format, Measurements, Rules, Sanitiser};
use cannery_testkit::reports::{Expected, Options, Report, bucket};
use serde_json::Value;

use super::KEY;

fn example() -> Rules {
    let bridges = include_str!("../../../../examples/ooni/bridges.yml");
    let rules = include_str!("../../../../examples/ooni/rules.yml");
    Rules::parse(rules, |file| match file {
        "bridges.yml" => Ok(bridges.to_owned()),
        other => Err(format!("who asks for {other}?")),
    })
    .unwrap()
}

/// All lines that a report becomes, and what was found in it.
fn sanitise(rules: &Rules, report: &Report) -> (Vec<Value>, Expected) {
    let sanitiser = Sanitiser::new(rules, LakeKey::new(KEY));
    let format = match report.name.ends_with(".yaml") {
        true => Format::Yaml,
        false => Format::Json,
    };
    let parts: Vec<&str> = report.name.split('-').collect();
    let textname = format!("2017-01-01/{}", report.name);
    let context = Context {
        bucket: "2017-01-01",
        textname: &textname,
        kind: parts[3],
        report_id: Some(parts[4]),
        time_ms: None,
    };
    let mut measurements = Measurements::of(Cursor::new(&report.content), format);
    let (mut lines, mut found, mut uids) = (Vec::new(), Expected::default(), HashSet::<Uid>::new());
    while let Some(measurement) = measurements.next().unwrap() {
        let mut out = Vec::new();
        let clean = measurement
            .raw
            .and_then(|raw| sanitiser.measurement(raw, &context, &mut out));
        let Ok(clean) = clean else {
            found.bad += 1;
            continue;
        };
        found.measurements += 1;
        found.duplicates += usize::from(!uids.insert(clean.uid));
        found.unknown_versions += usize::from(clean.flags.unknown_version);
        assert!(!clean.flags.lone_surrogates);
        assert!(
            clean.time_ms.is_some_and(|time| time > 1_483_000_000_000),
            "{clean:?}"
        );
        let line: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(line["id"], clean.uid.to_string());
        found.not_utf8 += usize::from(line["test_keys"]["server_banner"]["format"] == "base64");
        lines.push(line);
    }
    found.reports = 1;
    found.bytes = report.content.len() as u64;
    (lines, found)
}

#[test]
fn everything_in_a_bucket_is_found_and_clean() {
    let rules = example();
    for report in bucket(Options::default()) {
        let (lines, found) = sanitise(&rules, &report);
        assert_eq!(found, report.expected, "{}", report.name);
        let test = report.name.split('-').nth(3).unwrap();
        for line in &lines {
            assert_eq!(line["bucket_date"], "2017-01-01");
            assert_eq!(
                line["report_filename"],
                format!("2017-01-01/{}", report.name)
            );
            assert_eq!(line["test_name"], test, "{}", report.name);
            assert!(line["probe_ip"].as_str().unwrap().ends_with(".0"), "{line}");
            assert!(line["test_keys"].is_object());
            assert_eq!(line["backend_version"], Value::Null);
            let started = line["measurement_start_time"].as_str().unwrap();
            assert!(started.starts_with("2017-01-0"), "{line}");
            if test == "bridge_reachability" {
                let text = line.to_string();
                let shown =
                    ["192.0.2.", "198.51.100.", "203.0.113."].map(|net| text.matches(net).count());
                assert_eq!(
                    shown.iter().sum::<usize>(),
                    1,
                    "only the probe's network: {text}"
                );
            }
        }
    }
}

#[test]
fn without_rules_the_good_lines_pass_as_they_are() {
    let rules = Rules::none();
    let sanitiser = Sanitiser::new(&rules, LakeKey::new(KEY));
    let options = Options {
        yaml_reports: 0,
        malformed: 0,
        truncated: 0,
        ..Options::default()
    };
    for report in bucket(options) {
        let mut out = Vec::new();
        let mut measurements = Measurements::of(Cursor::new(&report.content), Format::Json);
        while let Some(measurement) = measurements.next().unwrap() {
            let raw = measurement.raw.unwrap();
            sanitiser
                .measurement(raw, &Context::default(), &mut out)
                .unwrap();
        }
        assert!(out == report.content, "{}", report.name);
    }
}
