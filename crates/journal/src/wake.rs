//! Wake-ups: who waits for work hears when there may be some.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::Stream;
use tokio::sync::watch;

/// Wakes everybody who listens; kept by an engine. Clones are the same alarm.
#[derive(Clone, Debug)]
pub struct Alarm(Arc<Mutex<Option<watch::Sender<u64>>>>);

impl Alarm {
    /// An alarm that nobody listens to yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Some(watch::Sender::new(0)))))
    }

    fn sender(&self) -> MutexGuard<'_, Option<watch::Sender<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all listeners. Two rings that nobody answered in between are one.
    pub fn ring(&self) {
        if let Some(sender) = &*self.sender() {
            sender.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// A new listener; it hears every ring from now on.
    #[must_use]
    pub fn listen(&self) -> Wakes {
        match &*self.sender() {
            Some(sender) => Wakes(sender.subscribe()),
            // Nobody will ring: the sender is gone at once.
            None => Wakes(watch::channel(0).1),
        }
    }

    /// Tells all listeners, present and to come, that no more wake-ups follow.
    pub fn close(&self) {
        self.sender().take();
    }
}

impl Default for Alarm {
    fn default() -> Self {
        Self::new()
    }
}

/// One listener. A wake-up says that something may be due: claim, and see.
#[derive(Debug)]
pub struct Wakes(watch::Receiver<u64>);

impl Wakes {
    /// Waits for the next wake-up; false once the journal is closed and none will come.
    pub async fn next(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }

    /// The wake-ups as a stream, which ends when the journal is closed.
    pub fn into_stream(self) -> impl Stream<Item = ()> + Send + Unpin {
        Box::pin(futures::stream::unfold(self, |mut wakes| async move {
            wakes.next().await.then_some(((), wakes))
        }))
    }
}
