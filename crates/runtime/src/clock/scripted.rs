//! A clock read from a file, so that a test can drive the real binary through days.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::{Clock, ClockSource, Sleep};

/// How often a sleeper looks at the file. Real time, since only the test's process moves the simulated one.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The time is whatever stands in the file: one timestamp such as `2026-11-15T18:24:03Z`. It may go back, as the clock of a
/// machine does that is set right; then no time passes. An unreadable value leaves the time where it was.
#[derive(Clone, Debug)]
pub struct ScriptedClock {
    file: PathBuf,
    seen: Arc<Mutex<Seen>>,
}

/// What was last read, and how much time has passed by it.
#[derive(Debug)]
struct Seen {
    now: Timestamp,
    elapsed: Duration,
}

impl ScriptedClock {
    /// Reads the first value.
    ///
    /// # Errors
    /// When the file cannot be read or holds no timestamp.
    pub fn open(file: &Path) -> io::Result<Clock> {
        let start = read(file)?;
        let source = Self {
            file: file.to_owned(),
            seen: Arc::new(Mutex::new(Seen {
                now: start,
                elapsed: Duration::ZERO,
            })),
        };
        Ok(Clock::from_source(Arc::new(source)))
    }
}

fn read(file: &Path) -> io::Result<Timestamp> {
    std::fs::read_to_string(file)?
        .trim()
        .parse()
        .map_err(io::Error::other)
}

impl ScriptedClock {
    fn look(&self) -> MutexGuard<'_, Seen> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(now) = read(&self.file) {
            let passed = now.duration_since(seen.now);
            seen.elapsed += Duration::try_from(passed).unwrap_or_default();
            seen.now = now;
        }
        seen
    }
}

impl ClockSource for ScriptedClock {
    fn now(&self) -> Timestamp {
        self.look().now
    }

    fn elapsed(&self) -> Duration {
        self.look().elapsed
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        let follower = self.clone();
        Box::pin(async move {
            while follower.elapsed() < deadline {
                #[allow(clippy::disallowed_methods, reason = "only the file moves this clock")]
                tokio::time::sleep(LOOK_EVERY).await;
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
