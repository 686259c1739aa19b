//! What is kept no longer goes, and only that: a can once its archive is proven, an archive after its can.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use cannery_formats::can::{BucketFile, Expired};
use cannery_formats::redaction::Redaction;
use cannery_formats::{BucketDate, Key, Kind, Uid};
use cannery_lake::Lake;
use cannery_pipeline::Error;
use cannery_pipeline::autoclave::Autoclave;
use cannery_pipeline::check::{self, Checker};
use cannery_pipeline::clear::Clearer;
use cannery_pipeline::expire::{ExpireReport, Expirer};
use cannery_pipeline::features::Features;
use cannery_pipeline::keep::{Keep, Spans};
use cannery_pipeline::redact::Redactor;
use cannery_runtime::RealDisk;

use crate::can_kit::{Works, lake_on};
use crate::generations::{current, stricter};
use crate::line::check;
use crate::line_kit::Mill;
use crate::rebuilding::{is_equal, somewhere};
use crate::redacting::redactor;
use crate::sweeping::{GRACE, few, objects, sealed_with, sweep, verify};
use crate::troubled::{Death, Troubled};

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
const BAD: &[u8] = b"{\"test_name\":\"ndt\", broken\xff";

const BAD_BASE64: &str = "eyJ0ZXN0X25hbWUiOiJuZHQiLCBicm9rZW7/";

type Lines = BTreeMap<String, Vec<u8>>;

fn ndt() -> (Kind, BucketFile) {
    let kind = "ndt".parse().unwrap();
    (kind, "2017-01-01/ndt.0.tar.lz4".parse().unwrap())
}

/// Cans of `ndt` are kept for ten days, and archives for so many more, if at all.
fn keep(autoclaved: Option<u32>) -> Keep {
    let spans = Spans {
        canned: Some(10 * DAY),
        autoclaved: autoclaved.map(|days| days * DAY),
    };
    Keep::new([(ndt().0, spans)], Spans::default())
}

/// A sealed bucket a few days later, swept or not, one report of which has a piece that is no measurement; and its measurements.
async fn settled(is_swept: bool) -> (Mill, Lines) {
    let mut texts = few();
    let name = "2017-01-01/20161231T000030Z-US-AS7922-ndt-bad-0.2.0-probe.json";
    let text = [b"{\"test_name\":\"ndt\"}\n", BAD, b"\n{\"more\":1}\n"].concat();
    texts.insert(name.to_owned(), text);
    let (mill, expected) = sealed_with(Works::in_memory(), &texts).await;
    mill.simulated.advance(GRACE).await;
    if is_swept {
        assert!(!sweep(&mill).await.removed.is_empty());
    }
    (mill, expected)
}

fn expirer_on(mill: &Mill, lake: &Lake, keep: Keep) -> Expirer {
    let mut plant = mill.works.plant(lake);
    plant.clock = mill.clock();
    Expirer {
        plant,
        catalog: mill.catalog.clone(),
        keep: Arc::new(keep),
        clearer: None,
    }
}

async fn expire(mill: &Mill, keep: Keep) -> ExpireReport {
    let (kind, file) = ndt();
    let expirer = expirer_on(mill, &mill.works.lake, keep);
    expirer.file(&kind, &file).await.unwrap()
}

/// The same with the day between the mark and the end.
async fn expire_wholly(mill: &Mill, keep: Keep) -> ExpireReport {
    let report = expire(mill, keep.clone()).await;
    if !report.is_marked {
        return report;
    }
    assert_eq!(report.removed, []);
    mill.simulated.advance(DAY).await;
    expire(mill, keep).await
}

async fn has(mill: &Mill, key: &Key) -> bool {
    mill.works.lake.head(key).await.is_ok()
}

