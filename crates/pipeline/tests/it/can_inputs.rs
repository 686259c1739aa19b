//! Bundles and hours through cans.

use std::io::Write as _;

use cannery_formats::Key;
use cannery_formats::can::read_canned_index;
use cannery_formats::feed::Codec;
use cannery_formats::gz_lines::IndexLimits;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::can_kit::{Texts, Works, bucket};
use crate::kit::{in_hour, upload};

const BUNDLE: &str =
    "v1/ndt/scamper1/2016/12/31/20161231T182403.850914Z-scamper1-mlab1-lga01-ndt-data.jsonl";

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(text).unwrap();
    out.finish().unwrap()
}

fn bundle(name: &str) -> Key {
    Key::new(format!("autoload/{name}.gz")).unwrap()
}

#[tokio::test]
async fn the_rows_of_a_bundle_are_one_report() {
    let works = Works::in_memory();
    let rows = b"{\"a\":1}\n".repeat(30_000);
    let second = BUNDLE.replace("mlab1", "mlab2");
    let torn = BUNDLE.replace("mlab1", "mlab3");
    // Several gzips in a row are one text.
    let parts = [gzip(b"{\"b\":1}\n"), gzip(b"{\"b\":2}\n")].concat();
    works.put(&bundle(BUNDLE), &gzip(&rows)).await;
    works.put(&bundle(&second), &parts).await;
    works.put(&bundle(&torn), &gzip(&rows)[..50]).await;
    let gone = bundle(&BUNDLE.replace("mlab1", "mlab4"));
    let keys = [bundle(BUNDLE), bundle(&second), bundle(&torn), gone];
    let kind = "spool-scamper1".parse().unwrap();
    let report = works.canner().open(bucket(), &kind, &keys).await.unwrap();
    assert_eq!((report.reports, report.cans), (2, 2));
    let refused: Vec<_> = report.refused.iter().map(|it| it.key.clone()).collect();
    assert_eq!(refused, [bundle(&torn)]);
    let texts: Texts = [
        (BUNDLE.to_owned(), rows),
        (second, b"{\"b\":1}\n{\"b\":2}\n".to_vec()),
    ]
    .into();
    assert!(works.texts().await == texts);
    works.sealer().seal(bucket()).await.unwrap();
    assert!(works.texts().await == texts);
    assert!(works.has_no_scratch_left());
}

fn downloads(words: &str) -> Texts {
    let text = |word: &str| {
        let name = format!("f/2026-11-15/18/{word}");
        (name, format!("body of {word}").into_bytes())
    };
    words.split_whitespace().map(text).collect()
}

async fn open_hour(works: &Works, key: &Key) -> u64 {
    let kind = "feed-f".parse().unwrap();
    let keys = [key.clone()];
    let report = works.canner().open(bucket(), &kind, &keys).await.unwrap();
    assert_eq!(report.refused, []);
    report.reports
}

/// What an index says of the objects that went into its can.
async fn inputs_of(works: &Works, number: u32) -> Vec<String> {
    let key = format!("canned/2017-01-01/feed-f.{number:04}.index.json.gz");
    let objects = works.objects().await;
    let index = read_canned_index(&objects[&key][..], IndexLimits::default()).unwrap();
    let inputs = index.inputs.unwrap().into_iter();
    inputs.map(|input| input.key.to_string()).collect()
}

#[tokio::test]
async fn every_download_of_an_hour_is_a_report_and_is_taken_once() {
    let works = Works::in_memory();
    let first = upload("b a", Codec::Gzip);
    works.put(&first.key, &first.bytes).await;
    assert_eq!(open_hour(&works, &first.key).await, 2);
    assert!(works.texts().await == downloads("a b"));
    assert_eq!(inputs_of(&works, 0).await, [first.key.as_str()]);
    let whole = upload("a b c .coverage/n_20261115T18Z.json", Codec::Zstd);
    works.put(&whole.key, &whole.bytes).await;
    assert_eq!(open_hour(&works, &whole.key).await, 1);
    assert!(works.texts().await == downloads("a b c"));
    assert_eq!(inputs_of(&works, 1).await, [whole.key.as_str()]);
    // Nothing is new in it: that it was taken is all there is to say.
    let again = upload("a c", Codec::Xz);
    works.put(&again.key, &again.bytes).await;
    assert_eq!(open_hour(&works, &again.key).await, 0);
    assert_eq!(inputs_of(&works, 2).await, [again.key.as_str()]);
    let objects = works.objects().await;
    assert_eq!(open_hour(&works, &again.key).await, 0);
    assert!(works.objects().await == objects);
    works.sealer().seal(bucket()).await.unwrap();
    assert!(works.texts().await == downloads("a b c"));
}

#[tokio::test]
async fn an_archive_in_any_order_becomes_the_same_cans() {
    let mut tar = tar::Builder::new(Vec::new());
    for word in ["c", "a", "b"] {
        let body = format!("body of {word}");
        let mut header = tar::Header::new_gnu();
        header.set_size(body.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append_data(&mut header, word, body.as_bytes()).unwrap();
    }
    let foreign = gzip(&tar.into_inner().unwrap());
    let foreign_key = in_hour("f_20261115T18Z_abcdefghij23.tar.gz");
    let ours = upload("a b c", Codec::Gzip);
    let mut sealed = Vec::new();
    for (key, bytes) in [(foreign_key, foreign), (ours.key, ours.bytes)] {
        let works = Works::in_memory();
        works.put(&key, &bytes).await;
        assert_eq!(open_hour(&works, &key).await, 3);
        works.sealer().seal(bucket()).await.unwrap();
        assert!(works.texts().await == downloads("a b c"));
        sealed.push(works.sealed().await);
    }
    assert!(sealed[0] == sealed[1]);
}

#[tokio::test]
async fn a_damaged_hour_is_left_where_it_is() {
    let works = Works::in_memory();
    let upload = upload("a b", Codec::Gzip);
    works.put(&upload.key, &upload.bytes[..40]).await;
    let kind = "feed-f".parse().unwrap();
    let keys = [upload.key.clone()];
    let report = works.canner().open(bucket(), &kind, &keys).await.unwrap();
    assert_eq!((report.cans, report.refused.len()), (0, 1));
    assert!(works.objects().await.is_empty());
}
