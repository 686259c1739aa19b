//! The objects of an inventory in one lake.

use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};

use bytes::Bytes;
use cannery_formats::Key;
use cannery_formats::inventory::InventoryHome;
use cannery_formats::spool::SpoolDate;
use cannery_lake::{Error, ErrorKind, Lake, Version};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use futures::TryStreamExt as _;

use super::local::TEXT_BYTES_MAX;

/// What can be replaced at once.
pub(super) const OBJECT_BYTES_MAX: u64 = 64 << 20;

/// What lies under the name of a day.
#[derive(Debug)]
pub(super) enum Fetched {
    Absent,
    Text(Vec<u8>, Version),
    /// Not gzip, or too long.
    Unreadable(String),
}

/// The days of which a lake has an inventory.
pub(super) async fn days(lake: &Lake, home: &InventoryHome) -> Result<BTreeSet<SpoolDate>, Error> {
    let mut days = BTreeSet::new();
    let mut entries = lake.list(Some(&Key::inventories(home)));
    while let Some(entry) = entries.try_next().await? {
        let name = entry.key.file_name().strip_suffix(".jsonl.gz");
        let day = name.and_then(|name| SpoolDate::from_path(&name.replace('-', "/")).ok());
        match day {
            Some(day) if Key::inventory(home, day) == entry.key => {
                days.insert(day);
            }
            Some(_) | None => {
                tracing::warn!(lake = lake.id(), key = %entry.key, "passed over: not named like the inventory of a day");
            }
        }
    }
    Ok(days)
}

/// Reads the inventory of a day.
pub(super) async fn fetch(lake: &Lake, key: &Key) -> Result<Fetched, Error> {
    let object = match lake.get(key, OBJECT_BYTES_MAX).await {
        Ok(object) => object,
        Err(error) => match error.kind {
            ErrorKind::Absent => return Ok(Fetched::Absent),
            ErrorKind::Invalid | ErrorKind::Corrupt => {
                return Ok(Fetched::Unreadable(error.detail));
            }
            _ => return Err(error),
        },
    };
    let (bytes, version) = (object.bytes, object.version);
    let text = super::blocking(move || unpack(&bytes, TEXT_BYTES_MAX)).await;
    Ok(match text {
        Ok(text) => Fetched::Text(text, version),
        Err(error) => Fetched::Unreadable(error.to_string()),
    })
}

/// Never more than a day may have, whatever the object says.
pub(super) fn unpack(gzip: &[u8], bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut bounded = MultiGzDecoder::new(gzip).take(bytes_max + 1);
    bounded.read_to_end(&mut text)?;
    if text.len() as u64 > bytes_max {
        return Err(io::Error::other("it is longer than any inventory"));
    }
    Ok(text)
}

/// The bytes of an inventory, which do not depend on when they are made.
pub(super) async fn pack(text: Bytes) -> io::Result<Bytes> {
    super::blocking(move || {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&text)?;
        Ok(gzip.finish()?.into())
    })
    .await
}
