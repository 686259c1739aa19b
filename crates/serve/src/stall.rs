//! A connection that gives up on a client who does not read what it asked for.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use cannery_runtime::Clock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::timer::{Alarm, alarm};

/// Fails a write that made no progress for the limit. Without it, a client that never reads holds its place for ever.
pub(crate) struct StallGuard<S> {
    stream: S,
    clock: Clock,
    limit: Duration,
    alarm: Option<Alarm>,
}

impl<S> StallGuard<S> {
    pub(crate) fn new(stream: S, clock: Clock, limit: Duration) -> Self {
        Self {
            stream,
            clock,
            limit,
            alarm: None,
        }
    }

    /// Passes on the outcome of a write, and an error in place of waiting too long.
    fn watch<T>(
        &mut self,
        outcome: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.alarm = None;
            return outcome;
        }
        let alarm = self
            .alarm
            .get_or_insert_with(|| alarm(&self.clock, self.limit));
        let given_up = |_| {
            Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client does not read",
            ))
        };
        alarm.as_mut().poll(context).map(given_up)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(outcome, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch(outcome, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(outcome, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(outcome, context)
    }
}

#[cfg(test)]
mod tests {
    use cannery_runtime::clock::SimulatedClock;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_write_nobody_reads_fails_after_the_limit_and_not_before() {
        let simulated = SimulatedClock::starting_at(jiff::Timestamp::UNIX_EPOCH);
        let (near, _far) = tokio::io::duplex(4);
        let mut guarded = StallGuard::new(near, simulated.clock(), LIMIT);
        let writing =
            tokio::spawn(async move { guarded.write_all(b"too much for the pipe").await });
        simulated.advance(LIMIT - Duration::from_millis(1)).await;
        assert!(!writing.is_finished());
        simulated.advance(Duration::from_millis(1)).await;
        assert_eq!(
            writing.await.unwrap().unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
    }

    #[tokio::test]
    async fn a_slow_reader_who_makes_progress_is_served() {
        let simulated = SimulatedClock::starting_at(jiff::Timestamp::UNIX_EPOCH);
        let (near, mut far) = tokio::io::duplex(1);
        let mut guarded = StallGuard::new(near, simulated.clock(), LIMIT);
        let writing = tokio::spawn(async move { guarded.write_all(b"slow").await });
        let mut read = [0; 4];
        for byte in &mut read {
            simulated.advance(LIMIT - Duration::from_secs(1)).await;
            *byte = far.read_u8().await.unwrap();
        }
        writing.await.unwrap().unwrap();
        assert_eq!(&read, b"slow");
    }
}
