//! Reports through cans to a sealed bucket: everything is there once, and the bytes follow from the reports.

use cannery_formats::Key;
use cannery_formats::frames::FrameCodec;
use cannery_pipeline::canning::Canner;
use cannery_pipeline::inputs::{Inputs, Reports};
use cannery_runtime::disk::{create_dir_all, write_durably};
use cannery_runtime::{RealDisk, Rng};

use crate::can_kit::{
    CAN_BYTES, Works, bucket, by_kind, entries, expected, journal, key_of, open_all, some_reports,
};

#[tokio::test]
async fn a_bucket_at_once_holds_every_report() {
    let texts = some_reports(1);
    for works in [Works::in_memory(), Works::on_disk()] {
        works.fill(&texts).await;
        let report = works.canner().bucket(bucket()).await.unwrap();
        assert!(!report.was_sealed);
        assert_eq!(report.reports, texts.len() as u64);
        let bytes: usize = texts.values().map(Vec::len).sum();
        assert_eq!(report.bytes_in, bytes as u64);
        assert!(report.bytes_out < report.bytes_in / 2);
        assert!(works.texts().await == texts);
        assert!(works.has_no_scratch_left());
        assert_eq!(works.sealed().await, expected(&texts).await);
        let again = works.canner().bucket(bucket()).await.unwrap();
        assert!(again.was_sealed);
    }
}

#[tokio::test]
async fn names_say_what_a_final_can_is() {
    let sealed = expected(&some_reports(1)).await;
    let names: Vec<&str> = sealed
        .keys()
        .map(|key| key.strip_prefix("canned/2017-01-01/").unwrap())
        .collect();
    let has = |name: &str| names.contains(&name);
    assert!(has("index.json.gz"), "{names:?}");
    // More than the text of a can, so it is alone; two small ones are not.
    assert!(has("long.lz4") && has("unknown.0.tar.lz4"), "{names:?}");
    assert!(has("web_connectivity.0.tar.lz4"), "{names:?}");
    assert!(names.iter().any(|name| name.ends_with("-probe.yaml.lz4")));
}

#[tokio::test]
async fn the_other_codec_holds_the_same() {
    let texts = some_reports(2);
    let works = Works {
        codec: FrameCodec::Zstd,
        ..Works::in_memory()
    };
    works.fill(&texts).await;
    works.canner().bucket(bucket()).await.unwrap();
    assert!(works.texts().await == texts);
    let sealed = works.sealed().await;
    assert!(sealed.keys().any(|key| key.ends_with(".tar.zst")));
}

#[tokio::test]
async fn however_reports_arrive_the_final_bytes_are_the_same() {
    let texts = some_reports(3);
    let expected = expected(&texts).await;
    for seed in 0..6 {
        let rng = Rng::seeded(seed);
        let works = Works::in_memory();
        works.fill(&texts).await;
        let canner = works.canner();
        let mut names: Vec<&String> = texts.keys().collect();
        while !names.is_empty() {
            let mut some = Vec::new();
            for _ in 0..=rng.below(9) {
                if !names.is_empty() {
                    let at = rng.below(names.len() as u64);
                    some.push(names.remove(usize::try_from(at).unwrap()));
                }
            }
            open_all(&canner, &some).await;
        }
        assert!(works.texts().await == texts, "seed {seed}");
        let report = works.sealer().seal(bucket()).await.unwrap();
        assert_eq!(report.reports, texts.len() as u64);
        assert!(works.texts().await == texts, "seed {seed}");
        assert!(works.sealed().await == expected, "seed {seed}");
        assert!(works.has_no_scratch_left());
    }
}

#[tokio::test]
async fn a_bucket_that_is_half_open_is_sealed_with_the_rest() {
    let texts = some_reports(4);
    let works = Works::in_memory();
    works.fill(&texts).await;
    let half: Vec<&String> = texts.keys().step_by(2).collect();
    open_all(&works.canner(), &half).await;
    works.canner().bucket(bucket()).await.unwrap();
    assert!(works.sealed().await == expected(&texts).await);
}

#[tokio::test]
async fn what_is_canned_is_not_canned_again() {
    let texts = some_reports(5);
    let works = Works::in_memory();
    works.fill(&texts).await;
    let all: Vec<&String> = texts.keys().collect();
    open_all(&works.canner(), &all).await;
    let objects = works.objects().await;
    open_all(&works.canner(), &all).await;
    assert!(works.objects().await == objects);
    let (kind, keys) = by_kind(texts.keys()).pop_first().unwrap();
    let beside = "2017-01-02".parse().unwrap();
    let report = works.canner().open(beside, &kind, &keys).await.unwrap();
    assert_eq!(report.cans, 0, "the bucket of the day before has it");
}

#[tokio::test]
async fn a_folder_of_reports_becomes_the_same_cans() {
    let texts = some_reports(6);
    let works = Works::in_memory();
    let root = works.scratch.path().join("reports-raw");
    create_dir_all(&RealDisk, &root.join("2017-01-01")).unwrap();
    for (name, text) in &texts {
        write_durably(&RealDisk, &root.join(name), text).unwrap();
    }
    let inputs = Inputs {
        reports: Some(Reports::Folder(root)),
        ..works.inputs(&works.lake)
    };
    let canner = Canner::new(works.plant(&works.lake), inputs, None);
    let some: Vec<&String> = texts.keys().step_by(3).collect();
    open_all(&canner, &some).await;
    canner.bucket(bucket()).await.unwrap();
    assert!(works.sealed().await == expected(&texts).await);
}

