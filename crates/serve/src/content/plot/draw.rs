//! The picture and the words around it.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::thin::{Thinned, column, thin};
use super::{Plot, Point, Settled, Values, axis, told};
use crate::content::text::{clean, grouped};

/// The inner, stretched picture is as many units wide and high.
const UNITS: f64 = 1_000.0;
/// Marks of failures side by side: at the width of a phone each is still a few pixels wide.
const FAILURE_COLUMNS: usize = 120;
/// Columns that say their values under the pointer.
const HINT_COLUMNS: usize = 96;
/// Fewer points are marked on the line.
const MARKED_POINTS_MAX: usize = 60;
/// A target this many times as high as all values is named and not drawn: its scale would flatten them.
const TARGET_REACH: f64 = 4.0;
/// What one character of a label is wide at most, in pixels.
const LABEL_PIXELS: usize = 8;

const TIME: &str = "%Y-%m-%d %H:%M:%S";
const MINUTES: &str = "%Y-%m-%d %H:%M";

/// Everything within the figure.
pub(super) fn whole(plot: &Plot, settled: &Settled<'_>) -> Markup {
    let scale = scale(plot, settled);
    let (from, to) = settled.span;
    let thinned = if settled.points.is_empty() {
        Thinned::default()
    } else {
        thin(&settled.points, settled.span, settled.gap)
    };
    html! {
        figcaption {
            h3 { (clean(&plot.title)) }
            (figures(plot, settled))
        }
        div.plot-frame {
            (value_labels(plot, &scale, settled.figures.is_some()))
            svg.plot-field role="img" aria-label=(summary(plot, settled)) {
                title { (summary(plot, settled)) }
                (gaps(&thinned, settled.span))
                @for tick in &scale.ticks { line.plot-grid x1="0" x2="100%" y1=(percent(scale.place(*tick))) y2=(percent(scale.place(*tick))) {} }
                (curve(plot, &thinned, &scale, settled.span))
                (target(plot, &scale))
                (hints(plot, settled))
            }
            @if !settled.failures.is_empty() { (failures(settled)) }
            (time_labels(settled.span))
        }
        p.plot-foot {
            (legend(plot, settled, &thinned))
            span.plot-span { (told(from, MINUTES)) " – " (told(to, MINUTES)) " UTC" }
        }
    }
}

fn scale(plot: &Plot, settled: &Settled<'_>) -> Values {
    let (lowest, highest) = settled
        .figures
        .map_or((0.0, 0.0), |figures| (figures.lowest, figures.highest));
    match &plot.target {
        Some((target, _)) if settled.figures.is_none() || *target <= highest * TARGET_REACH => {
            Values::holding(lowest.min(*target), highest.max(*target))
        }
        _ => Values::holding(lowest, highest),
    }
}

/// A place as an attribute of SVG.
fn percent(place: f64) -> String {
    format!("{place:.2}%")
}

/// How far from the left, of 100.
fn across(at: i64, (from, to): (i64, i64)) -> f64 {
    100.0 * (at - from) as f64 / (to - from) as f64
}

fn summary(plot: &Plot, settled: &Settled<'_>) -> String {
    let (from, to) = settled.span;
    let mut text = format!(
        "{}, {} to {} UTC",
        clean(&plot.title),
        told(from, MINUTES),
        told(to, MINUTES)
    );
    if let Some(figures) = settled.figures {
        let values =
            [figures.lowest, figures.median, figures.highest].map(|value| plot.told(value));
        let [lowest, median, highest] = values;
        let (count, s) = match settled.points.len() {
            1 => (1, ""),
            count => (count, "s"),
        };
        write!(
            text,
            ": {count} value{s}, lowest {lowest}, median {median}, highest {highest}"
        )
        .expect("writing to a string does not fail");
    }
    if let Some((value, label)) = &plot.target {
        write!(text, "; {} {}", clean(label), plot.told(*value))
            .expect("writing to a string does not fail");
    }
    if !settled.failures.is_empty() {
        write!(text, "; {} failed", settled.failures.len())
            .expect("writing to a string does not fail");
    }
    text
}

fn figures(plot: &Plot, settled: &Settled<'_>) -> Markup {
    let failed = settled.failures.len();
    html! {
        dl.plot-figures {
            @if let Some(figures) = settled.figures {
                div { dt { "lowest" } dd { (plot.told(figures.lowest)) } }
                div { dt { "median" } dd { (plot.told(figures.median)) } }
                div { dt { "highest" } dd { (plot.told(figures.highest)) } }
            }
            @if failed > 0 { div.bad { dt { "failed" } dd { (grouped(&failed.to_string())) } } }
        }
    }
}

/// Without values there is no scale, but the column stays.
fn value_labels(plot: &Plot, scale: &Values, has_values: bool) -> Markup {
    let labels: Vec<(f64, String)> = scale
        .ticks
        .iter()
        .filter(|_| has_values || plot.target.is_some())
        .map(|tick| (scale.place(*tick), plot.told(*tick)))
        .collect();
    // The word beside the failures below stands in the same column.
    let longest = labels.iter().map(|(_, label)| label.chars().count()).max();
    let width = longest.unwrap_or(0).max("failed".len()) * LABEL_PIXELS;
    html! {
        svg.plot-values width=(width) aria-hidden="true" {
            @for (place, label) in &labels { text x="100%" y=(percent(*place)) { (label) } }
        }
    }
}

fn time_labels(span: (i64, i64)) -> Markup {
    html! {
        svg.plot-times aria-hidden="true" {
            @for (nth, (at, words)) in axis::times(span.0, span.1).iter().enumerate() {
                // Every other one is left out where there is no room.
                text class=[(nth % 2 == 1).then_some("plot-odd")] x=(percent(across(*at, span))) y="16" { (words) }
            }
        }
    }
}

