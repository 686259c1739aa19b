//! What becomes of a file.

use std::collections::BTreeMap;

use cannery_catalog::{
    Column, ColumnType, Decision, Feature, FeatureVersion, Filter, LoadPlan, NewBadRow,
    NewMeasurement, NewRow, Residual,
};
use serde_json::json;

use crate::doc::{Doc, doc, http, item, report, uid, version_of};
use crate::subject::{Subject, ingest, open_gate, plan, versions};

/// The id of every measurement: pages of one tell it.
async fn ids(subject: &Subject) -> BTreeMap<String, String> {
    let (mut ids, mut after) = (BTreeMap::new(), None);
    loop {
        let page = subject
            .measurements(&Filter::default(), after, 1)
            .await
            .unwrap();
        let Some(next) = page.next else {
            return ids;
        };
        let id = next.to_string().split_once('.').unwrap().1.to_owned();
        ids.insert(page.items[0].uid.clone(), id);
        after = Some(next);
    }
}

pub(crate) async fn a_new_file_is_ingested_and_then_skipped(subject: &Subject) {
    let file = doc("a", &[1, 2, 3]);
    let (steps, done) = subject.bring(&file).await;
    assert_eq!(steps, [Decision::Ingest]);
    assert_eq!(
        (done[0].added, done[0].removed, done[0].duplicates),
        (3, 0, 0)
    );
    let dates: Vec<&str> = done[0].dates.iter().map(String::as_str).collect();
    assert_eq!(dates, ["2026-11-16", "2026-11-17", "2026-11-18"]);
    let found = subject.find(2).await.unwrap();
    assert_eq!(found.file, "2026-11-15/a");
    assert_eq!(
        (found.generation.as_str(), found.kind.as_str()),
        ("r00000001", "ndt")
    );
    assert_eq!(found.report, "2026-11-15/a-report");
    assert_eq!(found.place, file.place(1));
    assert_eq!(found.time_ms, item(2).time_ms());
    assert_eq!(subject.find(4).await, None);
    let known = subject.known("2026-11-15/a").await.unwrap().unwrap();
    assert_eq!(known.facts, file.facts());
    assert_eq!(
        known.versions,
        [("dns".to_owned(), 1), ("http".to_owned(), 1)].into()
    );
    assert_eq!(subject.rows("feature_http").await.len(), 3);
    assert_eq!(subject.rows("feature_dns").await.len(), 3);
}

pub(crate) async fn other_frames_change_offsets_only(subject: &Subject) {
    let file = doc("a", &[1, 2, 3]);
    subject.ingest(&file).await;
    let before = subject.picture().await;
    let ids_before = ids(subject).await;
    let (steps, done) = subject.bring(&file.reframed()).await;
    assert_eq!(steps, [Decision::Repoint]);
    assert!(done[0].dates.is_empty());
    assert_eq!(
        subject.find(3).await.unwrap().place,
        file.reframed().place(2)
    );
    assert_eq!(
        subject.find(3).await.unwrap().digest,
        Some(item(3).digest()),
        "the text is the same"
    );
    for (table, rows) in subject.picture().await {
        let same = before.contains(&(table.clone(), rows));
        assert_eq!(same, table != "measurement" && table != "file", "{table}");
    }
    assert_eq!(ids(subject).await, ids_before);
}

pub(crate) async fn another_generation_is_a_repoint(subject: &Subject) {
    let file = doc("a", &[1]);
    subject.ingest(&file).await;
    let mut plan = plan(&file, Some(&file), Decision::Repoint);
    plan.facts.generation = "r00000002".to_owned();
    let decision = subject.decide(&plan.facts, &versions()).await.unwrap();
    assert_eq!(decision, Decision::Repoint);
    subject.run(&file, plan).await.unwrap();
    assert_eq!(subject.find(1).await.unwrap().generation, "r00000002");
}

