//! Cans become archives, and archives become rows of a catalog.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cannery_catalog::Decision;
use cannery_formats::archive::{Entry, IndexReader};
use cannery_formats::can::{BucketFile, FileName, TextName};
use cannery_formats::frames::{FrameCodec, FrameEncoder};
use cannery_formats::gz_lines::{GzLines, IndexLimits};
use cannery_formats::{Key, Kind, LakeKey, Sha1, Sums, Uid};
use cannery_lake::fault::{Fault, FaultStore, Faults, Request};
use cannery_pipeline::Error;
use cannery_pipeline::autoclave::private_index_key;
use cannery_pipeline::centrifuge::Target;
use cannery_pipeline::features::Features;
use cannery_runtime::Clock;
use cannery_sanitise::Rules;
use cannery_testkit::reports::Options;
use object_store::ObjectStore;
use serde_json::json;

use crate::catalog_life::rules_without;
use crate::kit::{Way, lake};
use crate::works::{Can, FEATURES, KEY, Works, bucket, by_kind, can, open, open_can, sanitised};

fn kind(text: &str) -> Kind {
    text.parse().unwrap()
}

fn text_name(text: &str) -> TextName {
    TextName::new(text).unwrap()
}

/// Cans of everything: tars and plain files, both codecs.
fn cans() -> (Vec<Can>, cannery_testkit::reports::Expected) {
    let (kinds, expected) = by_kind(Options::default());
    let mut cans = Vec::new();
    for (number, (kind, mut reports)) in kinds.into_iter().enumerate() {
        let codec = [FrameCodec::Lz4, FrameCodec::Zstd][number % 2];
        let alone = reports.pop().unwrap();
        cans.push(can(
            |_| FileName::plain(&alone.0, codec),
            false,
            codec,
            vec![alone.clone()],
        ));
        if !reports.is_empty() {
            cans.push(open_can(&kind, codec, reports));
        }
    }
    (cans, expected)
}

async fn everything_is_found(works: Works) {
    let (cans, expected) = cans();
    let (mut measurements, mut bad) = (0, 0);
    let mut lines = BTreeMap::new();
    for can in &cans {
        works.put(can).await;
        let report = works.autoclaved(can).await;
        assert!(!report.was_there);
        assert_eq!(report.reports, can.reports.len() as u64);
        measurements += report.measurements;
        bad += report.bad_blobs;
        assert!(
            works.autoclaved(can).await.was_there,
            "a second run does nothing"
        );
        let report = works.centrifuged(&can.record.filename).await;
        assert_eq!(report.decisions, [Decision::Ingest, Decision::Skip]);
        for (name, content) in &can.reports {
            lines.extend(sanitised(&works.rules, name, content));
        }
    }
    assert_eq!(measurements, expected.measurements as u64);
    assert_eq!(bad, expected.bad as u64);
    assert_eq!(lines.len(), expected.measurements - expected.duplicates);
    for (uid, line) in &lines {
        assert_eq!(works.text_of(uid).await, *line, "{uid}");
    }
    let counts = works.catalog.counts(None, 100).await.unwrap();
    let sum = |of: fn(&cannery_catalog::Count) -> u64| counts.iter().map(of).sum::<u64>();
    assert_eq!(sum(|count| count.measurements), measurements);
    assert_eq!(sum(|count| count.duplicates), expected.duplicates as u64);
    assert_eq!(sum(|count| count.bad_blobs), bad);
    assert_eq!(sum(|count| count.reports), expected.reports as u64);
    let residuals = works
        .catalog
        .residuals(Some("web_connectivity"), 1000)
        .await
        .unwrap();
    let has = |name: &str| residuals.iter().any(|residual| residual.skeleton == name);
    assert!(has("software_name: string"), "{residuals:?}");
    assert!(
        !has("input: string") && !has("probe_cc: string"),
        "they are read"
    );
    works.close().await;
}

#[tokio::test]
async fn every_measurement_is_found_where_the_catalog_says() {
    everything_is_found(Works::new().await).await;
}

