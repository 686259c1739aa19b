//! `pipeline.keep` as a user sees it: the can goes a day after its mark, and everything else works on without it.
#![cfg(feature = "sim")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::{SignedDuration, Timestamp};

use crate::program::{Place, Ran, pause};

const BUCKET: &str = "2017-01-02";
const REPORT: &str = "20170101T000000Z-US-AS7922-ndt-r1-0.2.0-probe.json";

fn run(place: &Place, arguments: &[&str]) -> Ran {
    place.run(&[arguments, &["--json", "--config-file", "c.yml"]].concat())
}

fn run_well(place: &Place, arguments: &[&str]) -> Vec<serde_json::Value> {
    let ran = run(place, arguments);
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.all());
    ran.json()
}

/// Works through what is due so much later; the clock goes on meanwhile.
#[allow(clippy::disallowed_methods, reason = "a clock for another process")]
fn work_later(place: &mut Place, later: SignedDuration) {
    let start = Timestamp::now() + later;
    let clock = place.write("clock", start.to_string());
    place.set("CANNERY_SIM_CLOCK", clock.to_str().unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, file) = (Arc::clone(&stop), place.path("clock"));
    let (next, begun) = (place.path("clock.next"), Timestamp::now());
    let ticking = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            let now = start + Timestamp::now().duration_since(begun);
            std::fs::write(&next, now.to_string()).unwrap();
            std::fs::rename(&next, &file).unwrap();
            pause();
        }
    });
    run_well(place, &["work", "--once"]);
    stop.store(true, Ordering::Relaxed);
    ticking.join().unwrap();
}

fn measurements(place: &Place) -> BTreeMap<String, String> {
    let listed = run_well(place, &["ls", "--bucket", BUCKET]);
    let uids = listed.iter().map(|line| line["uid"].as_str().unwrap());
    let text = |uid: &str| place.run(&["get", uid, "--config-file", "c.yml"]).stdout;
    uids.map(|uid| (uid.to_owned(), text(uid))).collect()
}

#[test]
fn a_can_goes_by_itself_and_everything_works_without_it() {
    let mut place = Place::new();
    place.write(
        "c.yml",
        "node: n1\npipeline: {grace: 0s, keep: {NDT: {canned: 30d}}}\n",
    );
    std::fs::create_dir_all(place.path(&format!("cannery-data/reports-raw/{BUCKET}"))).unwrap();
    place.write(
        &format!("cannery-data/reports-raw/{BUCKET}/{REPORT}"),
        "{\"test_name\":\"ndt\",\"n\":1}\nbroken\n{\"test_name\":\"ndt\",\"n\":2}\n",
    );
    run_well(&place, &["work", "--once"]);
    let before = measurements(&place);
    assert_eq!(before.len(), 2);
    let expire = ["backfill", "--stage", "expire", "--dry-run"];
    let expire = [&expire[..], &["--from", BUCKET, "--to", BUCKET]].concat();
    // What the seal replaced is swept, then the can is marked, then it goes.
    for hours in [1, 2, 27, 28] {
        work_later(&mut place, SignedDuration::from_hours(hours));
    }
    let can = format!("cannery-data/lake/canned/{BUCKET}/{REPORT}.lz4");
    assert!(!place.path(&can).exists());
    assert_eq!(run(&place, &expire).code, 10, "there is nothing left to go");
    assert_eq!(measurements(&place), before);
    for uid in before.keys() {
        let traced = run_well(&place, &["trace", uid]);
        let can = &traced[0]["can"];
        assert_eq!(
            (&can["is_there"], &can["is_expired"]),
            (&false.into(), &true.into())
        );
    }
    run_well(&place, &["check", "--read-data-subset", "100%"]);
    run_well(&place, &["rebuild", "--verify"]);
    for command in ["autoclave", "centrifuge"] {
        let done = run_well(&place, &[command, BUCKET]);
        let skipped = done.iter().any(|line| line["event"] == "kept_no_longer");
        assert_eq!(skipped, command == "autoclave", "{done:?}");
    }
    let uid = before.keys().next().unwrap();
    for more in [&["--dry-run"][..], &[]] {
        let redact = [&["redact", uid, "--reason", "asked"], more].concat();
        let refused = run(&place, &redact);
        assert_eq!(refused.code, 1, "{redact:?}: {}", refused.all());
        assert!(refused.all().contains("pipeline.keep"), "{}", refused.all());
    }
    assert_eq!(measurements(&place), before);
}
