//! What every lake does, whatever store it stands on.

use std::collections::BTreeSet;

use bytes::Bytes;
use cannery_formats::Key;
use cannery_lake::{Body, ErrorKind, Lake, PutNew, Swap, probe};
use cannery_runtime::Rng;
use futures::TryStreamExt as _;
use futures::future::join_all;

use crate::engines::Engine;

const MIB: u64 = 1024 * 1024;

fn key(text: impl Into<String>) -> Key {
    Key::new(text).unwrap()
}

/// Runs every case on a fresh prefix of the engine.
pub(crate) async fn conforms(engine: &Engine) {
    conforms_without_versions(engine).await;
    let rng = Rng::from_os();
    let fresh = || engine.lake(&format!("t-{}", rng.id()));
    a_replace_needs_the_version_that_is_there(&fresh()).await;
    racing_replaces_lose_no_update(&fresh()).await;
    the_probe_finds_it_sound(&fresh()).await;
}

/// The cases that need create-if-absent alone, for stores that do not honour versions.
pub(crate) async fn conforms_without_versions(engine: &Engine) {
    let rng = Rng::from_os();
    let fresh = || engine.lake(&format!("t-{}", rng.id()));
    objects_read_back_under_any_name(&fresh()).await;
    a_second_put_leaves_the_first_alone(&fresh()).await;
    one_of_eight_creates_wins(&fresh()).await;
    equal_creates_agree(&fresh()).await;
    ranges_are_exact_or_refused(&fresh()).await;
    a_whole_read_is_capped(&fresh()).await;
    a_listing_is_complete_and_in_order(&fresh()).await;
    a_delete_may_be_repeated(&fresh()).await;
    prefixes_do_not_see_each_other(engine).await;
    a_large_object_is_like_any_other(&fresh()).await;
    content_that_mimics_a_commit_is_just_content(&fresh()).await;
}

async fn objects_read_back_under_any_name(lake: &Lake) {
    let long = "n".repeat(255);
    for (name, content) in [
        ("plain.json", &b"{}"[..]),
        ("deep/er/folder/x", b"x"),
        ("empty", b""),
        ("with space", b"1"),
        ("%41", b"2"),
        ("a+b&c=d?e#f", b"3"),
        ("umlaut-\u{fc}/\u{1f41f}", b"4"),
        ("-rf", b"5"),
        (&long, b"6"),
    ] {
        let content = Bytes::copy_from_slice(content);
        assert_eq!(
            lake.put_new(&key(name), content.clone()).await.unwrap(),
            PutNew::Created,
            "{name}"
        );
        assert_eq!(
            lake.get(&key(name), MIB).await.unwrap().bytes,
            content,
            "{name}"
        );
        assert_eq!(
            lake.head(&key(name)).await.unwrap().bytes,
            content.len() as u64,
            "{name}"
        );
    }
    let names: BTreeSet<String> = lake
        .list_all(None)
        .await
        .unwrap()
        .iter()
        .map(|e| e.key.to_string())
        .collect();
    assert_eq!(names.len(), 9);
    assert!(
        names.contains("%41") && names.contains("umlaut-\u{fc}/\u{1f41f}"),
        "{names:?}"
    );
    assert_eq!(
        lake.get(&key("absent"), MIB).await.unwrap_err().kind,
        ErrorKind::Absent
    );
    assert_eq!(
        lake.head(&key("absent")).await.unwrap_err().kind,
        ErrorKind::Absent
    );
}

async fn a_second_put_leaves_the_first_alone(lake: &Lake) {
    let key = key("a/once");
    assert_eq!(
        lake.put_new(&key, b"first".to_vec()).await.unwrap(),
        PutNew::Created
    );
    assert_eq!(
        lake.put_new(&key, b"first".to_vec()).await.unwrap(),
        PutNew::Same
    );
    assert_eq!(
        lake.put_new(&key, b"second".to_vec()).await.unwrap(),
        PutNew::Different
    );
    assert_eq!(&lake.get(&key, MIB).await.unwrap().bytes[..], b"first");
}

