//! What an audit finds, and what mending does about it.

use cannery_formats::Key;
use cannery_formats::feed::Codec;
use cannery_formats::hour_archive::Limits;
use cannery_pipeline::audit::{Auditor, Finding, Mended, Progress};
use cannery_pipeline::{Scope, Store, delete, scan};
use jiff::Timestamp;

use crate::kit::{Bucket, WAYS, Way, feed, hour, in_hour, primary, secondary, set, upload};

struct Mirrors {
    one: Bucket,
    two: Bucket,
}

impl Mirrors {
    fn new(one: Way, two: Way) -> Self {
        Self {
            one: Bucket::named("one", one),
            two: Bucket::named("two", two),
        }
    }

    fn stores(&self) -> [Store; 2] {
        [self.one.honest.clone(), self.two.honest.clone()]
    }

    fn auditor(&self) -> Auditor {
        Auditor::new(self.one.consolidator())
    }

    async fn audit(&self) -> Vec<Finding> {
        let (mut heard, mut last) = (Vec::new(), None);
        let mut seen = |progress, findings: &[Finding]| {
            heard.extend_from_slice(findings);
            if let Progress::Hours { .. } = progress {
                last = Some(progress);
            }
        };
        let stores = self.stores();
        let scope = Scope::default();
        let auditor = self.auditor();
        let findings = auditor.audit(&stores, &scope, &mut seen).await.unwrap();
        assert_eq!(findings, heard);
        let is_done = |progress| matches!(progress, Progress::Hours { done, of } if done == of);
        assert!(last.is_none_or(is_done));
        findings
    }

    async fn fix(&self, findings: &[Finding]) -> Vec<Mended> {
        let stores = self.stores();
        let auditor = self.auditor();
        let now = Timestamp::UNIX_EPOCH;
        auditor.fix(&stores, findings, now, &mut |_| {}).await
    }
}

fn missing(store: &str, entries: usize) -> Finding {
    Finding::Missing {
        store: store.to_owned(),
        feed: feed(),
        hour: hour(),
        entries,
    }
}

fn unmerged(store: &str, archives: usize) -> Finding {
    Finding::Unmerged {
        store: store.to_owned(),
        feed: feed(),
        hour: hour(),
        archives,
    }
}

#[tokio::test]
async fn a_sound_lake_has_no_findings_whatever_the_algorithms() {
    for one in WAYS {
        for two in WAYS {
            let mirrors = Mirrors::new(one, two);
            for bucket in [&mirrors.one, &mirrors.two] {
                for words in ["a b", "c"] {
                    bucket.upload(&upload(words, Codec::Zstd)).await;
                }
                bucket.consolidate().await;
            }
            assert_eq!(mirrors.audit().await, [], "{one:?} {two:?}");
        }
    }
}

#[tokio::test]
async fn a_mirror_that_lacks_something_is_healed_from_the_other() {
    for one in WAYS {
        for two in WAYS {
            let context = format!("{one:?} {two:?}");
            let mirrors = Mirrors::new(one, two);
            for words in ["a b", "c"] {
                mirrors.one.upload(&upload(words, Codec::Gzip)).await;
            }
            mirrors.one.consolidate().await;
            mirrors.two.upload(&upload("a d", Codec::Gzip)).await;
            mirrors.two.consolidate().await;
            let findings = mirrors.audit().await;
            assert_eq!(
                findings,
                [missing("one", 1), missing("two", 2)],
                "{context}"
            );
            let mended = mirrors.fix(&findings).await;
            assert_eq!(mended.len(), 4, "{context}: {mended:?}");
            for bucket in [&mirrors.one, &mirrors.two] {
                bucket.assert_one(&set("a b c d"), &context).await;
            }
            assert_eq!(mirrors.audit().await, [], "{context}");
        }
    }
}

