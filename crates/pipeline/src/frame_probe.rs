//! How large the frames of archives should be, by what ranged reads of a lake take.
//!
//! Reading a measurement is one ranged read of one frame: what it takes before the first byte, and what the bytes take. Small
//! frames compress badly and make long indexes; large ones are read in vain but for one measurement. The best are as large as
//! they may be until their bytes are felt beside the first one.

use std::time::Duration;

use bytes::Bytes;
use cannery_formats::Key;
use cannery_lake::Lake;
use cannery_runtime::{Clock, Rng};
use futures::TryStreamExt as _;
use serde::Serialize;

use crate::error::Error;

/// What is read at once.
pub const SIZES: [u64; 5] = [16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
/// And how often, of each size.
pub const READS: u32 = 8;

/// So many objects are looked at to find one that is long enough.
const LOOKED_AT_MAX: u64 = 10_000;
/// The last size fits in twice.
const OBJECT_BYTES: u64 = 8 << 20;

/// The bytes of a frame may take so much of what a read takes before its first byte.
const SHARE: f64 = 0.25;
/// Measurements are compressed to about a fifth.
const RATIO: f64 = 5.0;
/// What is smaller compresses badly; what is larger takes longer to decode than to read.
const FRAME_BYTES_MIN: u64 = 64 << 10;
const FRAME_BYTES_MAX: u64 = 4 << 20;

/// What reads of one size took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// How much was read at once.
    pub bytes: u64,
    /// How often.
    pub reads: u32,
    /// What the fastest took, in milliseconds.
    pub fastest_ms: f64,
    /// What half of them took at most.
    pub median_ms: f64,
    /// What the slowest took.
    pub slowest_ms: f64,
}

/// What follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Recommendation {
    /// What a read takes before its first byte, in milliseconds.
    pub latency_ms: f64,
    /// What comes after that; nothing when larger reads took no longer.
    pub bytes_per_second: Option<f64>,
    /// The text of a frame, for `pipeline.frame_bytes`.
    pub frame_bytes: u64,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "object", content = "key", rename_all = "snake_case")]
pub enum Probed {
    /// An archive of the lake.
    Archive(Key),
    /// An object that was put there for it, and removed.
    Temporary(Key),
}

impl Measured {
    /// Of some reads of a size; nothing of none.
    #[must_use]
    pub fn of(bytes: u64, took: &[Duration]) -> Option<Self> {
        let mut took: Vec<f64> = took.iter().map(|one| one.as_secs_f64() * 1_000.0).collect();
        took.sort_by(f64::total_cmp);
        Some(Self {
            bytes,
            reads: u32::try_from(took.len()).unwrap_or(u32::MAX),
            fastest_ms: *took.first()?,
            median_ms: took[(took.len() - 1) / 2],
            slowest_ms: *took.last()?,
        })
    }
}

/// What follows from reads of at least two sizes, by their medians: a line through the smallest and the largest. Nothing of
/// fewer.
#[must_use]
pub fn recommend(measured: &[Measured]) -> Option<Recommendation> {
    let smallest = measured.iter().min_by_key(|one| one.bytes)?;
    let largest = measured.iter().max_by_key(|one| one.bytes)?;
    let more_bytes = largest.bytes.checked_sub(smallest.bytes)?;
    if more_bytes == 0 {
        return None;
    }
    let more_ms = largest.median_ms - smallest.median_ms;
    if more_ms <= 0.0 {
        return Some(Recommendation {
            latency_ms: smallest.median_ms,
            bytes_per_second: None,
            frame_bytes: FRAME_BYTES_MAX,
        });
    }
    let bytes_per_ms = as_float(more_bytes) / more_ms;
    let latency_ms = smallest.median_ms - as_float(smallest.bytes) / bytes_per_ms;
    let latency_ms = latency_ms.max(0.0);
    Some(Recommendation {
        latency_ms,
        bytes_per_second: Some(bytes_per_ms * 1_000.0),
        frame_bytes: frame_bytes(latency_ms * bytes_per_ms * SHARE * RATIO),
    })
}

/// The power of two up to that many bytes, within the limits.
fn frame_bytes(most: f64) -> u64 {
    let mut bytes = FRAME_BYTES_MIN;
    while bytes < FRAME_BYTES_MAX && as_float(2 * bytes) <= most {
        bytes *= 2;
    }
    bytes
}

#[allow(
    clippy::cast_precision_loss,
    reason = "sizes of a few megabytes are exact"
)]
fn as_float(bytes: u64) -> f64 {
    bytes as f64
}

