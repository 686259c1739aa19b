//! Newer rules: new archives take over, nobody misses a measurement meanwhile, and what the old rules made goes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cannery_formats::archive::{Current, Generation};
use cannery_formats::{BucketDate, Key, Uid};
use cannery_journal::worker::{Handler as _, Outcome, Work};
use cannery_journal::{Data, NewEntry, Priority, Query};
use cannery_lake::fault::{Fault, FaultStore, Faults, Request};
use cannery_pipeline::line::{Ended, Line, ToCentrifuge};
use cannery_pipeline::measurement;
use cannery_pipeline::verify::Verifier;
use cannery_runtime::Clock;
use cannery_sanitise::Rules;
use tokio_util::sync::CancellationToken;

use crate::can_kit::{Texts, Works, bucket, lake_on};
use crate::line::{Reader, check, handle_all};
use crate::line_kit::{Mill, changed_rules, sanitised_by};
use crate::sweeping::few;

const HOUR: Duration = Duration::from_secs(3_600);
const GRACE: Duration = Duration::from_secs(24 * 3_600);
const BRIDGE: &str = "198.51.100.7:443";

fn next_day() -> BucketDate {
    "2017-01-02".parse().unwrap()
}

/// A report whose bridge no table knows yet.
fn bridge(bucket: BucketDate) -> (String, Vec<u8>) {
    let name = "20161231T000030Z-US-AS7922-bridge_reachability-r1-0.2.0-probe.json";
    let text = format!(
        "{{\"test_name\":\"bridge_reachability\",\"data_format_version\":\"0.2.0\",\
         \"probe_cc\":\"US\",\"bucket\":\"{bucket}\",\"input\":\"{BRIDGE}\"}}\n"
    );
    (format!("{bucket}/{name}"), text.into_bytes())
}

/// The next version of the rules: it drops what the one before let pass.
pub(crate) fn stricter() -> Rules {
    changed_rules(|name, text| match name {
        "rules.yml" => {
            let text = text.replacen("version: 2026-11-16", "version: 2026-11-17", 1);
            text + "\n  - op: drop\n    at: [probe_cc]\n"
        }
        _ => text,
    })
}

/// The same rules with the next version of their table.
fn with_new_table() -> Rules {
    changed_rules(|name, text| match name {
        "bridges.yml" => {
            let text = text.replacen("version: 2026-11-16", "version: 2026-11-17", 1);
            format!("{text}  \"{BRIDGE}\": bridge-new\n")
        }
        _ => text,
    })
}

fn expected(rules: &Rules, buckets: &[(BucketDate, Texts)]) -> BTreeMap<String, Vec<u8>> {
    let mut lines = BTreeMap::new();
    for (bucket, texts) in buckets {
        for (name, text) in texts {
            sanitised_by(rules, name, text, *bucket, &mut lines);
        }
    }
    lines
}

/// A mill with a sealed bucket whose replaced cans are still there, and with an open one; and what was put there.
async fn loaded() -> (Mill, Vec<(BucketDate, Texts)>) {
    let mut mill = Mill::new(Works::in_memory()).await;
    mill.timing.sweep_grace = GRACE;
    let mut first = few();
    first.extend([bridge(bucket())]);
    let buckets = vec![
        (bucket(), first),
        (next_day(), Texts::from([bridge(next_day())])),
    ];
    let line = mill.line().await;
    for ((_, texts), night) in buckets.iter().zip(["2017-01-02T00:59:00Z", ""]) {
        mill.works.fill(texts).await;
        mill.discover().await;
        mill.work(line.clone(), HOUR / 6).await;
        if let Ok(night) = night.parse::<jiff::Timestamp>() {
            let left = night.duration_since(mill.clock().now()).unsigned_abs();
            mill.simulated.advance(left).await;
            mill.discover().await;
            mill.work(line.clone(), HOUR / 6).await;
        }
    }
    check(&mill, &expected(&mill.rules, &buckets)).await;
    (mill, buckets)
}