#[tokio::test]
async fn a_mirror_without_the_hour_gets_an_archive_named_for_its_content() {
    let mirrors = Mirrors::new(Way::Swapped, Way::Hashed);
    mirrors.one.upload(&upload("a b", Codec::Zstd)).await;
    mirrors.one.consolidate().await;
    let findings = mirrors.audit().await;
    assert_eq!(findings, [missing("two", 2)]);
    let mended = mirrors.fix(&findings).await;
    let key = secondary(&set("a b"), Codec::Gzip);
    let healed = Mended::Healed {
        store: "two".to_owned(),
        key: key.clone(),
        entries: 2,
    };
    assert_eq!(mended[0], healed);
    assert_eq!(mirrors.two.look().await.keys(), [&key]);
}

#[tokio::test]
async fn an_hour_that_was_deleted_in_one_mirror_is_missing_in_none() {
    let mirrors = Mirrors::new(Way::Hashed, Way::Hashed);
    for bucket in [&mirrors.one, &mirrors.two] {
        bucket.upload(&upload("a", Codec::Gzip)).await;
    }
    let lake = &mirrors.two.honest.lake;
    let plan = delete::plan(lake, &Scope::default()).await.unwrap();
    delete::run(lake, &plan, "test", Timestamp::UNIX_EPOCH, &mut |_| {})
        .await
        .unwrap();
    assert_eq!(mirrors.audit().await, []);
    // Also when the finding is older than the delete.
    assert_eq!(mirrors.fix(&[missing("two", 1)]).await, []);
    assert!(mirrors.two.look().await.keys().is_empty());
}

#[tokio::test]
async fn unmerged_hours_are_found_and_merged() {
    let mirrors = Mirrors::new(Way::Hashed, Way::Swapped);
    for bucket in [&mirrors.one, &mirrors.two] {
        for words in ["a", "b"] {
            bucket.upload(&upload(words, Codec::Gzip)).await;
        }
    }
    let findings = mirrors.audit().await;
    assert_eq!(findings, [unmerged("one", 2), unmerged("two", 2)]);
    assert!(findings.iter().all(Finding::is_mendable));
    mirrors.fix(&findings).await;
    assert_eq!(mirrors.audit().await, []);
}

fn damaged(findings: &[Finding]) -> Vec<&Key> {
    let damaged = findings.iter().filter_map(|finding| match finding {
        Finding::Damaged { key, .. } => Some(key),
        _ => None,
    });
    damaged.collect()
}

#[tokio::test]
async fn damage_is_named_and_set_aside_but_never_removed() {
    let mirrors = Mirrors::new(Way::Hashed, Way::Hashed);
    let key = secondary(&set("a"), Codec::Gzip);
    mirrors.one.put(&key, b"not an archive").await;
    mirrors.two.upload(&upload("a", Codec::Gzip)).await;
    let foreign = in_hour("f_20261115T18Z_abcdefghij23.tar.gz");
    mirrors.two.put(&foreign, b"\x1f\x8b").await;
    let findings = mirrors.audit().await;
    assert_eq!(damaged(&findings), [&key, &foreign]);
    assert!(findings.contains(&missing("one", 1)), "{findings:?}");
    let json = serde_json::to_value(&findings[0]).unwrap();
    assert_eq!(json["finding"], "damaged");
    let text = findings[0].to_string();
    assert!(text.contains("cannot be used: damaged:"), "{text}");
    assert!(
        text.contains("`cannery audit --fix` sets it aside"),
        "{text}"
    );
    mirrors.fix(&findings).await;
    // The name was taken by the damage: what was missing lies beside it.
    let look = mirrors.one.look().await;
    assert_eq!(look.keys(), [&secondary(&set("a"), Codec::Zstd)]);
    assert!(look.other.contains(&key), "{:?}", look.other);
    assert!(mirrors.two.look().await.other.contains(&foreign));
    assert_eq!(mirrors.audit().await, [], "there is nothing left to do");
}

