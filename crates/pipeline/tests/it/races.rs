//! Replicas that work on one hour at the same time, in many orders, dying and uploading again as they go. Between any two
//! requests everything that was ever uploaded must be there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cannery_formats::feed::{Codec, ContentSet};
use cannery_pipeline::Error;
use cannery_runtime::Rng;

use crate::kit::{Bucket, Upload, WAYS, Way, feed, hour, patient_lake, set, store, upload};
use crate::troubled::{Death, Troubled};

const REPLICAS: u64 = 3;

/// What a replica does: uploads what it has, consolidates, dies, comes back, uploads it once more.
struct Replica {
    bucket: Arc<Bucket>,
    way: Way,
    uploads: Vec<Upload>,
    rng: Rng,
    deadly: bool,
}

impl Replica {
    async fn live(self) {
        for round in 0..3 {
            for upload in &self.uploads {
                // The second time is the upload of somebody who did not hear of the first.
                if round == 0 || self.rng.chance(0.3) {
                    self.troubled(None, async |store| {
                        let body = upload.bytes.clone();
                        store.lake.put_new(&upload.key, body).await.unwrap();
                    })
                    .await;
                }
            }
            let death = (self.deadly && self.rng.chance(0.5)).then(|| Death {
                request: 1 + self.rng.below(30),
                after_effect: self.rng.chance(0.5),
            });
            self.troubled(death, async |store| {
                let consolidator = self.bucket.consolidator();
                match consolidator.consolidate(&store, &feed(), hour()).await {
                    Ok(_) | Err(Error::Restless { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            })
            .await;
        }
    }

    async fn troubled(
        &self,
        death: Option<Death>,
        work: impl AsyncFnOnce(cannery_pipeline::Store),
    ) {
        let (raw, way) = (self.bucket.raw.clone(), self.way);
        let troubled = Troubled::new(raw, Some(self.rng.clone()), death);
        let lake = patient_lake("main", Arc::new(troubled.clone()), way);
        tokio::select! {
            () = work(store(lake, way)) => {}
            () = troubled.dead.cancelled() => {}
        }
    }
}

/// Looks between the requests of the others: what is there once is there for ever.
async fn watch(bucket: Arc<Bucket>, over: Arc<AtomicBool>, context: String) -> u32 {
    let (mut seen, mut looks) = (ContentSet::default(), 0);
    while !over.load(Ordering::SeqCst) {
        let now = bucket.look().await.counted(bucket.way);
        assert!(now.contains_all(&seen), "{context}: something is lost");
        seen = now;
        looks += 1;
        for _ in 0..7 {
            tokio::task::yield_now().await;
        }
    }
    looks
}

/// Everybody at once, each in its way; then what is left.
async fn run(
    context: &str,
    ways: &[Way],
    seed: u64,
    replicas: Vec<Vec<Upload>>,
    deadly: bool,
) -> Arc<Bucket> {
    let bucket = Arc::new(Bucket::new(ways[0]));
    let rng = Rng::seeded(seed);
    let over = Arc::new(AtomicBool::new(false));
    let watcher = watch(bucket.clone(), over.clone(), context.to_owned());
    let watcher = tokio::spawn(watcher);
    let ways = ways.iter().cycle().copied();
    let lives = replicas.into_iter().zip(ways).map(|(uploads, way)| {
        let replica = Replica {
            bucket: bucket.clone(),
            way,
            uploads,
            rng: rng.clone(),
            deadly,
        };
        replica.live()
    });
    futures::future::join_all(lives).await;
    over.store(true, Ordering::SeqCst);
    assert!(watcher.await.unwrap() > 10, "{context}: nobody watched");
    bucket
}

async fn race(way: Way, seed: u64, replicas: Vec<Vec<Upload>>, deadly: bool, whole: &str) {
    let context = format!("{way:?}, seed {seed}");
    let bucket = run(&context, &[way], seed, replicas, deadly).await;
    bucket.consolidate().await;
    bucket.assert_one(&set(whole), &context).await;
}

fn codec(place: u64) -> Codec {
    let place = usize::try_from(place).unwrap();
    Codec::ALL[place % Codec::ALL.len()]
}

/// Each has something of its own, something that all have, and something that a neighbour has.
fn replicas(seed: u64) -> Vec<Vec<Upload>> {
    let one = |place: u64| {
        let (own, next) = (place, (place + 1) % REPLICAS);
        vec![
            upload(&format!("own{own} all"), codec(seed + place)),
            upload(&format!("part{own} part{next}"), Codec::Gzip),
        ]
    };
    (0..REPLICAS).map(one).collect()
}

const WHOLE: &str = "own0 own1 own2 all part0 part1 part2";

#[tokio::test]
async fn three_replicas_at_once_lose_nothing() {
    for way in WAYS {
        for seed in 0..15 {
            race(way, seed, replicas(seed), false, WHOLE).await;
        }
    }
}

#[tokio::test]
async fn nor_do_they_when_they_die_and_come_back() {
    for way in WAYS {
        for seed in 100..125 {
            race(way, seed, replicas(seed), true, WHOLE).await;
        }
    }
}

/// The original lost the whole hour in three of eight runs when two replicas had the same content in two codecs.
#[tokio::test]
async fn two_codecs_of_the_same_content_never_empty_an_hour() {
    for way in WAYS {
        for seed in 0..50 {
            let same = |codec| vec![upload("a b c", codec)];
            let replicas = vec![same(Codec::Gzip), same(Codec::Zstd)];
            race(way, seed, replicas, seed % 2 == 1, "a b c").await;
        }
    }
}

/// While a new algorithm is rolled out, some replicas have it and some do not.
#[tokio::test]
async fn replicas_that_do_not_agree_on_the_algorithm_lose_nothing() {
    for seed in 200..225 {
        let context = format!("seed {seed}");
        let ways = [Way::Hashed, Way::Swapped];
        let bucket = run(&context, &ways, seed, replicas(seed), true).await;
        assert_eq!(bucket.look().await.whole(), set(WHOLE), "{context}");
    }
}