pub(crate) async fn another_text_keeps_the_ids_of_what_stays(subject: &Subject) {
    subject.ingest(&doc("a", &[1, 2, 3, 5])).await;
    let before = ids(subject).await;
    let mut file = doc("a", &[9, 3, 2]);
    file.reports[0].1[2].text = 1;
    let (steps, done) = subject.bring(&file).await;
    assert_eq!(steps, [Decision::Reingest]);
    assert_eq!((done[0].added, done[0].removed), (1, 2));
    assert_eq!(subject.find(1).await, None);
    assert_eq!(subject.find(2).await.unwrap().place, file.place(2));
    let new_text = file.reports[0].1[2];
    assert_ne!(new_text.digest(), item(2).digest());
    assert_eq!(
        subject.find(2).await.unwrap().digest,
        Some(new_text.digest())
    );
    let after = ids(subject).await;
    assert_eq!(after[&uid(2)], before[&uid(2)]);
    let rows = subject.rows("feature_http").await;
    assert_eq!(rows.len(), 2, "those of 2: {rows:?}");
    assert!(rows[0].contains("/2/0/1"), "of the new text: {rows:?}");
    assert!(subject.rows("badrow").await.is_empty(), "5 is gone");
}

/// Files as they are merged when a day is sealed.
fn merged(name: &str, files: &[&Doc]) -> Doc {
    let reports = files.iter().flat_map(|file| file.reports.iter().cloned());
    Doc {
        name: name.to_owned(),
        framing: 7,
        reports: reports.collect(),
    }
}

fn replacing(file: &Doc, files: &[&Doc], features: &[&str]) -> LoadPlan {
    LoadPlan {
        features: features.iter().map(|name| (*name).to_owned()).collect(),
        replaces: files.iter().map(|file| file.full_name()).collect(),
        residual: Residual::Keep,
        ..ingest(file)
    }
}

pub(crate) async fn a_file_takes_the_place_of_others(subject: &Subject) {
    let (a, b) = (doc("a", &[1, 2, 5]), doc("b", &[4, 10, 8]));
    subject.ingest(&a).await;
    subject.ingest(&b).await;
    let before = ids(subject).await;
    let features = subject.rows("feature_http").await;
    let whole = merged("whole", &[&b, &a]);
    let done = subject
        .run(&whole, replacing(&whole, &[&a, &b], &[]))
        .await
        .unwrap();
    assert_eq!((done.added, done.removed), (0, 0));
    assert_eq!(ids(subject).await, before);
    assert_eq!(subject.rows("feature_http").await, features);
    assert_eq!(subject.rows("file").await.len(), 1);
    for (seq, (_, item)) in whole.items().enumerate() {
        let found = subject.find(item.number).await.unwrap();
        assert_eq!(found.file, "2026-11-15/whole");
        assert_eq!(found.place, whole.place(seq.try_into().unwrap()));
    }
    let bad = subject.rows("badrow").await;
    assert_eq!(bad.len(), 2, "{bad:?}");
    assert!(
        bad[0].starts_with("[\"2026-11-15/whole\",\"http\",1,1,"),
        "{bad:?}"
    );
    assert!(
        bad[1].starts_with("[\"2026-11-15/whole\",\"http\",5,2,"),
        "{bad:?}"
    );
    let residual = subject.rows("residual").await;
    assert_eq!(residual.len(), 2);
    assert!(
        residual
            .iter()
            .any(|row| row.ends_with("\"{\\\"a\\\":int}\",10]")),
        "{residual:?}"
    );
    assert_eq!(subject.decided(&whole).await, Decision::Skip);
}

pub(crate) async fn a_file_that_replaces_unknown_ones_asks_for_its_features(subject: &Subject) {
    let (a, b) = (doc("a", &[1, 2]), doc("b", &[3]));
    subject.ingest(&a).await;
    let whole = merged("whole", &[&a, &b]);
    subject
        .run(&whole, replacing(&whole, &[&a, &b], &[]))
        .await
        .unwrap();
    let (steps, _) = subject.bring(&whole).await;
    assert!(matches!(&steps[..], [Decision::Reprocess { features }] if features.len() == 2));
    assert_eq!(subject.rows("feature_dns").await.len(), 3);
}