#[tokio::test]
async fn every_measurement_is_found_on_a_disk() {
    let folder = tempfile::tempdir().unwrap();
    everything_is_found(Works::on(Works::disk(&folder)).await).await;
}

#[cfg(feature = "real-servers")]
#[tokio::test]
async fn every_measurement_is_found_with_postgresql() {
    use cannery_catalog::Catalog;
    use cannery_testkit::postgres::Postgres;
    use object_store::memory::InMemory;

    let server = Postgres::start().await.unwrap();
    let url = server.create_database("works").await.unwrap();
    let catalog = Catalog::open(&url, Clock::real()).await.unwrap();
    let kept = tempfile::tempdir().unwrap();
    let works = Works::with(Arc::new(InMemory::new()), catalog, kept).await;
    everything_is_found(works).await;
}

/// One can of web measurements, small.
pub(crate) fn web_can() -> Can {
    let options = Options {
        json_reports: 8,
        yaml_reports: 0,
        measurements: 3,
        ..Options::default()
    };
    let web = kind("web_connectivity");
    let (mut kinds, _) = by_kind(options);
    open_can(&web, FrameCodec::Lz4, kinds.remove(&web).unwrap())
}

pub(crate) fn uids(rules: &Rules, can: &Can) -> BTreeMap<String, Vec<u8>> {
    let reports = can.reports.iter();
    reports
        .flat_map(|(name, content)| sanitised(rules, name, content))
        .collect()
}

#[tokio::test]
async fn a_file_is_not_read_again_without_need() {
    let works = Works::new().await;
    let can = web_can();
    works.put(&can).await;
    works.autoclaved(&can).await;
    let file = &can.record.filename;
    let first = works.centrifuged(file).await;
    assert!(first.bytes_in > 0);
    assert!(!first.committed.dates.is_empty());
    let index = Key::autoclaved_file_index(works.generation(), file);
    let index_bytes = works.lake().head(&index).await.unwrap().bytes;
    let before = works.lake().totals().bytes_read;
    let again = works.centrifuged(file).await;
    assert_eq!(again.decisions, [Decision::Skip]);
    let read = works.lake().totals().bytes_read - before;
    assert_eq!(
        (read, again.bytes_in),
        (index_bytes, 0),
        "only the index is read"
    );
    works.close().await;
}

#[tokio::test]
async fn other_rules_that_change_nothing_move_the_places_only() {
    let mut works = Works::new().await;
    let can = web_can();
    works.put(&can).await;
    works.autoclaved(&can).await;
    let file = &can.record.filename;
    works.centrifuged(file).await;
    let lines = uids(&works.rules, &can);
    let before = works.generation();

    works.rules = rules_without("nobody_has_this_key", "2026-11-17");
    assert_ne!(works.generation(), before);
    works.autoclaved(&can).await;
    let report = works.centrifuged(file).await;
    assert_eq!(report.decisions, [Decision::Repoint, Decision::Skip]);
    assert_eq!(report.bytes_in, 0, "the index is enough");
    assert_eq!((report.committed.added, report.committed.removed), (0, 0));
    for (uid, line) in &lines {
        let found = works.catalog.lookup(uid).await.unwrap().unwrap();
        assert_eq!(found.generation, works.generation().to_string());
        assert_eq!(works.text_of(uid).await, *line);
        let trace = works.catalog.trace(uid).await.unwrap().unwrap();
        assert_eq!(trace.rows["verdict"], 1, "rows stay");
    }

    // Rules that do change the text.
    works.rules = rules_without("probe_cc", "2026-11-18");
    works.autoclaved(&can).await;
    let report = works.centrifuged(file).await;
    assert_eq!(report.decisions, [Decision::Reingest, Decision::Skip]);
    assert_eq!(report.committed.removed, 0);
    let raw = uids(&works.rules, &can);
    let survivors = lines.keys().filter(|uid| raw.contains_key(*uid)).count();
    assert!(survivors > 0);
    for (uid, line) in &raw {
        assert_eq!(works.text_of(uid).await, *line);
    }
    works.close().await;
}

