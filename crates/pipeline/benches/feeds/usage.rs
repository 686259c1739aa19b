//! What a stretch of work took.

use cannery_runtime::Clock;

/// What was used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) seconds: f64,
    /// User and system, of this process and of those it waited for.
    pub(crate) cpu_seconds: f64,
}

impl Used {
    /// One after the other.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            seconds: self.seconds + other.seconds,
            cpu_seconds: self.cpu_seconds + other.cpu_seconds,
        }
    }
}

/// Measures work.
pub(crate) fn measure(work: impl FnOnce()) -> Used {
    let clock = Clock::real();
    let (begun, cpu) = (clock.elapsed(), cpu_seconds());
    work();
    Used {
        seconds: clock.since(begun).as_secs_f64(),
        cpu_seconds: cpu_seconds() - cpu,
    }
}

/// From `/proc`, in ticks of a hundredth of a second.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks = fields.split(' ').skip(11).take(4);
    ticks
        .map(|ticks| ticks.parse::<f64>().unwrap())
        .sum::<f64>()
        / 100.0
}

pub(crate) fn rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let line = lines.find(|line| line.starts_with("VmRSS:")).unwrap();
    let kilobytes = line.split_whitespace().nth(1).unwrap();
    kilobytes.parse::<u64>().unwrap() * 1_024
}