/// Lake and catalog agree, and nothing is left to be done.
async fn agree(mill: &Mill, database: &str) {
    let mut plant = mill.works.plant(&mill.works.lake);
    plant.clock = mill.clock();
    let autoclave = Autoclave {
        plant: plant.clone(),
        rules: Arc::clone(&mill.rules),
    };
    let checker = Checker {
        plant,
        catalog: mill.catalog.clone(),
        features: Arc::new(Features::parse(&mill.features).unwrap()),
        generation: autoclave.generation(),
        grace: Duration::ZERO,
    };
    let mut heard = Heard::default();
    checker
        .run(Some("1/1".parse().unwrap()), &mut heard)
        .await
        .unwrap();
    assert_eq!(heard.0, Vec::<String>::new());
    is_equal(mill, &somewhere(mill, database)).await;
    let caught = mill.line().await.catch_up().await.unwrap();
    assert!(!caught.is_behind() && caught.to_expire == 0, "{caught:?}");
}

#[derive(Default)]
struct Heard(Vec<String>);

impl check::Listener for Heard {
    fn bucket(&mut self, _: BucketDate, _: u64, _: u64) {}

    fn found(&mut self, finding: check::Finding) {
        self.0.push(format!("{finding:?}"));
    }
}

/// As the product does it: the lake and the catalog are compared, and what that shows is done.
async fn catch_up(mill: &Mill) -> u64 {
    let line = mill.line().await;
    let caught = line.catch_up().await.unwrap();
    mill.work(line, HOUR).await;
    assert_eq!(mill.dead().await, BTreeMap::new());
    caught.to_expire
}

/// The same with the day between the mark and the end.
async fn catch_up_wholly(mill: &Mill) -> u64 {
    let files = catch_up(mill).await;
    mill.simulated.advance(DAY).await;
    catch_up(mill).await;
    files
}

fn gunzip(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut reader = flate2::read::MultiGzDecoder::new(bytes);
    reader.read_to_string(&mut text).unwrap();
    text
}

#[tokio::test]
async fn a_can_goes_and_all_of_its_measurements_stay() {
    let (mut mill, expected) = settled(true).await;
    mill.keep = keep(None);
    let (_, file) = ndt();
    let before = objects(&mill).await;
    assert_eq!(catch_up(&mill).await, 0, "it is too early");
    mill.simulated.advance(9 * DAY).await;
    assert_eq!(catch_up(&mill).await, 1);
    assert!(has(&mill, &Key::expired(&file, Expired::Can)).await);
    assert!(has(&mill, &Key::canned(&file)).await, "it goes a day later");
    verify(&mill).await;
    mill.simulated.advance(DAY).await;
    catch_up(&mill).await;
    let after = objects(&mill).await;
    let gone: Vec<&String> = before.iter().filter(|key| !after.contains(key)).collect();
    let can = Key::canned(&file).to_string();
    let private = "canned/2017-01-01/private/ndt.0.tar.lz4.index.json.gz".to_owned();
    assert_eq!(gone, [&can, &private]);
    let mark = Key::expired(&file, Expired::Can);
    let mark = mill.works.lake.get(&mark, 1 << 20).await.unwrap();
    let lines = gunzip(&mark.bytes);
    assert!(
        lines.contains(BAD_BASE64),
        "the bad piece is kept byte for byte: {lines}"
    );
    check(&mill, &expected).await;
    verify(&mill).await;
    agree(&mill, "cans.db").await;
    mill.discover().await;
    let alive = mill.alive().await.into_iter();
    let cans: Vec<_> = alive.filter(|(key, _)| key.starts_with("can/")).collect();
    assert_eq!(cans, [], "nothing is canned again");
    let uid = mill.measurements().await.into_values();
    let uid = uid.filter(|found| found.file == file.to_string());
    let uid = uid.map(|found| found.uid).next().unwrap().parse().unwrap();
    let refused = redactor(&mill, &mill.works.lake).run(&uid, "asked").await;
    assert!(
        matches!(refused, Err(Error::WithoutCan { .. })),
        "{refused:?}"
    );
    assert!(
        !has(&mill, &Key::redaction(&uid)).await,
        "nothing was changed"
    );
    let line = mill.line().await;
    let (kind, _) = ndt();
    mill.add(&format!("autoclave/2017-01-01/{kind}/{}", file.name))
        .await;
    mill.work(line, HOUR).await;
    assert_eq!(mill.dead().await, BTreeMap::new());
}

