//! From the lake to the journal: what is in no can.

use cannery_formats::Key;
use cannery_formats::feed::Codec;
use cannery_pipeline::discover::{Discovered, Reach};
use tokio_util::sync::CancellationToken;

use crate::can_kit::{Works, bucket, entries, journal, key_of, open_all, some_reports};
use crate::kit::{feed, upload};

const BUNDLE: &str = "autoload/v1/ndt/scamper1/2016/12/31/20161231T182403.850914Z-scamper1-mlab1-lga01-ndt-data.jsonl.gz";

fn shown(discovered: &Discovered) -> Vec<String> {
    let shown = |(key, inputs): (&_, usize)| format!("{key}: {inputs}");
    let keys = discovered.to_can.iter();
    keys.map(|(key, to_can)| shown((key, to_can.inputs.len())))
        .collect()
}

#[tokio::test]
async fn everything_that_no_can_has_becomes_work() {
    let works = Works::in_memory();
    let ndt = |date: &str, id: &str| {
        let file = format!("20161231T000030Z-US-AS7922-ndt-{id}-0.2.0-probe.json");
        key_of(&format!("{date}/{file}"))
    };
    for key in [
        ndt("2017-01-01", "a"),
        ndt("2017-01-01", "b"),
        ndt("2012-05-05", "c"),
    ] {
        works.put(&key, b"{}\n").await;
    }
    works.put(&key_of("2017-01-01/x"), b"x").await;
    works.put(&Key::new(BUNDLE).unwrap(), b"x").await;
    let hour = upload("a", Codec::Gzip);
    works.put(&hour.key, &hour.bytes).await;
    let journal = journal();
    let discoverer = works.discoverer(journal.clone());
    let recent = discoverer.look(Reach::Recent).await.unwrap();
    assert_eq!(
        shown(&recent),
        [
            "can/2017-01-01/ndt/open: 2",
            "can/2017-01-01/unknown/open: 1"
        ],
        "nobody knows of datatypes and feeds yet"
    );
    let whole = discoverer.discover(Reach::Whole).await.unwrap();
    assert_eq!(whole.inputs, 6);
    assert_eq!(
        shown(&whole),
        [
            "can/2012-05-05/ndt/open: 1",
            "can/2017-01-01/ndt/open: 2",
            "can/2017-01-01/unknown/open: 1",
            "can/2017-01-02/spool-scamper1/open: 1",
            "can/2017-01-02/feed-f/open: 1",
        ]
    );
    let added = entries(&journal).await;
    assert_eq!(added.len(), 5);
    let (key, data) = &added[2];
    assert_eq!(key, "can/2017-01-01/unknown/open");
    assert_eq!(data, r#"{"inputs":["reports-raw/2017-01-01/x"]}"#);
    let recent = discoverer.look(Reach::Recent).await.unwrap();
    assert_eq!(shown(&recent).len(), 3, "the bundle is of these days");
}

#[tokio::test]
async fn what_is_canned_is_no_work_and_what_comes_late_is_todays() {
    let works = Works::in_memory();
    let texts = some_reports(31);
    works.fill(&texts).await;
    let all: Vec<&String> = texts.keys().collect();
    let (late, early) = all.split_first().unwrap();
    assert_eq!(works.look().await.to_seal.len(), 0);
    open_all(&works.canner(), early).await;
    let looked = works.look().await;
    let key = looked.to_can.first_key_value().unwrap().0;
    assert_eq!((looked.to_can.len(), key.bucket), (1, bucket()));
    assert!(
        looked.to_seal.is_empty(),
        "it is overdue, and not all is canned"
    );
    works.sealer().seal(bucket()).await.unwrap();
    let looked = works.look().await;
    assert!(looked.to_seal.is_empty());
    let (key, to_can) = looked.to_can.first_key_value().unwrap();
    assert_eq!(key.bucket.to_string(), "2017-01-02");
    assert_eq!(to_can.inputs, [key_of(late)].into());
    let (kind, keys) = (key.kind.clone().unwrap(), [key_of(late)]);
    works.canner().open(key.bucket, &kind, &keys).await.unwrap();
    assert!(works.look().await.to_can.is_empty());
}

/// A backlog of an old date is canned as a whole before its bucket, long overdue, is sealed.
#[tokio::test]
async fn an_overdue_bucket_is_not_sealed_before_what_its_folder_holds() {
    let works = Works::in_memory();
    let old = |id: &str| {
        let file = format!("20120505T000030Z-US-AS7922-ndt-{id}-0.2.0-probe.json");
        key_of(&format!("2012-05-05/{file}"))
    };
    let (bucket, kind) = ("2012-05-05".parse().unwrap(), "ndt".parse().unwrap());
    works.put(&old("a"), b"{}\n").await;
    let canner = works.canner();
    canner.open(bucket, &kind, &[old("a")]).await.unwrap();
    let due = works.look().await.to_seal[&bucket];
    assert_eq!(due.to_string(), "2012-05-06T01:00:00Z");
    works.put(&old("b"), b"{}\n").await;
    let looked = works.look().await;
    assert_eq!(shown(&looked), ["can/2012-05-05/ndt/open: 1"]);
    assert!(looked.to_seal.is_empty(), "{looked:?}");
    canner.open(bucket, &kind, &[old("b")]).await.unwrap();
    assert!(works.look().await.to_seal.contains_key(&bucket));
    // Who looks at the last days alone knows nothing of its folder.
    let recent = works.discoverer(journal()).look(Reach::Recent).await;
    assert!(recent.unwrap().to_seal.is_empty());
}

#[tokio::test]
async fn an_hour_is_work_until_this_version_of_it_was_taken() {
    let works = Works::in_memory();
    let first = upload("a b", Codec::Gzip);
    works.put(&first.key, &first.bytes).await;
    let today = "2017-01-02".parse().unwrap();
    let kind: cannery_formats::Kind = "feed-f".parse().unwrap();
    assert_eq!(works.look().await.to_can.len(), 1);
    let canner = works.canner();
    canner
        .open(today, &kind, std::slice::from_ref(&first.key))
        .await
        .unwrap();
    assert!(works.look().await.to_can.is_empty());
    // Two archives: they are to be consolidated before.
    let second = upload("a b c", Codec::Gzip);
    works.put(&second.key, &second.bytes).await;
    assert!(works.look().await.to_can.is_empty());
    works.lake.delete(&first.key).await.unwrap();
    let looked = works.look().await;
    assert_eq!(shown(&looked), ["can/2017-01-02/feed-f/open: 1"]);
    canner
        .open(today, &kind, std::slice::from_ref(&second.key))
        .await
        .unwrap();
    assert!(works.look().await.to_can.is_empty());
    let journal = journal();
    let discoverer = works.discoverer(journal);
    discoverer.add_feed(feed());
    assert!(
        discoverer
            .look(Reach::Recent)
            .await
            .unwrap()
            .to_can
            .is_empty()
    );
}

#[tokio::test]
async fn a_bucket_that_was_made_at_once_is_no_work() {
    let works = Works::in_memory();
    let texts = some_reports(32);
    works.fill(&texts).await;
    assert!(!works.look().await.to_can.is_empty());
    works.canner().bucket(bucket()).await.unwrap();
    let looked = works.look().await;
    assert_eq!(looked.inputs, texts.len() as u64);
    assert!(looked.to_can.is_empty() && looked.to_seal.is_empty());
}

#[tokio::test]
async fn it_looks_again_and_again_until_it_is_told_to_stop() {
    let works = Works::in_memory();
    let journal = journal();
    let discoverer = works.discoverer(journal.clone());
    let stop = CancellationToken::new();
    let watching = async {
        for name in ["2017-01-01/x", "2017-01-02/y"] {
            works.put(&key_of(name), b"x").await;
            let data = format!("reports-raw/{name}");
            while !entries(&journal)
                .await
                .iter()
                .any(|(_, it)| it.contains(&data))
            {
                tokio::task::yield_now().await;
            }
        }
        stop.cancel();
    };
    tokio::join!(discoverer.run(stop.clone()), watching);
    assert_eq!(entries(&journal).await.len(), 2);
}
