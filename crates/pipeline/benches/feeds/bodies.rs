//! What the replicas downloaded, as it lies on their disks when the hour ends.

use std::path::{Path, PathBuf};

use cannery_formats::Digest;
use cannery_formats::feed::{DownloadName, FeedId, Hour};
use cannery_runtime::disk::{Open, create_dir_all};
use cannery_runtime::{Disk as _, RealDisk};
use jiff::SignedDuration;

use crate::{BODY_BYTES, REPLICAS};

pub(crate) fn feed() -> FeedId {
    FeedId::new("gtfs").unwrap()
}

pub(crate) fn hour() -> Hour {
    "20261115T18Z".parse().unwrap()
}

/// One that collects.
pub(crate) struct Replica {
    pub(crate) workspace: PathBuf,
    /// Where its bodies are.
    pub(crate) bodies: PathBuf,
}

/// Every body differs from every other.
pub(crate) fn write(folder: &Path, polls: usize) -> Vec<Replica> {
    let mut chance = 1;
    let replicas = (0..REPLICAS).map(|number| {
        let workspace = folder.join(format!("replica{number}"));
        let bodies = workspace.join("downloads").join(feed().as_str());
        let bodies = bodies.join(hour().folder());
        create_dir_all(&RealDisk, &bodies).unwrap();
        for poll in 0..polls {
            let millis = i64::try_from(poll * 1_000 + number * 300).unwrap();
            let time = hour().begin() + SignedDuration::from_millis(millis);
            let body = body(&mut chance);
            let name = DownloadName::new(feed(), time, &Digest::of(&body), ".json").to_string();
            let file = RealDisk.open(&bodies.join(name), Open::CreateNew).unwrap();
            file.write_all_at(0, &body).unwrap();
        }
        Replica { workspace, bodies }
    });
    let replicas = replicas.collect();
    // Without this, whoever syncs first pays for the writing of it.
    rustix::fs::sync();
    replicas
}

/// JSON of the kind that feeds are: names again and again, and numbers.
fn body(chance: &mut u64) -> Vec<u8> {
    let mut text = String::from("{\"stops\":[");
    while text.len() < BODY_BYTES {
        *chance = chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let (id, delay, at) = (
            *chance >> 44,
            (*chance >> 33) & 1_023,
            *chance >> 30 & 0xf_ffff,
        );
        text += &format!(
            "{{\"stop_id\":\"{id:06x}\",\"arrival\":{{\"delay\":{delay},\"time\":17{at:08}}},\"status\":\"SCHEDULED\"}},"
        );
    }
    text.truncate(BODY_BYTES);
    text.into_bytes()
}