pub(crate) async fn a_feature_is_reprocessed_alone(subject: &Subject) {
    let mut file = doc("a", &[2, 3, 5]);
    subject.ingest(&file).await;
    let newer = Feature {
        version: 2,
        min_compatible: 2,
        ..http()
    };
    subject.declare(&newer).await;
    let before = subject.picture().await;
    let now = [version_of(&newer), versions()[1].clone()];
    let decision = subject.decide(&file.facts(), &now).await.unwrap();
    let features = vec!["http".to_owned()];
    assert_eq!(decision, Decision::Reprocess { features });
    // What the new version makes of them is something else.
    let mut plan = plan(&file, Some(&file), decision);
    plan.residual = Residual::Keep;
    for item in &mut file.reports[0].1 {
        item.text = 9;
    }
    let done = subject.run(&file, plan).await.unwrap();
    assert_eq!(done.dates.len(), 3);
    for (table, rows) in subject.picture().await {
        let same = before.contains(&(table.clone(), rows));
        assert_eq!(
            same,
            table != "feature_http" && table != "file_feature",
            "{table}"
        );
    }
    let rows = subject.rows("feature_http").await;
    assert!(rows.len() == 4 && rows[0].contains("/2/0/9"), "{rows:?}");
}

pub(crate) async fn a_compatible_version_is_only_marked(subject: &Subject) {
    let file = doc("a", &[2]);
    subject.ingest(&file).await;
    let newer = Feature {
        version: 3,
        ..http()
    };
    subject.declare(&newer).await;
    let now = [version_of(&newer)];
    let features = vec!["http".to_owned()];
    let decision = subject.decide(&file.facts(), &now).await.unwrap();
    assert_eq!(
        decision,
        Decision::MarkCurrent {
            features: features.clone()
        }
    );
    let rows = subject.rows("feature_http").await;
    subject
        .mark_current(&file.full_name(), &features)
        .await
        .unwrap();
    assert_eq!(subject.rows("feature_http").await, rows);
    assert_eq!(
        subject.decide(&file.facts(), &now).await.unwrap(),
        Decision::Skip
    );
    let unknown = ["other".to_owned()];
    assert!(
        subject
            .mark_current(&file.full_name(), &unknown)
            .await
            .is_err()
    );
    assert!(
        subject
            .mark_current("2026-11-15/none", &features)
            .await
            .is_err()
    );
}

pub(crate) async fn what_a_newer_program_loaded_is_reported(subject: &Subject) {
    let file = doc("a", &[2]);
    let newer = Feature {
        version: 4,
        ..http()
    };
    subject.declare(&newer).await;
    subject.ingest(&file).await;
    let older = FeatureVersion {
        version: 3,
        ..version_of(&newer)
    };
    let reported = Decision::NewerThanCode {
        feature: "http".to_owned(),
        known: 4,
        declared: 3,
    };
    assert_eq!(
        subject.decide(&file.facts(), &[older]).await.unwrap(),
        reported
    );
}

