//! Two weeks of a node's life in seconds: midnights, a leap day, and a clock that is set wrong and right again.

use std::process::Child;
use std::time::SystemTime;

use cannery_testkit::scenario_rng;
use jiff::{SignedDuration, Timestamp};

use super::node::{LOCAL_LAKE, Node};
use crate::program::{Place, pause};

const STEP: SignedDuration = SignedDuration::from_hours(3);
const STEPS: i32 = 15 * 8;

/// Moves the clock of the process, and gives it time to notice.
fn set_clock(node: &Node, now: Timestamp) {
    node.place.write("clock.new", now.to_string());
    #[allow(clippy::disallowed_methods, reason = "only whole, not durable")]
    std::fs::rename(node.place.path("clock.new"), node.place.path("clock")).unwrap();
    pause();
    pause();
}

/// Even a flush takes time, and only this test makes it pass.
fn stop_while_time_passes(node: &Node, mut child: Child, mut now: Timestamp) {
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    // On a busy machine it takes longer, and less time passes meanwhile than the flush may take.
    for round in 0..3_000 {
        if let Some(ended) = child.try_wait().unwrap() {
            // One that was told before it listened is killed by it, and takes everything up at its next start.
            assert!(matches!(ended.code(), None | Some(0)), "{}", node.log());
            return;
        }
        now += SignedDuration::from_millis(if round < 300 { 100 } else { 10 });
        set_clock(node, now);
    }
    child.kill().unwrap();
    panic!("it does not end: {}", node.log());
}

/// A file that was written at that time.
fn produce(node: &Node, now: Timestamp, name: &str) {
    let date = now.strftime("%Y/%m/%d").to_string();
    let filename = format!("{date}/{name}.json");
    let datatype = "foo1";
    node.produce(datatype, &filename, &format!("{{\"text\":\"{now}\"}}"));
    let path = node.place.path("spool/ndt").join(datatype).join(&filename);
    // The process may have been faster. If it was not, it meets a file that was touched, and must not ship it again.
    if let Ok(file) = std::fs::File::options().write(true).open(path) {
        file.set_modified(SystemTime::from(now)).unwrap();
    }
}

#[test]
fn two_weeks_lose_nothing_and_ship_nothing_twice() {
    let start: Timestamp = "2028-02-20T00:00:00Z".parse().unwrap();
    let mut place = Place::new();
    let clock = place.write("clock", start.to_string());
    place.set("CANNERY_SIM_CLOCK", clock.to_str().unwrap());
    let node = Node::at(
        place,
        LOCAL_LAKE,
        "  bundle_age_max: 1h\n  scan_interval: 5m\n",
    );
    let rng = scenario_rng("two weeks of a spool");
    let mut child = node.start(&[]);
    for step in 0..STEPS {
        let now = start + STEP * step;
        set_clock(&node, now);
        for number in 0..=rng.below(3) {
            produce(&node, now, &format!("s{step}n{number}"));
        }
        // The last second of a day, and the first of the next.
        if step % 8 == 7 {
            let midnight = now + STEP;
            set_clock(&node, midnight - SignedDuration::from_secs(1));
            produce(
                &node,
                midnight - SignedDuration::from_secs(1),
                &format!("s{step}late"),
            );
            set_clock(&node, midnight);
            produce(&node, midnight, &format!("s{step}early"));
        }
        match rng.below(8) {
            // The clock jumps, and is set right by the next step.
            0 => set_clock(&node, now + SignedDuration::from_hours(1)),
            1 => set_clock(&node, now - SignedDuration::from_hours(1)),
            2 => {
                child.kill().unwrap();
                child.wait().unwrap();
                child = node.start(&[]);
            }
            3 => {
                stop_while_time_passes(&node, child, now);
                child = node.start(&[]);
            }
            _ => {}
        }
    }
    let end = start + STEP * STEPS + SignedDuration::from_hours(3 * 24);
    let mut now = start + STEP * STEPS;
    while now < end && node.files_left() > 0 {
        now += SignedDuration::from_mins(30);
        set_clock(&node, now);
    }
    stop_while_time_passes(&node, child, now);
    node.audit(&["--expect-drained"]);
}
