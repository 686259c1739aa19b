//! What goes wrong in the middle.

use std::pin::pin;
use std::task::Poll;

use cannery_catalog::{Decision, ErrorKind, LoadPlan, NewMeasurement, NewReport, NewRow};
use futures::future::{join_all, poll_fn};

use crate::doc::{Doc, doc, item, report};
use crate::subject::{Subject, ingest, open_gate, plan, push};

/// A catalog with something in every table, a file that is to be loaded again, and what it replaces.
async fn scene(subject: &Subject) -> (Doc, LoadPlan) {
    let (a, b) = (doc("a", &[1, 2, 5]), doc("b", &[5, 3, 10]));
    subject.ingest(&a).await;
    subject.ingest(&b).await;
    subject.ingest(&doc("c", &[2, 2, 7])).await;
    let next = doc("b", &[1, 3, 8, 20]);
    let mut plan = plan(&next, Some(&b), Decision::Reingest);
    plan.replaces = vec![a.full_name()];
    (next, plan)
}

pub(crate) async fn a_load_that_is_dropped_changes_nothing(subject: &Subject) {
    let (file, plan) = scene(subject).await;
    let before = subject.picture().await;
    let load = subject.load(plan.clone()).await.unwrap();
    drop(load);
    for many in 0..4 {
        let mut load = subject.load(plan.clone()).await.unwrap();
        load.report(&report("r")).await.unwrap();
        for seq in 0..many * 2000 {
            let item = item(100 + seq);
            let place = file.place(u64::from(seq));
            let features = ["http".to_owned(), "dns".to_owned()];
            load.measurement(item.measurement(place, &features))
                .await
                .unwrap();
        }
        drop(load);
        assert_eq!(subject.picture().await, before);
    }
    subject.run(&file, plan).await.unwrap();
    assert_ne!(subject.picture().await, before);
}

/// Cuts a commit off after its first poll, its second, and so on, until it ends.
pub(crate) async fn a_commit_that_is_cut_off_changes_nothing(subject: &Subject) {
    let (file, plan) = scene(subject).await;
    let before = subject.picture().await;
    let mut cuts = 0;
    loop {
        let mut load = subject.load(plan.clone()).await.unwrap();
        push(&mut load, &file, &plan).await.unwrap();
        let mut polls = 0;
        let ended = {
            let mut commit = pin!(load.commit(open_gate()));
            poll_fn(|context| {
                if polls == cuts {
                    return Poll::Ready(None);
                }
                polls += 1;
                commit.as_mut().poll(context).map(Some)
            })
            .await
        };
        if let Some(done) = ended {
            done.unwrap();
            break;
        }
        let now = subject.picture().await;
        if now != before {
            // The very last step: it was done, and nobody heard of it.
            assert_eq!(subject.decided(&file).await, Decision::Skip);
            break;
        }
        cuts += 1;
    }
    assert!(cuts > 20, "there is something to cut: {cuts}");
    assert_eq!(subject.decided(&file).await, Decision::Skip);
}

pub(crate) async fn a_fence_that_refuses_changes_nothing(subject: &Subject) {
    let (file, plan) = scene(subject).await;
    let before = subject.picture().await;
    let mut load = subject.load(plan.clone()).await.unwrap();
    push(&mut load, &file, &plan).await.unwrap();
    let lost = async { Err("the lease is lost".to_owned()) };
    let refused = load.commit(lost).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    assert!(refused.message.contains("the lease is lost"), "{refused}");
    assert_eq!(subject.picture().await, before);
    subject.run(&file, plan).await.unwrap();
}

pub(crate) async fn of_two_loads_of_a_file_one_is_refused(subject: &Subject) {
    let file = doc("a", &[1, 2, 3]);
    let attempts = (0..4).map(|_| subject.run(&file, ingest(&file)));
    let done = join_all(attempts).await;
    assert_eq!(done.iter().filter(|done| done.is_ok()).count(), 1);
    for refused in done.iter().filter_map(|done| done.as_ref().err()) {
        assert_eq!(refused.kind, ErrorKind::Conflict, "{refused}");
    }
    assert_eq!(subject.rows("measurement").await.len(), 3);
}

