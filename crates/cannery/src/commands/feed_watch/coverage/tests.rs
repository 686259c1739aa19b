use std::sync::Arc;

use bytes::Bytes;
use cannery_formats::feed::{
    ArchiveName, Codec, ContentSet, Coverage, CoverageSpan, Holding, Member, Slot, SlotRun,
};
use cannery_formats::hour_archive::{ArchiveWriter, Compression};
use cannery_formats::{Digest, Key};
use cannery_lake::{DiskStore, LakeMetrics, Parts, RetryPolicy, Swap};
use cannery_pipeline::Scratch;
use cannery_runtime::clock::SimulatedClock;
use cannery_runtime::{RealDisk, Rng};

use super::*;

fn feed() -> FeedId {
    FeedId::new("f").unwrap()
}

fn hour() -> Hour {
    "20261115T18Z".parse().unwrap()
}

/// What a replica says that polled every ten minutes: so often in time, and then not any more.
fn said(replica: &str, stored: u32) -> (Member, Vec<u8>) {
    let slot = Slot::Stored;
    let span = CoverageSpan {
        offset_ms: 0,
        period_ms: 600_000,
        runs: vec![SlotRun {
            slot,
            count: stored,
        }],
    };
    let (name, text) = Coverage::new(feed(), hour(), replica, vec![span]).to_member();
    let member = Member::new(name, text.len() as u64, Digest::of(&text));
    (member.unwrap(), text)
}

fn archive(said: &[(Member, Vec<u8>)]) -> Bytes {
    let members = said.iter().map(|(member, _)| member.clone());
    let set: ContentSet = members.collect();
    let compression = Compression::of(Codec::Gzip);
    let mut writer = ArchiveWriter::new(Vec::new(), &feed(), hour(), &set, &compression).unwrap();
    while let Some(member) = writer.next_member() {
        let name = member.name().to_owned();
        let of_it = said.iter().find(|(member, _)| member.name() == name);
        writer.append(of_it.unwrap().1.as_slice()).unwrap();
    }
    writer.finish().unwrap().into()
}

fn lake(folder: &std::path::Path, clock: &Clock) -> Lake {
    let lake = Lake::new(Parts {
        id: "main".to_owned(),
        url: "file:".to_owned(),
        store: Arc::new(DiskStore::new(
            Arc::new(RealDisk),
            folder.to_owned(),
            Rng::seeded(1),
        )),
        prefix: String::new(),
        clock: clock.clone(),
        rng: Rng::seeded(2),
        retry: RetryPolicy::default(),
        metrics: LakeMetrics::default(),
    });
    lake.unwrap()
}

#[tokio::test]
async fn a_primary_that_was_replaced_is_read_again_and_one_that_was_not_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::starting_at("2026-11-15T20:00:00Z".parse().unwrap()).clock();
    let lake = lake(&dir.path().join("lake"), &clock);
    let scratch = Scratch::open(&dir.path().join("scratch"), Rng::seeded(3)).unwrap();
    let reader = CoverageReader::new(scratch);
    let watch = CoverageWatch::new(lake.clone(), clock);
    watch.want(&feed());
    let key = Key::feed_archive(&ArchiveName {
        feed: feed(),
        hour: hour(),
        holding: Holding::Primary,
    });
    let counts = || {
        let tally = watch.of(&feed()).hours[&hour()];
        (tally.stored, tally.not_collected)
    };
    let early = said("a", 2);
    lake.put_new(&key, archive(std::slice::from_ref(&early)))
        .await
        .unwrap();
    watch.read(&reader, &feed()).await;
    assert_eq!(counts(), (2, 4));

    // A replica that was away brings what it saw.
    let version = lake.get(&key, 1 << 20).await.unwrap().version;
    let merged = archive(&[early, said("b", 6)]);
    let swapped = lake.put_if_version(&key, &version, merged).await.unwrap();
    assert!(matches!(swapped, Swap::Swapped(_)), "{swapped:?}");
    watch.read(&reader, &feed()).await;
    assert_eq!(counts(), (6, 0), "{:?}", watch.of(&feed()).error);

    let folder = HourFolder::list(&lake, &feed(), hour()).await.unwrap();
    assert_eq!(watch.lock()[&feed()].folders[&hour()], folder);
}
