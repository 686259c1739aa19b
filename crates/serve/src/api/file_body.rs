//! A part of a file as the body of an answer: sent without being read, or read piece by piece where it must be encrypted.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use futures::stream::{self, Stream, StreamExt as _, TryStreamExt as _};
use rustix::fs::{Advice, fadvise};

use crate::server::FileQueue;

/// What is brought from the disk to memory at once, to be sent from there: no thread that serves others waits for a disk.
const WINDOW_BYTES: u64 = 4 * 1024 * 1024;

/// What is read at once where the bytes themselves are needed.
const PIECE_BYTES: u64 = 1024 * 1024;

/// How many windows or pieces are under way.
const AHEAD: usize = 2;

/// A body. The part lies within the file; `queue` is the one of the connection that will send it, if that can send files.
pub(super) fn body(file: File, part: Range<u64>, queue: Option<FileQueue>) -> Body {
    let file = Arc::new(file);
    match queue {
        Some(queue) => Body::from_stream(sent(file, part, queue)),
        None => Body::from_stream(read(file, part)),
    }
}

fn sent(
    file: Arc<File>,
    part: Range<u64>,
    queue: FileQueue,
) -> impl Stream<Item = io::Result<Bytes>> {
    let windows = ahead(Arc::clone(&file), part, WINDOW_BYTES, |file, window| {
        load(file, &window)?;
        Ok(window)
    });
    windows
        .map_ok(move |window| {
            let (file, queue) = (Arc::clone(&file), queue.clone());
            stream::iter(std::iter::successors(
                Some((None, window)),
                move |(_, left)| {
                    (!left.is_empty()).then(|| {
                        let (stand_in, left) = queue.push(&file, left.clone());
                        (Some(stand_in), left)
                    })
                },
            ))
            .filter_map(async |(stand_in, _)| stand_in.map(Ok))
        })
        .try_flatten()
}

fn read(file: Arc<File>, part: Range<u64>) -> impl Stream<Item = io::Result<Bytes>> {
    ahead(file, part, PIECE_BYTES, |file, piece| {
        let length = usize::try_from(piece.end - piece.start).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, piece.start)?;
        Ok(bytes.into())
    })
}

/// What `work` makes of each stretch of the part, in order and a little ahead of who takes it.
fn ahead<T: Send + 'static>(
    file: Arc<File>,
    part: Range<u64>,
    stretch: u64,
    work: fn(&File, Range<u64>) -> io::Result<T>,
) -> impl Stream<Item = io::Result<T>> {
    let starts = part.clone().step_by(stretch as usize);
    let stretches = starts.map(move |start| {
        let file = Arc::clone(&file);
        let stretch = start..part.end.min(start + stretch);
        async move { tokio::task::spawn_blocking(move || work(&file, stretch)).await? }
    });
    stream::iter(stretches).buffered(AHEAD)
}

/// Has the system read a stretch into its memory, and waits for the end of it.
fn load(file: &File, stretch: &Range<u64>) -> io::Result<()> {
    let length = NonZeroU64::new(stretch.end - stretch.start);
    fadvise(file, stretch.start, length, Advice::WillNeed)?;
    file.read_exact_at(&mut [0], stretch.end - 1)
}
