//! Lakes that fail, or cannot do everything.

use super::super::remote::unpack;
use super::*;

#[tokio::test]
async fn a_mirror_that_is_down_gets_its_lines_later() {
    let world = World::new(2);
    let inventory = world.inventory();
    world.ship(&inventory, 0..2).await;
    world.faults[1].next(Request::Put, Fault::ErrorBefore, 1);
    inventory.upload().await.unwrap_err();
    assert!(world.text(0, "2026-11-15").await.is_some());
    assert_eq!(world.text(1, "2026-11-15").await, None);
    world.clock.advance(DAY).await;
    world.ship(&inventory, 2..3).await;
    world.faults[1].next(Request::Put, Fault::ErrorBefore, 1);
    inventory.upload().await.unwrap_err();
    assert_eq!(world.files().len(), 2, "not every mirror has it");
    inventory.upload().await.unwrap();
    assert_eq!(world.files().len(), 1);
    world.expect(0..3).await;
}

#[tokio::test]
async fn answers_that_are_lost_are_settled_by_reading() {
    for fault in [
        Fault::ErrorBefore,
        Fault::ErrorAfter,
        Fault::PreconditionFailed,
        Fault::ConflictingWrite,
    ] {
        let world = World::new(1);
        let inventory = world.inventory();
        for round in 0..3 {
            world.ship(&inventory, round * 2..round * 2 + 2).await;
            world.faults[0].next(Request::Put, fault, 1);
            // Whether this one worked or not: the next does.
            inventory.upload().await.ok();
            inventory.upload().await.unwrap();
            world.expect(0..round * 2 + 2).await;
        }
    }
}

#[tokio::test]
async fn lines_wait_for_a_lake_that_cannot_be_listed() {
    let world = World::new(2);
    let inventory = world.inventory();
    world.put(0).await;
    world.faults[1].next(Request::List, Fault::ErrorBefore, 1);
    let made = world.clock.clock().now();
    let failed = inventory.record(vec![item(0)], made, false).await;
    assert!(matches!(failed, Err(InventoryError::Lake(_))), "{failed:?}");
    inventory.record(vec![item(0)], made, true).await.unwrap();
    inventory.upload().await.unwrap();
    world.expect(0..1).await;
}

#[tokio::test]
async fn a_store_without_versions_gets_a_day_once_it_is_over() {
    let mut world = World::new(2);
    world.lake(1).set_honours(Honours {
        create: true,
        update: false,
    });
    let inventory = world.inventory();
    world.ship(&inventory, 0..2).await;
    inventory.upload().await.unwrap();
    assert!(world.text(0, "2026-11-15").await.is_some());
    assert_eq!(world.text(1, "2026-11-15").await, None);
    world.clock.advance(DAY).await;
    world.ship(&inventory, 2..3).await;
    inventory.upload().await.unwrap();
    assert_eq!(world.files().len(), 1);
    assert_eq!(
        world.text(1, "2026-11-15").await,
        world.text(0, "2026-11-15").await
    );
    // Whoever comes back with less than is there has nothing to add.
    world.lose_workspace();
    world.clock.advance(DAY).await;
    let inventory = world.inventory();
    inventory.upload().await.unwrap();
    world.expect(0..3).await;
}

#[tokio::test]
async fn a_store_without_versions_is_never_written_over() {
    let mut world = World::new(1);
    world.lake(0).set_honours(Honours {
        create: true,
        update: false,
    });
    let inventory = world.inventory();
    world.ship(&inventory, 0..1).await;
    let kept = world.disk.clone();
    world.lose_workspace();
    let other = world.inventory();
    world.ship(&other, 1..2).await;
    world.clock.advance(DAY).await;
    other.upload().await.unwrap();
    let there = world.text(0, "2026-11-15").await;
    let refused = inventory.upload().await;
    assert!(
        matches!(refused, Err(InventoryError::NoVersions { .. })),
        "{refused:?}"
    );
    assert_eq!(world.text(0, "2026-11-15").await, there);
    world.disk = kept;
    assert_eq!(world.files(), ["2026-11-15.jsonl"]);
}

#[tokio::test]
async fn what_cannot_be_read_is_not_replaced() {
    let world = World::new(1);
    let key = Key::inventory(&home(), date("2026-11-15"));
    let noise = b"not gzip".to_vec();
    world.lake(0).put_new(&key, noise.clone()).await.unwrap();
    let inventory = world.inventory();
    world.ship(&inventory, 0..1).await;
    let failed = inventory.upload().await;
    assert!(
        matches!(failed, Err(InventoryError::Unreadable { .. })),
        "{failed:?}"
    );
    let there = world.lake(0).get(&key, 100).await.unwrap();
    assert_eq!(there.bytes, noise);
    world.remove(0, &key).await;
    inventory.upload().await.unwrap();
    world.expect(0..1).await;
}

#[tokio::test]
async fn a_bomb_is_not_unpacked() {
    let bomb = pack(vec![0; 100_000].into()).await.unwrap();
    assert!(bomb.len() < 1_000);
    assert_eq!(unpack(&bomb, 100_000).unwrap().len(), 100_000);
    let refused = unpack(&bomb, 99_999).unwrap_err().to_string();
    assert!(refused.contains("longer"), "{refused}");
}

#[tokio::test]
async fn a_process_that_ends_without_its_lake_leaves_its_lines_to_the_next() {
    let world = World::new(1);
    let inventory = world.inventory();
    world.ship(&inventory, 0..2).await;
    world.faults[0].next(Request::Put, Fault::ErrorBefore, u32::MAX);
    let uploader = inventory.start();
    world.clock.advance(UPLOAD_EVERY).await;
    uploader.finish(Duration::from_secs(60)).await;
    assert_eq!(world.text(0, "2026-11-15").await, None);
    world.faults[0].stop();
    world.inventory().upload().await.unwrap();
    world.expect(0..2).await;
}

/// A lake that never answers holds up nobody for longer than was said.
#[tokio::test]
async fn an_end_waits_only_so_long() {
    let world = World::new(1);
    let inventory = world.inventory();
    world.ship(&inventory, 0..2).await;
    world.faults[0].next(Request::Put, Fault::HangAfter, 1);
    let uploader = inventory.start();
    let (clock, asked) = (Clock::real(), world.faults[0].injected());
    while world.faults[0].injected() == asked {
        clock.sleep(Duration::from_millis(5)).await;
    }
    let ending = tokio::spawn(uploader.finish(Duration::from_secs(60)));
    world.clock.advance(FLUSH_MAX).await;
    ending.await.unwrap();
    world.inventory().upload().await.unwrap();
    world.expect(0..2).await;
}
