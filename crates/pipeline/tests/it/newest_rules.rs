//! Archives are made by the newest rules of the lake or not at all, whoever makes them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cannery_formats::{Key, Uid};
use cannery_pipeline::Error;
use cannery_pipeline::generation::{TakeOver, claim, take_over as take_over_by};
use cannery_pipeline::joined::join;
use cannery_pipeline::redact::Redactor;
use cannery_sanitise::Rules;

use crate::archives::web_can;
use crate::can_kit::{Works, bucket, lake_on};
use crate::generations::{current, stricter};
use crate::line::check;
use crate::line_kit::{Mill, rules, sanitised_by};
use crate::redacting::{public, redactor};
use crate::sweeping::{few, sealed};
use crate::troubled::{Life, Pause, Troubled};
use crate::works as archives;

const HOUR: Duration = Duration::from_secs(3_600);
const GRACE: Duration = Duration::from_secs(24 * 3_600);
/// What the newer rules drop.
const DROPPED: &[u8] = b"\"probe_cc\"";

/// What a catalog should have by these rules.
fn by(rules: &Rules) -> BTreeMap<String, Vec<u8>> {
    let mut expected = BTreeMap::new();
    for (name, text) in &few() {
        sanitised_by(rules, name, text, bucket(), &mut expected);
    }
    expected
}