async fn one_of_eight_creates_wins(lake: &Lake) {
    for round in 0..10 {
        let key = key(format!("race/{round}"));
        let outcomes = join_all((0..8).map(|racer| {
            let (lake, key) = (lake.clone(), key.clone());
            tokio::spawn(async move {
                lake.put_new(&key, format!("racer {racer}").into_bytes())
                    .await
                    .unwrap()
            })
        }))
        .await;
        let outcomes: Vec<PutNew> = outcomes.into_iter().map(Result::unwrap).collect();
        let winners: Vec<usize> = (0..8)
            .filter(|racer| outcomes[*racer] == PutNew::Created)
            .collect();
        assert_eq!(winners.len(), 1, "{outcomes:?}");
        assert_eq!(
            outcomes
                .iter()
                .filter(|outcome| **outcome == PutNew::Different)
                .count(),
            7
        );
        let there = lake.get(&key, MIB).await.unwrap().bytes;
        assert_eq!(there, format!("racer {}", winners[0]));
    }
}

async fn equal_creates_agree(lake: &Lake) {
    let key = key("agree");
    let outcomes = join_all((0..8).map(|_| lake.put_new(&key, b"same".to_vec()))).await;
    let outcomes: Vec<PutNew> = outcomes.into_iter().map(Result::unwrap).collect();
    assert_eq!(
        outcomes
            .iter()
            .filter(|outcome| **outcome == PutNew::Created)
            .count(),
        1,
        "{outcomes:?}"
    );
    assert_eq!(
        outcomes
            .iter()
            .filter(|outcome| **outcome == PutNew::Same)
            .count(),
        7,
        "{outcomes:?}"
    );
}

async fn a_replace_needs_the_version_that_is_there(lake: &Lake) {
    let key = key("swap");
    lake.put_new(&key, b"one".to_vec()).await.unwrap();
    let first = lake.get(&key, MIB).await.unwrap().version;
    let Swap::Swapped(second) = lake
        .put_if_version(&key, &first, "two".into())
        .await
        .unwrap()
    else {
        panic!("the right version was refused");
    };
    assert_eq!(
        lake.put_if_version(&key, &first, "three".into())
            .await
            .unwrap(),
        Swap::Conflict
    );
    assert_eq!(&lake.get(&key, MIB).await.unwrap().bytes[..], b"two");
    assert_eq!(
        lake.get(&key, MIB).await.unwrap().version.to_string(),
        second.to_string()
    );
    assert!(matches!(
        lake.put_if_version(&key, &second, "three".into())
            .await
            .unwrap(),
        Swap::Swapped(_)
    ));
    lake.delete(&key).await.unwrap();
    assert_eq!(
        lake.put_if_version(&key, &second, "four".into())
            .await
            .unwrap(),
        Swap::Conflict
    );
    assert_eq!(
        lake.get(&key, MIB).await.unwrap_err().kind,
        ErrorKind::Absent
    );
}

/// Adds one to the number at `key`, as often as it takes.
pub(crate) async fn increment(lake: &Lake, key: &Key) {
    loop {
        let object = lake.get(key, MIB).await.unwrap();
        let number: u64 = std::str::from_utf8(&object.bytes).unwrap().parse().unwrap();
        let next = Bytes::from((number + 1).to_string());
        if let Swap::Swapped(_) = lake
            .put_if_version(key, &object.version, next)
            .await
            .unwrap()
        {
            return;
        }
    }
}

async fn racing_replaces_lose_no_update(lake: &Lake) {
    let key = key("counter");
    lake.put_new(&key, b"0".to_vec()).await.unwrap();
    let racers = (0..8).map(|_| {
        let (lake, key) = (lake.clone(), key.clone());
        tokio::spawn(async move {
            for _ in 0..5 {
                increment(&lake, &key).await;
            }
        })
    });
    for racer in join_all(racers).await {
        racer.unwrap();
    }
    assert_eq!(&lake.get(&key, MIB).await.unwrap().bytes[..], b"40");
}

