//! What a stretch of work took, for benchmarks. From `/proc`, as the kernel counts it.

use cannery_runtime::Clock;

/// What was used.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    /// By the clock.
    pub seconds: f64,
    /// User and system, of this process and of those it waited for.
    pub cpu_seconds: f64,
}

impl Used {
    /// One after the other.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            seconds: self.seconds + other.seconds,
            cpu_seconds: self.cpu_seconds + other.cpu_seconds,
        }
    }
}

/// Measures work.
pub fn measure(work: impl FnOnce()) -> Used {
    let clock = Clock::real();
    let (begun, cpu) = (clock.elapsed(), cpu_seconds());
    work();
    Used {
        seconds: clock.since(begun).as_secs_f64(),
        cpu_seconds: cpu_seconds() - cpu,
    }
}

/// In ticks of a hundredth of a second.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has /proc");
    let (_, fields) = stat.rsplit_once(") ").expect("the name stands in brackets");
    let ticks = fields.split(' ').skip(11).take(4);
    let ticks = ticks.map(|ticks| ticks.parse::<f64>().expect("ticks are numbers"));
    ticks.sum::<f64>() / 100.0
}

/// The memory that this process has now.
#[must_use]
pub fn rss_bytes() -> u64 {
    status("VmRSS:")
}

/// The most that it ever had.
#[must_use]
pub fn peak_rss_bytes() -> u64 {
    status("VmHWM:")
}

fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has /proc");
    let mut lines = status.lines();
    let line = lines.find(|line| line.starts_with(field));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    let kilobytes = kilobytes.and_then(|number| number.parse::<u64>().ok());
    kilobytes.expect("a process has memory") * 1_024
}
