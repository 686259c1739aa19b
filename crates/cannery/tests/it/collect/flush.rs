//! How collecting ends: flushed, or with what is left said.

use super::node::{Node, stop};
use crate::program::{http_get, pause};

#[test]
fn a_stop_flushes_what_is_open() {
    let node = Node::new();
    node.produce_some("2026/11/15", "a", 50);
    let child = node.start(&["--listen", "127.0.0.1:0"]);
    let url = node.dashboard();
    for datatype in ["foo1", "bar1"] {
        let taken = format!(
            "cannery_spool_files_taken_total{{experiment=\"ndt\",datatype=\"{datatype}\"}} 25"
        );
        let is_taken = || http_get(&format!("{url}metrics")).contains(&taken);
        for _ in 0..600 {
            if is_taken() {
                break;
            }
            pause();
        }
        assert!(is_taken(), "{}", http_get(&format!("{url}metrics")));
    }
    assert_eq!(node.files_left(), 50, "bundles are open, and files stay");
    let status = node.run_well(&["spool", "status", "--json"]);
    assert_eq!(status.json()[0]["datatypes"][0]["files"], 25);
    assert_eq!(stop(child), 0, "{}", node.log());
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
