//! Stages of a real line share a budget of memory: what runs at once fits into it, and what alone does not fit runs alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cannery_lake::fault::{Fault, FaultStore, Faults, Request};
use cannery_pipeline::admission::Admission;
use cannery_pipeline::line::Line;
use cannery_runtime::Clock;

use crate::can_kit::{Works, lake_on};
use crate::line::{check, distinct, fill};
use crate::line_kit::Mill;

const HOUR: Duration = Duration::from_secs(3_600);

/// What a day on a line with this budget had running at once, each time one more began, with the memory of each.
async fn crowds(budget: u64) -> Vec<BTreeMap<String, u64>> {
    let mut mill = Mill::new(Works::in_memory()).await;
    mill.admission = Admission::new(budget);
    let expected = fill(&mill.works, &distinct()).await;
    mill.discover().await;
    let line = slow_line(&mill).await;
    mill.work(line.clone(), HOUR).await;
    let night = "2017-01-02T00:30:00Z".parse::<jiff::Timestamp>().unwrap();
    let left = night.duration_since(mill.clock().now()).unsigned_abs();
    mill.simulated.advance(left).await;
    mill.discover().await;
    mill.work(line.clone(), HOUR).await;
    check(&mill, &expected).await;
    assert_eq!(mill.dead().await, BTreeMap::new());
    let need = |key: String| {
        let bytes = line.need_bytes(&key.parse().unwrap());
        (key, bytes)
    };
    let crowds = mill.told.crowds().into_iter();
    crowds
        .map(|crowd| crowd.into_iter().map(need).collect())
        .collect()
}

/// A line whose lake takes its time: whoever is let in beside another meets it.
async fn slow_line(mill: &Mill) -> Line {
    let faults = Faults::none();
    let pause = Fault::Latency(Duration::from_millis(3));
    for request in [Request::Get, Request::Put] {
        faults.next(request, pause, u32::MAX);
    }
    let store = Arc::clone(&mill.works.store);
    let store = FaultStore::new(store, faults, Clock::real());
    let lake = lake_on(Arc::new(store), Duration::from_secs(600));
    let line = mill.line_on(&lake);
    line.prepare().await.unwrap();
    line
}

fn fits(crowd: &BTreeMap<String, u64>, budget: u64) -> bool {
    crowd.len() == 1 || crowd.values().sum::<u64>() <= budget
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_never_runs_at_once_and_what_never_fits_runs_alone() {
    // Room for all.
    let free = crowds(u64::MAX).await;
    let needs: BTreeMap<_, _> = free.iter().flatten().collect();
    let (least, most) = (
        **needs.values().min().unwrap(),
        **needs.values().max().unwrap(),
    );
    let most_at_once = free.iter().map(BTreeMap::len).max();
    assert!(most_at_once >= Some(3), "{free:?}");
    let largest = free.iter().map(|crowd| crowd.values().sum::<u64>()).max();
    assert!(
        largest > Some(most),
        "nothing would be held back: {largest:?}"
    );

    // Not even for one.
    let alone = crowds(1).await;
    assert!(alone.iter().all(|crowd| crowd.len() == 1), "{alone:?}");

    // For some at once, but never for the greediest.
    let budget = most - 1;
    assert!(
        2 * least <= budget,
        "two of {least} do not fit into {budget}"
    );
    let some = crowds(budget).await;
    let wrong: Vec<_> = some.iter().filter(|crowd| !fits(crowd, budget)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(some.iter().any(|crowd| crowd.len() > 1), "{some:?}");
    let is_greedy = |crowd: &&BTreeMap<String, u64>| crowd.values().any(|need| *need > budget);
    assert!(some.iter().any(|crowd| is_greedy(&crowd)), "{some:?}");
    println!(
        "result: archive, stages of {least} to {most} bytes: up to {} at once, in a budget of {budget} up to {} that fit, in one of 1 byte one",
        most_at_once.unwrap(),
        some.iter().map(BTreeMap::len).max().unwrap()
    );
}