#[tokio::test]
async fn a_report_that_is_too_large_for_memory_is_streamed() {
    let works = Works::on_disk();
    let name = format!("{}/huge", bucket());
    let text = b"0123456789abcdef".repeat((65 << 20) / 16);
    works.put(&key_of(&name), &text).await;
    open_all(&works.canner(), &[&name]).await;
    works.sealer().seal(bucket()).await.unwrap();
    let texts = works.texts().await;
    assert!(texts.len() == 1 && texts[&name] == text);
    assert!(text.len() as u64 > CAN_BYTES);
}

#[tokio::test]
async fn the_work_that_follows_is_in_the_journal() {
    let texts = some_reports(7);
    let works = Works::in_memory();
    works.fill(&texts).await;
    let all: Vec<&String> = texts.keys().collect();
    open_all(&works.canner(), &all).await;
    // Whoever committed the cans had no time to say so.
    let journal = journal();
    let canner = works.canner_on(&works.lake, Some(journal.clone()));
    open_all(&canner, &all).await;
    let open = entries(&journal).await;
    let cans = works.objects().await;
    let cans = cans.keys().filter(|key| key.ends_with(".lz4")).count();
    assert_eq!(open.len(), cans);
    let is_open =
        |(key, data): &(String, String)| key.starts_with("autoclave/2017-01-01/") && data == "null";
    assert!(open.iter().all(is_open), "{open:?}");
    canner.bucket(bucket()).await.unwrap();
    let all = entries(&journal).await;
    let sealed = all.iter().find(|(key, _)| key.ends_with("/long.lz4"));
    let (key, data) = sealed.expect("a final can is not in the journal");
    assert_eq!(key, "autoclave/2017-01-01/unknown/long.lz4");
    assert!(data.starts_with("{\"replaces\":[\"unknown."), "{data}");
    let finals = works.sealed().await.len() - 1;
    assert_eq!(all.len(), open.len() + finals);
}

type Harm = dyn Fn(&mut Vec<u8>);

#[tokio::test]
async fn a_damaged_can_is_never_sealed() {
    let texts = some_reports(8);
    let flipped = |can: &mut Vec<u8>| {
        let middle = can.len() / 2;
        can[middle] ^= 1;
    };
    // A frame that every reader passes over: all reports are right, but the file is not what was committed.
    let longer = |can: &mut Vec<u8>| can.extend([0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0]);
    let harms: [&Harm; 2] = [&flipped, &longer];
    for harm in harms {
        let works = Works::in_memory();
        works.fill(&texts).await;
        let all: Vec<&String> = texts.keys().collect();
        open_all(&works.canner(), &all).await;
        let objects = works.objects().await;
        let is_can = |key: &&String| key.contains("/ndt.") && key.ends_with(".lz4");
        let can = objects.keys().find(is_can).unwrap();
        let key = Key::new(can.as_str()).unwrap();
        let mut bytes = objects[can].clone();
        harm(&mut bytes);
        works.lake.delete(&key).await.unwrap();
        works.put(&key, &bytes).await;
        let error = works.sealer().seal(bucket()).await.unwrap_err().to_string();
        assert!(
            error.contains(can.as_str()) && error.contains("damaged"),
            "{error}"
        );
        let index = Key::canned_index(bucket());
        assert!(!works.objects().await.contains_key(index.as_str()));
    }
}

#[tokio::test]
async fn more_cans_than_are_read_at_once_are_merged_all_the_same() {
    // Every can has reports from the begin to the end of the bucket.
    let name = |number: usize| format!("{}/r{number:03}", bucket());
    let text = |number: usize| format!("report {number}\n").repeat(number * 7).into_bytes();
    let texts = (0..120)
        .map(|number| (name(number), text(number)))
        .collect();
    let works = Works::in_memory();
    works.fill(&texts).await;
    let canner = works.canner();
    for begin in 0..30 {
        let some: Vec<String> = (begin..120).step_by(30).map(name).collect();
        open_all(&canner, &some.iter().collect::<Vec<_>>()).await;
    }
    works.sealer().seal(bucket()).await.unwrap();
    assert!(works.texts().await == texts);
    assert!(works.sealed().await == expected(&texts).await);
}

/// Takes the indexes away, as if whoever made the cans had died before.
async fn forget_indexes(works: &Works) {
    for key in works.objects().await.into_keys() {
        if key.ends_with("index.json.gz") {
            works.lake.delete(&Key::new(key).unwrap()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_can_of_the_same_reports_is_taken_although_its_bytes_are_others() {
    let texts = some_reports(9);
    let mut works = Works {
        level: 9,
        ..Works::in_memory()
    };
    works.fill(&texts).await;
    let all: Vec<&String> = texts.keys().collect();
    open_all(&works.canner(), &all).await;
    forget_indexes(&works).await;
    let cans = works.objects().await;
    works.level = 1;
    open_all(&works.canner(), &all).await;
    let objects = works.objects().await;
    assert!(cans.iter().all(|(key, can)| objects[key] == *can));
    assert!(
        works.texts().await == texts,
        "the records are of what is there"
    );
}

#[tokio::test]
async fn what_only_has_the_name_of_a_can_is_not_taken_for_one() {
    let texts = some_reports(10);
    let works = Works::in_memory();
    works.fill(&texts).await;
    let (kind, keys) = by_kind(texts.keys()).pop_first().unwrap();
    works.canner().open(bucket(), &kind, &keys).await.unwrap();
    forget_indexes(&works).await;
    let (can, _) = works.objects().await.pop_first().unwrap();
    let key = Key::new(can.as_str()).unwrap();
    works.lake.delete(&key).await.unwrap();
    works.put(&key, b"something else").await;
    let opened = works.canner().open(bucket(), &kind, &keys).await;
    let error = opened.unwrap_err().to_string();
    assert!(error.contains(&can) && error.contains("damaged"), "{error}");
    assert!(works.texts().await.is_empty());
}
