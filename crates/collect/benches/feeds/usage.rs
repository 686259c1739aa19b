//! What processes take, from `/proc`.

/// What a process took in a stretch of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) seconds: f64,
    /// User and system.
    pub(crate) cpu_seconds: f64,
    /// In the middle of the time.
    pub(crate) rss_first: u64,
    /// At the end.
    pub(crate) rss_last: u64,
}

/// User and system, in ticks of a hundredth of a second.
pub(crate) fn cpu_seconds(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks = fields.split(' ').skip(11).take(2);
    ticks
        .map(|ticks| ticks.parse::<f64>().unwrap())
        .sum::<f64>()
        / 100.0
}

pub(crate) fn rss_bytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let mut lines = status.lines();
    let line = lines.find(|line| line.starts_with("VmRSS:")).unwrap();
    let kilobytes = line.split_whitespace().nth(1).unwrap();
    kilobytes.parse::<u64>().unwrap() * 1_024
}

/// What all processes of the machine together worked, and what all its processors could have.
pub(crate) fn machine_seconds() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let line = stat.lines().next().unwrap();
    let ticks: Vec<f64> = line
        .split_whitespace()
        .skip(1)
        .take(8)
        .map(|ticks| ticks.parse().unwrap())
        .collect();
    // The fourth is idle, the fifth waits for a disk.
    let all: f64 = ticks.iter().sum();
    ((all - ticks[3] - ticks[4]) / 100.0, all / 100.0)
}
