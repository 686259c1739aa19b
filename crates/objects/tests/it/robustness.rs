//! What a server survives: a full disk, things in its folder, panics, a database or lake that never answers, and its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cannery_lake::fault::{Fault, Faults, Request};
use cannery_objects::{Conditions, ObjectErrorKind, RequestedChange};
use cannery_runtime::clock::{ClockSource, Sleep};
use cannery_runtime::disk::write_durably;
use cannery_runtime::{Clock, RealDisk};
use futures::future::join_all;
use jiff::Timestamp;
use object_store::memory::InMemory;

use crate::world::World;

fn world() -> World {
    World::new(Arc::new(InMemory::new()), None, ())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_leave_the_reserve_of_the_disk_alone_and_can_delete() {
    let world = world();
    let server = world.open().await;
    server.put("/stor/a", &[0; 1_000]).await.unwrap();
    server.close().await;
    let server = world
        .open_changed(None, |parts| parts.disk_reserve = 1 << 62)
        .await
        .unwrap();
    let (at, conditions) = (server.key("/stor/b"), Conditions::default());
    for announced in [1, 1_000, 1 << 20] {
        let checked = server
            .namespace
            .check_put(&at, &conditions, Some(announced));
        let refused = checked.await.unwrap_err();
        assert_eq!(refused.kind, ObjectErrorKind::NoSpace, "{announced}");
    }
    // Nobody said how long these would be.
    let refused = server.put("/stor/b", &[0; 1_000]).await.unwrap_err();
    assert_eq!(refused.kind, ObjectErrorKind::NoSpace);
    let mut upload = server.upload("/stor/b", &conditions).await.unwrap();
    let piece = Bytes::from(vec![0; 200_000]);
    upload.write(piece.clone()).await.unwrap();
    let refused = upload.write(piece).await.unwrap_err();
    assert_eq!(refused.kind, ObjectErrorKind::NoSpace);
    let more = [
        RequestedChange::MakeDirectory,
        RequestedChange::Link {
            source: server.key("/stor/a"),
        },
    ];
    for change in more {
        let refused = server.change("/stor/b", change).await.unwrap_err();
        assert_eq!(refused.kind, ObjectErrorKind::NoSpace);
    }
    let deleted = server.change("/stor/a", RequestedChange::Delete).await;
    deleted.unwrap();
    server.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_uploads_are_removed_from_their_folder() {
    let world = world();
    let folder = world.folder.path().join("uploads");
    std::fs::create_dir_all(folder.join("sub")).unwrap();
    let left = folder.join("a".repeat(26));
    write_durably(&RealDisk, &left, b"cut off").unwrap();
    write_durably(&RealDisk, &folder.join("notes.txt"), b"not ours").unwrap();
    let uploads = folder.clone();
    let server = world
        .open_changed(None, |parts| parts.uploads = uploads)
        .await;
    assert!(!left.exists());
    assert!(folder.join("sub").exists() && folder.join("notes.txt").exists());
    server.unwrap().close().await;
}

/// A clock that panics when it is asked for the so-manieth time.
#[derive(Debug)]
struct ClumsyClock {
    inner: Clock,
    left: AtomicI64,
    panics: AtomicI64,
}

impl ClumsyClock {
    fn count(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            self.panics.fetch_add(1, Ordering::Relaxed);
            panic!("on purpose");
        }
    }
}

impl ClockSource for ClumsyClock {
    fn now(&self) -> Timestamp {
        self.count();
        self.inner.now()
    }

    fn elapsed(&self) -> Duration {
        self.count();
        self.inner.elapsed()
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        let inner = self.inner.clone();
        Box::pin(async move { inner.sleep(deadline.saturating_sub(inner.elapsed())).await })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_the_committer_or_the_log_writer_hangs_nobody() {
    let world = world();
    let clumsy = Arc::new(ClumsyClock {
        inner: Clock::real(),
        left: AtomicI64::new(-1),
        panics: AtomicI64::new(0),
    });
    let clock = Clock::from_source(Arc::clone(&clumsy) as Arc<dyn ClockSource>);
    let server = world.open_changed(None, |parts| parts.clock = clock).await;
    let server = server.unwrap();
    // The first time is in the task of who asks, for the room on the disk.
    for after in 1..9 {
        clumsy.left.store(after, Ordering::Relaxed);
        let path = format!("/stor/{after}");
        let made = server.change(&path, RequestedChange::MakeDirectory).await;
        if let Err(error) = made {
            assert_eq!(error.kind, ObjectErrorKind::Unavailable, "{error}");
        }
        clumsy.left.store(-1, Ordering::Relaxed);
        // The next one is served as if nothing had been.
        server.make(&path).await;
        assert!(
            world
                .log()
                .await
                .values()
                .any(|change| change.path.as_str() == path)
        );
    }
    let panics = clumsy.panics.load(Ordering::Relaxed);
    assert!(panics >= 3, "{panics} panics were met");
    server.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_never_answered_is_given_up_and_goes_on_later() {
    let mut world = world();
    // The lake itself would wait much longer.
    world.patience = Duration::from_secs(3_600);
    let faults = Faults::none();
    let server = world.open_with(Some(&faults)).await.unwrap();
    faults.next(Request::Put, Fault::HangAfter, u32::MAX);
    let asked = server.change("/stor/d", RequestedChange::MakeDirectory);
    let turned = async {
        // The committer and the writer of the log sleep on this clock, with their deadlines.
        while world.hand.sleepers() == 0 {
            tokio::task::yield_now().await;
        }
        for _ in 0..600 {
            world.hand.advance(Duration::from_secs(1)).await;
            Clock::real().sleep(Duration::from_millis(1)).await;
        }
    };
    let (asked, ()) = futures::future::join(asked, turned).await;
    assert_eq!(asked.unwrap_err().kind, ObjectErrorKind::Unavailable);
    faults.stop();
    server.make("/stor/d").await;
    assert_eq!(world.log().await.len(), 1);
    server.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_never_answered_by_is_given_up() {
    let world = world();
    let server = world.open().await;
    let other = world.state().await;
    let held = other.begin_objects().await.unwrap();
    let asked = server.change("/stor/d", RequestedChange::MakeDirectory);
    let turned = async {
        while world.hand.sleepers() == 0 {
            tokio::task::yield_now().await;
        }
        world.hand.advance(Duration::from_secs(30)).await;
    };
    let (asked, ()) = futures::future::join(asked, turned).await;
    assert_eq!(asked.unwrap_err().kind, ObjectErrorKind::Unavailable);
    held.end().await;
    server.make("/stor/d").await;
    server.close().await;
}

/// A sweep may have taken them for left over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_were_stored_long_ago_get_no_name() {
    let world = world();
    let server = world.open().await;
    let upload = server.upload("/stor/a", &Conditions::default()).await;
    let bytes = server
        .namespace
        .store(upload.unwrap(), &server.account, None);
    let bytes = bytes.await.unwrap();
    world
        .hand
        .advance(Duration::from_secs(12 * 3_600 + 1))
        .await;
    let headers = std::collections::BTreeMap::new();
    let put = RequestedChange::Put { bytes, headers };
    let late = server.change("/stor/a", put).await.unwrap_err();
    assert_eq!(late.kind, ObjectErrorKind::Unavailable);
    assert_eq!(server.get("/stor/a").await, None);
    server.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_answers_what_was_asked_and_refuses_what_comes() {
    let world = world();
    let server = world.open().await;
    let names: Vec<String> = (0..100).map(|number| format!("/stor/{number}")).collect();
    let makes = names
        .iter()
        .map(|name| server.change(name, RequestedChange::MakeDirectory));
    let (made, ()) = futures::future::join(join_all(makes), server.namespace.close()).await;
    for (name, made) in names.iter().zip(made) {
        let is_there = server.namespace.find(&server.key(name)).await.unwrap();
        assert_eq!(made.is_ok(), is_there.is_some(), "{name}");
    }
    server.namespace.close().await;
    let late = server
        .change("/stor/late", RequestedChange::MakeDirectory)
        .await;
    assert_eq!(late.unwrap_err().kind, ObjectErrorKind::Unavailable);
    server.close().await;
}
