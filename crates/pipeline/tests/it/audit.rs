//! What an audit finds, and what mending does about it.

use cannery_formats::Key;
use cannery_formats::feed::Codec;
use cannery_pipeline::audit::{Auditor, Finding, Mended};
use cannery_pipeline::{Scope, Store, delete};
use jiff::Timestamp;

use crate::kit::{Bucket, WAYS, Way, feed, hour, in_hour, secondary, set, upload};

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
            last = Some(progress);
        };
        let stores = self.stores();
        let scope = Scope::default();
        let auditor = self.auditor();
        let findings = auditor.audit(&stores, &scope, &mut seen).await.unwrap();
        assert_eq!(findings, heard);
        assert!(last.is_none_or(|progress| progress.done == progress.of));
        findings
    }

    async fn fix(&self, findings: &[Finding]) -> Vec<Mended> {
        let stores = self.stores();
        let auditor = self.auditor();
        auditor.fix(&stores, findings, &mut |_| {}).await
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

#[tokio::test]
async fn damage_is_named_and_never_touched() {
    let mirrors = Mirrors::new(Way::Hashed, Way::Hashed);
    let key = secondary(&set("a"), Codec::Gzip);
    mirrors.one.put(&key, b"not an archive").await;
    mirrors.two.upload(&upload("a", Codec::Gzip)).await;
    let foreign = in_hour("f_20261115T18Z_abcdefghij23.tar.gz");
    mirrors.two.put(&foreign, b"\x1f\x8b").await;
    let findings = mirrors.audit().await;
    let damaged: Vec<&Key> = findings
        .iter()
        .filter_map(|finding| match finding {
            Finding::Damaged { key, .. } => Some(key),
            _ => None,
        })
        .collect();
    assert_eq!(damaged, [&key, &foreign]);
    assert!(findings.contains(&missing("one", 1)), "{findings:?}");
    let json = serde_json::to_value(&findings[0]).unwrap();
    assert_eq!(json["finding"], "damaged");
    let text = findings[0].to_string();
    assert!(text.contains("cannot be used: damaged:"), "{text}");
    mirrors.fix(&findings).await;
    // The name was taken by the damage: what was missing lies beside it.
    let look = mirrors.one.look().await;
    assert_eq!(look.keys(), [&secondary(&set("a"), Codec::Zstd)]);
    assert_eq!(look.other, [key]);
}
