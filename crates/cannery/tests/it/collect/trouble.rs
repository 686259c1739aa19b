//! A disk that is full, and a system that forgets events.

use std::process::Command;

use cannery_testkit::long_run;

use super::flush::wait_for_log;
use super::node::{LOCAL_LAKE, Node, stop};
use crate::program::ran;

/// In a mount namespace of its own, so that the small disk is this run's alone. It is filled before anything can be bundled,
/// and what filled it goes while the process runs.
#[test]
fn a_full_disk_is_waited_for_and_nothing_is_lost() {
    let node = Node::with(LOCAL_LAKE, "  bundle_age_max: 100ms\n");
    node.produce_some("2026/11/15", "a", 200);
    let script = "mount -t tmpfs -o size=40m tmpfs work && head -c 100m /dev/zero > work/filler 2>/dev/null; \
                  \"$0\" collect -v --once > log 2>&1 & process=$!; sleep 4; rm work/filler; wait $process";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_cannery")])
        .env("CANNERY_CONFIG_FILE", "cannery.yml")
        .current_dir(node.place.path(""));
    let first = ran(&mut command);
    // Where it could not even begin, it says so, and what was there is there.
    assert!(
        [0, 3, 13].contains(&first.code),
        "{}{}",
        first.snapshot(),
        node.log()
    );
    if first.code == 0 {
        assert!(
            node.log().contains("cannot write a bundle"),
            "{}",
            node.log()
        );
    }
    node.run_well(&["collect", "--once"]);
    node.audit(&["--expect-drained", "--inventory-partial"]);
}

/// The same small disk for the lake: objects cannot be put until there is room.
#[test]
fn a_full_lake_is_waited_for_and_nothing_is_lost() {
    let node = Node::with(LOCAL_LAKE, "  bundle_age_max: 100ms\n  flush_timeout: 2s\n");
    node.run_well(&["collect", "--once"]);
    node.produce_some("2026/11/15", "a", 2_000);
    let script = "mkdir kept && cp -a lake/. kept/ && mount -t tmpfs -o size=1m tmpfs lake && cp -a kept/. lake/ && \
                  mv spool/ndt held; \"$0\" collect -v > log 2>&1 & process=$!; sleep 2; \
                  head -c 2m /dev/zero > lake/filler 2>/dev/null; mv held spool/ndt; sleep 4; rm lake/filler; sleep 6; \
                  kill $process; wait $process; code=$?; mkdir result && cp -a lake/. result/; exit $code";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_cannery")])
        .env("CANNERY_CONFIG_FILE", "cannery.yml")
        .current_dir(node.place.path(""));
    let first = ran(&mut command);
    assert!(
        [0, 3].contains(&first.code),
        "{}{}",
        first.snapshot(),
        node.log()
    );
    assert!(
        node.log().contains("not shipped yet; trying on"),
        "{}",
        node.log()
    );
    std::fs::remove_dir_all(node.place.path("lake")).unwrap();
    #[allow(
        clippy::disallowed_methods,
        reason = "the input of a test need not be durable"
    )]
    std::fs::rename(node.place.path("result"), node.place.path("lake")).unwrap();
    node.run_well(&["collect", "--once"]);
    node.audit(&["--expect-drained"]);
}

/// The limit of a process is that of the moment in which it begins to watch.
#[test]
fn with_room_for_sixteen_events_no_file_is_missed() {
    // It changes a limit of the whole system for a moment; the finder's own tests lose events without that.
    if !long_run() {
        return;
    }
    let limit = "/proc/sys/fs/inotify/max_queued_events";
    let before = std::fs::read_to_string(limit).unwrap();
    let write = |text: &str| {
        #[allow(clippy::disallowed_methods, reason = "it is no file")]
        let written = std::fs::write(limit, text);
        written.expect("only root may change the limits of the system");
    };
    let node = Node::with(
        LOCAL_LAKE,
        "  bundle_age_max: 100ms\n  min_file_age: 1h\n  scan_interval: 1h\n",
    );
    write("16");
    let child = node.start(&["--listen", "127.0.0.1:0"]);
    wait_for_log(&node, "collecting");
    write(&before);
    node.produce_some("2026/11/15", "first", 2);
    node.wait_for_files(0);
    // It sleeps while more happens than the system remembers.
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    node.produce_some("2026/11/15", "a", 1_000);
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    node.wait_for_files(0);
    let url = node.dashboard();
    let metrics = crate::program::http_get(&format!("{url}metrics"));
    let overflows = metrics
        .lines()
        .find(|line| line.starts_with("cannery_spool_watch_overflows_total{"));
    let overflows = overflows.unwrap().rsplit(' ').next().unwrap();
    assert!(overflows != "0", "{metrics}");
    assert_eq!(stop(child), 0, "{}", node.log());
    node.audit(&["--expect-drained"]);
}

#[test]
fn a_workspace_that_is_removed_under_it_ends_it_with_a_reason_and_loses_nothing() {
    let node = Node::with(LOCAL_LAKE, "  bundle_age_max: 100ms\n");
    let mut child = node.start(&[]);
    wait_for_log(&node, "collecting");
    std::fs::remove_dir_all(node.place.path("work")).unwrap();
    node.produce_some("2026/11/15", "a", 10);
    assert_eq!(child.wait().unwrap().code(), Some(1), "{}", node.log());
    assert!(
        node.log().contains("was removed while it ran"),
        "{}",
        node.log()
    );
    node.run_well(&["collect", "--once"]);
    node.audit(&["--expect-drained", "--inventory-partial"]);
}
