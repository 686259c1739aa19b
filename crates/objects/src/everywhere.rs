//! Putting into every mirror, or not at all.

use cannery_formats::Key;
use cannery_lake::{Body, Mirrors, PutNew};

use crate::error::{ObjectError, ObjectErrorKind};

/// Puts an object whose key nobody else has; after `Ok` every mirror has these bytes. Each mirror reads a file for itself, so
/// files go to one mirror after the other.
///
/// # Errors
/// `NoSpace`, `Unavailable`; `Corrupt` when a mirror has other bytes there.
pub(crate) async fn put_everywhere(
    mirrors: &Mirrors,
    key: &Key,
    body: impl Into<Body>,
) -> Result<(), ObjectError> {
    match body.into() {
        Body::Bytes(bytes) => {
            let put = mirrors.put_new(key, bytes).await;
            for (_, outcome) in put.outcomes() {
                expect_ours(key, outcome.map_err(Clone::clone)?)?;
            }
        }
        file @ Body::File(_) => {
            for lake in mirrors.iter() {
                expect_ours(key, &lake.put_new(key, file.clone()).await?)?;
            }
        }
    }
    Ok(())
}

fn expect_ours(key: &Key, put: &PutNew) -> Result<(), ObjectError> {
    match put {
        PutNew::Created | PutNew::Same => Ok(()),
        PutNew::Different => Err(ObjectError::new(
            ObjectErrorKind::Corrupt,
            format!("other bytes are at `{key}`"),
        )),
    }
}