#[tokio::test]
async fn a_feature_of_another_version_is_made_again_or_marked() {
    let mut works = Works::new().await;
    let can = web_can();
    works.put(&can).await;
    works.autoclaved(&can).await;
    let file = &can.record.filename;
    works.centrifuged(file).await;
    let uid = uids(&works.rules, &can).into_keys().next().unwrap();
    let feature = |from: &str, to: &str| {
        let text = FEATURES.replacen(from, to, 1);
        assert_ne!(text, FEATURES);
        Arc::new(Features::parse(&text).unwrap())
    };
    let origin = vec!["origin".to_owned()];

    // The table of `origin` gets two rows for each measurement.
    works.features = feature(
        "table: origin\n    version: 1\n    filter: '{cc",
        "table: origin\n    version: 2\n    filter: '., . | {cc",
    );
    works.centrifuge().declare().await.unwrap();
    let report = works.centrifuged(file).await;
    let reprocess = Decision::Reprocess {
        features: origin.clone(),
    };
    assert_eq!(report.decisions, [reprocess, Decision::Skip]);
    let rows = works.catalog.trace(&uid).await.unwrap().unwrap().rows;
    assert_eq!((rows["origin"], rows["verdict"]), (2, 1));

    works.features = feature(
        "table: origin\n    version: 1",
        "table: origin\n    version: 3\n    min_compatible: 2",
    );
    works.centrifuge().declare().await.unwrap();
    let report = works.centrifuged(file).await;
    let mark = Decision::MarkCurrent { features: origin };
    assert_eq!(report.decisions, [mark, Decision::Skip]);
    assert_eq!(report.bytes_in, 0);
    let rows = works.catalog.trace(&uid).await.unwrap().unwrap().rows;
    assert_eq!(rows["origin"], 2, "nothing was written");

    works.features = Arc::new(Features::parse(FEATURES).unwrap());
    let refused = works.centrifuge().declare().await;
    assert!(matches!(refused, Err(Error::Catalog(_))), "{refused:?}");
    let report = works.centrifuged(file).await;
    assert!(
        matches!(&report.decisions[..], [Decision::NewerThanCode { feature, known: 3, declared: 1 }] if feature == "origin"),
        "{report:?}"
    );
    works.close().await;
}

#[tokio::test]
async fn a_sealed_file_takes_the_place_of_open_ones() {
    let works = Works::new().await;
    let web = web_can();
    let mut files = Vec::new();
    for report in &web.reports {
        let can = open_can(
            &kind("web_connectivity"),
            FrameCodec::Lz4,
            vec![report.clone()],
        );
        works.put(&can).await;
        works.autoclaved(&can).await;
        works.centrifuged(&can.record.filename).await;
        files.push(can.record.filename);
    }
    let codec = FrameCodec::Lz4;
    let name = FileName::sealed(&kind("web_connectivity"), 0, 0, codec);
    let sealed = can(|_| name, true, codec, web.reports.clone());
    works.put(&sealed).await;
    works.autoclaved(&sealed).await;
    let file = &sealed.record.filename;
    let report = works.centrifuged_in_place_of(file, &files).await;
    assert_eq!(report.decisions, [Decision::Ingest, Decision::Skip]);
    assert_eq!((report.committed.added, report.committed.removed), (0, 0));
    for (uid, line) in uids(&works.rules, &sealed) {
        let found = works.catalog.lookup(&uid).await.unwrap().unwrap();
        assert_eq!(found.file, file.to_string());
        assert_eq!(works.text_of(&uid).await, line);
    }
    for file in files {
        assert_eq!(works.catalog.known(&file.to_string()).await.unwrap(), None);
    }
    works.close().await;
}

/// Both stages over a store with faults; whether they ended well.
async fn try_both(works: &Works, faults: &Faults, can: &Can) -> bool {
    let faulty = FaultStore::new(works.store.clone(), faults.clone(), Clock::real());
    let faulty = lake("main", Arc::new(faulty), Way::Swapped);
    let mut plant = works.plant.clone();
    (plant.raw, plant.public) = (faulty.clone(), faulty);
    let (mut autoclave, mut centrifuge) = (works.autoclave(), works.centrifuge());
    (autoclave.plant, centrifuge.plant) = (plant.clone(), plant);
    let target = Target {
        generation: works.generation(),
        file: can.record.filename.clone(),
        replaces: Vec::new(),
    };
    autoclave.run(&can.record).await.is_ok() && centrifuge.run(&target, &open).await.is_ok()
}

