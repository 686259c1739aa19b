//! A measurement that is redacted is in no archive, whatever happens on the way and afterwards; all others are as they were.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cannery_catalog::Catalog;
use cannery_formats::archive::{ArchiveReader, Entry, IndexReader};
use cannery_formats::can::BucketFile;
use cannery_formats::gz_lines::IndexLimits;
use cannery_formats::key::AutoclavedObject;
use cannery_formats::redaction::Redaction;
use cannery_formats::{Key, Uid};
use cannery_lake::Lake;
use cannery_lake::fault::{Fault, FaultStore, Faults, Request};
use cannery_pipeline::Error;
use cannery_pipeline::features::Features;
use cannery_pipeline::redact::{Redacted, Redactor};
use cannery_runtime::Clock;

use crate::can_kit::{Works, lake_on};
use crate::line::{check, fill};
use crate::line_kit::{FEATURES, Mill, rules};
use crate::rebuilding::{is_equal, somewhere};
use crate::sweeping::{few, sealed};

const HOUR: Duration = Duration::from_secs(3_600);

pub(crate) fn redactor(mill: &Mill, lake: &Lake) -> Redactor {
    let mut plant = mill.works.plant(lake);
    plant.clock = mill.clock();
    plant.frame_bytes = 8_000;
    Redactor {
        plant,
        catalog: mill.catalog.clone(),
        features: Arc::new(Features::parse(FEATURES).unwrap()),
        rules: Arc::new(rules()),
        by: "test".to_owned(),
    }
}

async fn open() -> (Mill, BTreeMap<String, Vec<u8>>) {
    let mill = Mill::new(Works::in_memory()).await;
    let expected = fill(&mill.works, &few()).await;
    mill.discover().await;
    mill.work(mill.line().await, HOUR).await;
    check(&mill, &expected).await;
    (mill, expected)
}

async fn redact(mill: &Mill, uid: &Uid) -> Option<Redacted> {
    let redactor = redactor(mill, &mill.works.lake);
    redactor.run(uid, "on request").await.unwrap()
}

/// One of the bundle's rows, by what it says: others are in the same file.
fn chosen(expected: &BTreeMap<String, Vec<u8>>) -> Uid {
    let is_it = |text: &[u8]| text.windows(8).any(|part| part == b"\"row\":17");
    let found = expected.iter().find(|(_, text)| is_it(text));
    found.expect("there is such a row").0.parse().unwrap()
}

/// Every measurement of every archive that is committed, and every archive that is there without an index.
pub(crate) async fn public(lake: &Lake) -> (Vec<(Uid, Vec<u8>)>, Vec<String>, Vec<Key>) {
    let (mut texts, mut infos, mut loose) = (Vec::new(), Vec::new(), Vec::new());
    for entry in lake
        .list_all(Some(&Key::autoclaved_folder()))
        .await
        .unwrap()
    {
        let Some((generation, bucket, AutoclavedObject::File(name))) = entry.key.as_autoclaved()
        else {
            continue;
        };
        let file = BucketFile::new(bucket, name.clone());
        let index = Key::autoclaved_file_index(generation, &file);
        let Ok(index) = lake.get(&index, 1 << 30).await else {
            loose.push(entry.key);
            continue;
        };
        let archive = lake.get(&entry.key, 1 << 30).await.unwrap().bytes;
        let index = IndexReader::new(&index.bytes[..], IndexLimits::default());
        let mut reader = ArchiveReader::new(&archive[..], index, name.codec(), 1 << 30);
        while let Some(item) = reader.next().unwrap() {
            match item.entry {
                Entry::Datum { datum, .. } => {
                    texts.push((datum.id.unwrap(), item.text.unwrap().to_vec()));
                }
                Entry::BadBlob(blob) => infos.push(blob.info),
                _ => {}
            }
        }
    }
    (texts, infos, loose)
}

/// It is nowhere, and everything else is as it was.
async fn is_gone(mill: &Mill, uid: &Uid, expected: &BTreeMap<String, Vec<u8>>) {
    let (texts, infos, loose) = public(&mill.works.lake).await;
    assert!(texts.iter().all(|(id, _)| id != uid));
    let redacted = infos.iter().filter(|info| *info == "redacted: on request");
    assert_eq!(redacted.count(), 1, "{infos:?}");
    assert_eq!(loose, []);
    let mut others = expected.clone();
    others.remove(&uid.to_string());
    check(mill, &others).await;
}

