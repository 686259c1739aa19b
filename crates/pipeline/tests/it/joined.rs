//! The indexes of a sealed bucket become one, for each generation and for what is private; and it is as good as they are.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use cannery_formats::Key;
use cannery_formats::archive::{Entry, Generation, IndexReader};
use cannery_formats::gz_lines::IndexLimits;
use cannery_lake::fault::{Fault, FaultStore, Faults, Request};
use cannery_pipeline::autoclave::private_index_key;
use cannery_pipeline::joined::join;
use cannery_pipeline::verify::Verifier;
use cannery_runtime::Clock;
use flate2::read::MultiGzDecoder;

use crate::can_kit::{bucket, lake_on};
use crate::line::check;
use crate::line_kit::Mill;
use crate::sweeping::sealed;

const HOUR: Duration = Duration::from_secs(3_600);

fn generation(mill: &Mill) -> Generation {
    mill.rules.edition().generation
}

async fn get(mill: &Mill, key: &Key) -> Vec<u8> {
    let object = mill.works.lake.get(key, 1 << 30).await;
    object
        .unwrap_or_else(|error| panic!("{error}"))
        .bytes
        .to_vec()
}

/// The index that is written, and those of the files, in order.
async fn both(mill: &Mill) -> [(Key, Vec<Key>); 2] {
    let files = mill.files().await.into_iter();
    let files: Vec<_> = files.map(|file| file.parse().unwrap()).collect();
    let generation = generation(mill);
    let public = files
        .iter()
        .map(|file| Key::autoclaved_file_index(generation, file));
    let private = files.iter().map(|file| private_index_key(file).unwrap());
    [
        (
            Key::autoclaved_index(generation, bucket()),
            public.collect(),
        ),
        (Key::canned_private_index(bucket()), private.collect()),
    ]
}

async fn is_joined(mill: &Mill) {
    for (joined, parts) in both(mill).await {
        let mut expected = Vec::new();
        for part in &parts {
            expected.extend(get(mill, part).await);
        }
        assert!(
            parts.len() > 4 && get(mill, &joined).await == expected,
            "{joined}"
        );
    }
}

fn text(gzip: &[u8]) -> String {
    let mut text = String::new();
    MultiGzDecoder::new(gzip).read_to_string(&mut text).unwrap();
    text
}

#[tokio::test]
async fn a_sealed_bucket_has_one_index_of_its_archives_and_a_private_one() {
    let (mill, _) = sealed().await;
    is_joined(&mill).await;
    let [(public, _), (private, _)] = both(&mill).await;
    let (public, private) = (get(&mill, &public).await, get(&mill, &private).await);
    let mut reader = IndexReader::new(&public[..], IndexLimits::default());
    let mut named = Vec::new();
    while let Some(entry) = reader.next().unwrap() {
        if let Entry::File(name) = entry {
            named.push(name.to_string());
        }
    }
    assert!(mill.files().await.into_iter().eq(named));
    let (public, private) = (text(&public), text(&private));
    assert!(private.contains("orig_sha1") && !public.contains("orig_sha1"));
    assert!(!private.contains("\"rules\"") && public.contains("\"rules\""));
    // Nothing is to be done again.
    let plant = mill.works.plant(&mill.works.lake);
    let again = join(&plant, bucket(), generation(&mill)).await.unwrap();
    assert_eq!((again.written, again.bytes_in), (vec![], 0));
    assert_eq!(mill.line().await.catch_up().await.unwrap().to_join, 0);
}

#[tokio::test]
async fn it_is_written_again_when_the_index_of_a_file_is_newer() {
    let (mill, _) = sealed().await;
    for (joined, parts) in both(&mill).await {
        let part = get(&mill, &parts[1]).await;
        mill.works.lake.delete(&joined).await.unwrap();
        mill.works.put(&joined, b"as it was before").await;
        mill.works.lake.delete(&parts[1]).await.unwrap();
        let line = mill.line().await;
        assert_eq!(
            line.catch_up().await.unwrap().to_join,
            0,
            "one is not there"
        );
        for (key, _) in mill.alive().await {
            let key = cannery_journal::Key::new(key).unwrap();
            mill.journal.cancel(key).await.unwrap();
        }
        mill.works.put(&parts[1], &part).await;
        assert_eq!(line.catch_up().await.unwrap().to_join, 1, "{joined}");
        mill.work(line, HOUR).await;
    }
    is_joined(&mill).await;
}