#[tokio::test]
async fn after_a_fault_at_any_request_a_second_run_ends_the_same() {
    let can = web_can();
    let good = Works::new().await;
    good.put(&can).await;
    good.autoclaved(&can).await;
    good.centrifuged(&can.record.filename).await;
    let objects = good.objects().await;
    assert_eq!(objects.len(), 4, "{:?}", objects.keys());
    for (request, fault) in [
        (Request::Put, Fault::ErrorBefore),
        (Request::Put, Fault::ErrorAfter),
        (Request::Get, Fault::ErrorBefore),
        (Request::Get, Fault::ShortRead),
    ] {
        for before in 0.. {
            let context = format!("{request:?} meets {fault:?} after {before}");
            let works = Works::new().await;
            works.put(&can).await;
            let faults = Faults::none();
            faults.next(request, Fault::Latency(Duration::ZERO), before);
            faults.next(request, fault, u32::MAX);
            let ended = try_both(&works, &faults, &can).await;
            works.autoclaved(&can).await;
            works.centrifuged(&can.record.filename).await;
            assert_eq!(works.objects().await, objects, "{context}");
            let differences = works.catalog.differences(&good.catalog).await.unwrap();
            assert_eq!(differences, [], "{context}");
            works.close().await;
            if faults.injected() <= u64::from(before) {
                assert!(ended, "{context}: nothing failed");
                assert!(before > 1, "{context}: no request met the fault");
                break;
            }
        }
    }
    good.close().await;
}

#[tokio::test]
async fn a_damaged_can_becomes_nothing() {
    let works = Works::new().await;
    let mut can = web_can();
    let middle = can.bytes.len() / 2;
    can.bytes[middle] ^= 1;
    works.put(&can).await;
    let failed = works.autoclave().run(&can.record).await.unwrap_err();
    assert!(matches!(failed, Error::Unusable { .. }), "{failed}");
    assert_eq!(works.objects().await.len(), 1);
    works.close().await;
}

#[tokio::test]
async fn a_damaged_archive_leaves_the_catalog_as_it_was() {
    let works = Works::new().await;
    let can = web_can();
    works.put(&can).await;
    works.autoclaved(&can).await;
    let other = Works::new().await;
    for (path, mut bytes) in works.objects().await {
        if path.contains("/autoclaved/") && path.ends_with(".lz4") {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        }
        let path = object_store::path::Path::parse(path).unwrap();
        other
            .store
            .put_opts(&path, bytes.into(), Default::default())
            .await
            .unwrap();
    }
    let target = Target {
        generation: other.generation(),
        file: can.record.filename.clone(),
        replaces: Vec::new(),
    };
    let failed = other.centrifuge().run(&target, &open).await.unwrap_err();
    assert!(matches!(failed, Error::Unusable { .. }), "{failed}");
    assert_eq!(
        other
            .catalog
            .known(&can.record.filename.to_string())
            .await
            .unwrap(),
        None
    );
    works.close().await;
    other.close().await;
}