#[tokio::test]
async fn what_was_set_aside_needs_no_work_whatever_the_algorithm() {
    for way in WAYS {
        let mirrors = Mirrors::new(way, Way::Hashed);
        for bucket in [&mirrors.one, &mirrors.two] {
            bucket.upload(&upload("a", Codec::Gzip)).await;
        }
        let broken = secondary(&set("b"), Codec::Gzip);
        mirrors.one.put(&broken, b"not an archive").await;
        mirrors.one.put(&primary(), b"not one, either").await;
        let findings = mirrors.audit().await;
        mirrors.fix(&findings).await;
        assert_eq!(mirrors.audit().await, [], "{way:?}");
        let found = scan::whole_lake(&mirrors.one.honest, &mut |_| {}).await;
        assert_eq!(found.unwrap().unmerged, [], "{way:?}");
        let report = mirrors.one.consolidate().await;
        assert!(!report.is_change(), "{way:?}: {report}");
        // What comes later is still merged.
        mirrors.one.upload(&upload("c", Codec::Gzip)).await;
        mirrors.one.consolidate().await;
        let look = mirrors.one.look().await;
        let sets: Vec<_> = look.archives.iter().map(|(_, set)| set.clone()).collect();
        assert_eq!(sets, [set("a c")], "{way:?}");
    }
}

#[tokio::test]
async fn a_sound_copy_in_its_place_is_counted_on_again() {
    let mirrors = Mirrors::new(Way::Hashed, Way::Hashed);
    for bucket in [&mirrors.one, &mirrors.two] {
        bucket.upload(&upload("a", Codec::Gzip)).await;
    }
    let sound = upload("b", Codec::Gzip);
    mirrors.one.put(&sound.key, b"not an archive").await;
    mirrors.fix(&mirrors.audit().await).await;
    assert_eq!(mirrors.audit().await, []);
    mirrors.one.honest.lake.delete(&sound.key).await.unwrap();
    mirrors.one.put(&sound.key, &sound.bytes).await;
    let findings = mirrors.audit().await;
    let key = sound.key.clone();
    let restored = Finding::Restored {
        store: "one".to_owned(),
        key,
    };
    assert_eq!(findings, [restored]);
    let mended = mirrors.fix(&findings).await;
    assert!(
        matches!(&mended[..], [Mended::TakenBack { .. }]),
        "{mended:?}"
    );
    let findings = mirrors.audit().await;
    assert_eq!(findings, [unmerged("one", 2), missing("two", 1)]);
    mirrors.fix(&findings).await;
    assert_eq!(mirrors.audit().await, []);
}

#[tokio::test]
async fn what_is_in_an_archive_with_a_wrong_name_is_rescued() {
    let mirrors = Mirrors::new(Way::Hashed, Way::Hashed);
    let wrong = secondary(&set("x"), Codec::Gzip);
    for bucket in [&mirrors.one, &mirrors.two] {
        bucket.upload(&upload("a", Codec::Gzip)).await;
        bucket.put(&wrong, &upload("b", Codec::Gzip).bytes).await;
    }
    let findings = mirrors.audit().await;
    assert_eq!(damaged(&findings), [&wrong, &wrong]);
    let mended = mirrors.fix(&findings).await;
    let rescued = secondary(&set("b"), Codec::Gzip);
    let is_it = |mended: &Mended| matches!(mended, Mended::SetAside { rescued: Some(key), .. } if *key == rescued);
    assert_eq!(
        mended.iter().filter(|mended| is_it(mended)).count(),
        2,
        "{mended:?}"
    );
    mirrors.fix(&mirrors.audit().await).await;
    assert_eq!(mirrors.audit().await, []);
    let whole = secondary(&set("a b"), Codec::Gzip);
    assert!(mirrors.one.look().await.keys().contains(&&whole));
}

