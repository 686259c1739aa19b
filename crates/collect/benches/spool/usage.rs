//! What a stretch of work took.

use cannery_runtime::Clock;
use rustix::process::getpid;

/// What was used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) seconds: f64,
    /// User and system.
    pub(crate) cpu_seconds: f64,
    /// At the end; what is freed in between does not show.
    pub(crate) rss_bytes: u64,
}

/// Measures work of this process.
pub(crate) fn measure(work: impl FnOnce()) -> Used {
    let clock = Clock::real();
    let (begun, cpu) = (clock.elapsed(), cpu_seconds());
    work();
    Used {
        seconds: clock.since(begun).as_secs_f64(),
        cpu_seconds: cpu_seconds() - cpu,
        rss_bytes: rss_bytes(),
    }
}

/// From `/proc`, in ticks of a hundredth of a second.
fn cpu_seconds() -> f64 {
    let stat =
        std::fs::read_to_string(format!("/proc/{}/stat", getpid().as_raw_nonzero())).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks = fields.split(' ').skip(11).take(2);
    ticks
        .map(|ticks| ticks.parse::<f64>().unwrap())
        .sum::<f64>()
        / 100.0
}

fn rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 1_024
}