#[tokio::test]
async fn downloads_pass_as_they_are_and_hashes_stay_private() {
    let works = Works::new().await;
    let binary = b"\x00\xff no JSON\n\n".to_vec();
    let feed = kind("feed-tor");
    let downloads = vec![
        (text_name("tor/2017-01-01/03/a.bin"), binary.clone()),
        (
            text_name("tor/2017-01-01/03/b.json"),
            b"{ \"a\": [1,\n 2] }\n".to_vec(),
        ),
    ];
    let can = open_can(&feed, FrameCodec::Lz4, downloads);
    works.put(&can).await;
    let report = works.autoclaved(&can).await;
    assert_eq!((report.measurements, report.not_json), (2, 1));
    works.centrifuged(&can.record.filename).await;
    let filter = cannery_catalog::Filter::default();
    let found = works
        .catalog
        .measurements(&filter, None, 10)
        .await
        .unwrap()
        .items;
    assert_eq!(found.len(), 2);
    let mut texts = Vec::new();
    for found in &found {
        assert_eq!(
            (found.kind.as_str(), found.time_ms),
            ("feed-tor", Some(1_483_239_600_000))
        );
        texts.push(works.text_of(&found.uid).await);
    }
    assert!(texts.contains(&binary), "byte for byte");

    let hash = Sha1::of(&binary).to_string();
    let index = Key::autoclaved_file_index(works.generation(), &can.record.filename);
    let private = private_index_key(&can.record.filename).unwrap();
    for (key, is_private) in [(index, false), (private, true)] {
        let object = works.lake().get(&key, 1 << 20).await.unwrap();
        let mut text = String::new();
        let mut gzip = flate2::read::MultiGzDecoder::new(&object.bytes[..]);
        std::io::Read::read_to_string(&mut gzip, &mut text).unwrap();
        assert_eq!(text.contains(&hash), is_private, "{key}: {text}");
        assert_eq!(text.contains("orig_sha1"), is_private, "{key}");
    }
    works.close().await;
}

/// Every hash of the private index is that of the bytes at its place in the raw report: also of YAML and of what is bad.
#[tokio::test]
async fn the_private_index_tells_the_truth() {
    let works = Works::new().await;
    for can in cans().0 {
        works.put(&can).await;
        works.autoclaved(&can).await;
        let key = private_index_key(&can.record.filename).unwrap();
        let object = works.lake().get(&key, 1 << 20).await.unwrap();
        let gzip = flate2::read::MultiGzDecoder::new(&object.bytes[..]);
        let (mut report, mut checked) = (None, 0);
        for line in std::io::BufRead::lines(std::io::BufReader::new(gzip)) {
            let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
            if let Some(name) = line["textname"].as_str() {
                let found = can.reports.iter().find(|(known, _)| known.as_str() == name);
                report = found.map(|(_, content)| content);
            }
            let (Some(from), Some(size)) = (line["src_off"].as_u64(), line["src_size"].as_u64())
            else {
                continue;
            };
            let from = usize::try_from(from).unwrap();
            let size = usize::try_from(size).unwrap();
            let sha1 = Sha1::of(&report.unwrap()[from..from + size]);
            assert_eq!(line["orig_sha1"], sha1.to_string(), "{line}");
            checked += 1;
        }
        assert!(checked > 0);
    }
    works.close().await;
}

/// An archive as the original made it: linked blocks, the newline at the start of the next frame, hashes in the index and
/// no ids.
fn original() -> (BucketFile, Vec<u8>, Vec<u8>) {
    let frame = |text: &[u8]| {
        let mut encoder = lz4::EncoderBuilder::new()
            .block_size(lz4::BlockSize::Max4MB)
            .block_mode(lz4::BlockMode::Linked)
            .content_size(text.len() as u64)
            .build(Vec::new())
            .unwrap();
        std::io::Write::write_all(&mut encoder, text).unwrap();
        encoder.finish().0
    };
    let name = "20170101T000000Z-DE-AS1-web_connectivity-r1-0.2.0-probe.json";
    let texts: [&[u8]; 3] = [b"{\"n\":1}\n{\"n\":2}", b"\n{\"n\":3}", b"\n"];
    let frames = texts.map(frame);
    let sha1 = Sha1::of(b"raw").to_string();
    let lines = [
        json!({"filename": format!("2017-01-01/{name}.lz4"), "type": "file"}),
        json!({"file_off": 0, "file_size": frames[0].len(), "text_off": 0, "text_size": 15, "type": "frame"}),
        json!({"orig_sha1": sha1, "src_size": 99, "textname": format!("2017-01-01/{name}"), "type": "report"}),
        json!({"orig_sha1": sha1, "text_off": 0, "text_size": 7, "type": "datum"}),
        json!({"orig_sha1": sha1, "text_off": 8, "text_size": 7, "type": "datum"}),
        json!({"type": "/frame"}),
        json!({"file_off": frames[0].len(), "file_size": frames[1].len(), "text_off": 15, "text_size": 8, "type": "frame"}),
        json!({"orig_sha1": sha1, "text_off": 16, "text_size": 7, "type": "datum"}),
        json!({"orig_sha1": sha1, "info": "<class 'ValueError'>", "src_off": 7, "src_size": 2, "type": "badblob"}),
        json!({"type": "/frame"}),
        json!({"file_off": frames[0].len() + frames[1].len(), "file_size": frames[2].len(), "text_off": 23, "text_size": 1, "type": "frame"}),
        json!({"type": "/report"}),
        json!({"type": "/frame"}),
    ];
    let file = frames.concat();
    let sums = Sums::of(&file);
    let end = json!({"file_crc32": sums.crc32, "file_sha1": sums.sha1.to_string(), "file_size": sums.size, "type": "/file"});
    let mut index = GzLines::new(Vec::new());
    for line in lines.iter().chain([&end]) {
        index.write(format!("{line}\n").as_bytes()).unwrap();
    }
    let name = FileName::new(&format!("{name}.lz4")).unwrap();
    (
        BucketFile::new(bucket(), name),
        file,
        index.finish().unwrap(),
    )
}

