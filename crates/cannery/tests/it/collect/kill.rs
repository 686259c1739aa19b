//! The real binary, killed at every operation of the disk and at random.

use std::time::Duration;

use cannery_runtime::Rng;
use cannery_testkit::long_run;

use super::node::Node;

const KILLED: i32 = -1;

/// One life after the other, each ended one operation later than the one before: seal, journal, objects, receipt, removal.
#[test]
fn killed_at_every_operation_of_the_disk_every_file_is_there_exactly_once() {
    let rng = Rng::from_os();
    let step = if long_run() { 1 } else { 10 };
    let node = Node::new();
    let mut number = 1 + rng.below(step);
    loop {
        node.produce_some("2026/11/15", &format!("a{number}x"), 3);
        let mut command = node.command(&["collect", "--once"]);
        command.env("CANNERY_SIM_KILL_AT", number.to_string());
        let ran = crate::program::ran(&mut command);
        if rng.below(8) == 0 {
            // Somebody loses the whole workspace.
            std::fs::remove_dir_all(node.place.path("work")).ok();
        }
        if ran.code != KILLED {
            assert_eq!(ran.code, 0, "{}", ran.snapshot());
            break;
        }
        number += step;
    }
    node.run_well(&["collect", "--once"]);
    assert!(number > 100, "only {number} operations");
    node.audit(&["--expect-drained"]);
}

#[test]
fn killed_at_random_every_file_is_there_exactly_once() {
    let (kills, files) = if long_run() { (500, 100) } else { (50, 100) };
    let rng = Rng::from_os();
    let node = Node::with(
        super::node::LOCAL_LAKE,
        "  bundle_age_max: 100ms\n  bundle_bytes_max: 20kB\n",
    );
    for kill in 0..kills {
        let mut child = node.start(&[]);
        node.produce_some(
            &format!("2026/11/{}", 10 + kill % 3),
            &format!("b{kill}x"),
            files,
        );
        #[allow(clippy::disallowed_methods, reason = "another process needs real time")]
        std::thread::sleep(rng.jitter(Duration::from_millis(600)));
        child.kill().unwrap();
        child.wait().unwrap();
        if rng.below(10) == 0 {
            std::fs::remove_dir_all(node.place.path("work")).ok();
        }
    }
    node.run_well(&["collect", "--once"]);
    node.audit(&["--expect-drained"]);
}
