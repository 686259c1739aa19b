//! Objects of a bundle in several mirrors: read from one, put where they are missing.

use std::io;

use bytes::Bytes;
use cannery_formats::Key;
use cannery_lake::{Error, ErrorKind, Lake, PutNew};

use super::{Damage, Known, KnownError, blocking};
use crate::gzip_lines::check_whole;

/// An object is shorter than this: what it is made of has a limit.
const OBJECT_BYTES_MAX: u64 = 4 << 30;

/// How reading an object ended.
#[derive(Debug)]
pub(super) enum Read {
    Content(Bytes),
    Damaged(Damage),
}

impl Known {
    /// Reads an object of one mirror, whole, as it was read when it was shipped.
    pub(super) async fn get(&self, key: &Key, mirror: usize) -> Result<Read, Error> {
        let lake = self.lake(mirror);
        match lake.get(key, OBJECT_BYTES_MAX).await {
            Ok(object) => Ok(Read::Content(object.bytes)),
            Err(error) if matches!(error.kind, ErrorKind::Corrupt | ErrorKind::Invalid) => {
                Ok(Read::Damaged(Damage::Unreadable {
                    key: key.clone(),
                    lake: lake.id().to_owned(),
                    why: error.detail,
                }))
            }
            Err(error) => Err(error),
        }
    }

    /// Puts an object that some mirrors have into those that lack it, if it is whole in one of them.
    pub(super) async fn level(
        &self,
        key: &Key,
        have: &[usize],
    ) -> Result<Result<(), Damage>, KnownError> {
        let lacking: Vec<usize> = (0..self.mirrors.iter().count())
            .filter(|mirror| !have.contains(mirror))
            .collect();
        let mut levelled = Ok(());
        if lacking.is_empty() {
            return Ok(levelled);
        }
        for mirror in have {
            let content = match self.get(key, *mirror).await? {
                Read::Content(content) => content,
                Read::Damaged(damage) => {
                    levelled = Err(damage);
                    continue;
                }
            };
            let gzip = content.clone();
            match blocking(move || Ok(check_whole(&gzip))).await? {
                Ok(()) => return Ok(self.put(key, &content, &lacking).await?),
                Err(error) => levelled = Err(self.unreadable(key, *mirror, &error)),
            }
        }
        Ok(levelled)
    }

    /// Creates an object in the given mirrors; one that is there already must have the same bytes.
    pub(super) async fn put(
        &self,
        key: &Key,
        content: &Bytes,
        mirrors: &[usize],
    ) -> Result<Result<(), Damage>, Error> {
        for mirror in mirrors {
            let lake = self.lake(*mirror);
            match lake.put_new(key, content.clone()).await? {
                PutNew::Created | PutNew::Same => {}
                PutNew::Different => {
                    return Ok(Err(Damage::Conflict {
                        key: key.clone(),
                        lake: lake.id().to_owned(),
                    }));
                }
            }
        }
        Ok(Ok(()))
    }

    pub(super) fn unreadable(&self, key: &Key, mirror: usize, error: &io::Error) -> Damage {
        Damage::Unreadable {
            key: key.clone(),
            lake: self.id_of(mirror),
            why: error.to_string(),
        }
    }

    pub(super) fn id_of(&self, mirror: usize) -> String {
        self.lake(mirror).id().to_owned()
    }

    fn lake(&self, mirror: usize) -> &Lake {
        let lake = self.mirrors.iter().nth(mirror);
        lake.expect("mirrors are counted from this list")
    }
}
