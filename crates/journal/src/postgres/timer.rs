//! Wakes listeners at process dates, and sweeps when a lease runs out: a timer in memory, not a poll.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Shared;
use super::journal::PgJournal;

/// How long a sweep that failed is not tried again.
const SWEEP_PAUSE_MS: i64 = 1_000;
/// A clock that is set back, or one that is simulated, is looked at again after this.
const SLEEP_MAX: Duration = Duration::from_secs(3_600);

/// Rings and sweeps until it is told to stop.
pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    loop {
        let now = shared.estimate();
        let mut next: Option<i64> = None;
        for journal in shared.open_journals() {
            journal.due(now);
            next = [next, journal.next_date(now)].into_iter().flatten().min();
        }
        let pause = next.map_or(SLEEP_MAX, |date| {
            Duration::from_millis(date.saturating_sub(now).max(1).cast_unsigned()).min(SLEEP_MAX)
        });
        tokio::select! {
            () = stop.cancelled() => return,
            () = shared.rearm.notified() => {}
            () = shared.timer.sleep(pause) => {}
        }
    }
}

impl PgJournal {
    /// Does what is due by now.
    fn due(self: &Arc<Self>, now: i64) {
        let rung = self.rung.load(Ordering::Relaxed);
        let due = self.marks().next_after(rung);
        if due.is_some_and(|due| due <= now) {
            self.rung.store(now, Ordering::Relaxed);
            self.ring();
        }
        let late = self
            .leases()
            .first_deadline()
            .is_some_and(|last| last < now);
        if late && self.sweep_after.load(Ordering::Relaxed) <= now {
            self.start_sweep(now);
        }
    }

    fn start_sweep(self: &Arc<Self>, now: i64) {
        self.sweep_after
            .store(now.saturating_add(SWEEP_PAUSE_MS), Ordering::Relaxed);
        let journal = Arc::clone(self);
        // It ends by itself: each of its statements has a limit.
        tokio::spawn(async move {
            match journal.sweep_if_late().await {
                Ok(()) => journal.sweep_after.store(i64::MIN, Ordering::Relaxed),
                Err(fault) => tracing::warn!(
                    journal = journal.name(),
                    error = %fault.error,
                    "cannot sweep; it is tried again"
                ),
            }
            journal.shared.rearm();
        });
    }

    /// When to look again.
    fn next_date(&self, now: i64) -> Option<i64> {
        let due = self.marks().next_after(self.rung.load(Ordering::Relaxed));
        let lease = self
            .leases()
            .first_deadline()
            .map(|last| last.saturating_add(1))
            .map(|date| date.max(self.sweep_after.load(Ordering::Relaxed)));
        [due, lease]
            .into_iter()
            .flatten()
            .map(|date| date.max(now))
            .min()
    }
}
