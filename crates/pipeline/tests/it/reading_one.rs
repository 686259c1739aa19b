//! One measurement is read, and is the one that was loaded, or is refused.

use std::time::Duration;

use cannery_catalog::Found;
use cannery_formats::Key;
use cannery_formats::archive::Place;
use cannery_formats::can::BucketFile;
use cannery_formats::frames::{FrameCodec, FrameEncoder, decode_frame};
use cannery_pipeline::{Error, measurement};

use crate::can_kit::Works;
use crate::line::fill;
use crate::line_kit::Mill;
use crate::sweeping::few;

async fn loaded() -> (Mill, Found) {
    let mill = Mill::new(Works::in_memory()).await;
    fill(&mill.works, &few()).await;
    mill.discover().await;
    mill.work(mill.line().await, Duration::from_secs(3_600))
        .await;
    let all = mill.measurements().await;
    let found = all.into_values().find(|found| found.kind == "ndt");
    (mill, found.unwrap())
}

fn archive_of(found: &Found) -> Key {
    let file: BucketFile = found.file.parse().unwrap();
    Key::autoclaved(found.generation.parse().unwrap(), &file)
}

/// The frame with another letter in the measurement, and of the same length when compressed.
fn forged(frame: &[u8], found: &Found) -> Vec<u8> {
    let at = found.place;
    let text = decode_frame(frame, FrameCodec::Lz4, 1 << 30).unwrap();
    let encoder = FrameEncoder::new(FrameCodec::Lz4, 5).unwrap();
    let from = usize::try_from(at.intra_off).unwrap();
    let to = from + usize::try_from(at.intra_size).unwrap();
    let letters = (from..to).filter(|place| text[*place].is_ascii_lowercase());
    let mut forged = letters.flat_map(|place| {
        let text = &text;
        (b'a'..=b'z').filter_map(move |letter| {
            let mut other = text.clone();
            other[place] = letter;
            let is_other = letter != text[place];
            let frame = is_other.then(|| encoder.encode(&other).unwrap());
            frame.filter(|encoded| encoded.len() == usize::try_from(at.frame_size).unwrap())
        })
    });
    forged.next().expect("some letter compresses as well")
}

#[tokio::test]
async fn an_archive_that_was_replaced_is_noticed() {
    let (mill, found) = loaded().await;
    let (lake, uid) = (&mill.works.lake, found.uid.parse().unwrap());
    let read = measurement::read(lake, &mill.catalog, &uid).await;
    let read = read.unwrap().unwrap();
    assert_eq!(read.text, mill.text(&found).await);
    let key = archive_of(&found);
    let mut bytes = lake.get(&key, 1 << 30).await.unwrap().bytes.to_vec();
    let at = found.place;
    let frame = usize::try_from(at.frame_off).unwrap();
    let frame = frame..frame + usize::try_from(at.frame_size).unwrap();
    let forged = forged(&bytes[frame.clone()], &found);
    bytes[frame].copy_from_slice(&forged);
    lake.delete(&key).await.unwrap();
    lake.put_new(&key, bytes).await.unwrap();
    // It is sound by itself.
    let place = Place {
        frame_off: at.frame_off,
        frame_size: at.frame_size,
        intra_off: at.intra_off,
        intra_size: at.intra_size,
    };
    let text = place.extract(&forged, FrameCodec::Lz4, 1 << 30).unwrap();
    assert!(text.len() == read.text.len() && text != read.text);
    let error = measurement::read(lake, &mill.catalog, &uid).await;
    let error = error.unwrap_err();
    assert!(matches!(error, Error::NotAsLoaded { .. }), "{error}");
    let said = error.to_string();
    for named in [
        key.as_str(),
        &found.uid,
        "`cannery check`",
        "`cannery rebuild`",
    ] {
        assert!(said.contains(named), "{said}");
    }
}

#[tokio::test]
async fn every_measurement_has_the_digest_of_its_text() {
    let (mill, _) = loaded().await;
    let all = mill.measurements().await;
    for found in all.values() {
        let text = mill.text(found).await;
        let digest = cannery_formats::Digest::of(&text).short();
        assert_eq!(found.digest, Some(digest), "{}", found.uid);
    }
    assert!(all.len() > 50);
}