#[tokio::test]
async fn a_part_that_was_put_again_as_it_was_is_joined_once() {
    let (mill, _) = sealed().await;
    let [(joined, parts), _] = both(&mill).await;
    let before = get(&mill, &joined).await;
    let part = get(&mill, &parts[1]).await;
    mill.works.lake.delete(&parts[1]).await.unwrap();
    mill.works.put(&parts[1], &part).await;
    let line = mill.line().await;
    assert_eq!(line.catch_up().await.unwrap().to_join, 1);
    // Whoever dies here leaves none, and the next one makes it.
    let faults = Faults::none();
    faults.next(Request::Put, Fault::Latency(Duration::ZERO), 1);
    faults.next(Request::Put, Fault::ErrorBefore, u32::MAX);
    let store = FaultStore::new(Arc::clone(&mill.works.store), faults, Clock::real());
    let lake = lake_on(Arc::new(store), Duration::from_millis(100));
    let plant = mill.works.plant(&lake);
    let died = join(&plant, bucket(), generation(&mill)).await;
    assert!(died.is_err());
    assert!(mill.works.lake.head(&joined).await.is_err());
    mill.work(line.clone(), HOUR).await;
    assert_eq!(get(&mill, &joined).await, before);
    assert_eq!(line.catch_up().await.unwrap().to_join, 0);
}

async fn fail_from_the_nth(request: Request, fault: Fault) {
    let (mill, _) = sealed().await;
    for before in 0.. {
        let context = format!("{request:?} meets {fault:?} after {before}");
        let [(public, _), (private, _)] = both(&mill).await;
        mill.works.lake.delete(&public).await.unwrap();
        mill.works.lake.delete(&private).await.unwrap();
        let faults = Faults::none();
        faults.next(request, Fault::Latency(Duration::ZERO), before);
        faults.next(request, fault, u32::MAX);
        let store = FaultStore::new(Arc::clone(&mill.works.store), faults.clone(), Clock::real());
        let lake = lake_on(Arc::new(store), Duration::from_millis(100));
        let plant = mill.works.plant(&lake);
        let ended = join(&plant, bucket(), generation(&mill)).await;
        let is_over = faults.injected() <= u64::from(before);
        assert_eq!(ended.is_ok(), is_over, "{context}");
        let line = mill.line().await;
        line.catch_up().await.unwrap();
        mill.work(line, HOUR).await;
        is_joined(&mill).await;
        if is_over {
            assert!(before > 1, "{context}");
            return;
        }
    }
}

#[tokio::test]
async fn puts_that_fail_leave_nothing_half_written() {
    fail_from_the_nth(Request::Put, Fault::ErrorBefore).await;
}

#[tokio::test]
async fn reads_and_listings_that_fail_are_made_up_for() {
    fail_from_the_nth(Request::Get, Fault::ErrorBefore).await;
    fail_from_the_nth(Request::List, Fault::ListEndsAfter(1)).await;
}

/// As the original leaves a bucket: archives without indexes of their own.
#[tokio::test]
async fn archives_are_verified_and_loaded_by_the_index_of_their_bucket_alone() {
    let (mill, expected) = sealed().await;
    let [(_, indexes), _] = both(&mill).await;
    for index in &indexes {
        mill.works.lake.delete(index).await.unwrap();
    }
    let plant = mill.works.plant(&mill.works.lake);
    let report = Verifier { plant }.bucket(bucket(), generation(&mill)).await;
    let report = report.unwrap();
    assert_eq!(
        (report.findings, report.files),
        (vec![], 2 * indexes.len() as u64)
    );
    let address = mill.works.scratch.path().join("another.db");
    let address = format!("sqlite:{}", address.display());
    let mill = Mill::with_catalog_at(mill.works, &address).await;
    let line = mill.line().await;
    let caught = line.catch_up().await.unwrap();
    let files = indexes.len() as u64;
    assert_eq!((caught.to_autoclave, caught.to_centrifuge), (0, files));
    mill.work(line.clone(), HOUR).await;
    check(&mill, &expected).await;
    assert_eq!(mill.dead().await, BTreeMap::new());
    assert!(!line.catch_up().await.unwrap().is_behind());
}
