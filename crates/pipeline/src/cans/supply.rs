//! Objects are fetched before they are needed, in the order in which they will be.

use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::sync::Arc;

use bytes::Bytes;
use cannery_formats::Key;
use cannery_formats::can::Slice;
use cannery_formats::large_object::LARGE_BYTES_MIN;
use cannery_lake::Lake;
use futures::TryStreamExt as _;
use futures::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::task::AbortOnDropHandle;

use super::AT_ONCE;
use super::source::{Plan, Source, reports_of};
use crate::blocking::blocking;
use crate::error::Error;
use crate::scratch::{Scratch, ScratchFile};

/// What may lie in memory before it is needed.
pub(super) const AHEAD_BYTES: u64 = LARGE_BYTES_MIN;

const PERMIT_BYTES: u64 = 4096;

/// An object that was fetched.
pub(super) enum Supplied {
    /// A report, and the room that it takes.
    Whole(Bytes, Room),
    /// A report that is too large for memory.
    Pieces(BoxStream<'static, cannery_lake::Result<Bytes>>),
    /// A can.
    File(ScratchFile),
}

pub(super) type Room = OwnedSemaphorePermit;

/// Fetches what a plan needs. It ends when it is dropped.
pub(super) struct Supply {
    fetched: mpsc::Receiver<(usize, Result<Supplied, Error>)>,
    _task: AbortOnDropHandle<()>,
}

impl Supply {
    /// Begins to fetch, for reports that are read in the order of the slices.
    pub(super) fn begin(plan: &Plan, slices: &[Slice], lake: &Lake, scratch: &Scratch) -> Self {
        let mut is_asked = vec![false; plan.sources.len()];
        let mut wanted = Vec::new();
        for name in slices.iter().flat_map(reports_of) {
            let number = plan.texts[name].source;
            if !std::mem::replace(&mut is_asked[number], true)
                && let Some(object) = Wanted::of(&plan.sources[number])
            {
                wanted.push((number, object));
            }
        }
        let permits = usize::try_from(AHEAD_BYTES / PERMIT_BYTES).expect("it is a small number");
        let room = Arc::new(Semaphore::new(permits));
        let (give, fetched) = mpsc::channel(1);
        let (lake, scratch) = (lake.clone(), scratch.clone());
        let task = tokio::spawn(async move {
            let fetches = wanted.into_iter().map(|(number, object)| {
                let (lake, scratch, room) = (lake.clone(), scratch.clone(), Arc::clone(&room));
                async move { (number, object.fetch(&lake, &scratch, room).await) }
            });
            let mut fetches = stream::iter(fetches).buffered(AT_ONCE);
            while let Some(supplied) = fetches.next().await {
                if give.send(supplied).await.is_err() {
                    return;
                }
            }
        });
        Self {
            fetched,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// The object of the source `number`, which must be the next that was not asked for yet. It blocks.
    pub(super) fn next(&mut self, number: usize) -> Result<Supplied, Error> {
        let (found, supplied) = self.fetched.blocking_recv().ok_or(Error::GivenUp)?;
        assert_eq!(found, number, "objects are read in the order of the slices");
        supplied
    }
}

enum Wanted {
    Report { key: Key, size: u64 },
    Can { key: Key },
}

impl Wanted {
    fn of(source: &Source) -> Option<Self> {
        match source {
            Source::Report { key, size } => Some(Self::Report {
                key: key.clone(),
                size: *size,
            }),
            Source::Can { key, .. } => Some(Self::Can { key: key.clone() }),
            Source::File { .. } | Source::Bundle { .. } | Source::Hour { .. } => None,
        }
    }

    async fn fetch(
        self,
        lake: &Lake,
        scratch: &Scratch,
        room: Arc<Semaphore>,
    ) -> Result<Supplied, Error> {
        match self {
            Self::Can { key } => Ok(Supplied::File(save(lake, &key, scratch).await?)),
            Self::Report { key, size } if size > LARGE_BYTES_MIN => {
                Ok(Supplied::Pieces(lake.stream(&key).await?))
            }
            Self::Report { key, size } => {
                // Room is given in the order in which it was asked for, so the next one always gets it.
                let permits = u32::try_from(size / PERMIT_BYTES + 1).expect("it is at most 16385");
                let most = u32::try_from(AHEAD_BYTES / PERMIT_BYTES).expect("it is 16384");
                let room = room.acquire_many_owned(permits.min(most)).await;
                let room = room.map_err(|_| Error::GivenUp)?;
                let object = lake.get(&key, size).await?;
                Ok(Supplied::Whole(object.bytes, room))
            }
        }
    }
}

/// Brings an object to a scratch file, piece by piece.
pub(super) async fn save(lake: &Lake, key: &Key, scratch: &Scratch) -> Result<ScratchFile, Error> {
    let failed = |why: io::Error| Error::scratch(scratch.folder(), why);
    let folder = scratch.clone();
    let file = blocking(move || folder.file()).await;
    let file = file.and_then(|file| file).map_err(failed)?;
    let mut pieces = lake.stream(key).await?;
    let mut at = 0;
    while let Some(piece) = pieces.try_next().await? {
        let mut place = file.begin();
        let length = piece.len() as u64;
        let written = blocking(move || {
            place.seek(SeekFrom::Start(at))?;
            place.write_all(&piece)
        });
        written.await.and_then(|written| written).map_err(failed)?;
        at += length;
    }
    Ok(file)
}