fn gaps(thinned: &Thinned, span: (i64, i64)) -> Markup {
    html! {
        @for (from, to) in &thinned.gaps {
            rect.plot-gap x=(percent(across(*from, span))) width=(percent(across(*to, span) - across(*from, span))) height="100%" {}
        }
    }
}

fn curve(plot: &Plot, thinned: &Thinned, scale: &Values, span: (i64, i64)) -> Markup {
    let place = |(at, value): &Point| {
        let (x, y) = (across(*at, span), scale.place(*value));
        format!("{:.1} {:.1}", x * UNITS / 100.0, y * UNITS / 100.0)
    };
    let drawn: usize = thinned.strokes.iter().map(Vec::len).sum();
    let marks_all = plot.as_dots || drawn <= MARKED_POINTS_MAX;
    let (mut line, mut dots) = (String::new(), String::new());
    for stroke in &thinned.strokes {
        if !plot.as_dots && stroke.len() > 1 {
            let places: Vec<String> = stroke.iter().map(place).collect();
            write!(line, "M{}", places.join("L")).expect("writing to a string does not fail");
        }
        if marks_all || stroke.len() == 1 {
            for point in stroke {
                // A line of no length, with round ends: a circle would be stretched with the picture.
                write!(dots, "M{}h0", place(point)).expect("writing to a string does not fail");
            }
        }
    }
    html! {
        svg viewBox={ "0 0 " (UNITS) " " (UNITS) } preserveAspectRatio="none" width="100%" height="100%" overflow="visible" {
            @if !line.is_empty() { path.plot-line d=(line) vector-effect="non-scaling-stroke" {} }
            @if !dots.is_empty() { path.plot-dots d=(dots) vector-effect="non-scaling-stroke" {} }
        }
    }
}

fn target(plot: &Plot, scale: &Values) -> Markup {
    let Some((value, label)) = &plot.target else {
        return html! {};
    };
    let words = format!("{} {}", clean(label), plot.told(*value));
    let place = scale.place(*value);
    if place < 0.0 {
        return html! { text.plot-target-words x="100%" y="0" dy="14" { (words) " ↑" } };
    }
    // Above the line, or below it where there is no room above.
    let dy = if place < 10.0 { "15" } else { "-6" };
    html! {
        line.plot-target x1="0" x2="100%" y1=(percent(place)) y2=(percent(place)) {}
        text.plot-target-words x="100%" y=(percent(place)) dy=(dy) { (words) }
    }
}

/// Says under the pointer what was then.
fn hints(plot: &Plot, settled: &Settled<'_>) -> Markup {
    let mut columns: Vec<Vec<Point>> = vec![Vec::new(); HINT_COLUMNS];
    for point in &settled.points {
        columns[column(point.0, settled.span, HINT_COLUMNS)].push(*point);
    }
    let width = 100.0 / HINT_COLUMNS as f64;
    html! {
        @for (nth, points) in columns.iter().enumerate().filter(|(_, points)| !points.is_empty()) {
            rect.plot-hint x=(percent(nth as f64 * width)) width=(percent(width)) height="100%" { title { (hint(plot, points)) } }
        }
    }
}

fn hint(plot: &Plot, points: &[Point]) -> String {
    let from = told(points[0].0, TIME);
    match (super::Figures::of(points), points) {
        (Some(figures), [_, .., last]) => format!(
            "{from} – {} UTC: {} to {}, median {}",
            told(last.0, "%H:%M:%S"),
            plot.told(figures.lowest),
            plot.told(figures.highest),
            plot.told(figures.median)
        ),
        _ => format!("{from} UTC: {}", plot.told(points[0].1)),
    }
}

/// A row below the picture, in which every failure has a mark.
fn failures(settled: &Settled<'_>) -> Markup {
    let mut columns: Vec<Vec<(i64, &str)>> = vec![Vec::new(); FAILURE_COLUMNS];
    for failure in &settled.failures {
        columns[column(failure.0, settled.span, FAILURE_COLUMNS)].push(*failure);
    }
    let width = 100.0 / FAILURE_COLUMNS as f64;
    let label = format!("{} failed", settled.failures.len());
    html! {
        span.plot-failed-words aria-hidden="true" { "failed" }
        svg.plot-failed role="img" aria-label=(label) {
            title { (label) }
            @for (nth, failures) in columns.iter().enumerate() {
                @if let Some((at, reason)) = failures.last() {
                    rect x=(percent(nth as f64 * width)) width=(percent(width)) height="100%" {
                        title { (told(*at, TIME)) " UTC: " (clean(reason)) @if failures.len() > 1 { " (the last of " (failures.len()) ")" } }
                    }
                }
            }
        }
    }
}

fn legend(plot: &Plot, settled: &Settled<'_>, thinned: &Thinned) -> Markup {
    html! {
        span.legend {
            @if settled.figures.is_some() {
                span {
                    svg aria-hidden="true" width="22" height="10" {
                        @if plot.as_dots { path.plot-dots d="M4 5h0M11 5h0M18 5h0" {} } @else { path.plot-line d="M1 5h20" {} }
                    }
                    (clean(&plot.value_words))
                }
            }
            @if let Some((_, label)) = &plot.target {
                span { svg aria-hidden="true" width="22" height="10" { path.plot-target d="M0 5h22" {} } (clean(label)) }
            }
            @if !settled.failures.is_empty() {
                span { svg.plot-failed aria-hidden="true" width="10" height="10" { rect width="10" height="10" {} } "failed" }
            }
            @if !thinned.gaps.is_empty() {
                span { svg aria-hidden="true" width="22" height="10" { rect.plot-gap width="22" height="10" {} } "no " (clean(&plot.value_words)) }
            }
        }
    }
}
