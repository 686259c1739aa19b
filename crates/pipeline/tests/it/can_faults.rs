//! Requests that fail while a bucket is filled and sealed: what is done again afterwards ends in the same bytes.

use std::sync::Arc;
use std::time::Duration;

use cannery_lake::fault::{Fault, FaultStore, Faults, Request};
use cannery_pipeline::seal::Sealer;
use cannery_runtime::Clock;

use crate::can_kit::{
    Objects, Texts, Works, bucket, by_kind, expected, key_of, lake_on, open_all, some_reports,
};

fn few_reports() -> Texts {
    let all = some_reports(21);
    let wanted = |name: &String| name.contains("-ndt-") || !name.ends_with("probe.json");
    all.into_iter().filter(|(name, _)| wanted(name)).collect()
}

/// Cans half of the reports and seals the bucket over a store with faults; whether all of it ended well.
async fn work(works: &Works, texts: &Texts, faults: &Faults) -> bool {
    let faulty = FaultStore::new(Arc::clone(&works.store), faults.clone(), Clock::real());
    let faulty = lake_on(Arc::new(faulty), Duration::from_millis(100));
    let canner = works.canner_on(&faulty, None);
    let mut is_well = true;
    for (kind, keys) in by_kind(texts.keys().step_by(2)) {
        is_well &= canner.open(bucket(), &kind, &keys).await.is_ok();
    }
    is_well & canner.bucket(bucket()).await.is_ok()
}

async fn check_again(works: &Works, texts: &Texts, expected: &Objects, context: &str) {
    works.canner().bucket(bucket()).await.unwrap();
    assert!(works.texts().await == *texts, "{context}");
    assert!(works.sealed().await == *expected, "{context}");
    assert!(works.has_no_scratch_left(), "{context}");
}

async fn fail_from_the_nth(request: Request, fault: Fault, times: u32) {
    let texts = few_reports();
    let expected = expected(&texts).await;
    let mut before = 0;
    loop {
        let context = format!("{request:?} meets {fault:?} {times} times after {before}");
        let works = Works::in_memory();
        works.fill(&texts).await;
        let faults = Faults::none();
        faults.next(request, Fault::Latency(Duration::ZERO), before);
        faults.next(request, fault, times);
        let ended = work(&works, &texts, &faults).await;
        let is_over = faults.injected() <= u64::from(before);
        check_again(&works, &texts, &expected, &context).await;
        if is_over {
            assert!(ended, "{context}: nothing failed");
            assert!(before > 3, "{context}: no request met the fault");
            return;
        }
        before += 1;
    }
}

#[tokio::test]
async fn puts_that_fail_lose_nothing() {
    for fault in [Fault::ErrorBefore, Fault::ErrorAfter] {
        fail_from_the_nth(Request::Put, fault, u32::MAX).await;
    }
}

#[tokio::test]
async fn one_put_that_fails_is_tried_again() {
    for fault in [Fault::ErrorAfter, Fault::ConflictingWrite] {
        fail_from_the_nth(Request::Put, fault, 1).await;
    }
}

#[tokio::test]
async fn reads_that_fail_lose_nothing() {
    fail_from_the_nth(Request::Get, Fault::ErrorBefore, u32::MAX).await;
}

#[tokio::test]
async fn listings_that_fail_or_end_early_lose_nothing() {
    for fault in [Fault::ErrorBefore, Fault::ListEndsAfter(1)] {
        fail_from_the_nth(Request::List, fault, u32::MAX).await;
    }
}

#[tokio::test]
async fn a_storm_of_faults_by_chance_loses_nothing() {
    let texts = few_reports();
    let expected = expected(&texts).await;
    for seed in 0..10 {
        let works = Works::in_memory();
        works.fill(&texts).await;
        let faults = Faults::by_seed(seed, 0.1);
        for _ in 0..2 {
            work(&works, &texts, &faults).await;
        }
        faults.stop();
        check_again(&works, &texts, &expected, &format!("seed {seed}")).await;
    }
}

#[tokio::test]
async fn whoever_is_killed_at_any_request_has_lost_nothing() {
    let texts = few_reports();
    let expected = expected(&texts).await;
    let mut at = 0;
    loop {
        let works = Arc::new(Works::in_memory());
        works.fill(&texts).await;
        let faults = Faults::none();
        let working = tokio::spawn({
            let (works, texts, faults) = (Arc::clone(&works), texts.clone(), faults.clone());
            async move { work(&works, &texts, &faults).await }
        });
        while faults.requests() < at && !working.is_finished() {
            tokio::task::yield_now().await;
        }
        let is_over = working.is_finished();
        working.abort();
        // What it has begun may go on beside the one who does it again.
        works.canner().bucket(bucket()).await.unwrap();
        drop(working.await);
        assert!(works.texts().await == texts, "killed after {at}");
        assert!(works.sealed().await == expected, "killed after {at}");
        if is_over {
            assert!(at > 20, "it was over before it was killed");
            return;
        }
        at += 3;
    }
}

#[tokio::test]
async fn what_was_decided_stands_although_the_one_who_decided_is_dead() {
    let texts = few_reports();
    let works = Works::in_memory();
    works.fill(&texts).await;
    let half: Vec<&String> = texts.keys().step_by(2).collect();
    open_all(&works.canner(), &half).await;
    let faults = Faults::none();
    // It closes the bucket, decides, and can put nothing more.
    faults.next(Request::Put, Fault::Latency(Duration::ZERO), 2);
    faults.next(Request::Put, Fault::ErrorBefore, u32::MAX);
    let faulty = FaultStore::new(Arc::clone(&works.store), faults.clone(), Clock::real());
    let faulty = lake_on(Arc::new(faulty), Duration::from_millis(100));
    let sealer = Sealer::new(works.plant(&faulty), works.inputs(&faulty), None);
    sealer.seal(bucket()).await.unwrap_err();
    let report = works.canner().bucket(bucket()).await.unwrap();
    assert_eq!(report.reports, half.len() as u64);
    assert!(works.texts().await.keys().eq(half.iter().copied()));
    let looked = works.look().await;
    let found: usize = looked.to_can.values().map(|it| it.inputs.len()).sum();
    assert_eq!(found, texts.len() - half.len(), "the rest is found again");
}

#[tokio::test]
async fn a_report_that_was_replaced_since_it_was_decided_on_is_named() {
    let texts = few_reports();
    for text in ["", "much longer"] {
        let works = Works::in_memory();
        works.fill(&texts).await;
        let faults = Faults::none();
        faults.next(Request::Put, Fault::Latency(Duration::ZERO), 2);
        faults.next(Request::Put, Fault::ErrorBefore, u32::MAX);
        let faulty = FaultStore::new(Arc::clone(&works.store), faults.clone(), Clock::real());
        let faulty = lake_on(Arc::new(faulty), Duration::from_millis(100));
        let canner = works.canner_on(&faulty, None);
        canner.bucket(bucket()).await.unwrap_err();
        let key = key_of("2017-01-01/odd name");
        works.lake.delete(&key).await.unwrap();
        works.put(&key, text.as_bytes()).await;
        let error = works.canner().bucket(bucket()).await.unwrap_err();
        assert!(error.to_string().contains(key.as_str()), "{error}");
    }
}
