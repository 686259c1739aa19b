//! What came of feeds and nodes, and what did not.

use cannery_catalog::{Coverage, CoverageFilter, CoverageState, NewReport, Sent};

use crate::doc::{Doc, doc, item};
use crate::subject::{Subject, ingest, open_gate};

fn hour(hour: &str, expected: u64, present: u64) -> Coverage {
    Coverage {
        subject: "feed".to_owned(),
        name: "tfl".to_owned(),
        hour: hour.to_owned(),
        expected,
        present,
        bytes: present * 10,
        state: CoverageState::Known,
    }
}

/// Hour, expected, present, bytes, state.
type Shown = (String, u64, u64, u64, CoverageState);

async fn shown(subject: &Subject, of: &str) -> Vec<Shown> {
    let filter = CoverageFilter {
        name: Some(of.to_owned()),
        ..CoverageFilter::default()
    };
    let rows = subject.coverage(&filter, 10_000).await.unwrap().into_iter();
    rows.map(|row| (row.hour, row.expected, row.present, row.bytes, row.state))
        .collect()
}

fn known(hour: &str, expected: u64, present: u64, bytes: u64) -> Shown {
    let state = CoverageState::Known;
    (hour.to_owned(), expected, present, bytes, state)
}

fn absent(hour: &str, expected: u64) -> Shown {
    (hour.to_owned(), expected, 0, 0, CoverageState::Absent)
}

pub(crate) async fn hours_between_two_that_are_known_are_absent(subject: &Subject) {
    let hours = [hour("2026-11-15T22", 60, 60), hour("2026-11-16T02", 30, 30)];
    subject.cover(&hours).await.unwrap();
    let expected = [
        known("2026-11-15T22", 60, 60, 600),
        absent("2026-11-15T23", 60),
        absent("2026-11-16T00", 60),
        absent("2026-11-16T01", 60),
        known("2026-11-16T02", 30, 30, 300),
    ];
    assert_eq!(shown(subject, "tfl").await, expected);
    // One of them came late, and nothing was in it.
    subject.cover(&[hour("2026-11-16T00", 6, 0)]).await.unwrap();
    let expected = [
        known("2026-11-15T22", 60, 60, 600),
        absent("2026-11-15T23", 60),
        known("2026-11-16T00", 6, 0, 0),
        absent("2026-11-16T01", 6),
        known("2026-11-16T02", 30, 30, 300),
    ];
    assert_eq!(shown(subject, "tfl").await, expected);
    // Who was away for more than a month was not expected.
    subject.cover(&[hour("2027-01-16T00", 1, 1)]).await.unwrap();
    assert_eq!(shown(subject, "tfl").await.len(), 6);
    let absent = Coverage {
        state: CoverageState::Absent,
        ..hour("2026-11-15T20", 1, 0)
    };
    assert!(subject.cover(&[absent]).await.is_err());
}

pub(crate) async fn the_order_of_hours_does_not_matter(subject: &Subject) {
    let mut hours = [
        hour("2026-11-15T22", 60, 60),
        hour("2026-11-16T02", 30, 30),
        hour("2026-11-16T00", 6, 0),
        hour("2026-12-10T01", 6, 6),
    ];
    subject.cover(&hours).await.unwrap();
    let first = shown(subject, "tfl").await;
    for round in 0..hours.len() {
        hours.rotate_left(1);
        for one in &mut hours {
            one.name = format!("tfl{round}");
        }
        for one in &hours {
            subject.cover(std::slice::from_ref(one)).await.unwrap();
        }
        assert!(shown(subject, &format!("tfl{round}")).await == first);
    }
    assert_eq!(first.len(), 24 * 24 + 4);
}

/// Loads a file of one report that a node sent in an hour.
async fn load(subject: &Subject, file: &Doc, (textname, hour, src_size): (&str, &str, u64)) {
    load_in_place(subject, file, (textname, hour, src_size), &[]).await;
}

async fn load_in_place(
    subject: &Subject,
    file: &Doc,
    (textname, hour, src_size): (&str, &str, u64),
    replaces: &[&Doc],
) {
    let mut plan = ingest(file);
    plan.replaces = replaces.iter().map(|doc| doc.full_name()).collect();
    let mut load = subject.load(plan).await.unwrap();
    let report = NewReport {
        textname: textname.to_owned(),
        src_size,
        sent: Some(Sent {
            node: "mlab1-lga01".to_owned(),
            hour: hour.to_owned(),
        }),
    };
    load.report(&report).await.unwrap();
    let one = item(1).measurement(file.place(0), &[]);
    load.measurement(one).await.unwrap();
    load.commit(open_gate()).await.unwrap();
}

const NODE: &str = "mlab1-lga01";

pub(crate) async fn a_node_is_covered_by_its_reports(subject: &Subject) {
    let [a, b, c] = ["a", "b", "c"].map(|name| doc(name, &[1]));
    load(subject, &a, ("one", "2026-11-15T18", 100)).await;
    load(subject, &b, ("two", "2026-11-15T18", 11)).await;
    assert_eq!(
        shown(subject, NODE).await,
        [known("2026-11-15T18", 1, 1, 111)]
    );
    load(subject, &c, ("three", "2026-11-15T20", 5)).await;
    let expected = [
        known("2026-11-15T18", 1, 1, 111),
        absent("2026-11-15T19", 1),
        known("2026-11-15T20", 1, 1, 5),
    ];
    assert_eq!(shown(subject, NODE).await, expected);
}

pub(crate) async fn a_report_in_two_files_counts_once(subject: &Subject) {
    let [a, b] = ["a", "b"].map(|name| doc(name, &[1]));
    load(subject, &a, ("one", "2026-11-15T18", 100)).await;
    load_in_place(subject, &b, ("one", "2026-11-15T18", 100), &[]).await;
    let expected = [known("2026-11-15T18", 1, 1, 100)];
    assert_eq!(shown(subject, NODE).await, expected);
    let sealed = doc("sealed", &[1]);
    load_in_place(subject, &sealed, ("one", "2026-11-15T18", 100), &[&a, &b]).await;
    assert_eq!(shown(subject, NODE).await, expected);
}

pub(crate) async fn a_node_that_is_forgotten_is_not_covered(subject: &Subject) {
    let [a, b, c] = ["a", "b", "c"].map(|name| doc(name, &[1]));
    load(subject, &a, ("one", "2026-11-15T18", 100)).await;
    load(subject, &b, ("two", "2026-11-15T19", 10)).await;
    load(subject, &c, ("three", "2026-11-15T20", 1)).await;
    let state = |doc: &Doc| doc.facts().state();
    subject.forget(&b.full_name(), &state(&b)).await.unwrap();
    let expected = [
        known("2026-11-15T18", 1, 1, 100),
        absent("2026-11-15T19", 1),
        known("2026-11-15T20", 1, 1, 1),
    ];
    assert_eq!(shown(subject, NODE).await, expected);
    subject.forget(&a.full_name(), &state(&a)).await.unwrap();
    assert_eq!(
        shown(subject, NODE).await,
        [known("2026-11-15T20", 1, 1, 1)]
    );
}
