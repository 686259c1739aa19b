//! The life of a file in the catalog, from the first load to its disappearance: one test, on both engines.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cannery_catalog::{Decision, LoadPlan, NewReport, Residual};
use cannery_formats::can::CannedIndex;
use cannery_formats::{BucketDate, Key};
use cannery_pipeline::check::{Checker, Finding, Listener, Problem, Share};
use cannery_pipeline::features::Features;
use cannery_sanitise::Rules;

use crate::archives::{uids, web_can};
use crate::line_kit::changed_rules;
use crate::works::{Can, FEATURES, Works, bucket};

#[tokio::test]
async fn a_file_lives_in_sqlite() {
    life(Works::new().await).await;
}

#[cfg(feature = "real-servers")]
#[tokio::test]
async fn a_file_lives_in_postgresql() {
    use cannery_catalog::Catalog;
    use cannery_runtime::Clock;
    use cannery_testkit::postgres::Postgres;
    use object_store::memory::InMemory;

    let server = Postgres::start().await.unwrap();
    let url = server.create_database("life").await.unwrap();
    let catalog = Catalog::open(&url, Clock::real()).await.unwrap();
    let kept = tempfile::tempdir().unwrap();
    life(Works::with(Arc::new(InMemory::new()), catalog, kept).await).await;
}

async fn life(mut works: Works) {
    let can = web_can();
    works.put(&can).await;
    let index = CannedIndex {
        files: vec![can.record.clone()],
        inputs: None,
    };
    let index = index.to_object().unwrap();
    let key = Key::canned_index(bucket());
    works.lake().put_new(&key, index).await.unwrap();
    works.autoclaved(&can).await;
    ingest(&works, &can).await;
    skip(&works, &can).await;
    repoint(&mut works, &can).await;
    reingest(&mut works, &can).await;
    reprocess(&mut works, &can).await;
    newer_than_code(&mut works, &can).await;
    misplaced(&works, &can).await;
    vanished(&works, &can).await;
    works.close().await;
}

async fn ingest(works: &Works, can: &Can) {
    let early = problems(works, None).await;
    assert_eq!(early, [Problem::NotLoaded]);
    let report = works.centrifuged(&can.record.filename).await;
    assert_eq!(report.decisions, [Decision::Ingest, Decision::Skip]);
    let lines = uids(&works.rules, can);
    assert_eq!(report.committed.added, lines.len() as u64);
    read_all(works, &lines).await;
    assert_eq!(problems(works, Some("100%")).await, []);
}

/// Not a byte of the archive is read.
async fn skip(works: &Works, can: &Can) {
    let before = hashes(works).await;
    let index = Key::autoclaved_file_index(works.generation(), &can.record.filename);
    let index_bytes = works.lake().head(&index).await.unwrap().bytes;
    let read = works.lake().totals().bytes_read;
    let report = works.centrifuged(&can.record.filename).await;
    assert_eq!(
        (report.decisions, report.bytes_in),
        (vec![Decision::Skip], 0)
    );
    assert_eq!(works.lake().totals().bytes_read - read, index_bytes);
    assert_eq!(hashes(works).await, before);
}

/// The same text in other frames: only places change, and again only the index is read.
async fn repoint(works: &mut Works, can: &Can) {
    let lines = uids(&works.rules, can);
    let places = places(works, &lines).await;
    let before = hashes(works).await;
    works.plant.frame_bytes /= 4;
    works.rules = rules_without("nobody_has_this_key", "2026-11-17");
    works.autoclaved(can).await;
    assert_eq!(problems(works, None).await, [Problem::Outdated]);
    let report = works.centrifuged(&can.record.filename).await;
    assert_eq!(report.decisions, [Decision::Repoint, Decision::Skip]);
    assert_eq!((report.bytes_in, report.committed.added), (0, 0));
    assert_ne!(self::places(works, &lines).await, places);
    let changed = changed(&before, &hashes(works).await);
    assert_eq!(changed, ["file", "measurement"]);
    read_all(works, &lines).await;
}

/// Another text: the uids stay, whatever the rules do.
async fn reingest(works: &mut Works, can: &Can) {
    let before = uids(&works.rules, can);
    works.rules = rules_without("probe_cc", "2026-11-18");
    works.autoclaved(can).await;
    let report = works.centrifuged(&can.record.filename).await;
    assert_eq!(report.decisions, [Decision::Reingest, Decision::Skip]);
    assert_eq!((report.committed.added, report.committed.removed), (0, 0));
    let lines = uids(&works.rules, can);
    assert!(lines.keys().eq(before.keys()), "the same uids");
    assert_ne!(lines, before, "other texts");
    read_all(works, &lines).await;
}

/// Only the table of the outdated feature is touched; one that is compatible not even that.
async fn reprocess(works: &mut Works, can: &Can) {
    let file = &can.record.filename;
    let origin = vec!["origin".to_owned()];
    for (from, to, expected, touched) in [
        (
            "table: origin\n    version: 1\n    filter: '{cc",
            "table: origin\n    version: 2\n    filter: '., . | {cc",
            Decision::Reprocess {
                features: origin.clone(),
            },
            &["feature_origin", "file_feature"][..],
        ),
        (
            "table: origin\n    version: 1",
            "table: origin\n    version: 3\n    min_compatible: 2",
            Decision::MarkCurrent {
                features: origin.clone(),
            },
            &["file_feature"],
        ),
    ] {
        let text = FEATURES.replacen(from, to, 1);
        assert_ne!(text, FEATURES);
        works.features = Arc::new(Features::parse(&text).unwrap());
        works.centrifuge().declare().await.unwrap();
        assert_eq!(problems(works, None).await, [Problem::Outdated]);
        let before = hashes(works).await;
        let report = works.centrifuged(file).await;
        assert_eq!(report.decisions, [expected, Decision::Skip]);
        assert_eq!(changed(&before, &hashes(works).await), touched);
    }
}

