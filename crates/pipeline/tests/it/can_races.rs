//! Several who can and seal the same bucket at the same time: every report is in one can that counts.

use cannery_formats::{BucketDate, Key};
use cannery_runtime::Rng;

use crate::can_kit::{Texts, Works, bucket, by_kind, expected, key_of, open_all, some_reports};

/// Some of the names, by chance.
fn some<'t>(texts: &'t Texts, rng: &Rng, chance: f64) -> Vec<&'t String> {
    texts.keys().filter(|_| rng.chance(chance)).collect()
}

#[tokio::test]
async fn canners_of_one_bucket_take_every_report_once() {
    let texts = some_reports(11);
    let expected = expected(&texts).await;
    let mut lost = 0;
    for seed in 0..8 {
        let rng = Rng::seeded(seed);
        let works = Works::in_memory();
        works.fill(&texts).await;
        let [a, b] = [(); 2].map(|()| some(&texts, &rng, 0.7));
        let (one, other) = (works.canner(), works.canner());
        tokio::join!(open_all(&one, &a), open_all(&other, &b));
        let mut union: Vec<&String> = a.into_iter().chain(b).collect();
        union.sort();
        union.dedup();
        let found = works.texts().await;
        assert!(found.keys().eq(union.iter().copied()), "seed {seed}");
        let canners = [works.canner(), works.canner(), works.canner()];
        for (kind, keys) in by_kind(texts.keys()) {
            let [a, b, c] = canners
                .each_ref()
                .map(|canner| canner.open(bucket(), &kind, &keys));
            let (a, b, c) = tokio::join!(a, b, c);
            lost += [a, b, c]
                .map(|report| report.unwrap().lost)
                .iter()
                .sum::<u32>();
        }
        assert!(works.texts().await == texts, "seed {seed}");
        works.sealer().seal(bucket()).await.unwrap();
        assert!(works.sealed().await == expected, "seed {seed}");
    }
    // With the same inputs both make the same can, so that nobody loses; with others somebody must.
    let works = Works::in_memory();
    works.fill(&texts).await;
    let (kind, keys) = by_kind(texts.keys()).pop_last().unwrap();
    let (one, other) = (works.canner(), works.canner());
    let (a, b) = tokio::join!(
        one.open(bucket(), &kind, &keys),
        other.open(bucket(), &kind, &keys[1..])
    );
    lost += a.unwrap().lost + b.unwrap().lost;
    assert!(lost > 0, "nobody ever came second");
}

#[tokio::test]
async fn whoever_seals_makes_the_same() {
    let texts = some_reports(12);
    let expected = expected(&texts).await;
    for seed in 0..4 {
        let works = Works::in_memory();
        works.fill(&texts).await;
        let half = some(&texts, &Rng::seeded(seed), 0.5);
        open_all(&works.canner(), &half).await;
        let (one, other) = (works.canner(), works.canner());
        let (a, b) = tokio::join!(one.bucket(bucket()), other.bucket(bucket()));
        assert_eq!(a.unwrap().reports, b.unwrap().reports);
        assert!(works.sealed().await == expected, "seed {seed}");
    }
}

#[tokio::test]
async fn what_comes_while_a_bucket_is_sealed_is_in_it_or_found_again() {
    let texts = some_reports(13);
    let today: BucketDate = "2017-01-02".parse().unwrap();
    for seed in 0..8 {
        let works = Works::in_memory();
        works.fill(&texts).await;
        let rng = Rng::seeded(seed);
        open_all(&works.canner(), &some(&texts, &rng, 0.6)).await;
        let (sealer, canner) = (works.sealer(), works.canner());
        let late = async {
            for (kind, keys) in by_kind(texts.keys()) {
                canner.open(bucket(), &kind, &keys).await.unwrap();
            }
        };
        let (sealed, ()) = tokio::join!(sealer.seal(bucket()), late);
        sealed.unwrap();
        let sealed = works.texts().await;
        let looked = works.look().await;
        let missing: Vec<_> = texts
            .keys()
            .filter(|name| !sealed.contains_key(*name))
            .collect();
        let mut found: Vec<_> = looked.to_can.values().flat_map(|it| &it.inputs).collect();
        found.sort();
        let keys: Vec<_> = missing.iter().map(|name| key_of(name)).collect();
        assert!(found.into_iter().eq(keys.iter()), "seed {seed}");
        for (key, to_can) in looked.to_can {
            assert_eq!(key.bucket, today, "the bucket of its folder is settled");
            let keys: Vec<_> = to_can.inputs.into_iter().collect();
            let kind = key.kind.unwrap();
            works.canner().open(today, &kind, &keys).await.unwrap();
        }
        let mut all = works.texts_of(today).await;
        assert!(
            all.keys().all(|name| !sealed.contains_key(name)),
            "seed {seed}"
        );
        all.extend(sealed);
        assert!(all == texts, "seed {seed}");
    }
}

#[tokio::test]
async fn a_report_in_two_buckets_is_sealed_in_one() {
    let texts = some_reports(14);
    let works = Works::in_memory();
    works.fill(&texts).await;
    let (kind, keys) = by_kind(texts.keys()).pop_last().unwrap();
    works.canner().open(bucket(), &kind, &keys).await.unwrap();
    // At midnight, neither sees what the other is about to do.
    let tomorrow: BucketDate = "2017-01-02".parse().unwrap();
    let other = Works::in_memory();
    other.fill(&texts).await;
    other.canner().open(tomorrow, &kind, &keys).await.unwrap();
    for (key, bytes) in other.objects_of(tomorrow).await {
        works.put(&Key::new(key).unwrap(), &bytes).await;
    }
    assert_eq!(works.texts_of(tomorrow).await.len(), keys.len());
    works.sealer().seal(bucket()).await.unwrap();
    works.sealer().seal(tomorrow).await.unwrap();
    assert_eq!(works.texts().await.len(), keys.len());
    assert!(works.texts_of(tomorrow).await.is_empty());
}

#[tokio::test]
async fn a_closed_bucket_takes_nothing() {
    let texts = some_reports(15);
    let works = Works::in_memory();
    works.fill(&texts).await;
    works.sealer().seal(bucket()).await.unwrap();
    let objects = works.objects().await;
    let (kind, keys) = by_kind(texts.keys()).pop_first().unwrap();
    let report = works.canner().open(bucket(), &kind, &keys).await.unwrap();
    assert!(report.is_closed && report.cans == 0);
    assert!(works.objects().await == objects);
}
