//! Questions.

use cannery_catalog::{
    Coverage, CoverageFilter, CoverageState, Cursor, Difference, Feature, Filter, Found, Place,
};

use crate::doc::{BUCKET, doc, http, item, uid};
use crate::subject::Subject;

/// All pages, each of two.
async fn all(subject: &Subject, filter: &Filter) -> Vec<Found> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = subject.measurements(filter, after, 2).await.unwrap();
        assert!(page.items.len() <= 2);
        found.extend(page.items);
        let Some(next) = page.next else {
            return found;
        };
        // It survives its way through a URL.
        after = Some(next.to_string().parse::<Cursor>().unwrap());
    }
}

fn sorted(found: &[Found]) -> Vec<String> {
    let mut uids: Vec<String> = found.iter().map(|found| found.uid.clone()).collect();
    uids.sort_unstable();
    uids
}

async fn some_files(subject: &Subject) {
    subject.ingest(&doc("a", &[1, 2, 3, 6, 13])).await;
    subject.ingest(&doc("b", &[4, 5, 2])).await;
    let mut other = doc("c", &[7, 8]);
    other
        .reports
        .push(("second".to_owned(), vec![item(9), item(10)]));
    subject.ingest(&other).await;
}

pub(crate) async fn pages_have_everything_once(subject: &Subject) {
    some_files(subject).await;
    let numbers: Vec<String> = (1..=10).chain([13]).map(uid).collect();
    let found = all(subject, &Filter::default()).await;
    assert_eq!(sorted(&found), numbers);
    let times: Vec<i64> = found
        .iter()
        .map(|found| found.time_ms.unwrap_or(0))
        .collect();
    assert!(times.is_sorted(), "by time");
    let bucket = Filter {
        bucket: Some(BUCKET.to_owned()),
        ..Filter::default()
    };
    assert_eq!(sorted(&all(subject, &bucket).await), numbers);
    let files = subject.files(&Filter::default(), None, 2).await.unwrap();
    assert_eq!((files.items.len(), files.items[0].measurements), (2, 5));
    let files = subject.files(&bucket, files.next, 2).await.unwrap();
    assert_eq!((files.items.len(), files.next), (1, None));
    let reports = subject.reports(&bucket, None, 10).await.unwrap();
    assert_eq!(reports.items.len(), 4);
    let blobs = subject.bad_blobs(&bucket, None, 3).await.unwrap();
    let more = subject.bad_blobs(&bucket, blobs.next, 3).await.unwrap();
    assert_eq!((blobs.items.len(), more.items.len()), (3, 1));
    assert!(blobs.items[0].reason.starts_with("unreadable in \u{fffd} "));
    assert!("x.y".parse::<Cursor>().is_err());
}

