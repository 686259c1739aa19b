//! The power goes, or the disk fails, at every operation.

use super::*;

/// What is recorded on each of three days.
const OBJECTS: u64 = 6;

/// One life: records what has not been acknowledged yet, two objects a day, and brings it into the lake.
async fn live(world: &World, acknowledged: &mut u64) -> Result<(), InventoryError> {
    let inventory = world.inventory();
    let made = world.clock.clock().now() - DAY;
    // An upload that fails is tried again at the next start.
    let first = inventory.upload().await;
    while *acknowledged < OBJECTS {
        let number = *acknowledged;
        world.clock.advance(DAY / 2).await;
        world.put(number).await;
        world.put(number + 1).await;
        let both = vec![item(number), item(number + 1)];
        // The same process tries again, as the journal has it; nothing is believed because an attempt came before.
        if inventory.record(both.clone(), made, true).await.is_err() {
            inventory.record(both, made, true).await?;
        }
        *acknowledged += 2;
        inventory.upload().await?;
    }
    first
}

#[derive(Clone, Copy, Debug)]
enum Trouble {
    PowerCut,
    ErrorBefore,
    ErrorAfter,
}

#[tokio::test]
async fn every_object_has_one_line_whatever_fails_and_whenever() {
    for trouble in [Trouble::PowerCut, Trouble::ErrorBefore, Trouble::ErrorAfter] {
        for number in 1.. {
            let mut met = false;
            for seed in 0..4 {
                met |= survives(trouble, number, seed).await;
            }
            if !met {
                assert!(number > 20, "{trouble:?}: only {number} operations");
                break;
            }
        }
    }
}

/// Lives through one trouble; false when it never came to that.
async fn survives(trouble: Trouble, number: u64, seed: u64) -> bool {
    let mut world = World::new(1);
    let full = io::ErrorKind::StorageFull;
    match trouble {
        Trouble::PowerCut => world.disk.power_off_at(number),
        Trouble::ErrorBefore => world.disk.fail_at(number, full),
        Trouble::ErrorAfter => world.disk.fail_after(number, full),
    }
    let mut acknowledged = 0;
    let first = live(&world, &mut acknowledged).await;
    let met = world.disk.operations() >= number;
    // What was acknowledged outlives a power cut at any later time: nobody brings it again.
    if !met {
        first.unwrap();
    }
    world.disk = world.disk.crash_with(seed);
    for _ in 0..2 {
        let lived = live(&world, &mut acknowledged).await;
        let log = || world.disk.log().join("\n");
        assert!(
            lived.is_ok(),
            "{trouble:?} at {number}: {lived:?}\n{}",
            log()
        );
    }
    world.expect(0..OBJECTS).await;
    met
}