#[tokio::test]
async fn a_measurement_goes_and_the_others_stay() {
    let (mill, expected) = open().await;
    let uid = chosen(&expected);
    let lake = &mill.works.lake;
    let holders = redactor(&mill, lake).holders(&uid).await.unwrap();
    assert_eq!(holders.len(), 1);
    assert!(public(lake).await.0.iter().any(|(id, _)| *id == uid));
    let done = redact(&mill, &uid).await.unwrap();
    assert_eq!((done.was_marked, done.rewritten.len()), (false, 1));
    is_gone(&mill, &uid, &expected).await;
    is_equal(&mill, &somewhere(&mill, "redacted.db")).await;
    // Nothing is left to do, for anybody.
    let line = mill.line().await;
    assert!(!line.catch_up().await.unwrap().is_behind());
    let again = redact(&mill, &uid).await.unwrap();
    assert!(again.was_marked && again.rewritten.is_empty(), "{again:?}");
    // One that nobody knows is not marked.
    let unknown = Uid::from_bytes([9; 20]);
    assert_eq!(redact(&mill, &unknown).await, None);
    let marks = lake.list_all(Some(&Key::redactions())).await.unwrap();
    assert_eq!(marks.len(), 1);
}

/// The bucket is sealed after that: its cans are others, and their archives do not have it either.
#[tokio::test]
async fn it_stays_away_when_the_bucket_is_sealed() {
    let (mill, expected) = open().await;
    let uid = chosen(&expected);
    redact(&mill, &uid).await.unwrap();
    mill.simulated.advance(24 * HOUR).await;
    mill.discover().await;
    let open = mill.files().await;
    mill.work(mill.line().await, HOUR).await;
    assert!(mill.files().await.is_disjoint(&open));
    let (texts, _, _) = public(&mill.works.lake).await;
    assert!(texts.iter().all(|(id, _)| *id != uid));
}

/// A bucket was sealed, and what was replaced is still there.
#[tokio::test]
async fn what_was_replaced_before_goes_too() {
    let (mill, expected) = sealed().await;
    let uid = chosen(&expected);
    let holders = redactor(&mill, &mill.works.lake).holders(&uid).await;
    assert_eq!(holders.unwrap().len(), 2);
    let done = redact(&mill, &uid).await.unwrap();
    assert_eq!((done.rewritten.len(), done.removed.len()), (1, 2));
    is_gone(&mill, &uid, &expected).await;
}

/// The index of the archive is gone, and that of the bucket stands for it: only the catalog says who has the measurement.
#[tokio::test]
async fn it_goes_out_of_an_archive_that_has_lost_its_index() {
    let (mill, expected) = sealed().await;
    mill.simulated.advance(HOUR).await;
    mill.work(mill.line().await, HOUR).await;
    let (uid, lake) = (chosen(&expected), &mill.works.lake);
    let holders = redactor(&mill, lake).holders(&uid).await.unwrap();
    let mut is_joined = false;
    for archive in holders {
        let Some((generation, bucket, AutoclavedObject::File(name))) = archive.as_autoclaved()
        else {
            panic!("`{archive}` is no archive");
        };
        let file = BucketFile::new(bucket, name);
        let index = Key::autoclaved_file_index(generation, &file);
        lake.delete(&index).await.unwrap();
        let joined = Key::autoclaved_index(generation, bucket);
        is_joined |= lake.head(&joined).await.is_ok();
    }
    assert!(is_joined, "the bucket has an index of its own");
    redact(&mill, &uid).await.unwrap();
    let (texts, infos, _) = public(lake).await;
    assert!(texts.iter().all(|(id, _)| *id != uid));
    assert!(infos.iter().any(|info| info == "redacted: on request"));
    let read = cannery_pipeline::measurement::read(lake, &mill.catalog, &uid).await;
    assert_eq!(read.unwrap(), None);
}

