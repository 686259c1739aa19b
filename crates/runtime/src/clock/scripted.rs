//! A clock read from a file, so that a test can drive the real binary through days.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

use super::{Clock, ClockSource, Sleep};

/// How often the file is looked at for the sleepers. Real time, since only the test's process moves the simulated one.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The time is whatever stands in the file: one timestamp such as `2026-11-15T18:24:03Z`. It may go back, as the clock of a
/// machine does that is set right; then no time passes. An unreadable value leaves the time where it was.
#[derive(Clone, Debug)]
pub struct ScriptedClock {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    file: PathBuf,
    /// What was last read.
    now: Mutex<Timestamp>,
    /// How much time has passed by it; who sleeps waits for this.
    passed: watch::Sender<Duration>,
}

impl ScriptedClock {
    /// Reads the first value.
    ///
    /// # Errors
    /// When the file cannot be read or holds no timestamp.
    pub fn open(file: &Path) -> io::Result<Clock> {
        let shared = Arc::new(Shared {
            now: Mutex::new(read(file)?),
            file: file.to_owned(),
            passed: watch::Sender::new(Duration::ZERO),
        });
        let followed = Arc::downgrade(&shared);
        std::thread::Builder::new()
            .name("scripted clock".to_owned())
            .spawn(move || follow(&followed))?;
        Ok(Clock::from_source(Arc::new(Self { shared })))
    }
}

/// Looks at the file for all sleepers at once, as long as anybody has the clock: there may be a hundred of them.
fn follow(clock: &Weak<Shared>) {
    while let Some(shared) = clock.upgrade() {
        shared.look();
        drop(shared);
        #[allow(clippy::disallowed_methods, reason = "only the file moves this clock")]
        std::thread::sleep(LOOK_EVERY);
    }
}

fn read(file: &Path) -> io::Result<Timestamp> {
    std::fs::read_to_string(file)?
        .trim()
        .parse()
        .map_err(io::Error::other)
}

impl Shared {
    fn look(&self) -> Timestamp {
        let mut seen = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(now) = read(&self.file) {
            let passed = Duration::try_from(now.duration_since(*seen)).unwrap_or_default();
            if !passed.is_zero() {
                self.passed.send_modify(|elapsed| *elapsed += passed);
            }
            *seen = now;
        }
        *seen
    }

    fn elapsed(&self) -> Duration {
        self.look();
        *self.passed.borrow()
    }
}

impl ClockSource for ScriptedClock {
    fn now(&self) -> Timestamp {
        self.shared.look()
    }

    fn elapsed(&self) -> Duration {
        self.shared.elapsed()
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        let shared = self.shared.clone();
        Box::pin(async move {
            let mut passed = shared.passed.subscribe();
            if shared.elapsed() < deadline {
                let slept = passed.wait_for(|passed| *passed >= deadline).await;
                slept.expect("who sleeps holds the sender");
            }
        })
    }

    fn alarm(&self, after: Duration) -> Sleep {
        #[allow(
            clippy::disallowed_methods,
            reason = "what an alarm guards takes real time"
        )]
        Box::pin(tokio::time::sleep(after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{RealDisk, write_durably};

    #[tokio::test]
    async fn a_day_in_the_file_ends_a_day_of_sleep() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("now");
        write_durably(&RealDisk, &file, b"2026-01-01T00:00:00Z\n").unwrap();
        let clock = ScriptedClock::open(&file).unwrap();
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep(Duration::from_secs(86_400)).await }
        });
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        write_durably(&RealDisk, &file, b"2026-01-02T00:00:00Z\n").unwrap();
        sleeper.await.unwrap();
        let elapsed = clock.elapsed();
        write_durably(&RealDisk, &file, b"2026-01-01T23:00:00Z\n").unwrap();
        assert_eq!(clock.now().to_string(), "2026-01-01T23:00:00Z");
        assert_eq!(clock.elapsed(), elapsed, "no time passes backwards");
    }
}