#[tokio::test]
async fn an_archive_goes_after_its_can_with_what_the_catalog_has_of_it() {
    let (mut mill, expected) = settled(true).await;
    mill.keep = keep(Some(20));
    let (_, file) = ndt();
    mill.simulated.advance(30 * DAY).await;
    let of_ndt = mill.measurements().await.into_values();
    let of_ndt = of_ndt.filter(|found| found.file == file.to_string());
    let of_ndt: Vec<String> = of_ndt.map(|found| found.uid).collect();
    assert!(of_ndt.len() > 2);
    assert_eq!(catch_up_wholly(&mill).await, 1);
    let left = objects(&mill).await;
    let left = left.iter().filter(|key| key.contains("/ndt.0.tar"));
    let left: Vec<&str> = left.map(|key| key.rsplit_once('/').unwrap().0).collect();
    assert_eq!(
        left,
        [
            "canned/2017-01-01/expired-archives",
            "canned/2017-01-01/expired-cans"
        ]
    );
    let mut others = expected.clone();
    others.retain(|uid, _| !of_ndt.contains(uid));
    check(&mill, &others).await;
    let generation = current(&mill).await.in_force.generation;
    let joined = Key::autoclaved_index(generation, file.bucket);
    let joined = mill.works.lake.get(&joined, 1 << 20).await.unwrap();
    let joined = gunzip(&joined.bytes);
    assert!(!joined.contains("ndt.0.tar") && joined.contains("\"/file\""));
    agree(&mill, "archives.db").await;
    mill.add(&format!("centrifuge/2017-01-01/ndt/{}", file.name))
        .await;
    mill.work(mill.line().await, HOUR).await;
    assert_eq!(mill.dead().await, BTreeMap::new());
    check(&mill, &others).await;
}

/// Puts an object in the place of another, or takes it away.
async fn change(mill: &Mill, key: &Key, content: Option<Vec<u8>>) {
    mill.works.lake.delete(key).await.unwrap();
    if let Some(content) = content {
        mill.works.put(key, &content).await;
    }
}

#[tokio::test]
async fn a_can_stays_while_its_archive_is_damaged_or_gone() {
    let (_, file) = ndt();
    for (what, is_gone) in [
        ("archive", false),
        ("archive", true),
        ("index", true),
        ("can", false),
    ] {
        let (mill, _) = settled(true).await;
        mill.simulated.advance(30 * DAY).await;
        let generation = current(&mill).await.in_force.generation;
        let key = match what {
            "archive" => Key::autoclaved(generation, &file),
            "index" => Key::autoclaved_file_index(generation, &file),
            _ => Key::canned(&file),
        };
        let object = mill.works.lake.get(&key, 1 << 30).await.unwrap();
        let mut bytes = object.bytes.to_vec();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        change(&mill, &key, (!is_gone).then_some(bytes)).await;
        let before = objects(&mill).await;
        let report = expire(&mill, keep(Some(20))).await;
        assert_eq!(report.kept.len(), 1, "{what}, gone: {is_gone}: {report:?}");
        assert_eq!(report.kept[0].key, key);
        assert_eq!(objects(&mill).await, before, "{what}, gone: {is_gone}");
    }
}