/// It is made with a mark that comes after the archive was begun: who has made it looks again.
#[tokio::test]
async fn an_archive_that_was_begun_before_is_made_again() {
    let (mill, expected) = open().await;
    let uid = chosen(&expected);
    let lake = &mill.works.lake;
    let holders = redactor(&mill, lake).holders(&uid).await.unwrap();
    let (generation, bucket, object) = holders.first().unwrap().as_autoclaved().unwrap();
    let AutoclavedObject::File(name) = object else {
        panic!("it is an archive");
    };
    // As if its maker had not put the index yet when the mark was written.
    let index = Key::autoclaved_file_index(generation, &BucketFile::new(bucket, name));
    lake.delete(&index).await.unwrap();
    let mark = Redaction {
        uid,
        reason: "on request".to_owned(),
        buckets: [bucket].into(),
        redacted: mill.clock().now(),
        by: "test".to_owned(),
    };
    mill.works
        .put(&Key::redaction(&uid), &mark.to_object())
        .await;
    let line = mill.line().await;
    assert_eq!(line.catch_up().await.unwrap().to_autoclave, 1);
    mill.work(line, HOUR).await;
    assert_eq!(mill.dead().await.len(), 0);
    is_gone(&mill, &uid, &expected).await;
}

/// The store fails at any of its requests, before or after their effect. Then somebody does it again, or only the workers go on.
async fn ends_well_after(request: Request, fault: Fault, is_repeated: bool) {
    let mut failures = 0;
    for before in 0.. {
        let (mill, expected) = open().await;
        let uid = chosen(&expected);
        let faults = Faults::none();
        faults.next(request, Fault::Latency(Duration::ZERO), before);
        faults.next(request, fault, u32::MAX);
        let store = FaultStore::new(mill.works.store.clone(), faults.clone(), Clock::real());
        let lake = lake_on(Arc::new(store), Duration::from_millis(50));
        let outcome = redactor(&mill, &lake).run(&uid, "on request").await;
        if outcome.is_ok() {
            break;
        }
        failures += 1;
        let is_marked = lake_has(&mill.works.lake, &Key::redaction(&uid)).await;
        if is_repeated {
            redact(&mill, &uid).await.unwrap();
        } else if is_marked {
            let line = mill.line().await;
            line.catch_up().await.unwrap();
            mill.work(line, HOUR).await;
            redact(&mill, &uid).await.unwrap();
        } else {
            check(&mill, &expected).await;
            continue;
        }
        is_gone(&mill, &uid, &expected).await;
    }
    assert!(failures > 0, "{request:?} {fault:?}");
}

async fn lake_has(lake: &Lake, key: &Key) -> bool {
    lake.head(key).await.is_ok()
}

#[tokio::test]
async fn a_put_that_fails_loses_nothing() {
    ends_well_after(Request::Put, Fault::ErrorBefore, true).await;
    ends_well_after(Request::Put, Fault::ErrorBefore, false).await;
}

#[tokio::test]
async fn a_delete_that_fails_loses_nothing() {
    ends_well_after(Request::Delete, Fault::ErrorBefore, true).await;
    ends_well_after(Request::Delete, Fault::ErrorBefore, false).await;
}

/// The can is gone, so the archive cannot be made anew: it stays, and the error says what is missing.
#[tokio::test]
async fn without_its_can_an_archive_stays() {
    let (mill, expected) = open().await;
    let uid = chosen(&expected);
    let lake = &mill.works.lake;
    let holders = redactor(&mill, lake).holders(&uid).await.unwrap();
    let archive = holders.first().unwrap();
    let (_, bucket, AutoclavedObject::File(name)) = archive.as_autoclaved().unwrap() else {
        panic!("it is an archive");
    };
    let can = Key::canned(&BucketFile::new(bucket, name));
    lake.delete(&can).await.unwrap();
    let failed = redactor(&mill, lake).run(&uid, "on request").await;
    let failed = failed.unwrap_err();
    assert!(matches!(failed, Error::Lake(_)), "{failed}");
    assert!(failed.to_string().contains(can.as_str()), "{failed}");
    check(&mill, &expected).await;
}

/// A rebuilt catalog of another place knows nothing of it either.
#[tokio::test]
async fn a_catalog_made_anew_does_not_have_it() {
    let (mill, expected) = open().await;
    let uid = chosen(&expected);
    redact(&mill, &uid).await.unwrap();
    let address = somewhere(&mill, "anew.db");
    is_equal(&mill, &address).await;
    let fresh = Catalog::open(&address, Clock::real()).await.unwrap();
    assert_eq!(fresh.lookup(&uid.to_string()).await.unwrap(), None);
    fresh.close().await;
}
