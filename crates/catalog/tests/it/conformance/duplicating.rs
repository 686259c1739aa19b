//! One measurement in several places.

use cannery_catalog::{Decision, LoadPlan, Residual};

use crate::doc::{Doc, doc, uid};
use crate::subject::{Subject, ingest};

async fn duplicates(subject: &Subject, number: u32) -> Vec<String> {
    let trace = subject.trace(&uid(number)).await.unwrap().unwrap();
    let places = trace.duplicates.iter();
    places.map(|place| place.file.clone()).collect()
}

async fn holder(subject: &Subject, number: u32) -> String {
    subject.find(number).await.unwrap().file
}

pub(crate) async fn the_same_uid_again_is_a_duplicate(subject: &Subject) {
    subject.ingest(&doc("a", &[1, 2])).await;
    let rows = subject.rows("feature_http").await;
    let done = subject.ingest(&doc("b", &[2, 3])).await;
    assert_eq!((done.added, done.duplicates), (1, 1));
    let dates: Vec<String> = done.dates.into_iter().collect();
    assert_eq!(dates, ["2026-11-18"], "that of 3: nothing of 2 has changed");
    assert_eq!(holder(subject, 2).await, "2026-11-15/a");
    assert_eq!(duplicates(subject, 2).await, ["2026-11-15/b"]);
    assert_eq!(subject.rows("feature_http").await, rows, "3 has none");
    assert_eq!(subject.decided(&doc("b", &[2, 3])).await, Decision::Skip);
}

pub(crate) async fn the_file_that_sorts_first_holds_it(subject: &Subject) {
    subject.ingest(&doc("b", &[2, 5, 3])).await;
    let done = subject.ingest(&doc("a", &[1, 5, 2])).await;
    assert_eq!((done.added, done.removed, done.duplicates), (1, 0, 0));
    assert_eq!(holder(subject, 5).await, "2026-11-15/a");
    assert_eq!(duplicates(subject, 5).await, ["2026-11-15/b"]);
    let bad = subject.rows("badrow").await;
    assert!(bad.len() == 1 && bad[0].contains("/a\""), "{bad:?}");
}

pub(crate) async fn twice_in_one_file_is_a_duplicate(subject: &Subject) {
    let file = doc("a", &[2, 3, 2, 5, 5]);
    let done = subject.ingest(&file).await;
    assert_eq!((done.added, done.duplicates), (3, 2));
    assert_eq!(subject.find(2).await.unwrap().place, file.place(0));
    assert_eq!(subject.rows("feature_http").await.len(), 4);
    assert_eq!(subject.rows("badrow").await.len(), 1);
}

pub(crate) async fn a_duplicate_takes_the_place_of_what_goes(subject: &Subject) {
    let (a, b) = (doc("a", &[1, 2, 5]), doc("b", &[5, 2]));
    subject.ingest(&b).await;
    let alone = subject.picture().await;
    subject.ingest(&a).await;
    let done = subject
        .forget(&a.full_name(), &a.facts().state())
        .await
        .unwrap();
    assert_eq!(done.outdated, ["2026-11-15/b"]);
    assert_eq!((done.removed, done.dates.len()), (1, 2));
    assert_eq!(holder(subject, 2).await, "2026-11-15/b");
    let (steps, _) = subject.bring(&b).await;
    assert!(
        matches!(steps[..], [Decision::Reprocess { .. }]),
        "{steps:?}"
    );
    assert_eq!(subject.picture().await, alone);
}

pub(crate) async fn the_order_of_loading_does_not_matter(subject: &Subject) {
    let files = [
        doc("a", &[1, 2, 5, 5]),
        doc("b", &[5, 2, 4]),
        doc("c", &[4, 1, 1, 10]),
    ];
    let mut pictures = Vec::new();
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]] {
        for at in order {
            subject.ingest(&files[at]).await;
        }
        pictures.push(subject.picture().await);
        subject.is_sound().await;
        for file in &files {
            let state = file.facts().state();
            subject.forget(&file.full_name(), &state).await.unwrap();
        }
        assert!(subject.rows("measurement").await.is_empty());
    }
    assert!(pictures.windows(2).all(|two| two[0] == two[1]));
}

