//! What the committing thread and everybody else both know.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::watch;

use crate::date::Date;
use crate::declaration::Declaration;
use crate::engine::{Health, Usage};
use crate::error::Error;
use crate::wake::Alarm;

/// When something is to happen without being asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pulse {
    /// An entry becomes due.
    pub(super) due: Option<Date>,
    /// The next entry after those that are due already becomes due.
    pub(super) later: Option<Date>,
    /// A lease runs out, or an entry expires.
    pub(super) sweep: Option<Date>,
}

/// Handles to the same.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) alarm: Alarm,
    pulse: Arc<watch::Sender<Pulse>>,
    known: Arc<Known>,
}

#[derive(Debug)]
struct Known {
    declaration: Mutex<Declaration>,
    warning: Mutex<Option<String>>,
    closed: OnceLock<Error>,
    segments: AtomicU64,
    bytes: AtomicU64,
}

impl Shared {
    pub(super) fn new(declaration: Declaration) -> Self {
        Self {
            alarm: Alarm::new(),
            pulse: Arc::new(watch::Sender::default()),
            known: Arc::new(Known {
                declaration: Mutex::new(declaration),
                warning: Mutex::new(None),
                closed: OnceLock::new(),
                segments: AtomicU64::new(0),
                bytes: AtomicU64::new(0),
            }),
        }
    }

    pub(super) fn pulses(&self) -> watch::Receiver<Pulse> {
        self.pulse.subscribe()
    }

    pub(super) fn publish(&self, next: Pulse, segments: usize, bytes: u64) {
        self.known
            .segments
            .store(segments as u64, Ordering::Relaxed);
        self.known.bytes.store(bytes, Ordering::Relaxed);
        self.pulse.send_if_modified(|pulse| {
            let changed = *pulse != next;
            *pulse = next;
            changed
        });
    }

    pub(super) fn usage(&self) -> Usage {
        Usage {
            segments: self.known.segments.load(Ordering::Relaxed),
            bytes: self.known.bytes.load(Ordering::Relaxed),
        }
    }

    pub(super) fn declare(&self, declaration: Declaration) {
        *lock(&self.known.declaration) = declaration;
    }

    pub(super) fn declaration(&self) -> Declaration {
        lock(&self.known.declaration).clone()
    }

    /// Remembers what a person should look at.
    pub(super) fn warn(&self, what: &str) {
        tracing::warn!(what, "the journal is damaged");
        *lock(&self.known.warning) = Some(what.to_owned());
    }

    pub(super) fn close(&self, why: &Error) {
        // Only the first reason counts.
        drop(self.known.closed.set(why.clone()));
        self.alarm.close();
    }

    pub(super) fn closed(&self) -> Option<&Error> {
        self.known.closed.get()
    }

    pub(super) fn health(&self) -> Health {
        if let Some(error) = self.closed() {
            return Health::Bad(error.message.clone());
        }
        lock(&self.known.warning)
            .clone()
            .map_or(Health::Good, Health::Warn)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
