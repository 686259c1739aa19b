//! How much was done, over time.

use std::collections::VecDeque;
use std::time::Duration;

use cannery_journal::Stats;

use super::{Desk, JournalWatch, lock};

const SAMPLE_EVERY: Duration = Duration::from_secs(10);
/// An engine whose numbers are hard work is asked less often: it has other things to do most of the time.
const SHARE_OF_WORK: u32 = 20;
/// As many as a curve shows.
const SAMPLES_MAX: usize = 240;

pub(super) const TITLE: &str = "done in 10 s, last 40 minutes";

/// Entries done in each interval, in ten seconds.
#[derive(Debug, Default)]
pub(super) struct Samples {
    before: Option<Before>,
    series: VecDeque<f64>,
}

#[derive(Debug)]
struct Before {
    at: Duration,
    done: u64,
    died: u64,
}

impl Samples {
    /// Takes in what is known at a moment; says how many entries were given up since the last one.
    fn take(&mut self, at: Duration, stats: &Stats) -> u64 {
        let (done, died) = (stats.counts.done, stats.counts.died);
        let before = self.before.replace(Before { at, done, died });
        let Some(before) = before else {
            return 0;
        };
        let since = at.saturating_sub(before.at).as_secs_f64();
        // Another opening of the journal may know less, after a fail-over for example.
        let done = done.saturating_sub(before.done);
        let done = f64::from(u32::try_from(done).unwrap_or(u32::MAX));
        if since > 0.0 {
            self.series
                .push_back(done * SAMPLE_EVERY.as_secs_f64() / since);
        }
        if self.series.len() > SAMPLES_MAX {
            self.series.pop_front();
        }
        died.saturating_sub(before.died)
    }

    /// The curve, oldest first, once there is one.
    pub(super) fn curve(&self) -> Option<Vec<f64>> {
        (self.series.len() > 1).then(|| self.series.iter().copied().collect())
    }
}

impl JournalWatch {
    /// Takes samples of one journal; never ends.
    pub(super) async fn sample(&self, desk: &Desk) {
        loop {
            let mut pause = SAMPLE_EVERY;
            if let Some(journal) = self.metrics.journal(&desk.name) {
                match journal.ask().await {
                    Ok(took) => pause = pause.max(took * SHARE_OF_WORK),
                    Err(error) => {
                        tracing::debug!(journal = desk.name, %error, "cannot ask a journal for its numbers");
                    }
                }
                if let Some(stats) = journal.last_stats() {
                    self.note(desk, &stats);
                }
            }
            self.clock.sleep(pause).await;
        }
    }

    fn note(&self, desk: &Desk, stats: &Stats) {
        let died = lock(&desk.samples).take(self.clock.elapsed(), stats);
        if died > 0 {
            tracing::warn!(
                journal = desk.name,
                entries = died,
                "entries were given up; see `cannery journal dead ls`"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cannery_journal::Counts;

    fn stats(done: u64, died: u64) -> Stats {
        Stats {
            counts: Counts {
                done,
                died,
                ..Counts::default()
            },
            ..Stats::default()
        }
    }

    #[test]
    fn intervals_are_compared_at_ten_seconds_each() {
        let mut samples = Samples::default();
        let at = Duration::from_secs;
        assert_eq!(
            samples.take(at(0), &stats(1_000, 7)),
            0,
            "what was before does not count"
        );
        assert_eq!(samples.take(at(10), &stats(1_050, 7)), 0);
        assert_eq!(samples.curve(), None);
        assert_eq!(samples.take(at(30), &stats(1_150, 9)), 2);
        assert_eq!(samples.take(at(40), &stats(3, 0)), 0);
        assert_eq!(samples.take(at(40), &stats(4, 0)), 0);
        assert_eq!(samples.curve(), Some(vec![50.0, 50.0, 0.0]));
        for second in 41..600 {
            samples.take(at(second), &stats(4, 0));
        }
        assert_eq!(samples.curve().map(|curve| curve.len()), Some(SAMPLES_MAX));
    }
}