#[tokio::test]
async fn a_can_stays_while_somebody_needs_it() {
    let waits = |report: ExpireReport| {
        assert!(report.is_waiting && report.removed.is_empty(), "{report:?}");
    };
    // What the seal replaced is compared with it.
    let (mill, _) = settled(false).await;
    mill.simulated.advance(30 * DAY).await;
    waits(expire(&mill, keep(None)).await);
    // So are report files that shall go.
    let (mut mill, _) = settled(true).await;
    mill.simulated.advance(30 * DAY).await;
    let (kind, file) = ndt();
    let expirer = Expirer {
        clearer: Some(Clearer {
            plant: mill.works.plant(&mill.works.lake),
            inputs: mill.works.inputs(&mill.works.lake),
            disk: Arc::new(RealDisk),
        }),
        ..expirer_on(&mill, &mill.works.lake, keep(None))
    };
    waits(expirer.file(&kind, &file).await.unwrap());
    // Newer rules make another archive of it.
    mill.rules = Arc::new(stricter());
    mill.line().await;
    assert!(current(&mill).await.next.is_some());
    waits(expire(&mill, keep(None)).await);
    // It is not loaded.
    let (mill, _) = settled(true).await;
    mill.simulated.advance(30 * DAY).await;
    let known = mill.catalog.known(&file.to_string()).await.unwrap();
    let state = known.unwrap().facts.state();
    mill.catalog
        .forget(&file.to_string(), &state)
        .await
        .unwrap();
    waits(expire(&mill, keep(None)).await);
    assert!(has(&mill, &Key::canned(&file)).await);
    // Nobody has said that it shall go.
    assert_eq!(
        expire(&mill, Keep::default()).await,
        ExpireReport::default()
    );
}

#[tokio::test]
async fn newer_rules_take_over_without_it() {
    let (mut mill, expected) = settled(true).await;
    mill.keep = keep(None);
    mill.timing.sweep_grace = GRACE;
    mill.simulated.advance(30 * DAY).await;
    assert_eq!(catch_up_wholly(&mill).await, 1);
    let old = current(&mill).await.in_force.generation;
    mill.rules = Arc::new(stricter());
    catch_up(&mill).await;
    let now = current(&mill).await;
    assert!(
        now.next.is_none() && now.in_force.generation != old,
        "{now:?}"
    );
    let (_, file) = ndt();
    let found = mill.measurements().await;
    assert!(found.keys().eq(expected.keys()));
    for (uid, found) in &found {
        let is_ndt = found.file == file.to_string();
        assert_eq!(
            found.generation == old.to_string(),
            is_ndt,
            "{}",
            found.file
        );
        if is_ndt {
            assert!(mill.text(found).await == expected[uid], "{uid}");
        }
    }
    // A catalog that was lost is filled again, with that too.
    let lost = mill
        .catalog
        .known(&file.to_string())
        .await
        .unwrap()
        .unwrap();
    let state = lost.facts.state();
    mill.catalog
        .forget(&file.to_string(), &state)
        .await
        .unwrap();
    assert_eq!(mill.line().await.catch_up().await.unwrap().to_centrifuge, 1);
    mill.work(mill.line().await, HOUR).await;
    let again = mill.measurements().await;
    assert!(again.keys().eq(expected.keys()));
    // What the old rules made goes, but for that; and its features can be made anew.
    mill.simulated.advance(2 * GRACE).await;
    catch_up(&mill).await;
    let left = objects(&mill).await;
    let left = left.iter().filter(|key| key.contains(&old.to_string()));
    assert_eq!(left.count(), 2, "the archive and its index");
    mill.features = mill
        .features
        .replacen("version: 1", "version: 2\n    min_compatible: 2", 1);
    let caught = mill.line().await.catch_up().await.unwrap();
    assert!(
        caught.to_centrifuge > 1 && caught.to_autoclave == 0,
        "{caught:?}"
    );
    mill.work(mill.line().await, HOUR).await;
    let caught = mill.line().await.catch_up().await.unwrap();
    assert!(!caught.is_behind(), "{caught:?}");
}

