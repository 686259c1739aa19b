//! What a check finds.

use super::*;

/// Three days with two objects each.
async fn three_days() -> World {
    let world = World::new(1);
    let inventory = world.inventory();
    for day in 0..3 {
        world.ship(&inventory, day * 2..day * 2 + 2).await;
        world.clock.advance(DAY).await;
    }
    inventory.upload().await.unwrap();
    world.expect(0..6).await;
    world
}

async fn checked(world: &World) -> Report {
    check(world.lake(0), &home()).await.unwrap()
}

#[tokio::test]
async fn an_object_that_was_removed_is_missing() {
    let world = three_days().await;
    let key = object(3).0;
    world.remove(0, &key).await;
    let report = checked(&world).await;
    let day = date("2026-11-16");
    assert_eq!(report.missing.first, [Missing { key, day }]);
    let expected = Report {
        days: 3,
        lines: 6,
        missing: report.missing.clone(),
        ..Report::default()
    };
    assert_eq!(report, expected);
    assert!(!report.is_clean());
}

#[tokio::test]
async fn an_object_of_another_length_is_changed() {
    let world = three_days().await;
    let (key, content) = object(4);
    world.remove(0, &key).await;
    world.lake(0).put_new(&key, b"else".to_vec()).await.unwrap();
    let report = checked(&world).await;
    let changed = Changed {
        key,
        day: date("2026-11-17"),
        bytes: content.len() as u64,
        found_bytes: 4,
    };
    assert_eq!(report.changed.first, [changed]);
    assert_eq!(report.missing.count + report.broken.count, 0);
}

#[tokio::test]
async fn a_line_that_was_changed_removed_or_added_breaks_the_chain() {
    let world = three_days().await;
    let sha256 = item(2).sha256.to_string();
    let forged = item(0).sha256.to_string();
    let day = "2026-11-16";
    world
        .tamper(0, day, |text| text.replace(&sha256, &forged))
        .await;
    let report = checked(&world).await;
    assert!(
        matches!(
            report.broken.first[..],
            [Broken::Line { day, at: Break::Link { line: 2, .. } }] if day == date("2026-11-16")
        ),
        "{report:?}"
    );
    let said = report.broken.first[0].to_string();
    assert!(
        said.starts_with("the inventory of 2026-11-16 does not hold: line 2"),
        "{said}"
    );

    let world = three_days().await;
    world
        .tamper(0, day, |text| text.replace("{\"Key\"", "{\"Kex\""))
        .await;
    let report = checked(&world).await;
    assert_eq!((report.broken.count, report.gaps.count), (2, 1));
}

/// The end of a day has no line after it but that of the next day.
#[tokio::test]
async fn a_day_that_was_removed_or_cut_leaves_a_gap() {
    let world = three_days().await;
    world
        .tamper(0, "2026-11-16", |text| {
            let (first, _) = text.split_once('\n').unwrap();
            format!("{first}\n")
        })
        .await;
    let gap = |after: Option<&str>, day: &str, days_between| Gap {
        after: after.map(date),
        day: date(day),
        days_between,
    };
    let report = checked(&world).await;
    assert_eq!(
        report.gaps.first,
        [gap(Some("2026-11-16"), "2026-11-17", 0)]
    );
    let key = Key::inventory(&home(), date("2026-11-16"));
    world.remove(0, &key).await;
    let report = checked(&world).await;
    assert_eq!(
        report.gaps.first,
        [gap(Some("2026-11-15"), "2026-11-17", 1)]
    );
    let key = Key::inventory(&home(), date("2026-11-15"));
    world.remove(0, &key).await;
    let report = checked(&world).await;
    assert_eq!(report.gaps.first, [gap(None, "2026-11-17", 0)]);
    assert_eq!((report.days, report.lines), (1, 2));
}

#[tokio::test]
async fn strange_lines_harm_nobody() {
    let world = three_days().await;
    world
        .tamper(0, "2026-11-17", |text| {
            let line = text.lines().next().unwrap().to_owned();
            let other = line.replace("autoload/v1", "elsewhere");
            let long = "x".repeat(20_000);
            format!("{text}{line}\n{other}\n\n{long}\n")
        })
        .await;
    let report = checked(&world).await;
    assert_eq!(report.twice.first, [object(4).0]);
    assert_eq!(report.missing.count, 1, "named, but never there");
    // Two lines do not hang together, one is empty, and one does not end.
    assert_eq!(report.broken.count, 4, "{report:?}");
}

#[tokio::test]
async fn a_listing_that_breaks_off_is_an_error() {
    let world = three_days().await;
    for fault in [Fault::ErrorBefore, Fault::ListEndsAfter(1)] {
        world.faults[0].next(Request::List, fault, 1);
        assert!(check(world.lake(0), &home()).await.is_err());
    }
    assert!(checked(&world).await.is_clean());
}

/// A node that is still there puts right what somebody did to its last days.
#[tokio::test]
async fn what_was_changed_behind_a_node_is_put_back() {
    let world = World::new(1);
    let inventory = world.inventory();
    world.ship(&inventory, 0..3).await;
    inventory.upload().await.unwrap();
    for number in [0, 2] {
        let honest = item(number).sha256.to_string();
        let forged = Digest::of(b"forged").to_string();
        world
            .tamper(0, "2026-11-15", |text| text.replace(&honest, &forged))
            .await;
        world.ship(&inventory, number + 3..number + 4).await;
        inventory.upload().await.unwrap();
        let text = world.text(0, "2026-11-15").await.unwrap();
        assert!(text.contains(&honest) && !text.contains(&forged));
    }
    world.expect([0, 1, 2, 3, 5]).await;
    let key = Key::inventory(&home(), date("2026-11-15"));
    world.remove(0, &key).await;
    world.ship(&inventory, 6..7).await;
    inventory.upload().await.unwrap();
    world.expect([0, 1, 2, 3, 5, 6]).await;
}