pub(crate) async fn loads_of_many_files_at_once_come_out_the_same(subject: &Subject) {
    let files: Vec<Doc> = (0..8)
        .map(|at| doc(&format!("f{at}"), &[at, at + 1, at + 2, 40, at]))
        .collect();
    let bring = |file: &Doc| {
        let file = file.clone();
        async move { subject.ingest(&file).await }
    };
    join_all(files.iter().map(bring)).await;
    let at_once = subject.picture().await;
    for file in &files {
        let state = file.facts().state();
        subject.forget(&file.full_name(), &state).await.unwrap();
    }
    for file in &files {
        subject.ingest(file).await;
    }
    assert_eq!(subject.picture().await, at_once);
}

pub(crate) async fn a_late_load_does_not_undo_a_newer_one(subject: &Subject) {
    let (old, slow, new) = (doc("a", &[1]), doc("a", &[1, 2]), doc("a", &[1, 3]));
    subject.ingest(&old).await;
    let slow_plan = plan(&slow, Some(&old), Decision::Reingest);
    let mut load = subject.load(slow_plan.clone()).await.unwrap();
    push(&mut load, &slow, &slow_plan).await.unwrap();
    subject.bring(&new).await;
    let before = subject.picture().await;
    let refused = load.commit(open_gate()).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    assert_eq!(subject.picture().await, before);
}

pub(crate) async fn a_plan_that_contradicts_itself_is_refused(subject: &Subject) {
    let file = doc("a", &[1]);
    let good = ingest(&file);
    let mut bad = vec![
        plan(&file, Some(&file), Decision::Ingest),
        plan(&file, None, Decision::Reingest),
        plan(&file, Some(&file), Decision::Skip),
        LoadPlan {
            replaces: vec![file.full_name()],
            ..good.clone()
        },
    ];
    for name in ["a", "2026-11-15/", "2026-11-16/a", "2026-11-15/a\0"] {
        let mut plan = good.clone();
        plan.facts.name = name.to_owned();
        bad.push(plan);
    }
    for plan in bad {
        let refused = subject.load(plan.clone()).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid, "{plan:?}");
    }
    let unknown = LoadPlan {
        features: vec!["unknown".to_owned()],
        ..good
    };
    let refused = subject.load(unknown).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
}

pub(crate) async fn a_repoint_to_another_text_is_refused(subject: &Subject) {
    let file = doc("a", &[1, 2]);
    subject.ingest(&file).await;
    let before = subject.picture().await;
    for other in [
        doc("a", &[1]),
        doc("a", &[2, 1]),
        doc("a", &[1, 2, 3]),
        doc("a", &[1, 3]),
    ] {
        let plan = plan(&other, Some(&file), Decision::Repoint);
        let refused = subject.run(&other, plan).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid, "{refused}");
    }
    assert_eq!(subject.picture().await, before);
}

pub(crate) async fn what_is_pushed_is_checked(subject: &Subject) {
    let file = doc("a", &[1]);
    let mut load = subject.load(ingest(&file)).await.unwrap();
    let good = item(1).measurement(file.place(0), &[]);
    assert!(load.measurement(good.clone()).await.is_err(), "no report");
    for textname in ["", "a\0b", &"x".repeat(3000)] {
        let textname = textname.to_owned();
        let src_size = 1;
        assert!(
            load.report(&NewReport {
                textname,
                src_size,
                sent: None
            })
            .await
            .is_err()
        );
    }
    load.report(&report("r")).await.unwrap();
    let unknown = NewRow {
        feature: "other".to_owned(),
        values: Vec::new(),
    };
    let mut too_large = good.clone();
    too_large.place.frame_off = u64::MAX;
    for bad in [
        NewMeasurement {
            uid: "x".to_owned(),
            ..good.clone()
        },
        NewMeasurement {
            rows: vec![unknown],
            ..good.clone()
        },
        too_large,
    ] {
        assert!(load.measurement(bad).await.is_err());
    }
}
