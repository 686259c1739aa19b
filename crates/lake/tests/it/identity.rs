//! Whose lake it is.

use cannery_formats::{Key, LakeManifest};
use cannery_lake::fault::{Fault, Faults, Request};
use cannery_lake::{ErrorKind, Lake, Mirrors, Remembered};

use crate::engines::Engine;

const ME: &str = "cannery 0.1.0";

fn mirrors(lakes: &[&Lake]) -> Mirrors {
    Mirrors::new(lakes.iter().map(|lake| (*lake).clone()).collect()).unwrap()
}

/// What a workspace knows of a lake that some stores had.
fn known(lake: &str, stores: &[&str]) -> Remembered {
    Remembered {
        lake: lake.to_owned(),
        stores: stores.iter().map(|id| (*id).to_owned()).collect(),
    }
}

#[tokio::test]
async fn a_new_lake_gets_one_id_in_all_mirrors_and_keeps_it() {
    let (one, two) = (Engine::memory().lake("a"), Engine::memory().lake("b"));
    let first = mirrors(&[&one, &two]).establish(None, ME).await.unwrap();
    assert!(first.created);
    assert_eq!(one.manifest().await.unwrap(), two.manifest().await.unwrap());
    let again = mirrors(&[&one, &two])
        .establish(Some(&known(&first.lake, &["main"])), ME)
        .await
        .unwrap();
    assert_eq!(
        (again.lake.as_str(), again.created),
        (first.lake.as_str(), false)
    );
}

#[tokio::test]
async fn a_new_mirror_joins_the_lake_that_is_there() {
    let (old, new) = (Engine::memory().lake(""), Engine::memory().lake(""));
    let made = mirrors(&[&old]).establish(None, ME).await.unwrap();
    let joined = mirrors(&[&new, &old])
        .establish(Some(&known(&made.lake, &[])), ME)
        .await
        .unwrap();
    assert_eq!(joined.lake, made.lake);
    assert_joined(&new, &old).await;
}

/// One mirror is part of the lake of another, and says since when.
async fn assert_joined(new: &Lake, old: &Lake) {
    let [new, old] = [new, old].map(Lake::manifest);
    let (new, old) = (new.await.unwrap().unwrap(), old.await.unwrap().unwrap());
    assert!(new.since() > old.since());
    let joined = old.joined;
    assert_eq!(LakeManifest { joined, ..new }, old);
}

