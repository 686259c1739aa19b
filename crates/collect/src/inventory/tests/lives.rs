//! Lines from the first to the lake: over days, lives and losses.

use cannery_runtime::disk::{Open, create_dir_all, read, write_durably};

use super::*;

#[tokio::test]
async fn lines_come_into_every_mirror_and_days_go_on_from_each_other() {
    let world = World::new(2);
    let inventory = world.inventory();
    world.ship(&inventory, 0..3).await;
    assert_eq!(world.text(0, "2026-11-15").await, None, "not at every put");
    inventory.upload().await.unwrap();
    world.expect(0..3).await;
    world.clock.advance(DAY).await;
    world.ship(&inventory, 3..5).await;
    // Not even a day without anything breaks the chain.
    world.clock.advance(2 * DAY).await;
    world.ship(&inventory, 5..6).await;
    assert_eq!(world.files().len(), 3);
    inventory.upload().await.unwrap();
    world.expect(0..6).await;
    assert_eq!(
        world.files(),
        ["2026-11-18.jsonl"],
        "the rest is in the lake"
    );
}

#[tokio::test]
async fn without_new_lines_nothing_is_asked_of_the_lake() {
    let world = World::new(1);
    let inventory = world.inventory();
    world.ship(&inventory, 0..3).await;
    inventory.upload().await.unwrap();
    let requests = world.faults[0].requests();
    inventory.upload().await.unwrap();
    assert_eq!(world.faults[0].requests(), requests);
    world.ship(&inventory, 3..4).await;
    let requests = world.faults[0].requests();
    inventory.upload().await.unwrap();
    let more = world.faults[0].requests() - requests;
    assert!(more <= 2, "{more}");
    world.expect(0..4).await;
}

#[tokio::test]
async fn what_is_recorded_again_has_one_line() {
    let mut world = World::new(1);
    let made = world.clock.clock().now();
    let inventory = world.inventory();
    let both = || vec![item(0), item(1)];
    world.put(0).await;
    world.put(1).await;
    inventory.record(vec![item(0)], made, false).await.unwrap();
    inventory.record(both(), made, true).await.unwrap();
    inventory.record(both(), made, true).await.unwrap();
    // In the next life, some days later, the local file is not the last any more.
    world.clock.advance(3 * DAY).await;
    let inventory = world.inventory();
    world.ship(&inventory, 2..3).await;
    inventory.record(both(), made, false).await.unwrap();
    inventory.upload().await.unwrap();
    inventory.record(both(), made, true).await.unwrap();
    world.lose_workspace();
    let inventory = world.inventory();
    inventory.record(both(), made, true).await.unwrap();
    inventory.upload().await.unwrap();
    world.expect(0..3).await;
}

#[tokio::test]
async fn a_lost_folder_goes_on_from_the_lake() {
    let mut world = World::new(2);
    let inventory = world.inventory();
    world.ship(&inventory, 0..2).await;
    inventory.upload().await.unwrap();
    world.lose_workspace();
    let inventory = world.inventory();
    world.ship(&inventory, 2..3).await;
    inventory.upload().await.unwrap();
    world.expect(0..3).await;
    // Also when the last lines are of an earlier day.
    world.clock.advance(5 * DAY).await;
    world.lose_workspace();
    let inventory = world.inventory();
    world.ship(&inventory, 3..4).await;
    inventory.upload().await.unwrap();
    world.expect(0..4).await;
}

#[tokio::test]
async fn lines_that_were_lost_with_the_folder_are_made_anew() {
    let mut world = World::new(2);
    let first = world.clock.clock().now();
    let inventory = world.inventory();
    world.ship(&inventory, 0..2).await;
    inventory.upload().await.unwrap();
    world.ship(&inventory, 2..4).await;
    world.lose_workspace();
    let inventory = world.inventory();
    let gone = object(9).0;
    let keys = (0..4).map(|number| object(number).0).chain([gone]);
    let keys: Vec<_> = keys.collect();
    inventory.adopt(keys.clone(), first).await.unwrap();
    inventory.adopt(keys, first).await.unwrap();
    inventory.upload().await.unwrap();
    world.expect(0..4).await;
    let text = world.text(1, "2026-11-15").await.unwrap();
    let line = format!("\"SHA256\":\"{}\"", item(3).sha256);
    assert!(text.contains(&line), "{text}");
}

#[tokio::test]
async fn an_old_copy_of_the_workspace_loses_no_line() {
    let mut world = World::new(1);
    let inventory = world.inventory();
    world.ship(&inventory, 0..2).await;
    inventory.upload().await.unwrap();
    // A line that the lake never gets to know from the first process.
    world.ship(&inventory, 2..3).await;
    let copy = world.disk.crash();
    world.lose_workspace();
    let inventory = world.inventory();
    world.ship(&inventory, 3..5).await;
    world.clock.advance(DAY).await;
    world.ship(&inventory, 5..6).await;
    inventory.upload().await.unwrap();
    world.disk = copy;
    let inventory = world.inventory();
    world.ship(&inventory, 6..7).await;
    inventory.upload().await.unwrap();
    world.expect(0..7).await;
}

#[tokio::test]
async fn two_nodes_of_one_name_lose_no_line_of_each_other() {
    let mut world = World::new(1);
    let one = world.inventory();
    let kept = world.disk.clone();
    world.ship(&one, 0..2).await;
    world.lose_workspace();
    let other = world.inventory();
    world.ship(&other, 2..5).await;
    one.upload().await.unwrap();
    other.upload().await.unwrap();
    world.ship(&one, 5..6).await;
    world.ship(&other, 6..7).await;
    one.upload().await.unwrap();
    other.upload().await.unwrap();
    drop(kept);
    world.expect(0..7).await;
}

