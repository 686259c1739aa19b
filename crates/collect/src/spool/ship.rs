//! Shipping a sealed bundle: exactly its bytes, to every mirror.

use std::io;
use std::io::Read as _;
use std::sync::Arc;

use bytes::Bytes;
use cannery_formats::spool::Part;
use cannery_formats::{Digest, Hasher, Key};
use cannery_lake::{Body, Lake, Mirrors, PutNew};
use cannery_runtime::disk::{Open, read_file};
use flate2::read::MultiGzDecoder;

use super::outbox::{Outbox, Sealed, Stored};

/// An object is shorter than this: what it is made of has a limit.
const OBJECT_BYTES_MAX: u64 = 4 << 30;

/// Why a bundle is not shipped yet, or never.
#[derive(Debug, thiserror::Error)]
pub(super) enum ShipError {
    /// The lake did not take it; trying again may help.
    #[error("cannot ship `{key}` to `{lake}`: {why}")]
    Lake { key: Key, lake: String, why: String },
    /// Something else lies under its name.
    #[error("cannot ship `{key}` to `{lake}`: another object of this name is there")]
    Conflict { key: Key, lake: String },
    /// What was sealed is not what lies in the outbox.
    #[error("cannot ship `{0}`: what was sealed has changed on the disk")]
    Damaged(Key),
    #[error("cannot read a sealed bundle: {0}")]
    Disk(#[from] io::Error),
}

/// Puts both objects into every mirror: the data first, because an index speaks of data that is there. May be called again
/// after any error.
pub(super) async fn ship(
    sealed: &Sealed,
    outbox: &Outbox,
    mirrors: &Mirrors,
) -> Result<(), ShipError> {
    let objects = [
        (Part::Data, sealed.name.data_key(), &sealed.data),
        (Part::Index, sealed.name.index_key(), &sealed.index),
    ];
    for (part, key, stored) in objects {
        let content = read_sealed(sealed, outbox, part, stored, &key).await?;
        put(&key, content, mirrors).await?;
    }
    Ok(())
}

async fn read_sealed(
    sealed: &Sealed,
    outbox: &Outbox,
    part: Part,
    stored: &Stored,
    key: &Key,
) -> Result<Bytes, ShipError> {
    let (disk, path, bytes) = (
        Arc::clone(outbox.disk()),
        outbox.object(&sealed.id, part),
        stored.bytes,
    );
    let content = tokio::task::spawn_blocking(move || {
        let file = disk.open(&path, Open::Read)?;
        read_file(&*file, bytes)
    });
    let content = content.await.map_err(io::Error::other)??;
    if Digest::of(&content) != stored.sha256 {
        return Err(ShipError::Damaged(key.clone()));
    }
    Ok(content.into())
}

async fn put(key: &Key, content: Bytes, mirrors: &Mirrors) -> Result<(), ShipError> {
    let put = mirrors.put_new(key, Body::Bytes(content.clone())).await;
    for (id, outcome) in put.outcomes() {
        match outcome {
            Ok(PutNew::Created | PutNew::Same) => {}
            Ok(PutNew::Different) => {
                let lake = mirrors.by_id(id).unwrap_or(mirrors.first());
                settle(key, &content, lake).await?;
            }
            Err(error) => {
                return Err(ShipError::Lake {
                    key: key.clone(),
                    lake: id.to_owned(),
                    why: error.to_string(),
                });
            }
        }
    }
    Ok(())
}

/// Other bytes are there: the same text in other wrapping is the same object, anything else is a conflict.
async fn settle(key: &Key, content: &[u8], lake: &Lake) -> Result<(), ShipError> {
    let there = lake.get(key, OBJECT_BYTES_MAX).await;
    let there = there.map_err(|error| ShipError::Lake {
        key: key.clone(),
        lake: lake.id().to_owned(),
        why: error.to_string(),
    })?;
    match (text_digest(content), text_digest(&there.bytes)) {
        (Ok(ours), Ok(theirs)) if ours == theirs => Ok(()),
        _ => Err(ShipError::Conflict {
            key: key.clone(),
            lake: lake.id().to_owned(),
        }),
    }
}

fn text_digest(gzip: &[u8]) -> io::Result<Digest> {
    let mut text = MultiGzDecoder::new(gzip);
    let mut hasher = Hasher::default();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match text.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            count => hasher.update(&buffer[..count]),
        }
    }
}
