//! A connection that can send a file without reading it: the system hands its pages to the socket.
//!
//! hyper knows bodies of bytes alone. So such a body is made of stand-ins, slices of one block of memory that nobody reads, and the
//! connection knows a stand-in by its address: in its place it sends as many bytes of the file that is next in its [`FileQueue`].
//! That hyper passes slices on as they are, and copies none, is what `http1::Builder::writev` promises.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use axum::body::Bytes;
use rustix::fs::sendfile;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// What one stand-in stands for at most.
const STAND_IN_BYTES: usize = 256 * 1024;

static STAND_IN: [u8; STAND_IN_BYTES] = [0; STAND_IN_BYTES];

fn is_stand_in(slice: &[u8]) -> bool {
    STAND_IN.as_ptr_range().contains(&slice.as_ptr())
}

/// The parts of files that stand-ins stand for, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileQueue(Arc<Mutex<VecDeque<FilePart>>>);

#[derive(Debug)]
struct FilePart {
    file: Arc<File>,
    range: Range<u64>,
}

impl FileQueue {
    /// What a body must say, at once and on the same connection, to send the beginning of that part of a file; and what is left
    /// of the part.
    pub(crate) fn push(&self, file: &Arc<File>, range: Range<u64>) -> (Bytes, Range<u64>) {
        let bytes = (range.end - range.start).min(STAND_IN_BYTES as u64);
        let end = range.start + bytes;
        let part = FilePart {
            file: Arc::clone(file),
            range: range.start..end,
        };
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.push_back(part);
        let length = usize::try_from(bytes).expect("a stand-in fits into memory");
        (Bytes::from_static(&STAND_IN[..length]), end..range.end)
    }

    /// Sends what the next stand-ins stand for, at most `bytes` of it; how many were sent.
    fn send(&self, socket: &TcpStream, bytes: usize) -> io::Result<usize> {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(part) = parts.front_mut() else {
            return Err(io::Error::other("a stand-in stands for no file"));
        };
        let left = usize::try_from(part.range.end - part.range.start).unwrap_or(usize::MAX);
        let sent = sendfile(
            socket,
            &part.file,
            Some(&mut part.range.start),
            bytes.min(left),
        )?;
        if sent == 0 {
            let message = "a file became shorter while it was sent";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        if part.range.is_empty() {
            parts.pop_front();
        }
        Ok(sent)
    }
}

/// A connection with the queue of its files.
pub(super) struct FileStream {
    stream: TcpStream,
    files: FileQueue,
}

impl FileStream {
    pub(super) fn new(stream: TcpStream, files: FileQueue) -> Self {
        Self { stream, files }
    }

    fn poll_send(&self, context: &mut Context<'_>, bytes: usize) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_write_ready(context))?;
            let send = || self.files.send(&self.stream, bytes);
            match self.stream.try_io(Interest::WRITABLE, send) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                sent => return Poll::Ready(sent),
            }
        }
    }
}

impl AsyncRead for FileStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for FileStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let plain = slices
            .iter()
            .take_while(|slice| !is_stand_in(slice))
            .count();
        if plain > 0 || slices.is_empty() {
            let plain = &slices[..plain];
            return Pin::new(&mut self.stream).poll_write_vectored(context, plain);
        }
        let stand_ins = slices.iter().take_while(|slice| is_stand_in(slice));
        let bytes = stand_ins.map(|slice| slice.len()).sum();
        self.poll_send(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
