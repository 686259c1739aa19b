//! A retrieve that ends in the middle: dropped at any point, or on a disk that fails at any operation.

use std::future::Future as _;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use super::disk::TestDisk;
use super::support::{Bench, Body, Tree, body, download, tree};
use crate::retrieve::{Error, RetrieveOptions, Retrieved};

/// Small bodies, and in one hour one that is written in several pieces.
fn bodies(of_day: u8) -> Vec<Body> {
    let long = if of_day == 0 { 70_000 } else { 70 };
    let small = (0..3).map(|minute| download("a", of_day, minute, &format!("{of_day} {minute}")));
    let mut bodies: Vec<_> = small.collect();
    bodies.extend([
        download("a", of_day, 9, &"x".repeat(long)),
        body("sub/odd", "same"),
    ]);
    bodies
}

const HOURS: u8 = 2;

async fn filled() -> Bench {
    let bench = Bench::new();
    for of_day in 0..HOURS {
        let all = bodies(of_day);
        bench.upload("a", of_day, &all[..3]).await;
        bench.upload("a", of_day, &all[2..]).await;
    }
    bench
}

fn whole() -> Tree {
    let hours = (0..HOURS).map(|of_day| (format!("a/2026/11/15/{of_day:02}/"), bodies(of_day)));
    let hours: Vec<_> = hours.collect();
    let files = hours.iter().flat_map(|(folder, bodies)| {
        let files = bodies.iter();
        files.map(move |body| (folder.as_str(), body))
    });
    tree(files)
}

fn assert_only_whole_files(bench: &Bench, context: &str) {
    let whole = whole();
    for (path, content) in bench.tree() {
        assert!(whole.get(&path) == Some(&content), "{context}: {path}");
    }
}

/// Polls it so many times and drops it.
async fn live_for(
    polls: u32,
    bench: &Bench,
    options: &RetrieveOptions,
) -> Option<Result<Retrieved, Error>> {
    let mut left = polls;
    let mut retrieve = pin!(bench.retrieve(options));
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        retrieve.as_mut().poll(context).map(Some)
    })
    .await
}

#[test]
fn dropped_at_any_point_it_leaves_only_whole_files_and_can_be_repeated() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let mut bench = runtime().block_on(filled());
    let mut polls = 1;
    loop {
        bench.clear_target();
        let options = bench.options();
        let first = runtime();
        let ended = first.block_on(live_for(polls, &bench, &options));
        // Waits for the threads that were writing.
        drop(first);
        let context = format!("dropped after {polls} polls");
        assert_only_whole_files(&bench, &context);
        let left = std::fs::read_dir(bench.scratch.path()).unwrap().count();
        assert_eq!(
            left, 0,
            "{context}: something is left in the scratch folder"
        );
        let count = bench.tree().len();
        let again = runtime().block_on(bench.retrieve(&options)).unwrap();
        assert_eq!(bench.tree(), whole(), "{context}");
        assert_eq!(again.present, count as u64, "{context}");
        if ended.is_some() {
            break;
        }
        polls += 1;
    }
    assert!(polls > 5, "too few points to mean anything");
}

#[tokio::test]
async fn a_disk_that_fails_anywhere_leaves_only_whole_files() {
    let mut bench = filled().await;
    let mut operations = 0;
    loop {
        bench.clear_target();
        let options = bench.options();
        let failing = TestDisk::failing_after(operations, io::ErrorKind::Other);
        bench.workplace.disk = Arc::new(failing);
        let ended = bench.retrieve(&options).await;
        let context = format!("failing after {operations}");
        assert_only_whole_files(&bench, &context);
        bench.workplace.disk = Arc::new(TestDisk::sound());
        bench.retrieve(&options).await.unwrap();
        assert_eq!(bench.tree(), whole(), "{context}");
        match ended {
            Ok(_) => break,
            Err(Error::Target { .. }) => operations += 1,
            Err(other) => panic!("{context}: {other:?}"),
        }
    }
    assert!(operations > 40, "{operations} are too few to mean anything");
}

#[tokio::test]
async fn a_full_disk_is_said_clearly() {
    let mut bench = filled().await;
    let options = bench.options();
    let full = TestDisk::failing_after(20, io::ErrorKind::StorageFull);
    bench.workplace.disk = Arc::new(full);
    let error = bench.retrieve(&options).await.unwrap_err();
    assert!(matches!(error, Error::Full { .. }), "{error:?}");
    let text = error.to_string();
    for part in ["the disk is full", "free some space"] {
        assert!(text.contains(part), "{text}");
    }
    assert_only_whole_files(&bench, "full");
}
