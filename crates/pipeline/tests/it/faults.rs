//! Requests that fail: from the n-th of a kind on, before or after the effect, or without an answer.

use std::sync::Arc;
use std::time::Duration;

use cannery_formats::feed::Codec;
use cannery_lake::fault::{Fault, FaultStore, Faults, Request};
use cannery_runtime::Clock;

use crate::kit::{Bucket, WAYS, Way, feed, hour, lake, set, store, upload};

async fn filled(way: Way) -> Bucket {
    let bucket = Bucket::new(way);
    bucket.upload(&upload("a b", Codec::Gzip)).await;
    bucket.consolidate().await;
    for (words, codec) in [("b c", Codec::Zstd), ("d", Codec::Gzip)] {
        bucket.upload(&upload(words, codec)).await;
    }
    bucket
}

/// One consolidation over a store with faults; whether it ended well.
async fn consolidate(bucket: &Bucket, faults: &Faults) -> bool {
    let faulty = FaultStore::new(bucket.raw.clone(), faults.clone(), Clock::real());
    let faulty = store(lake("main", Arc::new(faulty), bucket.way), bucket.way);
    let consolidator = bucket.consolidator();
    let done = consolidator.consolidate(&faulty, &feed(), hour()).await;
    done.is_ok()
}

async fn fail_from_the_nth(way: Way, request: Request, fault: Fault) {
    let (mut met, mut before) = (0, 0);
    loop {
        let context = format!("{way:?}: {request:?} meets {fault:?} after {before}");
        let bucket = filled(way).await;
        let faults = Faults::none();
        faults.next(request, Fault::Latency(Duration::ZERO), before);
        faults.next(request, fault, u32::MAX);
        let ended = consolidate(&bucket, &faults).await;
        let left = bucket.look().await.counted(way);
        assert_eq!(left, set("a b c d"), "{context}: something is lost");
        bucket.consolidate().await;
        bucket.assert_one(&set("a b c d"), &context).await;
        if faults.injected() <= u64::from(before) {
            assert!(ended, "{context}: nothing failed");
            assert!(met > 0, "{context}: no request met the fault");
            return;
        }
        met += 1;
        before += 1;
    }
}

#[tokio::test]
async fn puts_that_fail_lose_nothing() {
    for way in WAYS {
        for fault in [Fault::ErrorBefore, Fault::ErrorAfter] {
            fail_from_the_nth(way, Request::Put, fault).await;
        }
    }
}

#[tokio::test]
async fn deletes_that_fail_lose_nothing() {
    for way in WAYS {
        for fault in [Fault::ErrorBefore, Fault::ErrorAfter] {
            fail_from_the_nth(way, Request::Delete, fault).await;
        }
    }
}

#[tokio::test]
async fn reads_that_fail_lose_nothing() {
    for way in WAYS {
        fail_from_the_nth(way, Request::Get, Fault::ErrorBefore).await;
    }
}

#[tokio::test]
async fn a_listing_that_fails_or_ends_early_is_an_error_and_never_taken_for_the_whole() {
    for way in WAYS {
        for fault in [Fault::ErrorBefore, Fault::ListEndsAfter(1)] {
            fail_from_the_nth(way, Request::List, fault).await;
        }
    }
}

#[tokio::test]
async fn a_storm_of_faults_by_chance_loses_nothing() {
    for way in WAYS {
        for seed in 0..8 {
            let bucket = filled(way).await;
            let faults = Faults::by_seed(seed, 0.15);
            for _ in 0..2 {
                consolidate(&bucket, &faults).await;
                let left = bucket.look().await.counted(way);
                assert_eq!(left, set("a b c d"), "{way:?}, seed {seed}");
            }
            faults.stop();
            bucket.consolidate().await;
            let context = format!("{way:?}, seed {seed}");
            bucket.assert_one(&set("a b c d"), &context).await;
        }
    }
}
