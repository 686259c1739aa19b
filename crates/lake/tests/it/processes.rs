//! Several processes on one local directory.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use cannery_formats::Key;
use cannery_lake::PutNew;

use crate::conformance::increment;
use crate::engines::Engine;

const FOLDER: &str = "CANNERY_TEST_RACE_FOLDER";
const PROCESSES: usize = 8;
const INCREMENTS: usize = 40;

fn counter() -> Key {
    Key::new("counter").unwrap()
}

/// The body of one racer. Without the variable this is the parent's test run, and there is nothing to race for.
#[tokio::test(flavor = "multi_thread")]
async fn racer() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let lake = Engine::disk(&PathBuf::from(folder)).lake("");
    let me = format!("process {}", std::process::id());
    let created = lake
        .put_new(&Key::new("winner").unwrap(), me.into_bytes())
        .await
        .unwrap();
    println!("outcome: {created:?}");
    for _ in 0..INCREMENTS {
        increment(&lake, &counter()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_processes_create_once_and_lose_no_update() {
    let dir = tempfile::tempdir().unwrap();
    let lake = Engine::disk(dir.path()).lake("");
    lake.put_new(&counter(), b"0".to_vec()).await.unwrap();
    let racers: Vec<_> = (0..PROCESSES)
        .map(|_| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "processes::racer", "--nocapture"])
                .env(FOLDER, dir.path())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut created = 0;
    for racer in racers {
        let output = racer.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{text}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        created += usize::from(text.contains(&format!("outcome: {:?}", PutNew::Created)));
        assert!(text.contains("outcome: "), "{text}");
    }
    assert_eq!(created, 1);
    let count = lake.get(&counter(), 100).await.unwrap().bytes;
    assert_eq!(count, (PROCESSES * INCREMENTS).to_string());
}