fn has(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// A measurement of which the newer rules drop something, and with others in its archive.
fn chosen() -> Uid {
    let expected = by(&rules());
    let found = expected.iter().find(|(_, text)| has(text, DROPPED));
    found.expect("there is one").0.parse().unwrap()
}

/// A mill whose archives are made by the first rules.
async fn first() -> Mill {
    let mut mill = Mill::new(Works::in_memory()).await;
    mill.timing.sweep_grace = GRACE;
    mill.works.fill(&few()).await;
    mill.discover().await;
    mill.work(mill.line().await, HOUR).await;
    check(&mill, &by(&rules())).await;
    mill
}

/// Newer rules come into force.
async fn change_rules(mill: &mut Mill) {
    mill.rules = Arc::new(stricter());
    take_over(mill).await;
}

/// The rules of the mill make all archives that are lacking, and are in force.
async fn take_over(mill: &Mill) {
    let line = mill.line().await;
    line.catch_up().await.unwrap();
    mill.work(line, HOUR).await;
    let current = current(mill).await;
    assert_eq!(
        (current.in_force, current.next),
        (mill.rules.edition(), None)
    );
}

fn redactor_by(mill: &Mill, rules: Rules) -> Redactor {
    Redactor {
        rules: Arc::new(rules),
        ..redactor(mill, &mill.works.lake)
    }
}

/// All that anybody can read, and all that says what may be read: public objects, marks, and where the catalog points.
async fn everything(mill: &Mill) -> (BTreeMap<String, Vec<u8>>, BTreeMap<String, String>) {
    let mut objects = BTreeMap::new();
    let lake = &mill.works.lake;
    for folder in [Key::autoclaved_folder(), Key::redactions()] {
        for entry in lake.list_all(Some(&folder)).await.unwrap() {
            let object = lake.get(&entry.key, 1 << 30).await.unwrap();
            objects.insert(entry.key.to_string(), object.bytes.to_vec());
        }
    }
    let found = mill.measurements().await.into_iter();
    let pointed = found.map(|(uid, found)| (uid, found.generation));
    (objects, pointed.collect())
}

async fn refuses(mill: &Mill, rules: Rules, says: &str) {
    let (before, uid) = (everything(mill).await, chosen());
    let redactor = redactor_by(mill, rules);
    let error = redactor.run(&uid, "on request").await.unwrap_err();
    assert!(matches!(error, Error::Outdated { .. }), "{error}");
    let text = error.to_string();
    for part in [
        &uid.to_string(),
        "version `2026-11-17`",
        says,
        "here as well",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(everything(mill).await == before, "something was changed");
}

#[tokio::test]
async fn older_rules_redact_nothing() {
    let mut mill = first().await;
    change_rules(&mut mill).await;
    refuses(&mill, rules(), "version `2026-11-16`").await;
}

#[tokio::test]
async fn without_rules_nothing_is_redacted() {
    let mut mill = first().await;
    change_rules(&mut mill).await;
    refuses(&mill, Rules::none(), "without rules").await;
}

/// The newer ones are written down, and nothing was made by them yet.
#[tokio::test]
async fn rules_that_are_about_to_be_replaced_redact_nothing() {
    let mut mill = first().await;
    mill.rules = Arc::new(stricter());
    mill.line().await;
    refuses(&mill, rules(), "version `2026-11-16`").await;
}

/// Every text of a generation that is read, and of any other one.
async fn is_redacted(mill: &Mill) {
    let uid = chosen();
    let (texts, infos, loose) = public(&mill.works.lake).await;
    assert!(texts.iter().all(|(id, _)| *id != uid));
    assert!(infos.iter().any(|info| info == "redacted: on request"));
    assert_eq!(loose, []);
    let mut others = by(&mill.rules);
    others.remove(&uid.to_string());
    check(mill, &others).await;
}

#[tokio::test]
async fn the_newest_rules_redact_what_older_ones_made_too() {
    let mut mill = first().await;
    change_rules(&mut mill).await;
    let redactor = redactor_by(&mill, stricter());
    let done = redactor.run(&chosen(), "on request").await.unwrap();
    let done = done.unwrap();
    assert_eq!((done.rewritten.len(), done.removed.len()), (1, 2));
    is_redacted(&mill).await;
}

/// Who redacts by rules that nobody knows yet makes them those by which archives are made, as every maker of archives does.
#[tokio::test]
async fn newer_rules_are_the_next_from_then_on() {
    let mut mill = first().await;
    let before = current(&mill).await;
    let unknown = Uid::from_bytes([9; 20]);
    let redactor = redactor_by(&mill, stricter());
    assert_eq!(redactor.run(&unknown, "on request").await.unwrap(), None);
    assert_eq!(current(&mill).await, before, "nothing was to be made");
    redactor
        .run(&chosen(), "on request")
        .await
        .unwrap()
        .unwrap();
    let claimed = current(&mill).await;
    assert_eq!(claimed.in_force, before.in_force);
    assert_eq!(claimed.next, Some(stricter().edition()));
    change_rules(&mut mill).await;
    is_redacted(&mill).await;
}

/// Makes archives in a store, while `meanwhile` happens right before the n-th time that something is changed there; nothing when
/// less is changed.
async fn while_paused<T>(
    pause: Pause,
    work: impl Future<Output = Result<T, Error>>,
    meanwhile: impl Future<Output = ()>,
) -> Option<Result<T, Error>> {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        biased;
        () = pause.reached.cancelled() => {}
        done = &mut work => {
            done.unwrap();
            return None;
        }
    }
    meanwhile.await;
    pause.over.cancel();
    Some(work.await)
}

/// Redacts by the first rules, and stops before the n-th time that it changes something.
async fn redact_while(
    mill: &Mill,
    request: u64,
    meanwhile: impl Future<Output = ()>,
) -> Option<Result<(), Error>> {
    let pause = Pause::at(request);
    let store = Arc::clone(&mill.works.store);
    let store = Troubled::of_life(store, Life::paused(pause.clone()));
    let lake = lake_on(Arc::new(store), Duration::from_secs(600));
    let (redactor, uid) = (redactor(mill, &lake), chosen());
    let redacted = while_paused(pause, redactor.run(&uid, "on request"), meanwhile);
    Some(redacted.await?.map(drop))
}

/// The archives and indexes that the first rules have made.
async fn left_of_the_first(mill: &Mill) -> Vec<Key> {
    let folder = Key::autoclaved_generation(rules().edition().generation, None);
    let entries = mill.works.lake.list_all(Some(&folder)).await.unwrap();
    entries.into_iter().map(|entry| entry.key).collect()
}

/// Newer rules come at any moment, and are in force, with all that older ones made swept, before the redaction goes on.
#[tokio::test]
async fn what_is_made_by_rules_that_were_replaced_meanwhile_is_taken_back() {
    let mut refused = 0;
    for request in 1.. {
        let mut mill = first().await;
        mill.rules = Arc::new(stricter());
        let meanwhile = async {
            take_over(&mill).await;
            mill.simulated.advance(GRACE + HOUR).await;
            mill.work(mill.line().await, 3 * GRACE).await;
            assert_eq!(left_of_the_first(&mill).await, [], "they were swept");
        };
        match redact_while(&mill, request, meanwhile).await {
            None => break,
            Some(Ok(())) => {}
            Some(Err(error)) => {
                refused += 1;
                assert!(
                    matches!(error, Error::Outdated { .. }),
                    "{request}: {error}"
                );
            }
        }
        assert_eq!(left_of_the_first(&mill).await, [], "{request}");
        let redactor = redactor_by(&mill, stricter());
        redactor.run(&chosen(), "on request").await.unwrap();
        is_redacted(&mill).await;
    }
    assert!(refused > 4, "{refused}");
}

/// Newer rules are only written down meanwhile: readers still have what the old ones made, and the newer ones go on from there.
#[tokio::test]
async fn a_redaction_that_newer_rules_end_is_made_by_them() {
    let mut refused = 0;
    for request in 1.. {
        let mut mill = first().await;
        mill.rules = Arc::new(stricter());
        let meanwhile = async { drop(mill.line().await) };
        match redact_while(&mill, request, meanwhile).await {
            None => break,
            Some(Ok(())) => {}
            Some(Err(error)) => {
                refused += 1;
                assert!(
                    matches!(error, Error::Outdated { .. }),
                    "{request}: {error}"
                );
            }
        }
        let loaded = mill.files().await;
        let there = left_of_the_first(&mill).await;
        assert!(there.len() >= 2 * loaded.len(), "{request}: {there:?}");
        let redactor = redactor_by(&mill, stricter());
        redactor.run(&chosen(), "on request").await.unwrap();
        take_over(&mill).await;
        is_redacted(&mill).await;
    }
    assert!(refused > 4, "{refused}");
}

fn older() -> Arc<Rules> {
    archives::ooni()
}

/// The rules of a place without a worker become others, which are in force at once: it has an empty catalog.
async fn put_in_force(works: &archives::Works, rules: &Rules) {
    let edition = rules.edition();
    claim(&works.plant, &edition).await.unwrap();
    let taken = take_over_by(&works.plant, &works.catalog, edition.generation).await;
    assert_eq!(taken.unwrap(), TakeOver::Done);
}

#[tokio::test]
async fn older_rules_make_no_archive_whoever_asks() {
    let mut works = archives::Works::new().await;
    let can = web_can();
    works.put(&can).await;
    works.autoclaved(&can).await;
    put_in_force(&works, &stricter()).await;
    let before = works.objects().await;
    for rules in [older(), Arc::new(Rules::none())] {
        works.rules = rules;
        // Also when it is there: nothing is to be done with it.
        let refused = works.autoclave().run(&can.record).await.unwrap_err();
        assert!(matches!(refused, Error::Outdated { .. }), "{refused}");
    }
    assert_eq!(works.objects().await, before);
    works.close().await;
}

/// Whoever makes an archive is stopped at any point until newer rules are in force.
#[tokio::test]
async fn an_archive_of_rules_that_were_replaced_meanwhile_is_taken_back() {
    let mut refused = 0;
    for request in 1.. {
        let works = archives::Works::new().await;
        let can = web_can();
        works.put(&can).await;
        claim(&works.plant, &older().edition()).await.unwrap();
        let pause = Pause::at(request);
        let store = Arc::clone(&works.store);
        let store = Troubled::of_life(store, Life::paused(pause.clone()));
        let mut autoclave = works.autoclave();
        let lake = lake_on(Arc::new(store), Duration::from_secs(600));
        (autoclave.plant.raw, autoclave.plant.public) = (lake.clone(), lake);
        let newer = stricter();
        let meanwhile = put_in_force(&works, &newer);
        let made = while_paused(pause, autoclave.run(&can.record), meanwhile).await;
        let Some(made) = made else {
            assert_eq!(request, 4, "its private index, itself, and its index");
            works.close().await;
            break;
        };
        refused += 1;
        let error = made.unwrap_err();
        assert!(matches!(error, Error::Outdated { .. }), "{error}");
        let generation = works.generation();
        let folder = Key::autoclaved_generation(generation, None);
        let left = works.lake().list_all(Some(&folder)).await.unwrap();
        assert_eq!(left, [], "{request}");
        works.close().await;
    }
    assert_eq!(refused, 3);
}

/// A bucket has one index for each generation; that of an old one is not written again.
#[tokio::test]
async fn the_index_of_a_bucket_is_written_for_the_newest_rules_alone() {
    let (mill, _) = sealed().await;
    let lake = &mill.works.lake;
    let mut plant = mill.works.plant(lake);
    plant.clock = mill.clock();
    let generation = rules().edition().generation;
    let joined = Key::autoclaved_index(generation, bucket());
    lake.delete(&joined).await.unwrap();
    let before = join(&plant, bucket(), generation).await.unwrap();
    assert_eq!(before.written, std::slice::from_ref(&joined));
    claim(&plant, &stricter().edition()).await.unwrap();
    lake.delete(&joined).await.unwrap();
    let after = join(&plant, bucket(), generation).await.unwrap();
    assert_eq!(after.written, []);
    assert!(lake.head(&joined).await.is_err());
}
