//! Feeds and spools in one process.

use cannery_testkit::feed_server::{Behaviour, FeedServer};
use rustix::process::{Pid, Signal, kill_process};

use super::flush::wait_for_log;
use super::node::{LOCAL_LAKE, Node, stop};
use crate::feed_commands::{bodies, files};
use crate::program::pause;

async fn server() -> FeedServer {
    let server = FeedServer::start().await.unwrap();
    server.on("/a", Behaviour::Bodies(bodies(8)));
    server
}

/// A node with a spool and the feed `a`.
fn with_feed(node: &Node, server: &FeedServer) {
    let url = server.url("/a");
    let feed =
        format!("feeds:\n  - {{id: a, url: '{url}', periodicity: 100ms, allow_private: true}}\n");
    node.configure(&format!("{LOCAL_LAKE}{feed}"), "");
}

fn wait_for_polls(node: &Node, server: &FeedServer, count: usize) {
    for _ in 0..600 {
        if server.requests("/a").len() >= count {
            return;
        }
        pause();
    }
    panic!("the feed was not asked: {}", node.log());
}

fn archives(node: &Node) -> usize {
    let names = files(&node.place.path("lake/a"));
    names.iter().filter(|name| name.contains(".tar")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_began_with_spools_only_takes_the_feeds_of_a_reload() {
    let (node, server) = (Node::new(), server().await);
    node.produce_some("2026/11/15", "a", 4);
    let child = node.start(&[]);
    wait_for_log(&node, "collecting");
    assert_eq!(server.requests("/a").len(), 0);
    with_feed(&node, &server);
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    wait_for_polls(&node, &server, 5);
    assert_eq!(stop(child), 0, "{}", node.log());
    assert_eq!(archives(&node), 1);
    node.audit(&["--expect-drained"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_collects_both_and_one_clean_empties_both() {
    let (node, server) = (Node::new(), server().await);
    with_feed(&node, &server);
    node.produce_some("2026/11/15", "a", 10);
    let child = node.start(&[]);
    wait_for_polls(&node, &server, 12);
    assert_eq!(stop(child), 0, "{}", node.log());
    assert_eq!(archives(&node), 1);
    node.audit(&["--expect-drained"]);

    // Now it is killed, with both in the middle of their work.
    let asked = server.requests("/a").len();
    let mut child = node.start(&[]);
    node.produce_some("2026/11/16", "b", 10);
    wait_for_polls(&node, &server, asked + 5);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!files(&node.place.path("work/downloads")).is_empty());
    let cleaned = node.run_well(&["clean"]);
    assert!(
        cleaned.stdout.contains("feeds: 1 hour packed"),
        "{}",
        cleaned.snapshot()
    );
    assert!(cleaned.stdout.contains("ndt: "), "{}", cleaned.snapshot());
    assert!(files(&node.place.path("work/downloads")).is_empty());
    assert!(files(&node.place.path("work/archives")).is_empty());
    node.audit(&["--expect-drained"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_on_the_feeds_of_a_workspace_is_told_who_has_them() {
    let (node, server) = (Node::new(), server().await);
    let url = server.url("/a");
    node.place.write(
        "feeds.yml",
        format!("workspace: work\n{LOCAL_LAKE}feeds: [{{id: a, url: '{url}', periodicity: 100ms, allow_private: true}}]\n"),
    );
    let only_feeds = ["--config-file", "feeds.yml"];
    let child = node.start(&only_feeds);
    wait_for_polls(&node, &server, 3);
    let first = child.id();
    for command in ["collect", "clean"] {
        let second = node.run(&[&[command][..], &only_feeds].concat());
        assert_eq!(second.code, 11, "{}", second.snapshot());
        assert!(
            second.stderr.contains("cannery collect"),
            "{}",
            second.snapshot()
        );
        assert!(
            second.stderr.contains(&first.to_string()),
            "{}",
            second.snapshot()
        );
    }
    // The first one goes on.
    let asked = server.requests("/a").len();
    wait_for_polls(&node, &server, asked + 3);
    assert_eq!(stop(child), 0, "{}", node.log());
}
