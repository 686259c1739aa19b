//! A clock read from a file, so that a test can drive the real binary through days.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::{Clock, ClockSource, Sleep};

/// How often a sleeper looks at the file. Real time, since only the test's process moves the simulated one.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The time is whatever stands in the file: one timestamp such as `2026-11-15T18:24:03Z`. It never goes back: an older or
/// unreadable value leaves the time where it was.
#[derive(Clone, Debug)]
pub struct ScriptedClock {
    file: PathBuf,
    start: Timestamp,
    latest: Arc<Mutex<Timestamp>>,
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
            start,
            latest: Arc::new(Mutex::new(start)),
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

impl ClockSource for ScriptedClock {
    fn now(&self) -> Timestamp {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(now) = read(&self.file) {
            *latest = now.max(*latest);
        }
        *latest
    }

    fn elapsed(&self) -> Duration {
        self.now().duration_since(self.start).unsigned_abs()
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
        write_durably(&RealDisk, &file, b"1999-01-01T00:00:00Z\n").unwrap();
        assert_eq!(clock.now().to_string(), "2026-01-02T00:00:00Z");
    }
}
