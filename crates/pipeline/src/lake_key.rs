//! The secret of a lake, from which the uids of its measurements are made: once, by whoever needs it first.

use cannery_formats::{Key, LakeKey};
use cannery_lake::{ErrorKind, Lake, PutNew};
use cannery_runtime::Rng;

use crate::error::Error;

const OBJECT_BYTES_MAX: u64 = 1_024;

/// The secret of the lake; it is made when there is none. Whoever comes second takes the one that is there.
///
/// # Errors
/// [`Error::Unusable`] when the object is damaged: with another secret every uid would be another. Those of the lake.
pub async fn lake_key(lake: &Lake, rng: &Rng) -> Result<LakeKey, Error> {
    let key = Key::lake_key();
    loop {
        match lake.get(&key, OBJECT_BYTES_MAX).await {
            Ok(object) => {
                return LakeKey::from_object(&object.bytes).map_err(|_| {
                    let why = "it is not the secret of a lake; bring back the one that was there, or every uid changes";
                    Error::unusable(lake, &key, &why)
                });
            }
            Err(error) if error.kind == ErrorKind::Absent => {}
            Err(error) => return Err(error.into()),
        }
        let mut bytes = [0; 32];
        rng.fill(&mut bytes);
        let object = LakeKey::new(bytes).to_object();
        match lake.put_new(&key, object).await? {
            // Read again: what is in the lake counts.
            PutNew::Created | PutNew::Same | PutNew::Different => {}
        }
    }
}