async fn ranges_are_exact_or_refused(lake: &Lake) {
    let key = key("ranges");
    let content: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    lake.put_new(&key, content.clone()).await.unwrap();
    for range in [0..1, 0..400_000, 399_999..400_000, 12_345..67_890] {
        let at = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        assert_eq!(lake.get_range(&key, range).await.unwrap(), &content[at]);
    }
    for range in [0..400_001, 400_000..400_001, 900_000..900_010, 5..5] {
        assert_eq!(
            lake.get_range(&key, range.clone()).await.unwrap_err().kind,
            ErrorKind::Invalid,
            "{range:?}"
        );
    }
    lake.put_new(&self::key("small"), b"0123456789".to_vec())
        .await
        .unwrap();
    assert_eq!(
        &lake.get_range(&self::key("small"), 2..5).await.unwrap()[..],
        b"234"
    );
    assert_eq!(
        lake.get_range(&self::key("small"), 2..11)
            .await
            .unwrap_err()
            .kind,
        ErrorKind::Invalid
    );
    assert_eq!(
        lake.get_range(&self::key("absent"), 0..1)
            .await
            .unwrap_err()
            .kind,
        ErrorKind::Absent
    );
}

async fn a_whole_read_is_capped(lake: &Lake) {
    lake.put_new(&key("capped"), vec![7; 5_000]).await.unwrap();
    assert_eq!(
        lake.get(&key("capped"), 5_000).await.unwrap().bytes.len(),
        5_000
    );
    let error = lake.get(&key("capped"), 4_999).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(
        error.detail.contains("5000 bytes, more than the 4999"),
        "{error}"
    );
}

async fn a_listing_is_complete_and_in_order(lake: &Lake) {
    const COUNT: usize = 1_500;
    let mut expected: Vec<String> = (0..COUNT)
        .map(|n| format!("many/{:02}/{n:04}", n % 7))
        .collect();
    let puts = expected.clone();
    for batch in puts.chunks(50) {
        let puts = batch
            .iter()
            .map(|name| async move { lake.put_new(&key(name), b"x".to_vec()).await });
        for put in join_all(puts).await {
            put.unwrap();
        }
    }
    lake.put_new(&key("many.txt"), b"beside".to_vec())
        .await
        .unwrap();
    lake.put_new(&key("manyfold/x"), b"beside".to_vec())
        .await
        .unwrap();
    expected.sort();
    let found = lake.list_all(Some(&key("many"))).await.unwrap();
    let names: Vec<String> = found.iter().map(|entry| entry.key.to_string()).collect();
    assert_eq!(names, expected);
    assert!(found.iter().all(|entry| entry.stored_bytes == 1));
    assert_eq!(lake.list_all(None).await.unwrap().len(), COUNT + 2);
    assert_eq!(lake.list_all(Some(&key("nothing/here"))).await.unwrap(), []);
    lake.delete_many(found.into_iter().map(|entry| entry.key))
        .await
        .unwrap();
    assert_eq!(lake.list_all(Some(&key("many"))).await.unwrap(), []);
    assert_eq!(lake.list_all(None).await.unwrap().len(), 2);
}

async fn a_delete_may_be_repeated(lake: &Lake) {
    lake.put_new(&key("gone"), b"x".to_vec()).await.unwrap();
    lake.delete(&key("gone")).await.unwrap();
    lake.delete(&key("gone")).await.unwrap();
    assert_eq!(
        lake.get(&key("gone"), MIB).await.unwrap_err().kind,
        ErrorKind::Absent
    );
    assert_eq!(
        lake.put_new(&key("gone"), b"back".to_vec()).await.unwrap(),
        PutNew::Created
    );
}

async fn prefixes_do_not_see_each_other(engine: &Engine) {
    let id = Rng::from_os().id();
    let (one, two) = (
        engine.lake(&format!("p-{id}/a")),
        engine.lake(&format!("p-{id}/ab")),
    );
    one.put_new(&key("k"), b"one".to_vec()).await.unwrap();
    assert_eq!(
        two.put_new(&key("k"), b"two".to_vec()).await.unwrap(),
        PutNew::Created
    );
    let listed = one.list_all(None).await.unwrap();
    assert_eq!(
        listed
            .iter()
            .map(|entry| entry.key.as_str())
            .collect::<Vec<_>>(),
        ["k"]
    );
}