pub(crate) async fn a_repoint_moves_duplicates_too(subject: &Subject) {
    subject.ingest(&doc("a", &[1])).await;
    let file = doc("b", &[1, 2, 2]);
    subject.ingest(&file).await;
    let (steps, _) = subject.bring(&file.reframed()).await;
    assert_eq!(steps, [Decision::Repoint]);
    let trace = subject.trace(&uid(1)).await.unwrap().unwrap();
    assert_eq!(trace.duplicates[0].place, file.reframed().place(0));
    // A file that replaces the holder and sorts behind the duplicate gives up what it had.
    let last = Doc {
        name: "z".to_owned(),
        ..doc("a", &[1])
    };
    let plan = LoadPlan {
        replaces: vec!["2026-11-15/a".to_owned()],
        features: Vec::new(),
        residual: Residual::Keep,
        ..ingest(&last)
    };
    let done = subject.run(&last, plan).await.unwrap();
    assert_eq!(done.outdated, ["2026-11-15/b"]);
    assert_eq!(holder(subject, 1).await, "2026-11-15/b");
    assert_eq!(duplicates(subject, 1).await, ["2026-11-15/z"]);
}

/// As if the files had been loaded in the order of their names.
pub(crate) async fn rows_are_those_of_the_holder(subject: &Subject) {
    subject.ingest(&doc("b", &[2, 4])).await;
    let first = doc("a", &[2]);
    let plan = LoadPlan {
        features: vec!["http".to_owned()],
        ..ingest(&first)
    };
    subject.run(&first, plan).await.unwrap();
    let trace = subject.trace(&uid(2)).await.unwrap().unwrap();
    assert_eq!(trace.found.file, "2026-11-15/a");
    let rows = [("dns".to_owned(), 0), ("http".to_owned(), 2)];
    assert_eq!(trace.rows, rows.into());
    assert_eq!(trace.file.versions, [("http".to_owned(), 1)].into());
}

/// A loader that compares every place of a uid with every other does not come to an end here.
pub(crate) async fn a_file_of_one_line_many_times_takes_the_place_of_its_open_can(
    subject: &Subject,
) {
    const LINES: u64 = 20_000;
    let same = vec![5; usize::try_from(LINES).unwrap()];
    let open = doc("ndt.open", &same);
    let done = subject.ingest(&open).await;
    assert_eq!((done.added, done.duplicates), (1, LINES - 1));

    let sealed = Doc {
        name: "ndt.0".to_owned(),
        ..open.clone()
    };
    let plan = LoadPlan {
        replaces: vec![open.full_name()],
        ..ingest(&sealed)
    };
    let done = subject.run(&sealed, plan).await.unwrap();
    assert_eq!((done.added, done.removed), (0, 0));
    assert_eq!(done.duplicates, LINES - 1);
    assert_eq!(holder(subject, 5).await, sealed.full_name());
    let trace = subject.trace(&uid(5)).await.unwrap().unwrap();
    assert_eq!(
        (trace.duplicates.len(), trace.duplicates_all),
        (100, LINES - 1)
    );
    assert_eq!(subject.known(&open.full_name()).await.unwrap(), None);

    // Every other step that looks at all places of a uid.
    subject.ingest(&open).await;
    let (steps, _) = subject.bring(&sealed.reframed()).await;
    assert_eq!(steps, [Decision::Repoint]);
    let state = sealed.reframed().facts().state();
    let done = subject.forget(&sealed.full_name(), &state).await.unwrap();
    assert_eq!(done.outdated, [open.full_name()]);
    let (steps, _) = subject.bring(&open).await;
    assert!(
        matches!(steps[..], [Decision::Reprocess { .. }]),
        "{steps:?}"
    );
}
