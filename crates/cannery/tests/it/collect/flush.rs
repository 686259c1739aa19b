//! How collecting ends: flushed, or with what is left said.

use super::node::{Node, stop};
use crate::program::pause;

#[test]
fn a_stop_flushes_what_is_open() {
    let node = Node::new();
    let child = node.start(&[]);
    node.produce_some("2026/11/15", "a", 50);
    wait_for_log(&node, "collecting");
    for _ in 0..200 {
        let status = node.run_well(&["spool", "status", "--json"]);
        assert_eq!(status.json()[0]["experiment"], "ndt");
        if node
            .place
            .path("work/collect/ndt/outbox")
            .read_dir()
            .is_ok_and(|found| found.count() > 1)
        {
            break;
        }
        pause();
    }
    assert_eq!(stop(child), 0, "{}", node.log());
    node.run_well(&["collect", "--once"]);
    node.audit(&["--expect-drained"]);
}

#[test]
fn a_second_process_is_told_who_collects() {
    let node = Node::new();
    let child = node.start(&[]);
    wait_for_log(&node, "collecting");
    let ran = node.run(&["collect", "--once"]);
    assert_eq!(ran.code, 11, "{}", ran.snapshot());
    // Another workspace does not help: the files are the same.
    let ran = node.run(&["collect", "--once", "--workspace", "other"]);
    assert_eq!(ran.code, 11, "{}", ran.snapshot());
    assert!(ran.stderr.contains("cannery collect"), "{}", ran.snapshot());
    assert_eq!(stop(child), 0, "{}", node.log());
}

pub(super) fn wait_for_log(node: &Node, text: &str) {
    for _ in 0..600 {
        if node.log().contains(text) {
            return;
        }
        pause();
    }
    panic!("`{text}` never came: {}", node.log());
}
