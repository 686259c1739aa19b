use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_794_744_000 + seconds).unwrap()
}

fn drawn(plot: &Plot) -> String {
    plot.render().into_string()
}

/// What stands between two texts, of the first place.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let rest = text.split_once(begin).map_or("", |(_, rest)| rest);
    rest.split(end).next().unwrap()
}

fn latency() -> Plot {
    Plot::new("Latency", "ms")
        .values_are("response")
        .over(at(0), at(3_600))
        .every(Duration::from_secs(60))
}

#[test]
fn a_graph_has_a_line_a_target_failures_and_its_figures() {
    let points = [(0, 100.0), (60, 300.0), (120, 200.0), (1_800, 400.0)];
    let plot = latency()
        .points(points.map(|(second, value)| (at(second), value)))
        .target(500.0, "target")
        .failed(at(900), "timed out")
        .failed(at(901), "503 <b>");
    let svg = drawn(&plot);
    for expected in [
        "<dt>lowest</dt><dd>100 ms</dd>",
        "<dt>median</dt><dd>250 ms</dd>",
        "<dt>highest</dt><dd>400 ms</dd>",
        "<dt>failed</dt><dd>2</dd>",
        r#"<text x="100%" y="20.00%">400 ms</text>"#,
        r#"<line class="plot-target" x1="0" x2="100%" y1="0.00%" y2="0.00%">"#,
        ">target 500 ms</text>",
        r#"<path class="plot-line" d="M0.0 800.0L16.7 400.0L33.3 600.0""#,
        "M500.0 200.0h0",
        r#"<rect class="plot-gap" x="3.33%" width="46.67%""#,
        r#"<rect class="plot-gap" x="50.00%" width="50.00%""#,
        "2026-11-15 12:15:01 UTC: 503 &lt;b&gt; (the last of 2)",
        "Latency, 2026-11-15 12:00 to 2026-11-15 13:00 UTC: 4 values, lowest 100 ms, median 250 ms, highest 400 ms; target 500 ms; 2 failed",
        "12:30</text>",
        "no response",
    ] {
        assert!(svg.contains(expected), "no {expected} in {svg}");
    }
}

#[test]
fn a_week_of_polls_is_a_small_picture_with_its_extremes() {
    let points =
        (0..604_800).map(|second| (at(second), if second == 99_999 { 9_999.0 } else { 100.0 }));
    let plot = Plot::new("Latency", "ms").points(points);
    let svg = drawn(&plot);
    let line = between(&svg, r#"plot-line" d=""#, "\"");
    assert!(
        line.matches('L').count() < thin::POINTS_MAX,
        "{}",
        line.len()
    );
    assert!(
        line.contains("L165.3 0.1") || line.contains("L165.3 0.0"),
        "{line}"
    );
    assert!(svg.len() < 64 * 1024, "{}", svg.len());
}

#[test]
fn a_target_far_above_is_named_and_does_not_flatten_the_line() {
    let plot = latency()
        .points([(at(0), 90.0), (at(60), 100.0)])
        .target(60_000.0, "target");
    let svg = drawn(&plot);
    assert!(svg.contains("target 60,000 ms ↑"), "{svg}");
    assert!(
        svg.contains(r#"<text x="100%" y="0.00%">100 ms</text>"#),
        "{svg}"
    );
    assert!(!svg.contains(r#"<line class="plot-target""#), "{svg}");
    let near = drawn(&plot.target(300.0, "target"));
    assert!(near.contains(r#"<line class="plot-target""#), "{near}");
}

#[test]
fn what_is_outside_or_no_number_is_not_drawn() {
    let plot = latency().points([
        (at(-1), 7_777.0),
        (at(0), f64::NAN),
        (at(1), f64::INFINITY),
        (at(3_601), 7_777.0),
    ]);
    let plot = plot.failed(at(9_999), "outside").empty("Nobody asked yet.");
    let svg = drawn(&plot);
    assert!(
        svg.contains("Nobody asked yet.") && !svg.contains("<svg"),
        "{svg}"
    );
    let huge = drawn(
        &plot
            .points([(at(5), f64::MAX), (at(6), f64::MIN)])
            .target(f64::NAN, "t"),
    );
    for wrong in ["NaN", "inf", "7,777", "outside"] {
        assert!(!huge.contains(wrong), "{wrong}: {huge}");
    }
}

#[test]
fn failures_alone_and_a_single_value_are_drawn() {
    let failed = drawn(&Plot::new("Latency", "ms").failed(at(5), "refused"));
    assert!(
        failed.contains("refused") && !failed.contains("plot-line"),
        "{failed}"
    );
    assert!(!failed.contains("1 ms"), "a scale of no value: {failed}");
    let single = drawn(&Plot::new("Latency", "ms").points([(at(5), 3.0)]));
    assert!(single.contains("M0.0 0.0h0"), "{single}");
}

#[test]
fn dots_are_not_connected() {
    let points = (0..100).map(|nth| (at(nth), 5.0));
    let svg = drawn(&Plot::new("Latency", "ms").points(points).dots());
    assert_eq!(
        between(&svg, r#"plot-dots" d=""#, "\"")
            .matches("h0")
            .count(),
        100
    );
    assert!(!svg.contains("plot-line"), "{svg}");
}

#[test]
fn without_a_distance_the_usual_one_tells_gaps() {
    let seconds = (0..50).chain(100..150);
    let svg = drawn(&Plot::new("Latency", "ms").points(seconds.map(|second| (at(second), 1.0))));
    assert_eq!(
        svg.matches(r#"<rect class="plot-gap" x="#).count(),
        1,
        "{svg}"
    );
    let line = between(&svg, r#"plot-line" d=""#, "\"");
    assert_eq!(line.matches('M').count(), 2, "{line}");
}
