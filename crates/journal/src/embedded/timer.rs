//! Wakes who waits when an entry becomes due, and the committing thread when time brings something.

use std::time::Duration;

use cannery_runtime::Clock;
use tokio::sync::mpsc;

use super::committer::Job;
use super::shared::Shared;
use crate::date::Date;

/// Behind every timer: a clock that was set, or a mistake, costs a second and not a day.
const SAFETY: Duration = Duration::from_secs(1);

/// Runs until the committing thread is gone.
pub(super) async fn run(clock: Clock, shared: Shared, jobs: mpsc::Sender<Job>) {
    let mut pulses = shared.pulses();
    let mut rung = None;
    loop {
        let pulse = *pulses.borrow_and_update();
        let now = Date::from(clock.now());
        // A date may have passed between the commit that told of it and this look at the clock.
        let passed = [pulse.due, pulse.later].into_iter().flatten();
        let passed = passed.filter(|date| *date <= now).max();
        if passed > rung {
            shared.alarm.ring();
            rung = passed;
        }
        let next_ring = [pulse.due, pulse.later].into_iter().flatten();
        let next_ring = next_ring.filter(|date| *date > now).min();
        let next = [next_ring, pulse.sweep].into_iter().flatten().min();
        let pause = next.map_or(SAFETY, |date| date.since(now).min(SAFETY));
        tokio::select! {
            () = clock.sleep(pause) => {
                let now = Date::from(clock.now());
                let is_late = pulse.due.is_some_and(|due| due <= now);
                if next_ring.is_some_and(|date| date <= now) || (is_late && pause == SAFETY) {
                    shared.alarm.ring();
                }
                // A queue that is full has the thread at work, which looks at the clock anyway.
                if let Err(mpsc::error::TrySendError::Closed(_)) = jobs.try_send(Job::Tick) {
                    return;
                }
            }
            changed = pulses.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = jobs.closed() => return,
        }
    }
}