#[tokio::test]
async fn what_is_too_large_is_set_aside_and_taken_back_where_there_is_room() {
    let mirrors = Mirrors::new(Way::Hashed, Way::Hashed);
    for bucket in [&mirrors.one, &mirrors.two] {
        bucket.upload(&upload("a b", Codec::Gzip)).await;
        bucket.upload(&upload("c", Codec::Gzip)).await;
    }
    // Two bodies and a manifest are more than that.
    let limits = Limits {
        entries_max: 2,
        ..Limits::default()
    };
    let auditor = Auditor::new(mirrors.one.consolidator().limits(limits));
    let (stores, now) = (mirrors.stores(), Timestamp::UNIX_EPOCH);
    let audited = async || {
        let mut seen = |_: Progress, _: &[Finding]| {};
        let scope = Scope::default();
        let findings = auditor.audit(&stores, &scope, &mut seen);
        findings.await.unwrap()
    };
    let findings = audited().await;
    let is_large = |found: &&Finding| matches!(found, Finding::TooLarge { .. });
    let large: Vec<_> = findings.iter().filter(is_large).collect();
    assert_eq!(large.len(), 2, "{findings:?}");
    assert!(large.iter().all(|found| found.is_mendable()));
    auditor.fix(&stores, &findings, now, &mut |_| {}).await;
    assert_eq!(audited().await, [], "it is settled");
    let key = secondary(&set("a b"), Codec::Gzip);
    assert!(mirrors.one.look().await.keys().contains(&&key), "it stays");

    let findings = mirrors.audit().await;
    let is_restored = |found: &Finding| matches!(found, Finding::Restored { .. });
    assert!(
        findings.len() == 2 && findings.iter().all(is_restored),
        "{findings:?}"
    );
    mirrors.fix(&findings).await;
    mirrors.fix(&mirrors.audit().await).await;
    assert_eq!(mirrors.audit().await, []);
    assert_eq!(mirrors.one.look().await.whole(), set("a b c"));
}

#[tokio::test]
async fn a_delete_takes_what_was_set_aside_and_its_mark() {
    let mirrors = Mirrors::new(Way::Hashed, Way::Hashed);
    let broken = secondary(&set("b"), Codec::Gzip);
    mirrors.one.put(&broken, b"not an archive").await;
    mirrors.fix(&mirrors.audit().await).await;
    let lake = &mirrors.one.honest.lake;
    let plan = delete::plan(lake, &Scope::default()).await.unwrap();
    assert_eq!(plan.objects(), 1);
    delete::run(lake, &plan, "test", Timestamp::UNIX_EPOCH, &mut |_| {})
        .await
        .unwrap();
    let look = mirrors.one.look().await;
    assert!(look.tombstone);
    assert_eq!((look.keys().len(), look.other.len()), (0, 0));
}

#[tokio::test]
async fn nothing_is_put_where_a_mark_hides_it() {
    for (way, is_replaced) in WAYS.into_iter().flat_map(|way| [(way, true), (way, false)]) {
        let mirrors = Mirrors::new(way, Way::Hashed);
        let whole = upload("a b", Codec::Gzip);
        for key in [&whole.key, &primary()] {
            mirrors.one.put(key, b"not an archive").await;
        }
        mirrors.fix(&mirrors.audit().await).await;
        let lake = &mirrors.one.honest.lake;
        // Somebody has removed them or put sound copies there, and the marks are still there.
        for (key, bytes) in [(&whole.key, &whole.bytes), (&primary(), &whole.bytes)] {
            lake.delete(key).await.unwrap();
            if is_replaced {
                mirrors.one.put(key, bytes).await;
            }
        }
        for words in ["a", "b"] {
            mirrors.one.upload(&upload(words, Codec::Gzip)).await;
        }
        mirrors.one.consolidate().await;
        let folder = mirrors.one.folder().await;
        let keys: Vec<_> = folder
            .archives()
            .iter()
            .map(|entry| entry.key.clone())
            .collect();
        assert_eq!(keys, [secondary(&set("a b"), Codec::Zstd)], "{way:?}");
        mirrors.fix(&mirrors.audit().await).await;
        let folder = mirrors.one.folder().await;
        assert_eq!(folder.marks, [], "{way:?}, {is_replaced}");
    }
}
