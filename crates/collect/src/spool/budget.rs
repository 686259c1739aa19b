//! A bound on the bytes that wait between two threads.

use std::sync::{Condvar, Mutex, PoisonError};

/// Bytes that may wait at a time; one piece that is larger passes alone.
#[derive(Debug)]
pub(super) struct Budget {
    bytes_max: usize,
    waiting: Mutex<usize>,
    freed: Condvar,
}

impl Budget {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            waiting: Mutex::new(0),
            freed: Condvar::new(),
        }
    }

    /// Waits until there is room.
    pub(super) fn take(&self, bytes: usize) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while *waiting > 0 && *waiting + bytes > self.bytes_max {
            waiting = self
                .freed
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *waiting += bytes;
    }

    pub(super) fn give_back(&self, bytes: usize) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        *waiting = waiting.saturating_sub(bytes);
        self.freed.notify_all();
    }
}