/// Reads parts of an archive of the lake, or of an object that is put there for it and removed again.
///
/// # Errors
/// Those of the lake.
pub async fn measure(
    lake: &Lake,
    clock: &Clock,
    rng: &Rng,
) -> Result<(Probed, Vec<Measured>), Error> {
    if let Some((key, bytes)) = archive(lake).await? {
        let measured = read(lake, clock, &key, bytes).await?;
        return Ok((Probed::Archive(key), measured));
    }
    let key = Key::probe(&rng.id(), "frames");
    let mut body = vec![0; usize::try_from(OBJECT_BYTES).unwrap_or(usize::MAX)];
    rng.fill(&mut body);
    let put = lake.put_new(&key, Bytes::from(body)).await;
    let measured = match put {
        Ok(_) => read(lake, clock, &key, OBJECT_BYTES).await,
        Err(error) => Err(error.into()),
    };
    // After a failure, too: it may have been put.
    let removed = lake.delete(&key).await;
    let measured = measured?;
    removed?;
    Ok((Probed::Temporary(key), measured))
}

/// An archive that is long enough, and its length. Of a large object the store knows a short commit, which is not.
async fn archive(lake: &Lake) -> Result<Option<(Key, u64)>, Error> {
    let mut entries = lake.list(Some(&Key::autoclaved_folder()));
    let mut looked_at = 0;
    while let Some(entry) = entries.try_next().await? {
        let is_archive = entry.key.as_autoclaved().is_some();
        if is_archive && entry.stored_bytes >= OBJECT_BYTES {
            return Ok(Some((entry.key, entry.stored_bytes)));
        }
        looked_at += 1;
        if looked_at >= LOOKED_AT_MAX {
            break;
        }
    }
    Ok(None)
}

async fn read(
    lake: &Lake,
    clock: &Clock,
    key: &Key,
    object_bytes: u64,
) -> Result<Vec<Measured>, Error> {
    // The first one finds the way.
    lake.get_range(key, 0..SIZES[0]).await?;
    let mut took = SIZES.map(|_| Vec::new());
    // Size by size in turn, so that a bad moment hits all of them.
    for number in 0..READS {
        for (bytes, took) in SIZES.into_iter().zip(&mut took) {
            let room = object_bytes.saturating_sub(bytes);
            let from = room * u64::from(number) / u64::from(READS);
            let begun = clock.elapsed();
            lake.get_range(key, from..from + bytes).await?;
            took.push(clock.since(begun));
        }
    }
    let measured = SIZES.into_iter().zip(&took);
    Ok(measured
        .filter_map(|(bytes, took)| Measured::of(bytes, took))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What reads take on a store of this latency and throughput.
    fn store(latency_ms: f64, bytes_per_second: f64) -> Vec<Measured> {
        let took = |bytes: u64| latency_ms + as_float(bytes) * 1_000.0 / bytes_per_second;
        let measured = SIZES.map(|bytes| Measured {
            bytes,
            reads: READS,
            fastest_ms: took(bytes),
            median_ms: took(bytes),
            slowest_ms: took(bytes) * 10.0,
        });
        measured.to_vec()
    }

    #[test]
    fn frames_are_as_large_as_latency_and_throughput_allow() {
        for (what, latency_ms, bytes_per_second, frame_bytes) in [
            ("a disk", 0.1, 2e9, 128 << 10),
            ("a slow disk", 8.0, 150e6, 1 << 20),
            ("a store nearby", 5.0, 100e6, 512 << 10),
            ("a store far away", 40.0, 50e6, 2 << 20),
            (
                "a store at the other end of the world",
                300.0,
                20e6,
                4 << 20,
            ),
            ("a thin line", 20.0, 1e6, 64 << 10),
        ] {
            let found = recommend(&store(latency_ms, bytes_per_second)).unwrap();
            assert_eq!(found.frame_bytes, frame_bytes, "{what}: {found:?}");
            assert!((found.latency_ms - latency_ms).abs() < 0.001, "{what}");
            let throughput = found.bytes_per_second.unwrap();
            assert!(
                (throughput / bytes_per_second - 1.0).abs() < 0.001,
                "{what}"
            );
        }
    }

    #[test]
    fn odd_measurements_are_no_trouble() {
        assert_eq!(recommend(&[]), None);
        let all = store(1.0, 1e9);
        assert_eq!(recommend(&all[..1]), None);
        assert_eq!(recommend(&[all[0], all[0]]), None);
        // Larger reads were faster.
        let mut odd = all;
        odd[4].median_ms = 0.5;
        let found = recommend(&odd).unwrap();
        assert_eq!(
            (found.bytes_per_second, found.frame_bytes),
            (None, FRAME_BYTES_MAX)
        );
        // There is no latency: every byte counts.
        odd = store(0.0, 1e6);
        assert_eq!(recommend(&odd).unwrap().frame_bytes, FRAME_BYTES_MIN);
    }

    #[test]
    fn the_median_is_not_moved_by_one_bad_read() {
        let took = [5, 4, 900, 6].map(Duration::from_millis);
        let measured = Measured::of(10, &took).unwrap();
        assert_eq!(
            (measured.fastest_ms, measured.median_ms, measured.slowest_ms),
            (4.0, 5.0, 900.0)
        );
        assert_eq!(measured.reads, 4);
        assert_eq!(Measured::of(10, &[]), None);
    }
}
