//! What stages did is in the history, and `cannery history` shows it.

use cannery_testkit::reports::{Options, write_bucket};

use crate::program::{Place, Ran};

const DATE: &str = "2017-01-02";

fn ok(ran: Ran) -> Ran {
    assert_eq!(ran.code, 0, "{}", ran.all());
    ran
}

fn place() -> Place {
    let place = Place::new();
    place.write("c.yml", "node: node-7\npipeline: {can_bytes: 1MiB}\n");
    let folder = place.path("cannery-data/reports-raw");
    write_bucket(&folder, DATE, Options::default()).unwrap();
    place
}

fn run(place: &Place, arguments: &[&str]) -> Ran {
    place.run(&[arguments, &["--config-file", "c.yml"]].concat())
}

fn history(place: &Place, arguments: &[&str]) -> Vec<serde_json::Value> {
    ok(run(place, &[&["history", "--json"], arguments].concat())).json()
}

#[test]
fn what_stages_did_is_shown() {
    let place = place();
    assert_eq!(ok(run(&place, &["history"])).stdout, "", "nothing yet");
    ok(run(&place, &["can", DATE]));
    let cans = ok(run(&place, &["autoclave", DATE, "--json"])).json().len();
    assert!(cans > 1);
    ok(run(&place, &["centrifuge", DATE]));

    let all = history(&place, &["--limit", "1000"]);
    assert_eq!(all.len(), 1 + 2 * cans);
    let times: Vec<jiff::Timestamp> = all
        .iter()
        .map(|one| one["started"].as_str().unwrap().parse().unwrap())
        .collect();
    assert!(
        times.is_sorted_by(|one, next| one >= next),
        "newest first: {times:?}"
    );
    for one in &all {
        assert_eq!(
            (&one["event"], &one["result"]),
            (&"execution".into(), &"done".into()),
            "{one}"
        );
        assert_eq!(
            (&one["worker"], &one["bucket"]),
            (&"node-7".into(), &DATE.into()),
            "{one}"
        );
        assert!(
            one["ended"].is_string() && one["bytes_in"].as_u64() > Some(0),
            "{one}"
        );
    }
    let can = all.last().unwrap();
    assert_eq!(can["key"], format!("can/{DATE}/-/-"));
    assert_eq!(can["report"]["was_sealed"], false);
    let archives = history(&place, &["--stage", "autoclave", "--bucket", DATE]);
    assert_eq!(archives.len(), cans);
    assert!(archives.iter().any(|one| one["kind"].is_string()));
    assert_eq!(history(&place, &["--limit", "2"]).len(), 2);
    assert_eq!(history(&place, &["--last"]).len(), 3);
    for none in [
        &["--failed"][..],
        &["--running"],
        &["--bucket", "2017-01-03"],
        &["--stage", "sweep"],
        &["--since", "2099-01-01"],
    ] {
        assert!(history(&place, none).is_empty(), "{none:?}");
    }

    let stages = history(&place, &["--summary", "--since", "1h"]);
    let counts: Vec<(&str, u64)> = stages
        .iter()
        .map(|one| {
            (
                one["stage"].as_str().unwrap(),
                one["done"].as_u64().unwrap(),
            )
        })
        .collect();
    let cans = cans as u64;
    assert_eq!(
        counts,
        [("autoclave", cans), ("can", 1), ("centrifuge", cans)]
    );
    assert!(
        stages
            .iter()
            .all(|one| one["p95_ms"].as_u64() >= one["p50_ms"].as_u64())
    );

    let text = ok(run(&place, &["history", "--stage", "can"])).stdout;
    assert!(
        text.contains(" done ") && text.contains("on node-7"),
        "{text}"
    );
    let text = ok(run(&place, &["history", "--summary"])).stdout;
    assert!(text.contains("1 execution, 1 done; half in "), "{text}");
}

#[test]
fn what_went_wrong_is_shown_with_its_reason() {
    let place = place();
    ok(run(&place, &["can", DATE]));
    let folder = format!("cannery-data/lake/canned/{DATE}");
    let can = std::fs::read_dir(place.path(&folder))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .find(|name| name.ends_with(".tar.lz4"))
        .unwrap();
    place.write(&format!("{folder}/{can}"), b"damaged");
    let ran = run(&place, &["autoclave", DATE]);
    assert_ne!(ran.code, 0, "{}", ran.all());
    let failed = history(&place, &["--failed", "--since", "1h"]);
    assert_eq!(failed.len(), 1, "{failed:?}");
    let reason = failed[0]["reason"].as_str().unwrap();
    assert_eq!(failed[0]["result"], "failed");
    assert!(ran.stderr.contains(reason), "{reason}: {}", ran.stderr);
    let text = ok(run(&place, &["history", "--failed"])).stdout;
    assert!(text.contains(reason), "{text}");
}

/// A stage must not fail because its history cannot be kept.
#[test]
fn without_a_state_stages_run_all_the_same() {
    let place = place();
    place.write(
        "cannery-data/state.sqlite",
        "this is no database".repeat(100),
    );
    let ran = ok(run(&place, &["can", DATE]));
    assert!(
        ran.stderr.contains("this will not be in the history"),
        "{}",
        ran.stderr
    );
    let ran = run(&place, &["history"]);
    assert_eq!(ran.code, 1, "{}", ran.all());
    assert!(
        ran.stderr.contains("bring back its last backup"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("state.sqlite"), "{}", ran.stderr);
}

#[test]
fn a_wrong_use_is_said() {
    let place = Place::new();
    place.write("c.yml", "state: postgres://me:canary-pass@127.0.0.1:1/d\n");
    for (arguments, words) in [
        (
            &["--stage", "cook"][..],
            "choose one of: discover, can, seal",
        ),
        (&["--since", "soon"], "write for example 24h, 2026-11-15"),
        (&["--running", "--failed"], "cannot be used with"),
        (&["--limit", "0"], "0 is not in 1.."),
    ] {
        let ran = run(&place, &[&["history"], arguments].concat());
        assert_eq!(ran.code, 2, "{}", ran.all());
        assert!(ran.stderr.contains(words), "{arguments:?}: {}", ran.stderr);
    }
    let ran = run(&place, &["history"]);
    assert_eq!(ran.code, 1, "{}", ran.all());
    assert!(
        ran.stderr.contains("check `state` in the configuration"),
        "{}",
        ran.stderr
    );
    assert!(!ran.all().contains("canary-pass"), "{}", ran.all());
}