async fn the_probe_finds_it_sound(lake: &Lake) {
    let report = probe::probe(lake).await.unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(report.weaknesses(), Vec::<String>::new());
    assert_eq!(
        lake.list_all(None).await.unwrap(),
        [],
        "the probe leaves something behind"
    );
}

async fn a_large_object_is_like_any_other(lake: &Lake) {
    const BYTES: u64 = 300_000_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.bin");
    write_pattern(&path, BYTES);
    let key = key("large/object.tar.gz");
    assert_eq!(
        lake.put_new(&key, Body::File(path.clone())).await.unwrap(),
        PutNew::Created
    );
    assert_eq!(lake.head(&key).await.unwrap().bytes, BYTES);
    for start in [0, 8, 16 * MIB - 4, 64 * MIB, BYTES - 1_000] {
        let read = lake.get_range(&key, start..start + 1_000).await.unwrap();
        assert_eq!(read, pattern(start, 1_000), "at {start}");
    }
    assert_eq!(
        lake.get_range(&key, BYTES - 1..BYTES + 1)
            .await
            .unwrap_err()
            .kind,
        ErrorKind::Invalid
    );
    assert_eq!(
        lake.get(&key, MIB).await.unwrap_err().kind,
        ErrorKind::Invalid
    );
    assert_eq!(
        lake.get(&key, BYTES).await.unwrap().bytes.len() as u64,
        BYTES
    );
    assert_eq!(streamed(lake, &key).await, BYTES);
    let data = lake
        .list_all(None)
        .await
        .unwrap()
        .into_iter()
        .find(|entry| entry.key.is_large_data())
        .unwrap()
        .key;
    assert_eq!(
        streamed(lake, &data).await,
        BYTES,
        "an object without a commit is streamed too"
    );
    assert_eq!(
        lake.put_new(&key, Body::File(path)).await.unwrap(),
        PutNew::Same
    );
    assert_eq!(
        lake.put_new(&key, b"small".to_vec()).await.unwrap(),
        PutNew::Different
    );
    let stored = lake.list_all(None).await.unwrap();
    assert_eq!(stored.len(), 2, "commit and data: {stored:?}");
    lake.delete(&key).await.unwrap();
    assert_eq!(lake.list_all(None).await.unwrap(), []);
}

async fn streamed(lake: &Lake, key: &Key) -> u64 {
    let mut pieces = lake.stream(key).await.unwrap();
    let mut bytes = 0;
    while let Some(piece) = pieces.try_next().await.unwrap() {
        assert_eq!(piece[..1], pattern(bytes, 1));
        bytes += piece.len() as u64;
    }
    bytes
}

async fn content_that_mimics_a_commit_is_just_content(lake: &Lake) {
    lake.put_new(&key("private"), b"secret".to_vec())
        .await
        .unwrap();
    let mimic = b"{\"cannery\":\"large-object\",\"version\":1,\"data\":\"private\",\"bytes\":6,\"sha256\":\"\"}";
    assert_eq!(
        lake.put_new(&key("mimic"), mimic.to_vec()).await.unwrap(),
        PutNew::Created
    );
    assert_eq!(
        &lake.get(&key("mimic"), MIB).await.unwrap().bytes[..],
        mimic
    );
    assert_eq!(
        lake.put_new(&key("mimic"), mimic.to_vec()).await.unwrap(),
        PutNew::Same
    );
    assert_eq!(
        lake.head(&key("mimic")).await.unwrap().bytes,
        mimic.len() as u64
    );
}

/// Content whose every byte is known from its place.
fn pattern(start: u64, length: u64) -> Vec<u8> {
    let word_at = |at: u64| (at / 8).to_le_bytes()[usize::try_from(at % 8).unwrap()];
    (start..start + length).map(word_at).collect()
}

fn write_pattern(path: &std::path::Path, bytes: u64) {
    use std::io::Write as _;
    #[allow(
        clippy::disallowed_methods,
        reason = "the input of a test need not be durable"
    )]
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    for word in 0..bytes / 8 {
        file.write_all(&word.to_le_bytes()).unwrap();
    }
    file.flush().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_conforms() {
    conforms(&Engine::memory()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_directory_conforms() {
    let dir = tempfile::tempdir().unwrap();
    conforms(&Engine::disk(&dir.path().join("lake"))).await;
}
