//! What is told is there.

use std::time::Duration;

use cannery_runtime::Rng;
use cannery_state::{End, Filter, Outcome, Recorder, RecorderOptions, SILENCE, State};
use serde_json::json;

use crate::subject::{LIMIT, Subject, after, badly, begin, well};

const KEY: &str = "autoclave/2026-11-15/ndt/ndt.0.tar.lz4";

pub(crate) async fn an_execution_runs_and_then_has_ended(subject: &Subject) {
    let recorder = subject.recorder("node-1");
    let mut first = begin(KEY, 0);
    first.attempt = 3;
    let ticket = recorder.begin(first);
    assert!(recorder.flush().await);
    let running = subject.running().await.unwrap();
    assert_eq!(running.len(), 1);
    let one = &running[0];
    assert_eq!((one.stage.as_str(), one.key.as_str()), ("autoclave", KEY));
    assert_eq!(one.bucket.as_deref(), Some("2026-11-15"));
    assert_eq!(one.kind.as_deref(), Some("ndt"));
    assert_eq!(one.slice.as_deref(), Some("ndt.0.tar.lz4"));
    assert_eq!((one.attempt, one.worker.as_str()), (3, "node-1"));
    assert_eq!((one.started, one.ended), (after(0), None));
    assert_eq!(one.result, Outcome::Running);

    recorder.end(ticket, &well(65));
    assert!(recorder.flush().await);
    assert!(subject.running().await.unwrap().is_empty());
    let all = subject.all().await;
    assert_eq!(all.len(), 1);
    let one = &all[0];
    assert_eq!((one.started, one.ended), (after(0), Some(after(65))));
    assert_eq!((one.bytes_in, one.bytes_out), (1_000, 100));
    assert_eq!((one.attempt, one.result), (3, Outcome::Done));
    assert_eq!((&one.reason, &one.report), (&None, &json!({"cans": 2})));
    assert!(recorder.close(LIMIT).await);
    assert!(recorder.close(LIMIT).await, "twice is once");
    assert_eq!(subject.check().await.unwrap(), Vec::<String>::new());
}

/// They may be written by two batches or by one.
pub(crate) async fn begin_and_end_in_quick_succession_are_one_execution(subject: &Subject) {
    let recorder = subject.recorder("node-1");
    for round in 0..20 {
        let ticket = recorder.begin(begin(KEY, round));
        if round % 2 == 0 {
            tokio::task::yield_now().await;
        }
        recorder.end(ticket, &well(round + 1));
    }
    assert!(recorder.close(LIMIT).await);
    let results: Vec<Outcome> = subject.all().await.iter().map(|one| one.result).collect();
    assert_eq!(results, [Outcome::Done; 20]);
}

pub(crate) async fn what_is_told_at_once_is_all_there(subject: &Subject) {
    let recorder = subject.recorder("node-1");
    let other = subject.recorder("node-2");
    for number in 0..700 {
        let key = format!("can/2026-11-15/k{number}/open");
        recorder.record(begin(&key, number), &well(number + 1));
        other.record(begin(&key, number), &well(number + 1));
    }
    assert!(recorder.close(LIMIT).await && other.close(LIMIT).await);
    assert_eq!((recorder.dropped(), recorder.waiting()), (0, 0));
    for worker in ["node-1", "node-2"] {
        let filter = Filter {
            worker: Some(worker.to_owned()),
            ..Filter::default()
        };
        let page = subject.executions(&filter, None, 10_000).await.unwrap();
        assert_eq!(page.items.len(), 700, "{worker}");
    }
}

pub(crate) async fn every_outcome_comes_back_as_it_was(subject: &Subject) {
    let recorder = subject.recorder("node-1");
    for (place, outcome) in (0..).zip(Outcome::TROUBLE) {
        recorder.record(begin(KEY, place), &badly(place, outcome, outcome.name()));
    }
    // No key of a stage, and no end.
    recorder.record(begin("odd", 50), &badly(50, Outcome::Running, "x"));
    assert!(recorder.close(LIMIT).await);
    let all = subject.all().await;
    assert_eq!((all[0].result, &all[0].bucket), (Outcome::CutOff, &None));
    let told: Vec<Outcome> = all[1..].iter().rev().map(|one| one.result).collect();
    assert_eq!(told, Outcome::TROUBLE);
    for one in &all[1..] {
        assert_eq!(one.reason.as_deref(), Some(one.result.name()));
        assert!(one.report.is_null());
    }
}

