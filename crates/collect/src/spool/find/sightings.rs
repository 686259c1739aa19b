//! What a finder tells: in batches, because a thread that is woken for every file of a million does little else.

use tokio::sync::mpsc;
#[cfg(test)]
use tokio::sync::mpsc::error::TryRecvError;

use super::Sighting;

/// As many sightings as go together at most.
const BATCH: usize = 64;

/// Where the consumer hears of sightings, one by one.
#[derive(Debug)]
pub(crate) struct Sightings {
    batches: mpsc::Receiver<Vec<Sighting>>,
    now: std::vec::IntoIter<Sighting>,
}

/// A channel in which about `capacity` sightings wait, and how many go together.
pub(super) fn channel(capacity: usize) -> (mpsc::Sender<Vec<Sighting>>, Sightings, usize) {
    let batch = (capacity / 8).clamp(1, BATCH);
    let (sender, batches) = mpsc::channel((capacity / batch).max(1));
    let now = Vec::new().into_iter();
    (sender, Sightings { batches, now }, batch)
}

impl Sightings {
    /// The next one; none when the finder has ended.
    pub(crate) fn blocking_recv(&mut self) -> Option<Sighting> {
        loop {
            match self.now.next() {
                Some(sighting) => return Some(sighting),
                None => self.now = self.batches.blocking_recv()?.into_iter(),
            }
        }
    }

    /// Whether nothing more was told yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.now.len() == 0 && self.batches.is_empty()
    }

    /// The same as [`Sightings::blocking_recv`].
    #[cfg(test)]
    pub(crate) async fn recv(&mut self) -> Option<Sighting> {
        loop {
            match self.now.next() {
                Some(sighting) => return Some(sighting),
                None => self.now = self.batches.recv().await?.into_iter(),
            }
        }
    }

    /// The next one, if it was told already.
    #[cfg(test)]
    pub(crate) fn try_recv(&mut self) -> Result<Sighting, TryRecvError> {
        loop {
            match self.now.next() {
                Some(sighting) => return Ok(sighting),
                None => self.now = self.batches.try_recv()?.into_iter(),
            }
        }
    }
}