#[tokio::test]
async fn many_that_start_at_once_make_one_lake() {
    let engine = Engine::memory();
    let starts = (0..8).map(|_| {
        let mirrors = mirrors(&[&engine.lake("")]);
        tokio::spawn(async move { mirrors.establish(None, ME).await.unwrap().lake })
    });
    let mut ids = Vec::new();
    for start in starts {
        ids.push(start.await.unwrap());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_that_start_at_once_on_two_mirrors_make_one_lake() {
    for _ in 0..50 {
        let (one, two) = (Engine::memory(), Engine::memory());
        let starts: Vec<_> = (0..4)
            .map(|_| {
                let mirrors = mirrors(&[&one.lake(""), &two.lake("")]);
                tokio::spawn(async move { mirrors.establish(None, ME).await.unwrap().lake })
            })
            .collect();
        let mut ids = std::collections::BTreeSet::new();
        for start in starts {
            ids.insert(start.await.unwrap());
        }
        assert_eq!(ids.len(), 1);
        assert_eq!(
            one.lake("").manifest().await.unwrap(),
            two.lake("").manifest().await.unwrap()
        );
    }
}

#[tokio::test]
async fn another_lake_is_refused_with_the_reason() {
    let (one, two) = (Engine::memory().lake(""), Engine::memory().lake(""));
    let made = mirrors(&[&one]).establish(None, ME).await.unwrap();
    mirrors(&[&two]).establish(None, ME).await.unwrap();
    for (mirrors, expected, reason) in [
        (
            mirrors(&[&one, &two]),
            None,
            "but its mirror `main` is lake",
        ),
        (
            mirrors(&[&two]),
            Some(known(&made.lake, &[])),
            "but this workspace belongs to lake",
        ),
        (
            mirrors(&[&Engine::memory().lake("")]),
            Some(known(&made.lake, &[])),
            "it is another place, or was emptied",
        ),
    ] {
        let error = mirrors.establish(expected.as_ref(), ME).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotOurs);
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[tokio::test]
async fn a_mirror_that_had_the_lake_is_made_anew_only_when_a_person_says_so() {
    let (one, two) = (Engine::memory().lake(""), Engine::memory().lake(""));
    let made = mirrors(&[&one]).establish(None, ME).await.unwrap();
    let both = mirrors(&[&one, &two]);
    let had = known(&made.lake, &["main"]);
    for refused in [
        both.establish(Some(&had), ME).await.map(drop),
        both.establish_one(&two, &had).await.map(drop),
        both.verify(Some(&had)).await,
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotOurs);
        assert!(error.to_string().contains("or was emptied"), "{error}");
        assert!(
            error.to_string().contains("`cannery lake join main`"),
            "{error}"
        );
    }
    assert_eq!(two.manifest().await.unwrap(), None, "nothing was made");
    assert!(both.join(&two, &had, ME).await.unwrap());
    assert_joined(&two, &one).await;
    assert!(!both.join(&two, &had, ME).await.unwrap(), "it is there");
    both.establish(Some(&had), ME).await.unwrap();

    // All of it was emptied: it is the same lake, with nothing in it.
    let empty = Engine::memory().lake("");
    assert!(mirrors(&[&empty]).join(&empty, &had, ME).await.unwrap());
    let manifest = empty.manifest().await.unwrap().unwrap();
    assert_eq!(manifest.lake, made.lake);
    let other = known("another", &[]);
    let error = both.join(&two, &other, ME).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotOurs);
}

#[tokio::test]
async fn a_mirror_that_is_there_does_not_need_the_others() {
    let faults = Faults::none();
    faults.next(Request::Get, Fault::ErrorBefore, 10_000);
    let dead = Engine::memory().with_faults(&faults).impatient_lake("");
    let one = Engine::memory().lake("");
    let made = mirrors(&[&one]).establish(None, ME).await.unwrap();
    let both = mirrors(&[&dead, &one]);
    let had = known(&made.lake, &["main"]);
    assert!(!both.establish_one(&one, &had).await.unwrap());
    let error = both.establish_one(&dead, &had).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    // A new one waits for somebody who has the lake.
    let new = Engine::memory().lake("");
    let error = mirrors(&[&dead, &new])
        .establish_one(&new, &known(&made.lake, &[]))
        .await;
    assert_eq!(error.unwrap_err().kind, ErrorKind::Unavailable);
    assert_eq!(new.manifest().await.unwrap(), None);
}

#[tokio::test]
async fn a_newer_or_foreign_lake_is_refused_and_left_alone() {
    for (content, reason) in [
        (
            &include_bytes!("../../../formats/fixtures/lake_manifest/newer-format.json")[..],
            "format 2 is newer",
        ),
        (b"hello", "was not written by cannery"),
    ] {
        let lake = Engine::memory().lake("");
        lake.put_new(&Key::lake_manifest(), content.to_vec())
            .await
            .unwrap();
        let error = mirrors(&[&lake]).establish(None, ME).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotOurs);
        assert!(error.to_string().contains(reason), "{error}");
        assert_eq!(
            &lake.get(&Key::lake_manifest(), 1_000).await.unwrap().bytes[..],
            content
        );
    }
}

#[tokio::test]
async fn a_put_counts_only_when_every_mirror_has_it() {
    let (one, two) = (Engine::memory().lake(""), Engine::memory().lake(""));
    let key = Key::new("k").unwrap();
    two.put_new(&key, b"other".to_vec()).await.unwrap();
    let put = mirrors(&[&one, &two]).put_new(&key, b"mine".to_vec()).await;
    assert!(!put.is_everywhere());
    two.delete(&key).await.unwrap();
    assert!(
        mirrors(&[&one, &two])
            .put_new(&key, b"mine".to_vec())
            .await
            .is_everywhere()
    );
}
