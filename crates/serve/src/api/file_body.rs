//! A part of a file as the body of an answer: sent without being read, or read piece by piece where it must be encrypted.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use futures::stream::{self, Stream, StreamExt as _, TryStreamExt as _};
use rustix::fs::{Advice, fadvise};
use rustix::io::{ReadWriteFlags, preadv2};

use crate::server::FileQueue;

/// What is brought from the disk to memory at once, to be sent from there: no thread that serves others waits for a disk.
const WINDOW_BYTES: usize = 4 * 1024 * 1024;

/// How far apart it is looked at whether a window is in memory.
const LOOK_EVERY_BYTES: usize = 512 * 1024;

/// What is read at once where the bytes themselves are needed: a slow client holds a few of them.
const PIECE_BYTES: usize = 256 * 1024;

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
    let starts = part.clone().step_by(WINDOW_BYTES);
    let loading = Arc::clone(&file);
    let windows = starts.map(move |start| {
        let file = Arc::clone(&loading);
        let window = start..part.end.min(start + WINDOW_BYTES as u64);
        async move {
            if !is_loaded(&file, &window) {
                let window = window.clone();
                tokio::task::spawn_blocking(move || load(&file, &window)).await??;
            }
            Ok::<_, io::Error>(window)
        }
    });
    stream::iter(windows)
        .buffered(AHEAD)
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
    let starts = part.clone().step_by(PIECE_BYTES);
    let pieces = starts.map(move |start| {
        let file = Arc::clone(&file);
        let piece = start..part.end.min(start + PIECE_BYTES as u64);
        async move { tokio::task::spawn_blocking(move || read_piece(&file, &piece)).await? }
    });
    stream::iter(pieces).buffered(AHEAD)
}

fn read_piece(file: &File, piece: &Range<u64>) -> io::Result<Bytes> {
    let length = usize::try_from(piece.end - piece.start).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, piece.start)?;
    Ok(bytes.into())
}

/// Whether what is looked at of a window is in the memory of the system. It takes no time, and spares most answers the way to another
/// thread; that the rest is there as well is likely, not certain.
fn is_loaded(file: &File, window: &Range<u64>) -> bool {
    let looks = window.clone().step_by(LOOK_EVERY_BYTES);
    looks.chain([window.end - 1]).all(|at| {
        let mut byte = [0];
        let mut buffers = [IoSliceMut::new(&mut byte)];
        preadv2(file, &mut buffers, at, ReadWriteFlags::NOWAIT).is_ok_and(|read| read == 1)
    })
}

/// Has the system read a stretch into its memory, and waits for the end of it.
fn load(file: &File, stretch: &Range<u64>) -> io::Result<()> {
    let length = NonZeroU64::new(stretch.end - stretch.start);
    fadvise(file, stretch.start, length, Advice::WillNeed)?;
    file.read_exact_at(&mut [0], stretch.end - 1)
}
