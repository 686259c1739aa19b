//! What a thread has been asked to do: a set, so that asking twice is asking once, and it cannot grow without end.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Things to do, the smallest first.
#[derive(Debug)]
pub(super) struct Inbox<T> {
    waiting: Mutex<BTreeSet<T>>,
    more: Notify,
    limit: usize,
}

impl<T: Ord> Inbox<T> {
    /// Nothing to do yet, and never more than `limit` things.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            waiting: Mutex::default(),
            more: Notify::new(),
            limit,
        }
    }

    /// Asks for `thing`. What is being done at the moment is done again. False when there is no room: nothing has changed.
    pub(super) fn add(&self, thing: T) -> bool {
        let mut waiting = self.lock();
        if waiting.len() >= self.limit && !waiting.contains(&thing) {
            return false;
        }
        waiting.insert(thing);
        self.more.notify_one();
        true
    }

    /// Waits for something to do; nothing once `stop` is asked for. For one thread alone.
    pub(super) fn next(&self, stop: &CancellationToken) -> Option<T> {
        futures::executor::block_on(async {
            while !stop.is_cancelled() {
                if let Some(thing) = self.take() {
                    return Some(thing);
                }
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = self.more.notified() => {}
                }
            }
            None
        })
    }

    fn take(&self) -> Option<T> {
        self.lock().pop_first()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_a_thing_once_and_only_so_many() {
        let (inbox, stop) = (Inbox::new(2), CancellationToken::new());
        assert!(inbox.add(2) && inbox.add(1));
        assert!(!inbox.add(3));
        assert!(inbox.add(2));
        assert_eq!([inbox.next(&stop), inbox.next(&stop)], [Some(1), Some(2)]);
        assert!(inbox.add(3));
        stop.cancel();
        assert_eq!(inbox.next(&stop), None);
    }

    #[test]
    fn who_waits_is_woken_by_a_thing_and_by_the_end() {
        let (inbox, stop) = (Inbox::new(1), CancellationToken::new());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| (inbox.next(&stop), inbox.next(&stop)));
            inbox.add('x');
            while !inbox.lock().is_empty() {
                std::thread::yield_now();
            }
            stop.cancel();
            assert_eq!(waiter.join().unwrap(), (Some('x'), None));
        });
    }
}