pub(crate) async fn what_the_lake_has_no_more_is_reported(subject: &Subject) {
    subject.ingest(&doc("a", &[1])).await;
    subject.ingest(&doc("b", &[2])).await;
    let listing = ["2026-11-15/b", "2026-11-15/c"].map(str::to_owned).into();
    let gone = subject.vanished("2026-11-15", &listing).await.unwrap();
    assert_eq!(gone, ["2026-11-15/a"]);
    assert!(
        subject
            .vanished("2026-11-16", &listing)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(subject.find(1).await.is_some());
}

pub(crate) async fn a_row_that_does_not_fit_is_kept_as_bad(subject: &Subject) {
    let file = doc("a", &[5]);
    let mut load = subject.load(ingest(&file)).await.unwrap();
    load.report(&report("r")).await.unwrap();
    load.measurement(item(5).measurement(file.place(0), &["http".to_owned()]))
        .await
        .unwrap();
    let bad = NewBadRow {
        feature: "dns".to_owned(),
        reason: "the filter failed \0".to_owned(),
        data: "x\0y".to_owned(),
    };
    load.bad_row(&bad).await.unwrap();
    let done = load.commit(open_gate()).await.unwrap();
    assert_eq!(done.bad_rows, 2);
    assert_eq!(subject.rows("feature_http").await.len(), 2);
    let page = subject
        .bad_rows(&Filter::default(), None, 10)
        .await
        .unwrap();
    let fits = page.items.iter().find(|row| row.feature == "http").unwrap();
    assert_eq!(
        fits.reason,
        "column `size`: this text is no whole number of 64 bits"
    );
    assert_eq!((fits.data.as_str(), fits.row), ("[\"bad\",\"many\"]", 2));
    let failed = page.items.iter().find(|row| row.feature == "dns").unwrap();
    assert_eq!(failed.reason, "the filter failed \u{fffd}");
    assert_eq!(failed.data, "x\u{fffd}y");
}

pub(crate) async fn every_type_comes_back_as_it_was(subject: &Subject) {
    let types = [
        ColumnType::Text,
        ColumnType::Int,
        ColumnType::Float,
        ColumnType::Bool,
        ColumnType::Time,
        ColumnType::Json,
    ];
    let columns = types.iter().enumerate();
    let feature = Feature {
        name: "types".to_owned(),
        version: 1,
        min_compatible: 1,
        columns: columns
            .map(|(at, t)| Column::new(format!("c{at}"), *t))
            .collect(),
    };
    subject.declare(&feature).await;
    let rows = [
        vec![
            json!("ü'\"\\"),
            json!(i64::MIN),
            json!(0.1),
            json!(true),
            json!("1969-12-31T23:59:59.999Z"),
            json!({"z": 1, "a": [null, "\0"]}),
        ],
        vec![
            json!(null),
            json!(null),
            json!(null),
            json!(null),
            json!(null),
            json!(null),
        ],
        vec![
            json!(""),
            json!(i64::MAX),
            json!(-0.0),
            json!(false),
            json!(1.5),
            json!("x"),
        ],
    ];
    let rows = rows.map(|values| NewRow {
        feature: "types".to_owned(),
        values,
    });
    let file = doc("a", &[1]);
    let mut load = subject
        .load(LoadPlan {
            features: vec!["types".to_owned()],
            ..ingest(&file)
        })
        .await
        .unwrap();
    load.report(&report("r")).await.unwrap();
    let measurement = NewMeasurement {
        rows: rows.to_vec(),
        ..item(1).measurement(file.place(0), &[])
    };
    load.measurement(measurement).await.unwrap();
    load.commit(open_gate()).await.unwrap();
    let u = uid(1);
    assert_eq!(
        subject.rows("feature_types").await,
        [
            format!(
                "[\"{u}\",0,\"ü'\\\"\\\\\",-9223372036854775808,0.1,1,\"1969-12-31T23:59:59.999Z\",\"{{\\\"z\\\":1,\\\"a\\\":[null,\\\"\\\\u0000\\\"]}}\"]"
            ),
            format!("[\"{u}\",1,null,null,null,null,null,null]"),
            format!(
                "[\"{u}\",2,\"\",9223372036854775807,0.0,0,\"1970-01-01T00:00:01.500Z\",\"\\\"x\\\"\"]"
            ),
        ]
    );
}

pub(crate) async fn a_large_file_is_loaded_in_parts(subject: &Subject) {
    // More than fits the memory of a load.
    let numbers: Vec<u32> = (0..6000).collect();
    let file = doc("a", &numbers);
    let done = subject.ingest(&file).await;
    assert_eq!(done.added, 6000);
    assert_eq!(subject.rows("measurement").await.len(), 6000);
    assert_eq!(subject.rows("feature_dns").await.len(), 6000);
    assert_eq!(subject.rows("badrow").await.len(), 1200);
    assert_eq!(subject.find(5999).await.unwrap().place, file.place(5999));
}

pub(crate) async fn an_empty_file_is_a_file(subject: &Subject) {
    let file = Doc {
        reports: Vec::new(),
        ..doc("a", &[])
    };
    let (steps, _) = subject.bring(&file).await;
    assert_eq!(steps, [Decision::Ingest]);
    let (steps, _) = subject.bring(&file.reframed()).await;
    assert_eq!(steps, [Decision::Repoint]);
}

pub(crate) async fn a_forgotten_file_is_gone(subject: &Subject) {
    let (a, b) = (doc("a", &[1, 5]), doc("b", &[2]));
    subject.ingest(&b).await;
    let before = subject.picture().await;
    subject.ingest(&a).await;
    let state = b.facts().state();
    assert!(subject.forget(&a.full_name(), &state).await.is_err());
    let done = subject
        .forget(&a.full_name(), &a.facts().state())
        .await
        .unwrap();
    assert_eq!((done.removed, done.dates.len()), (2, 1));
    assert_eq!(subject.picture().await, before);
    subject.forget(&a.full_name(), &state).await.unwrap();
}