pub(crate) async fn filters_hold_at_once(subject: &Subject) {
    some_files(subject).await;
    let second = Filter {
        report: Some("second".to_owned()),
        ..Filter::default()
    };
    assert_eq!(sorted(&all(subject, &second).await), [9, 10].map(uid));
    assert_eq!(
        subject
            .reports(&second, None, 10)
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    let mut day = Filter {
        from_ms: item(1).time_ms(),
        to_ms: item(2).time_ms(),
        ..Filter::default()
    };
    assert_eq!(sorted(&all(subject, &day).await), [1, 5, 9].map(uid));
    day.report = Some("second".to_owned());
    assert_eq!(sorted(&all(subject, &day).await), [9].map(uid));
    let early = Filter {
        to_ms: item(1).time_ms(),
        ..Filter::default()
    };
    assert_eq!(
        sorted(&all(subject, &early).await),
        [4, 8].map(uid),
        "none without a time"
    );
    for nothing in [
        Filter {
            kind: Some("other".to_owned()),
            ..Filter::default()
        },
        Filter {
            bucket: Some("2026-11-16".to_owned()),
            ..Filter::default()
        },
    ] {
        assert!(all(subject, &nothing).await.is_empty());
        assert!(
            subject
                .files(&nothing, None, 9)
                .await
                .unwrap()
                .items
                .is_empty()
        );
        assert!(
            subject
                .bad_rows(&nothing, None, 9)
                .await
                .unwrap()
                .items
                .is_empty()
        );
    }
}

pub(crate) async fn a_trace_has_all_hops(subject: &Subject) {
    let file = doc("a", &[5, 1]);
    subject.ingest(&file).await;
    subject.ingest(&doc("b", &[5])).await;
    let trace = subject.trace(&uid(5)).await.unwrap().unwrap();
    assert_eq!(trace.found.report, "2026-11-15/a-report");
    assert_eq!(trace.file.facts, file.facts());
    assert_eq!(
        trace.rows,
        [("dns".to_owned(), 1), ("http".to_owned(), 2)].into()
    );
    assert_eq!((trace.bad_rows.len(), trace.duplicates.len()), (1, 1));
    assert_eq!(subject.trace(&uid(99)).await.unwrap(), None);
}

pub(crate) async fn counts_add_up(subject: &Subject) {
    some_files(subject).await;
    let counts = subject.counts(None, 10).await.unwrap();
    let [count] = &counts[..] else {
        panic!("{counts:?}")
    };
    assert_eq!(
        (count.bucket.as_str(), count.kind.as_str()),
        (BUCKET, "ndt")
    );
    assert_eq!((count.files, count.reports, count.bad_blobs), (3, 4, 4));
    assert_eq!((count.measurements, count.duplicates), (12, 1));
    assert_eq!((count.bad_rows, count.files_outdated), (2, 0));
    let newer = Feature {
        version: 2,
        ..http()
    };
    subject.declare(&newer).await;
    assert_eq!(subject.counts(None, 10).await.unwrap()[0].files_outdated, 3);
    let none = subject
        .counts(Some(("2026-11-01", BUCKET)), 10)
        .await
        .unwrap();
    assert!(none.is_empty());
}

pub(crate) async fn coverage_is_replaced_and_filtered(subject: &Subject) {
    let hour = |subject: &str, name: &str, hour: &str, present| Coverage {
        subject: subject.to_owned(),
        name: name.to_owned(),
        hour: hour.to_owned(),
        expected: 60,
        present,
        bytes: 1000,
        state: CoverageState::Known,
    };
    let hours = [
        hour("feed", "tfl", "2026-11-15T00", 60),
        hour("feed", "tfl", "2026-11-15T01", 10),
        hour("node", "edge", "2026-11-15T00", 1),
    ];
    subject.cover(&hours).await.unwrap();
    subject
        .cover(&[hour("feed", "tfl", "2026-11-15T01", 59)])
        .await
        .unwrap();
    let of_feed = CoverageFilter {
        subject: Some("feed".to_owned()),
        hours: Some("2026-11-15T01".to_owned().."2026-11-16T00".to_owned()),
        ..CoverageFilter::default()
    };
    let found = subject.coverage(&of_feed, 10).await.unwrap();
    assert_eq!(found, [hour("feed", "tfl", "2026-11-15T01", 59)]);
    assert_eq!(
        subject
            .coverage(&CoverageFilter::default(), 10)
            .await
            .unwrap()
            .len(),
        3
    );
    for bad in ["2026-11-15", "2026-11-15T24", "2026-11-15T1", "x"] {
        assert!(
            subject.cover(&[hour("feed", "tfl", bad, 1)]).await.is_err(),
            "{bad}"
        );
    }
    assert!(
        subject
            .cover(&[hour("other", "x", "2026-11-15T00", 1)])
            .await
            .is_err()
    );
}

pub(crate) async fn a_difference_is_found(subject: &Subject) {
    let other = crate::sqlite::open().await;
    let numbers: Vec<u32> = (0..2500).collect();
    subject.ingest(&doc("a", &numbers)).await;
    other.ingest(&doc("a", &numbers)).await;
    assert_eq!(subject.differences(&other).await.unwrap(), []);
    assert_eq!(
        subject.hashes().await.unwrap(),
        other.hashes().await.unwrap()
    );
    other.bring(&doc("a", &numbers[..2400])).await;
    let differences = subject.differences(&other).await.unwrap();
    let found = differences
        .iter()
        .find(|difference| difference.table == "measurement");
    let Some(Difference { left, right, .. }) = found else {
        panic!("{differences:?}")
    };
    assert!(left.as_ref().unwrap().contains(&uid(2400)), "{left:?}");
    assert_eq!(right, &None);
    let hashes = subject.hashes().await.unwrap();
    let rows = hashes
        .iter()
        .find(|hash| hash.table == "measurement")
        .unwrap()
        .rows;
    assert_eq!(rows, 2500);
}

pub(crate) async fn residuals_are_summed(subject: &Subject) {
    subject.ingest(&doc("a", &[1, 2])).await;
    subject.ingest(&doc("b", &[3])).await;
    let residuals = subject.residuals(Some("ndt"), 10).await.unwrap();
    let counts: Vec<u64> = residuals.iter().map(|residual| residual.count).collect();
    assert_eq!(counts, [7, 2]);
    assert!(subject.residuals(Some("x"), 10).await.unwrap().is_empty());
}

/// A filter means the same for files, reports and measurements.
pub(crate) async fn files_and_reports_are_filtered_by_what_they_hold(subject: &Subject) {
    some_files(subject).await;
    let names = async |filter: &Filter| {
        let files = subject.files(filter, None, 10).await.unwrap().items;
        let reports = subject.reports(filter, None, 10).await.unwrap().items;
        let files: Vec<String> = files.into_iter().map(|file| file.facts.name).collect();
        let reports: Vec<String> = reports.into_iter().map(|report| report.textname).collect();
        (files.join(" "), reports.join(" "))
    };
    let second = Filter {
        report: Some("second".to_owned()),
        ..Filter::default()
    };
    let expected = |files: &str, reports: &str| (files.to_owned(), reports.to_owned());
    assert_eq!(names(&second).await, expected("2026-11-15/c", "second"));
    // 1 is in a, 5 in b and 9 in the second report of c.
    let mut day = Filter {
        from_ms: item(5).time_ms(),
        to_ms: item(2).time_ms(),
        ..Filter::default()
    };
    assert_eq!(
        names(&day).await,
        expected("2026-11-15/b 2026-11-15/c", "2026-11-15/b-report second")
    );
    day.report = Some("second".to_owned());
    assert_eq!(names(&day).await, expected("2026-11-15/c", "second"));
    day.kind = Some("other".to_owned());
    assert_eq!(names(&day).await, expected("", ""));
}

pub(crate) async fn what_is_not_at_its_place_is_found(subject: &Subject) {
    assert_eq!(subject.buckets().await.unwrap(), Vec::<String>::new());
    subject.ingest(&doc("a", &[1, 2])).await;
    let file = doc("b", &[4, 2, 3, 4]);
    subject.ingest(&file).await;
    assert_eq!(subject.buckets().await.unwrap(), [BUCKET]);
    let dates = ["2026-11-15", "2026-11-16", "2026-11-17", "2026-11-18"];
    assert_eq!(subject.dates_of(BUCKET).await.unwrap(), dates);
    assert!(subject.dates_of("2026-11-16").await.unwrap().is_empty());
    let all: Vec<(String, Place)> = (0..)
        .zip(file.items())
        .map(|(seq, (_, item))| (item.uid(), file.place(seq)))
        .collect();
    let name = file.full_name();
    let none = Vec::<String>::new();
    assert_eq!(subject.misplaced(&name, 0, &all).await.unwrap(), none);
    assert_eq!(subject.misplaced(&name, 2, &all[2..]).await.unwrap(), none);
    // At another number, in another file, another place, another uid.
    assert_eq!(subject.misplaced(&name, 1, &all).await.unwrap().len(), 4);
    let elsewhere = subject.misplaced("2026-11-15/a", 0, &all).await.unwrap();
    assert_eq!(elsewhere.len(), 3, "2 stands at the same place in both");
    let mut moved = all.clone();
    moved[1].1.intra_off += 1;
    moved[3].0 = uid(9);
    assert_eq!(
        subject.misplaced(&name, 0, &moved).await.unwrap(),
        [uid(2), uid(9)]
    );
}

pub(crate) async fn pages_of_a_file_have_what_is_in_it(subject: &Subject) {
    some_files(subject).await;
    let name = doc("b", &[]).full_name();
    let file = subject.file(&name).await.unwrap().unwrap();
    assert_eq!(
        (file.facts.name.as_str(), file.measurements),
        (name.as_str(), 3)
    );
    // The one that another file holds is not among them.
    let first = subject.measurements_of(&name, None, 1).await.unwrap();
    let rest = subject.measurements_of(&name, first.next, 5).await.unwrap();
    assert_eq!(
        sorted(&[first.items, rest.items].concat()),
        [uid(4), uid(5)]
    );
    assert_eq!(rest.next, None);
    let blobs = subject.bad_blobs_of(&name, None, 10).await.unwrap();
    assert!(!blobs.items.is_empty() && blobs.items.iter().all(|blob| blob.file == name));
    assert_eq!(subject.file("2026-11-15/none").await.unwrap(), None);
    let none = subject.measurements_of("2026-11-15/none", None, 5).await;
    assert!(none.unwrap().items.is_empty());
    assert_eq!(subject.newest_buckets(5).await.unwrap(), [BUCKET]);
}

pub(crate) async fn bad_things_are_counted_by_reason(subject: &Subject) {
    some_files(subject).await;
    let range = (BUCKET, "2026-11-16");
    let counts = subject.bad_counts(range, 10).await.unwrap();
    let sum = |of_rows: bool| -> u64 {
        let counts = counts.iter();
        let counts = counts.filter(|count| count.feature.is_some() == of_rows);
        counts.map(|count| count.count).sum()
    };
    assert_eq!((sum(false), sum(true)), (4, 2), "{counts:?}");
    for count in &counts {
        assert_eq!(count.kind, "ndt");
        let expected = if count.count == 1 { 1 } else { 2 };
        assert_eq!(count.examples.len(), expected, "{count:?}");
        assert_eq!(count.examples[0].size.is_none(), count.feature.is_some());
    }
    let one = subject.bad_counts(range, 1).await.unwrap();
    assert!(one.len() <= 2 && one[0] == counts[0]);
    let before = subject.bad_counts(("", BUCKET), 10).await.unwrap();
    assert!(before.is_empty());
}

pub(crate) async fn rows_of_features_are_cut(subject: &Subject) {
    subject.ingest(&doc("a", &[5, 1])).await;
    let rows = subject.feature_rows(&uid(5), 1).await.unwrap();
    let names: Vec<&str> = rows.iter().map(|rows| rows.feature.as_str()).collect();
    assert_eq!(names, ["dns", "http"]);
    for rows in &rows {
        assert_eq!(rows.rows.len(), 1);
        assert_eq!(rows.rows[0].len(), rows.columns.len());
    }
    let whole = subject.feature_rows(&uid(5), 10).await.unwrap();
    assert_eq!(whole[1].rows.len(), 2);
    let cells = whole.iter().flat_map(|rows| rows.rows.iter().flatten());
    let longest = cells.flatten().map(|cell| cell.chars().count()).max();
    assert!(longest.is_some_and(|longest| (1..=300).contains(&longest)));
    assert!(subject.feature_rows(&uid(99), 10).await.unwrap().is_empty());
}