#[tokio::test]
async fn a_can_that_is_only_marked_is_one_like_others() {
    let (mut mill, expected) = settled(true).await;
    let (_, file) = ndt();
    mill.simulated.advance(30 * DAY).await;
    assert!(expire(&mill, keep(None)).await.is_marked);
    // Newer rules make an archive of it; then the day begins again, for others may have begun something since.
    mill.rules = Arc::new(stricter());
    catch_up(&mill).await;
    let generation = current(&mill).await.in_force.generation;
    let found = mill.measurements().await;
    assert!(found.keys().eq(expected.keys()));
    assert!(
        found
            .values()
            .all(|found| found.generation == generation.to_string())
    );
    // Somebody wants a measurement of it to go for good, and has not come to it.
    mill.simulated.advance(2 * DAY).await;
    let uid = found.values().find(|found| found.file == file.to_string());
    let uid: Uid = uid.unwrap().uid.parse().unwrap();
    let redaction = Redaction {
        uid,
        reason: "asked".to_owned(),
        buckets: [file.bucket].into(),
        redacted: mill.clock().now(),
        by: "test".to_owned(),
    };
    mill.works
        .put(&Key::redaction(&uid), &redaction.to_object())
        .await;
    let report = expire(&mill, keep(None)).await;
    assert!(report.is_waiting && report.removed.is_empty(), "{report:?}");
    // Whoever does it needs the can, and takes the mark away.
    let redactor = Redactor {
        rules: Arc::clone(&mill.rules),
        ..redactor(&mill, &mill.works.lake)
    };
    assert!(redactor.run(&uid, "asked").await.unwrap().is_some());
    assert!(!has(&mill, &Key::expired(&file, Expired::Can)).await);
    assert!(expire(&mill, keep(None)).await.is_marked);
    mill.simulated.advance(DAY).await;
    let report = expire(&mill, keep(None)).await;
    assert!(report.removed.contains(&Key::canned(&file)), "{report:?}");
    let mark = Key::expired(&file, Expired::Can);
    let mark = mill.works.lake.get(&mark, 1 << 20).await.unwrap();
    assert!(!gunzip(&mark.bytes).contains("redacted"), "it is nowhere");
}

#[tokio::test]
async fn hours_of_a_feed_go_too_and_nothing_is_missed() {
    let (mut mill, _) = settled(true).await;
    let spans = Spans {
        canned: Some(10 * DAY),
        autoclaved: Some(10 * DAY),
    };
    mill.keep = Keep::new([("feed-f".parse().unwrap(), spans)], Spans::default());
    mill.simulated.advance(30 * DAY).await;
    assert_eq!(catch_up_wholly(&mill).await, 1);
    assert!(
        mill.files()
            .await
            .iter()
            .all(|file| !file.contains("feed-f"))
    );
    agree(&mill, "feeds.db").await;
}

#[tokio::test]
async fn a_death_at_any_request_is_made_up_for() {
    let (kind, file) = ndt();
    let (whole, _) = settled(true).await;
    whole.simulated.advance(30 * DAY).await;
    assert_eq!(expire_wholly(&whole, keep(Some(20))).await.kept, []);
    let whole = objects(&whole).await;
    for (is_marked, after_effect) in [(false, true), (true, false), (true, true)] {
        for request in 1.. {
            let context = format!("marked: {is_marked}, dead at {request}, after: {after_effect}");
            let (mill, expected) = settled(true).await;
            mill.simulated.advance(30 * DAY).await;
            if is_marked {
                assert!(expire(&mill, keep(Some(20))).await.is_marked);
                mill.simulated.advance(DAY).await;
            }
            let death = Death {
                request,
                after_effect,
            };
            let troubled = Troubled::new(Arc::clone(&mill.works.store), None, Some(death));
            let lake = lake_on(Arc::new(troubled.clone()), HOUR);
            let expirer = expirer_on(&mill, &lake, keep(Some(20)));
            let ended = tokio::select! {
                done = expirer.file(&kind, &file) => {
                    done.unwrap();
                    true
                }
                () = troubled.dead.cancelled() => false,
            };
            // As long as the archive is not marked, everything can be read.
            if !has(&mill, &Key::expired(&file, Expired::Archive)).await {
                check(&mill, &expected).await;
            }
            let report = expire_wholly(&mill, keep(Some(20))).await;
            assert_eq!(report.kept, [], "{context}");
            assert_eq!(objects(&mill).await, whole, "{context}");
            let known = mill.catalog.known(&file.to_string()).await.unwrap();
            assert!(known.is_none(), "{context}");
            if ended {
                assert!(request > 10, "{context}");
                break;
            }
        }
    }
}