#[tokio::test]
async fn an_archive_of_the_original_is_centrifuged() {
    let works = Works::new().await;
    let (file, bytes, index) = original();
    let mut reader = IndexReader::new(&index[..], IndexLimits::default());
    let is_file = matches!(reader.next().unwrap(), Some(Entry::File(name)) if name == file);
    assert!(is_file);
    let generation = works.generation();
    let lake = works.lake();
    lake.put_new(&Key::autoclaved(generation, &file), bytes)
        .await
        .unwrap();
    lake.put_new(&Key::autoclaved_file_index(generation, &file), index)
        .await
        .unwrap();
    let report = works.centrifuged(&file).await;
    assert_eq!(report.decisions, [Decision::Ingest, Decision::Skip]);
    assert_eq!((report.measurements, report.committed.added), (3, 3));
    let time_ms = 1_483_228_800_000;
    for number in 1..=3 {
        let text = format!("{{\"n\":{number}}}");
        let uid = Uid::of_json(&LakeKey::new(KEY), time_ms, b"r1", text.as_bytes());
        assert_eq!(works.text_of(&uid.to_string()).await, text.as_bytes());
    }
    let blobs = works.catalog.counts(None, 10).await.unwrap();
    assert_eq!(
        (blobs[0].bad_blobs, blobs[0].kind.as_str()),
        (1, "web_connectivity")
    );
    assert_eq!(works.centrifuged(&file).await.decisions, [Decision::Skip]);
    works.close().await;
}

#[tokio::test]
async fn a_fence_that_refuses_keeps_everything_out() {
    use futures::FutureExt as _;

    let works = Works::new().await;
    let can = web_can();
    works.put(&can).await;
    works.autoclaved(&can).await;
    let target = Target {
        generation: works.generation(),
        file: can.record.filename.clone(),
        replaces: Vec::new(),
    };
    let closed = || async { Err("the lease is gone".to_owned()) }.boxed();
    let refused = works.centrifuge().run(&target, &closed).await.unwrap_err();
    assert!(
        refused.to_string().contains("the lease is gone"),
        "{refused}"
    );
    assert_eq!(
        works
            .catalog
            .known(&can.record.filename.to_string())
            .await
            .unwrap(),
        None
    );
    works.close().await;
}

#[tokio::test]
async fn two_at_once_make_the_same() {
    let works = Works::new().await;
    let can = web_can();
    works.put(&can).await;
    let (one, two) = (works.autoclave(), works.autoclave());
    let (one, two) = tokio::join!(one.run(&can.record), two.run(&can.record));
    one.unwrap();
    two.unwrap();
    let file = &can.record.filename;
    let (one, two) = tokio::join!(works.centrifuged(file), works.centrifuged(file));
    let added = one.committed.added + two.committed.added;
    assert_eq!(added, uids(&works.rules, &can).len() as u64);
    works.close().await;
}