pub(crate) async fn hostile_texts_are_kept(subject: &Subject) {
    let recorder = subject.recorder("no\0de '; drop table execution; --");
    let end = End {
        bytes_in: u64::MAX,
        report: json!({"a\0": "\u{0}\u{1f980}'\"", "b": [1.5, null]}),
        ..badly(1, Outcome::Failed, "it's \0 \u{1f980} ${1} $1 ?")
    };
    recorder.record(begin("c'an/2026-11-15/n\0dt/-", 0), &end);
    assert!(recorder.close(LIMIT).await);
    assert_eq!(recorder.dropped(), 0);
    let one = &subject.all().await[0];
    assert_eq!(one.stage, "c'an");
    assert_eq!(one.kind.as_deref(), Some("n\u{fffd}dt"));
    assert_eq!(
        one.reason.as_deref(),
        Some("it's \u{fffd} \u{1f980} ${1} $1 ?")
    );
    assert_eq!(one.report, end.report);
    assert_eq!(one.bytes_in, u64::MAX / 2, "as much as a database can hold");
    assert!(one.worker.starts_with("no\u{fffd}de '; drop"));
}

/// A worker that is killed says nothing any more: its task is gone with its runtime.
pub(crate) async fn a_worker_that_dies_leaves_what_it_ran_as_lost(subject: &Subject) {
    let state = subject.state.clone();
    let died = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let recorder = runtime.block_on(async {
            let options = RecorderOptions::of("node-1");
            let rng = Rng::from_os();
            let recorder = Recorder::start(&state, &options, &rng);
            drop(recorder.begin(begin(KEY, 0)));
            assert!(recorder.flush().await);
            recorder
        });
        runtime.shutdown_background();
        drop(recorder);
    });
    died.join().unwrap();
    let alive = subject.recorder("node-2");
    drop(alive.begin(begin("can/2026-11-15/ndt/open", 1)));
    assert!(alive.flush().await);
    assert_eq!(subject.running().await.unwrap().len(), 2, "not yet");

    // Heard of again and again, the other one goes on.
    for _ in 0..5 {
        subject.hand.advance(SILENCE / 4).await;
        assert!(alive.flush().await);
    }
    let running = subject.running().await.unwrap();
    assert_eq!(running.len(), 1);
    assert_eq!(running[0].worker, "node-2");
    let lost = Filter {
        results: vec![Outcome::Lost],
        ..Filter::default()
    };
    let lost = subject.executions(&lost, None, 10).await.unwrap().items;
    assert_eq!((lost.len(), lost[0].ended), (1, None));
    let reason = lost[0].reason.as_deref().unwrap();
    assert_eq!(
        reason,
        "its worker was last heard of at 2026-11-15T18:00:00Z"
    );
    let summary = subject.summary(&Filter::default()).await.unwrap();
    assert_eq!((summary[0].lost, summary[1].running), (1, 1));
    assert!(alive.close(LIMIT).await);
}

pub(crate) async fn a_worker_that_ends_leaves_what_it_ran_as_lost(subject: &Subject) {
    let recorder = subject.recorder("node-1");
    drop(recorder.begin(begin(KEY, 0)));
    assert!(recorder.close(LIMIT).await);
    let one = &subject.all().await[0];
    assert_eq!((one.result, one.ended), (Outcome::Lost, None));
    let reason = one.reason.as_deref();
    assert_eq!(reason, Some("its worker ended without a word about it"));
}

pub(crate) async fn a_worker_that_was_only_silent_is_right_again(subject: &Subject) {
    let recorder = subject.recorder("node-1");
    let ticket = recorder.begin(begin(KEY, 0));
    assert!(recorder.flush().await);
    // Another process whose clock has moved on: the worker's has not, so it says nothing.
    let (later, clock) = crate::subject::hand();
    later.advance(SILENCE + Duration::from_secs(1)).await;
    let elsewhere = State::open(&subject.address, clock).await.unwrap();
    assert!(elsewhere.running().await.unwrap().is_empty());
    subject.hand.advance(SILENCE).await;
    assert!(recorder.flush().await);
    assert_eq!(elsewhere.running().await.unwrap().len(), 1);
    recorder.end(ticket, &well(600));
    assert!(recorder.close(LIMIT).await);
    assert_eq!(subject.all().await[0].result, Outcome::Done);
}
