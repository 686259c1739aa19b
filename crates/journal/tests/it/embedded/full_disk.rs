//! A disk that is full for a moment: what was put off is done later, and nothing is left half done.

use std::io;

use super::*;

/// A file that could not be given back stands before those that count, and does not keep them from being compacted.
#[tokio::test]
async fn what_stays_is_moved_although_an_older_file_could_not_be_given_back() {
    let small = Small::new(plain()).await;
    small.put("first").await;
    small.drain().await;
    let first = small.segments().await[0].clone();
    let full = io::ErrorKind::StorageFull;
    // `journal.json`: remove, create, write, sync, rename, sync of the folder; then the segment is renamed.
    small.disk.fail_at(small.disk.operations() + 7, full);
    small.rest().await;
    let log = small.disk.log();
    assert!(log.last().unwrap().contains(&first), "{log:?}");
    let far = Date::from(small.clock.clock().now()).plus(Duration::from_secs(86_400));
    let stays = NewEntry {
        process_date: Some(far),
        ..NewEntry::new("stays", Data::null())
    };
    small.journal.add_one(stays).await.unwrap();
    let both = small.segments().await;
    assert_eq!((both.len(), &both[0]), (2, &first), "it is still there");
    for _ in 0..10 {
        small.fill(0..30).await;
        small.drain().await;
    }
    let segments = small.segments().await;
    assert!(segments.len() <= 6, "{segments:?}");
    let gone = |name| !segments.contains(name);
    assert!(both.iter().all(gone), "{both:?}, then {segments:?}");
    assert_eq!(small.reopen().await.keys().await, ["stays"]);
}

/// What a sync that failed covered may never reach the disk.
#[tokio::test]
async fn a_spare_that_could_not_be_filled_is_not_used() {
    let small = Small::new(Declaration {
        on_empty: OnEmpty::Truncate,
        ..plain()
    })
    .await;
    small.put("first").await;
    small.drain().await;
    small.rest().await;
    assert_eq!(small.files(), [("spare".to_owned(), 4_096)]);
    let before = small.disk.log().len();
    let full = io::ErrorKind::StorageFull;
    small.disk.fail_at(small.disk.operations() + 2, full);
    let refused = small
        .journal
        .add_one(NewEntry::new("second", Data::null()))
        .await
        .unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Full);
    small.put("second").await;
    let log = small.disk.log().split_off(before);
    assert!(log[1].contains("sync `/journal/spare`"), "{log:?}");
    let made_anew = |operation: &String| operation.contains("create `/journal/spare.new`");
    assert!(log.iter().any(made_anew), "{log:?}");
    assert_eq!(small.reopen().await.keys().await, ["second"]);
}

#[tokio::test]
async fn damage_on_a_disk_without_room_for_a_copy_is_reported_and_the_rest_is_there() {
    for full in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
        let small = Small::new(plain()).await;
        small.fill(0..25).await;
        small.engine.close().await;
        flip(&small.disk, &small.segments().await[0], 5_000);
        // Where the opening sets the damaged file aside.
        let copy = small.disk.crash_copy(1);
        let opened = Small::try_open(&copy, &small.clock, None).await.unwrap();
        opened.engine.close().await;
        let log = copy.log();
        let place = log
            .iter()
            .position(|operation| operation.contains("create folder `/journal/damaged`"));
        let n = small.disk.operations() + 1 + place.unwrap() as u64;
        small.disk.fail_at(n, full);
        let small = Small::try_open(&small.disk, &small.clock, None)
            .await
            .unwrap();
        let damaged = &small.engine.report().damaged;
        assert!(damaged[0].contains("no room for a copy"), "{damaged:?}");
        assert_eq!(small.keys().await.len(), 24);
    }
}

/// As long as `journal.json` says so, the segment counts, and has room that no other file gets.
#[tokio::test]
async fn an_empty_journal_on_a_full_disk_takes_what_its_segment_has_room_for() {
    let small = Small::new(plain()).await;
    small.put("first").await;
    small.drain().await;
    small.disk.set_capacity(0);
    small.rest().await;
    small.put("second").await;
    assert_eq!(small.segments().await.len(), 1);
    small.disk.set_capacity(u64::MAX);
    assert_eq!(small.reopen().await.keys().await, ["second"]);
}