#[tokio::test]
async fn other_settings_do_not_replace_an_archive() {
    let mut works = Works::new().await;
    let can = web_can();
    works.put(&can).await;
    works.autoclaved(&can).await;
    let objects = works.objects().await;
    works.plant.encoder = FrameEncoder::new(FrameCodec::Lz4, 1).unwrap();
    assert!(works.autoclaved(&can).await.was_there);
    let index = Key::autoclaved_file_index(works.generation(), &can.record.filename);
    let path = format!("some/prefix/{index}");
    let path = object_store::path::Path::parse(path).unwrap();
    object_store::ObjectStoreExt::delete(&*works.store, &path)
        .await
        .unwrap();
    let refused = works.autoclave().run(&can.record).await.unwrap_err();
    assert!(matches!(refused, Error::Uncommitted { .. }), "{refused}");
    works.plant.encoder = FrameEncoder::new(FrameCodec::Lz4, 5).unwrap();
    works.autoclaved(&can).await;
    assert_eq!(works.objects().await, objects);
    works.close().await;
}

/// Somebody took it away, and its index is still there: it is made again, with an index of its own, also by other settings.
#[tokio::test]
async fn an_archive_that_was_taken_away_is_made_again() {
    let mut works = Works::new().await;
    let can = web_can();
    works.put(&can).await;
    works.autoclaved(&can).await;
    let file = &can.record.filename;
    let archive = Key::autoclaved(works.generation(), file);
    works.plant.public.delete(&archive).await.unwrap();
    works.plant.encoder = FrameEncoder::new(FrameCodec::Lz4, 1).unwrap();
    assert!(!works.autoclaved(&can).await.was_there);
    // Who loads it compares it with its index.
    assert!(works.centrifuged(file).await.committed.added > 0);
    works.close().await;
}

/// A works with an archive whose maker, of other settings, died before it put the index; by a clock so many hours later.
async fn left_without_index(can: &Can, hours: i64) -> Works {
    let mut works = Works::new().await;
    works.put(can).await;
    works.autoclaved(can).await;
    let index = Key::autoclaved_file_index(works.generation(), &can.record.filename);
    let path = object_store::path::Path::parse(format!("some/prefix/{index}")).unwrap();
    object_store::ObjectStoreExt::delete(&*works.store, &path)
        .await
        .unwrap();
    works.plant.encoder = FrameEncoder::new(FrameCodec::Lz4, 1).unwrap();
    let later = Clock::real().now() + jiff::SignedDuration::from_hours(hours);
    works.plant.clock = cannery_runtime::clock::SimulatedClock::starting_at(later).clock();
    works
}

#[tokio::test]
async fn an_archive_that_nobody_committed_for_a_day_is_made_anew_whatever_fails_on_the_way() {
    let can = web_can();
    let works = left_without_index(&can, 23).await;
    let early = works.autoclave().run(&can.record).await.unwrap_err();
    assert!(matches!(early, Error::Uncommitted { .. }), "{early}");
    works.close().await;
    for (request, fault) in [
        (Request::Put, Fault::ErrorBefore),
        (Request::Put, Fault::ErrorAfter),
        (Request::Delete, Fault::ErrorBefore),
        (Request::Delete, Fault::ErrorAfter),
    ] {
        for before in 0.. {
            let context = format!("{request:?} meets {fault:?} after {before}");
            let works = left_without_index(&can, 25).await;
            let faults = Faults::none();
            faults.next(request, Fault::Latency(Duration::ZERO), before);
            faults.next(request, fault, u32::MAX);
            let ended = try_both(&works, &faults, &can).await;
            works.autoclaved(&can).await;
            works.centrifuged(&can.record.filename).await;
            for (uid, line) in uids(&works.rules, &can) {
                assert_eq!(works.text_of(&uid).await, line, "{context}");
            }
            works.close().await;
            if faults.injected() <= u64::from(before) {
                assert!(ended, "{context}: nothing failed");
                assert!(before > 0, "{context}: no request met the fault");
                break;
            }
        }
    }
}