pub(crate) async fn current(mill: &Mill) -> Current {
    let key = Key::autoclaved_current();
    let object = mill.works.lake.get(&key, 1 << 20).await.unwrap();
    Current::from_object(&object.bytes).unwrap()
}

/// The archives and indexes of each generation.
async fn generations(mill: &Mill) -> BTreeMap<Generation, u64> {
    let mut generations = BTreeMap::new();
    let folder = Key::autoclaved_folder();
    for entry in mill.works.lake.list_all(Some(&folder)).await.unwrap() {
        if let Some((generation, _, _)) = entry.key.as_autoclaved() {
            *generations.entry(generation).or_default() += 1;
        }
    }
    generations
}

async fn pointed_at(mill: &Mill) -> BTreeSet<String> {
    let found = mill.measurements().await.into_values();
    found.map(|found| found.generation).collect()
}

async fn change_rules(new: Rules) {
    let (mut mill, buckets) = loaded().await;
    let (old, ours) = (mill.rules.edition(), new.edition());
    let before = expected(&mill.rules, &buckets);
    let after = expected(&new, &buckets);
    assert!(before.keys().eq(after.keys()) && before != after);
    mill.rules = Arc::new(new);
    let line = mill.line().await;
    let claimed = current(&mill).await;
    assert_eq!(
        (&claimed.in_force, claimed.next.as_ref()),
        (&old, Some(&ours))
    );
    let reader = Reader::start(&mill, &[&before, &after]);

    let caught = line.catch_up().await.unwrap();
    assert!(
        caught.to_autoclave > 4 && caught.to_centrifuge == 0,
        "{caught:?}"
    );
    let waiting = mill.journal.list(Query::all()).await.unwrap().entries;
    let review = |key: &str| key.starts_with("autoclave/");
    let waiting = waiting.iter().filter(|entry| review(entry.key.as_str()));
    assert!(
        waiting
            .clone()
            .all(|entry| entry.meta.priority == Priority::REVIEW)
    );
    assert_eq!(waiting.count() as u64, caught.to_autoclave);
    mill.work(line.clone(), HOUR).await;
    check(&mill, &after).await;
    assert_eq!(
        pointed_at(&mill).await,
        BTreeSet::from([ours.generation.to_string()])
    );
    let switched = current(&mill).await;
    assert_eq!((&switched.in_force, &switched.next), (&ours, &None));
    assert!(
        generations(&mill).await[&old.generation] > 10,
        "the grace is not over"
    );

    mill.simulated.advance(GRACE + HOUR).await;
    mill.work(line.clone(), 3 * GRACE).await;
    let left = generations(&mill).await;
    assert!(left.keys().eq([&ours.generation]), "{left:?}");
    assert!(reader.stop().await > 0, "nobody looked meanwhile");
    check(&mill, &after).await;
    assert_eq!(mill.dead().await, BTreeMap::new());
    assert_eq!(mill.alive().await, []);
    for (bucket, _) in &buckets {
        let plant = mill.works.plant(&mill.works.lake);
        let report = Verifier { plant }.bucket(*bucket, ours.generation).await;
        assert_eq!(report.unwrap().findings, []);
    }
    assert!(!line.catch_up().await.unwrap().is_behind());
    assert_eq!(mill.alive().await, [], "nothing is left to do");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_rules_take_over_and_what_the_old_ones_made_goes() {
    change_rules(stricter()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_table_takes_over_the_same_way() {
    change_rules(with_new_table()).await;
}

/// A mill with one loaded report, by the old rules.
async fn small() -> (Mill, Vec<(BucketDate, Texts)>) {
    let mut mill = Mill::new(Works::in_memory()).await;
    mill.timing.gather = Duration::ZERO;
    mill.timing.sweep_grace = GRACE;
    let buckets = vec![(bucket(), Texts::from([bridge(bucket())]))];
    mill.works.fill(&buckets[0].1).await;
    mill.discover().await;
    let line = mill.line().await;
    handle_all(&mill, &line).await;
    mill.simulated.advance(HOUR).await;
    handle_all(&mill, &line).await;
    check(&mill, &expected(&mill.rules, &buckets)).await;
    (mill, buckets)
}

/// Does what is due; ends at the first work that is not done, as if it was killed there.
async fn handle_until_killed(mill: &Mill, line: &Line) -> bool {
    loop {
        let Some(entry) = mill.journal.claim("test", 1).await.unwrap().entries.pop() else {
            return true;
        };
        let token = entry.lease.as_ref().unwrap().token;
        let work = Work {
            entry,
            lost: CancellationToken::new(),
            stop: CancellationToken::new(),
        };
        if line.handle(work).await != Outcome::Done {
            mill.journal.release(token, None).await.unwrap();
            return false;
        }
        mill.journal.done(token).await.unwrap();
    }
}

/// The whole change, as far as the lake lets it.
async fn go_through(mill: &Mill, line: &Line) -> bool {
    for pause in [Duration::ZERO, GRACE + HOUR] {
        mill.simulated.advance(pause).await;
        let caught = match line.prepare().await {
            Ok(_) => line.catch_up().await.map(drop),
            Err(error) => Err(error),
        };
        if caught.is_err() || !handle_until_killed(mill, line).await {
            return false;
        }
    }
    true
}

async fn fail_from_the_nth(request: Request, fault: Fault) {
    for before in 0.. {
        let context = format!("{request:?} meets {fault:?} after {before}");
        let (mut mill, buckets) = small().await;
        let new = stricter();
        let (after, ours) = (expected(&new, &buckets), new.edition());
        mill.rules = Arc::new(new);
        let faults = Faults::none();
        faults.next(request, Fault::Latency(Duration::ZERO), before);
        faults.next(request, fault, u32::MAX);
        let store = FaultStore::new(Arc::clone(&mill.works.store), faults.clone(), Clock::real());
        let lake = lake_on(Arc::new(store), Duration::from_millis(100));
        let went = go_through(&mill, &mill.line_on(&lake)).await;
        for uid in after.keys() {
            let uid: Uid = uid.parse().unwrap();
            let read = measurement::read(&mill.works.lake, &mill.catalog, &uid).await;
            assert!(read.unwrap().is_some(), "{context}");
        }
        let is_over = faults.injected() <= u64::from(before);
        assert!(go_through(&mill, &mill.line().await).await, "{context}");
        assert!(go_through(&mill, &mill.line().await).await, "{context}");
        check(&mill, &after).await;
        let switched = current(&mill).await;
        assert_eq!(
            (&switched.in_force, &switched.next),
            (&ours, &None),
            "{context}"
        );
        let left = generations(&mill).await;
        assert!(left.keys().eq([&ours.generation]), "{context}: {left:?}");
        assert_eq!(mill.dead().await, BTreeMap::new(), "{context}");
        if is_over {
            assert!(went && before > 1, "{context}");
            return;
        }
    }
}

#[tokio::test]
async fn puts_that_fail_anywhere_are_made_up_for() {
    fail_from_the_nth(Request::Put, Fault::ErrorBefore).await;
}

#[tokio::test]
async fn puts_without_an_answer_are_made_up_for() {
    fail_from_the_nth(Request::Put, Fault::ErrorAfter).await;
}

#[tokio::test]
async fn reads_that_fail_anywhere_are_made_up_for() {
    fail_from_the_nth(Request::Get, Fault::ErrorBefore).await;
}

#[tokio::test]
async fn listings_that_end_early_are_made_up_for() {
    fail_from_the_nth(Request::List, Fault::ListEndsAfter(1)).await;
}

#[tokio::test]
async fn deletes_that_fail_anywhere_are_made_up_for() {
    fail_from_the_nth(Request::Delete, Fault::ErrorBefore).await;
    fail_from_the_nth(Request::Delete, Fault::ErrorAfter).await;
}

#[tokio::test]
async fn what_is_not_proven_to_be_replaced_stays() {
    let (mut mill, _) = small().await;
    let old = mill.rules.edition().generation;
    mill.rules = Arc::new(stricter());
    let ours = mill.rules.edition().generation;
    let line = mill.line().await;
    line.catch_up().await.unwrap();
    assert!(handle_until_killed(&mill, &line).await);
    let file = mill.files().await.into_iter().next().unwrap();
    let key = Key::new(format!("autoclaved/{ours}/{file}")).unwrap();
    mill.works.lake.delete(&key).await.unwrap();
    mill.works.put(&key, b"not an archive").await;
    mill.simulated.advance(GRACE + HOUR).await;
    mill.work(line, HOUR).await;
    assert_eq!(
        generations(&mill).await[&old],
        2,
        "the archive and its index"
    );
    let dead = mill.dead().await;
    assert!(
        dead["sweep/2017-01-01/-/generations"].contains(key.as_str()),
        "{dead:?}"
    );
}

/// Two workers with different rules: the higher version wins, and nothing is pointed back.
#[tokio::test]
async fn who_has_older_rules_says_so_and_makes_no_archives() {
    let (mut mill, buckets) = small().await;
    let (old_rules, old_line) = (Arc::clone(&mill.rules), mill.line().await);
    mill.rules = Arc::new(stricter());
    let (new_line, ours) = (mill.line().await, mill.rules.edition().generation);
    let error = old_line.catch_up().await.unwrap_err().to_string();
    assert!(
        error.contains("version `2026-11-17`") && error.contains("use those rules"),
        "{error}"
    );
    assert!(old_line.prepare().await.is_err());
    new_line.catch_up().await.unwrap();
    let key = mill.alive().await.into_iter().next().unwrap().0;
    assert!(key.starts_with("autoclave/"), "{key}");
    assert!(!handle_until_killed(&mill, &old_line).await);
    assert!(matches!(mill.told.of(&key)[..], [.., Ended::PutOff(_)]));
    assert_eq!(generations(&mill).await.len(), 1);
    assert!(handle_until_killed(&mill, &new_line).await);
    let after = expected(&mill.rules, &buckets);
    check(&mill, &after).await;
    // Work that waited all the time.
    let to = ToCentrifuge {
        generation: old_rules.edition().generation,
        replaces: BTreeSet::new(),
    };
    let key = key.replacen("autoclave", "centrifuge", 1);
    let entry = NewEntry::new(key, Data::from_value(&to).unwrap());
    mill.journal.add_one(entry).await.unwrap();
    assert!(handle_until_killed(&mill, &old_line).await);
    assert_eq!(pointed_at(&mill).await, BTreeSet::from([ours.to_string()]));
    check(&mill, &after).await;
}

#[tokio::test]
async fn other_rules_of_the_same_version_are_refused() {
    let (mut mill, _) = small().await;
    mill.rules = Arc::new(changed_rules(|name, text| match name {
        "rules.yml" => text + "\n  - op: drop\n    at: [probe_cc]\n",
        _ => text,
    }));
    let line = mill.line_on(&mill.works.lake);
    let error = line.prepare().await.unwrap_err().to_string();
    assert!(error.contains("raise `version:`"), "{error}");
    // Rules that are in no file are older than any.
    mill.rules = Arc::new(Rules::none());
    let line = mill.line_on(&mill.works.lake);
    let error = line.prepare().await.unwrap_err().to_string();
    assert!(
        error.contains("without rules") && error.contains("`pipeline.rules`"),
        "{error}"
    );
    assert_eq!(generations(&mill).await.len(), 1);
}
