//! A real process that is killed, again and again, while producers go on.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cannery_runtime::{Clock, Rng};
use cannery_testkit::long_run;
use tokio_util::sync::CancellationToken;

use crate::node::Node;

const FOLDER: &str = "CANNERY_TEST_SPOOL_FOLDER";

/// The process that is killed. Without the variable this is the parent's test run, and there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn collector() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let node = Node::at(PathBuf::from(folder));
    let spool = node.spool().await;
    let never = CancellationToken::new();
    spool.run(never, Duration::from_secs(60)).await.unwrap();
}

fn start(node: &Node) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::collector", "--nocapture"])
        .env(FOLDER, node.path(""))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_file_is_in_the_lake_exactly_once_however_often_it_is_killed() {
    let (kills, files) = if long_run() {
        (500, 50_000)
    } else {
        (50, 5_000)
    };
    let (clock, rng) = (Clock::real(), Rng::from_os());
    let mut node = Node::new();
    let mut number = 0;
    for _ in 0..kills {
        let mut child = start(&node);
        for _ in 0..files / kills {
            let text = format!(
                "{{\"n\":{number},\"text\":\"{}\"}}",
                "x".repeat(number % 700)
            );
            let date = 10 + number % 3;
            let name = format!("2026/11/{date}/{number:06}.json");
            node.produce("foo1", &name, &text, true);
            number += 1;
        }
        clock.sleep(rng.jitter(Duration::from_millis(400))).await;
        child.kill().unwrap();
        child.wait().unwrap();
        if rng.below(5) == 0 {
            // Somebody loses the whole workspace.
            std::fs::remove_dir_all(node.path("work")).ok();
        }
    }
    // The last lives are stopped, and ship what is left.
    for _ in 0..20 {
        let stop = CancellationToken::new();
        let spool = node.spool().await;
        let running = tokio::spawn(spool.run(stop.clone(), Duration::from_secs(120)));
        clock.sleep(Duration::from_secs(2)).await;
        stop.cancel();
        let flushed = running.await.unwrap().unwrap();
        assert!(flushed.left.is_empty(), "{flushed:?}");
        if node.files_left() == 0 {
            break;
        }
    }
    node.audit(&["--expect-drained"]).await;
}
