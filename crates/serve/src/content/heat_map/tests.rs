use super::*;

fn tally(stored: u64, unchanged: u64, failed: u64, not_collected: u64) -> Tally {
    Tally {
        stored,
        unchanged,
        failed,
        not_collected,
    }
}

#[test]
fn a_cell_is_filled_by_shares_and_a_fault_is_never_too_thin() {
    use Outcome::{Failed, NotCollected, Stored, Unchanged};
    assert_eq!(tally(0, 0, 0, 0).shares(), []);
    assert_eq!(tally(7, 0, 0, 0).shares(), [(Stored, 0, 100)]);
    assert_eq!(tally(0, 0, 0, 1).shares(), [(NotCollected, 0, 100)]);
    assert_eq!(
        tally(1, 3, 0, 0).shares(),
        [(Stored, 0, 25), (Unchanged, 25, 75)]
    );
    assert_eq!(
        tally(9_999, 0, 1, 0).shares(),
        [(Stored, 0, 62), (Failed, 62, 38)]
    );
    assert_eq!(
        tally(9_999, 0, 1, 1).shares(),
        [(Stored, 0, 24), (Failed, 24, 38), (NotCollected, 62, 38)]
    );
    assert_eq!(
        tally(0, 0, 1, 1_000).shares(),
        [(Failed, 0, 38), (NotCollected, 38, 62)]
    );
    assert_eq!(
        tally(60, 30, 10, 0).shares(),
        [(Stored, 0, 41), (Unchanged, 41, 21), (Failed, 62, 38)]
    );
    assert_eq!(
        tally(1, 0, 90, 9).shares(),
        [(Stored, 0, 8), (Failed, 8, 54), (NotCollected, 62, 38)]
    );
}

#[test]
fn the_parts_of_a_cell_fill_it() {
    let counts = [0, 1, 2, 50, 1_000, u64::MAX / 4, u64::MAX];
    for at in 1..counts.len().pow(4) {
        let count = |place: u32| counts[at / counts.len().pow(place) % counts.len()];
        let tally = tally(count(0), count(1), count(2), count(3));
        let shares = tally.shares();
        let heights: u64 = shares.iter().map(|(_, _, height)| height).sum();
        assert_eq!(heights, 100, "{tally:?}: {shares:?}");
        let is_wide = |(outcome, _, height): &(Outcome, u64, u64)| {
            outcome.mark().is_none() || *height >= FAULT_SHARE_MIN
        };
        assert!(shares.iter().all(is_wide), "{tally:?}: {shares:?}");
    }
}

#[test]
fn coverage_is_all_only_when_nothing_is_missing() {
    assert_eq!(tally(9_999, 0, 1, 0).covered().unwrap(), "99.9 %");
    assert_eq!(tally(5, 5, 0, 0).covered().unwrap(), "100 %");
    assert_eq!(tally(0, 0, 3, 0).covered().unwrap(), "0.0 %");
    assert_eq!(tally(0, 0, 0, 0).covered(), None);
}

#[test]
fn a_map_is_a_table_with_words_marks_and_a_legend() {
    let map = HeatMap::of_days("Coverage")
        .row(
            "15 Nov",
            vec![tally(10, 2, 0, 0), tally(11, 0, 1, 0), tally(0, 0, 0, 12)],
        )
        .render()
        .into_string();
    assert_eq!(map.matches("<td>").count(), 24);
    assert_eq!(map.matches(r#"<th scope="col">"#).count(), 25);
    for expected in [
        r#"<th scope="row"><div><span>15 Nov</span> <small>63.8 %</small></div></th>"#,
        "<title>15 Nov, 00: 10 stored, 2 unchanged</title>",
        "<title>15 Nov, 01: 11 stored, 1 failed</title>",
        "<title>15 Nov, 02: 12 not collected</title>",
        "<title>15 Nov, 03: not due yet</title>",
        r#"<rect class="heat-failed" y="62%" width="100%" height="38%"></rect><text x="50%" y="81%">×</text>"#,
        r#"<rect class="heat-missing" y="0%" width="100%" height="100%"></rect><text x="50%" y="50%">?</text>"#,
        "not collected</span>",
        r#"tabindex="0""#,
    ] {
        assert!(map.contains(expected), "no {expected} in {map}");
    }
}

#[test]
fn a_map_is_bounded_and_says_when_it_is_empty() {
    let labels = (0..500).map(|nth| nth.to_string());
    let map = HeatMap::new("Coverage", labels).empty("Wait an hour.");
    assert!(map.render().into_string().contains("Wait an hour."));
    let map = (0..500).fold(map, |map, nth| {
        map.row(nth.to_string(), vec![tally(1, 0, 0, 0); 500])
    });
    let drawn = map.render().into_string();
    assert_eq!(drawn.matches("<td>").count(), ROWS_MAX * COLUMNS_MAX);
    assert!(drawn.contains("narrow"));
}