/// A program that is older than the catalog reports it, and touches nothing.
async fn newer_than_code(works: &mut Works, can: &Can) {
    let newest = std::mem::replace(
        &mut works.features,
        Arc::new(Features::parse(FEATURES).unwrap()),
    );
    let before = hashes(works).await;
    let report = works.centrifuged(&can.record.filename).await;
    let newer = Decision::NewerThanCode {
        feature: "origin".to_owned(),
        known: 3,
        declared: 1,
    };
    assert_eq!(report.decisions, [newer]);
    assert_eq!(problems(works, None).await, [Problem::NewerThanCode]);
    assert_eq!(hashes(works).await, before);
    works.features = newest;
}

/// A catalog that claims to have the file, and does not have its measurements, is found by reading.
async fn misplaced(works: &Works, can: &Can) {
    let file = can.record.filename.to_string();
    let known = works.catalog.known(&file).await.unwrap().unwrap();
    let state = known.facts.state();
    works.catalog.forget(&file, &state).await.unwrap();
    let plan = LoadPlan {
        facts: known.facts,
        decision: Decision::Ingest,
        expected: None,
        features: known.versions.into_keys().collect(),
        replaces: Vec::new(),
        residual: Residual::Replace,
    };
    let mut load = works.catalog.load(plan).await.unwrap();
    let report = NewReport {
        textname: can.reports[0].0.to_string(),
        src_size: 1,
        sent: None,
    };
    load.report(&report).await.unwrap();
    load.commit(async { Ok(()) }).await.unwrap();
    assert_eq!(problems(works, None).await, []);
    assert_eq!(problems(works, Some("100%")).await, [Problem::Misplaced]);
}

/// A file that the lake has no more is reported, and stays in the catalog until somebody decides.
async fn vanished(works: &Works, can: &Can) {
    let file = &can.record.filename;
    let before = hashes(works).await;
    let keys = [
        Key::autoclaved_file_index(works.generation(), file),
        Key::autoclaved(works.generation(), file),
    ];
    works.lake().delete_many(keys).await.unwrap();
    // Older generations have it still: a program of those rules would load them.
    assert_eq!(
        problems(works, None).await,
        [Problem::Outdated, Problem::Vanished]
    );
    let vanished = works
        .catalog
        .vanished(&bucket().to_string(), &Default::default())
        .await;
    assert_eq!(vanished.unwrap(), [file.to_string()]);
    assert_eq!(hashes(works).await, before);
}

/// A version of the example's rules that drops one more key.
pub(crate) fn rules_without(key: &str, version: &str) -> Arc<Rules> {
    Arc::new(changed_rules(|name, text| match name {
        "rules.yml" => {
            let version = format!("version: {version}");
            let text = text.replacen("version: 2026-11-16", &version, 1);
            format!("{text}\n  - op: drop\n    at: [{key}]\n")
        }
        _ => text,
    }))
}

async fn read_all(works: &Works, lines: &BTreeMap<String, Vec<u8>>) {
    for (uid, line) in lines {
        assert_eq!(works.text_of(uid).await, *line, "{uid}");
    }
}

async fn places(works: &Works, lines: &BTreeMap<String, Vec<u8>>) -> Vec<cannery_catalog::Place> {
    let mut places = Vec::new();
    for uid in lines.keys() {
        places.push(works.catalog.lookup(uid).await.unwrap().unwrap().place);
    }
    places
}

/// What every table holds.
async fn hashes(works: &Works) -> BTreeMap<String, String> {
    let hashes = works.catalog.hashes().await.unwrap().into_iter();
    hashes.map(|table| (table.table, table.sha256)).collect()
}

fn changed(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let tables = after.iter();
    let changed = tables.filter(|(table, hash)| before.get(*table) != Some(*hash));
    changed.map(|(table, _)| table.clone()).collect()
}

#[derive(Default)]
struct Heard(Vec<Finding>);

impl Listener for Heard {
    fn bucket(&mut self, _: BucketDate, _: u64, _: u64) {}

    fn found(&mut self, finding: Finding) {
        self.0.push(finding);
    }
}

/// What a check finds, in order.
async fn problems(works: &Works, share: Option<&str>) -> Vec<Problem> {
    let checker = Checker {
        plant: works.plant.clone(),
        catalog: works.catalog.clone(),
        features: Arc::clone(&works.features),
        generation: works.generation(),
        grace: Duration::ZERO,
    };
    let share = share.map(|share| share.parse::<Share>().unwrap());
    let mut heard = Heard::default();
    let report = checker.run(share, &mut heard).await.unwrap();
    assert_eq!(report.findings, heard.0.len() as u64);
    heard.0.iter().map(|finding| finding.problem).collect()
}