#[tokio::test]
async fn a_line_that_was_never_finished_is_cut_off() {
    let world = World::new(1);
    world.ship(&world.inventory(), 0..2).await;
    let path = Path::new(FOLDER).join("2026-11-15.jsonl");
    let file = world.disk.open(&path, Open::ReadWrite).unwrap();
    let bytes = file.len().unwrap();
    file.write_all_at(bytes, b"{\"Key\":\"auto").unwrap();
    let inventory = world.inventory();
    world.ship(&inventory, 2..3).await;
    inventory.upload().await.unwrap();
    world.expect(0..3).await;
    assert_eq!(world.files(), ["2026-11-15.jsonl"], "that is no damage");
}

/// The lake may or may not have the lines that were damaged; and it is found at once or a day later.
#[tokio::test]
async fn damage_is_set_aside_and_mended() {
    for (uploaded, later) in [(false, false), (true, false), (false, true), (true, true)] {
        for at in [5, 130, 200, 470, 500] {
            let world = World::new(1);
            let inventory = world.inventory();
            world.ship(&inventory, 0..3).await;
            if uploaded {
                inventory.upload().await.unwrap();
            }
            let path = Path::new(FOLDER).join("2026-11-15.jsonl");
            let mut text = read(&world.disk, &path, 1 << 20).unwrap();
            text[at] ^= 1;
            write_durably(&world.disk, &path, &text).unwrap();
            if later {
                world.clock.advance(DAY).await;
            }
            let inventory = world.inventory();
            // The bundle that is finished again brings its lines again; who else would know what the damaged one said.
            let made = world.clock.clock().now() - DAY;
            let all = (0..3).map(item).collect();
            inventory.record(all, made, true).await.unwrap();
            world.ship(&inventory, 3..4).await;
            inventory.upload().await.unwrap();
            world.expect(0..4).await;
            let copies = world.disk.read_dir(&Path::new(FOLDER).join("damaged"));
            assert_eq!(copies.unwrap().len(), 1, "{uploaded} {at}");
        }
    }
}

#[tokio::test]
async fn a_file_that_is_no_inventory_at_all_is_set_aside() {
    let world = World::new(1);
    let path = Path::new(FOLDER).join("2026-11-15.jsonl");
    create_dir_all(&world.disk, Path::new(FOLDER)).unwrap();
    write_durably(&world.disk, &path, &[0; 5_000]).unwrap();
    write_durably(&world.disk, &path.with_file_name("notes.jsonl"), b"x").unwrap();
    let inventory = world.inventory();
    world.ship(&inventory, 0..1).await;
    inventory.upload().await.unwrap();
    world.expect(0..1).await;
}

#[tokio::test]
async fn a_clock_that_is_set_back_breaks_nothing() {
    let mut world = World::new(1);
    world.set_clock("2026-11-15T00:00:03Z");
    world.ship(&world.inventory(), 0..2).await;
    // Over midnight.
    world.set_clock("2026-11-14T23:59:50Z");
    let inventory = world.inventory();
    world.ship(&inventory, 2..4).await;
    inventory.upload().await.unwrap();
    world.expect(0..4).await;
    assert_eq!(world.text(0, "2026-11-14").await, None);
}

/// What was written in the future stays there, and is said to be odd; the present goes on from the past.
#[tokio::test]
async fn a_clock_that_ran_a_year_ahead_leaves_one_gap() {
    let mut world = World::new(1);
    world.ship(&world.inventory(), 0..2).await;
    world.set_clock("2027-11-15T12:00:00Z");
    let inventory = world.inventory();
    world.ship(&inventory, 2..3).await;
    inventory.upload().await.unwrap();
    world.set_clock("2026-11-16T12:00:00Z");
    let inventory = world.inventory();
    world.ship(&inventory, 3..5).await;
    inventory.upload().await.unwrap();
    let report = check(world.lake(0), &home()).await.unwrap();
    assert_eq!((report.days, report.lines), (3, 5));
    assert_eq!(report.broken.first, []);
    let gap = Gap {
        after: Some(date("2026-11-16")),
        day: date("2027-11-15"),
        days_between: 363,
    };
    assert_eq!(report.gaps.first, [gap]);
    // When that day comes, its lines stay.
    world.set_clock("2027-11-15T18:00:00Z");
    let inventory = world.inventory();
    world.ship(&inventory, 5..6).await;
    inventory.upload().await.unwrap();
    let report = check(world.lake(0), &home()).await.unwrap();
    assert_eq!((report.days, report.lines, report.gaps.count), (3, 6, 1));
}

#[tokio::test]
async fn lines_go_to_the_lake_now_and_again_and_at_the_end() {
    let world = World::new(1);
    let inventory = world.inventory();
    world.ship(&inventory, 0..1).await;
    let uploader = inventory.start();
    let arrived = async |lines: usize| {
        let clock = Clock::real();
        let there = async {
            loop {
                let text = world.text(0, "2026-11-15").await.unwrap_or_default();
                if text.lines().count() == lines {
                    return;
                }
                clock.sleep(Duration::from_millis(5)).await;
            }
        };
        clock.timeout(Duration::from_secs(60), there).await.unwrap();
    };
    // What an earlier process left goes at once.
    arrived(1).await;
    world.ship(&inventory, 1..2).await;
    world.clock.advance(UPLOAD_EVERY).await;
    arrived(2).await;
    world.ship(&inventory, 2..3).await;
    uploader.finish(Duration::from_secs(60)).await;
    world.expect(0..3).await;
}
