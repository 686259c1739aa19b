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
    let mut rung_for = None;
    loop {
        let pulse = *pulses.borrow_and_update();
        let now = Date::from(clock.now());
        let is_past = |date: Option<Date>| date.is_some_and(|date| date <= now);
        if is_past(pulse.due) && rung_for != pulse.due {
            shared.alarm.ring();
            rung_for = pulse.due;
        }
        if is_past(pulse.sweep) && jobs.send(Job::Tick).await.is_err() {
            return;
        }
        let next = [pulse.due, pulse.sweep]
            .into_iter()
            .flatten()
            .filter(|date| *date > now)
            .min();
        let pause = next.map_or(SAFETY, |date| date.since(now).min(SAFETY));
        tokio::select! {
            () = clock.sleep(pause) => {
                rung_for = None;
                if pause == SAFETY && jobs.send(Job::Tick).await.is_err() {
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
