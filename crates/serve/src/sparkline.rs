//! A series as a small curve, drawn on the server.

use std::fmt::Write as _;

use maud::{Markup, html};

use crate::content::clean;
use crate::section::Series;

const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 48.0;
/// Keeps the stroke of the highest and the lowest point inside the picture.
const MARGIN: f64 = 2.0;
/// More points than this cannot be told apart at the size of a card; the newest are drawn.
const POINTS_MAX: usize = 240;

/// The curve with its area, or nothing when there are not two values to connect.
pub(crate) fn draw(series: &Series) -> Option<Markup> {
    let values: Vec<f64> = series
        .values
        .iter()
        .copied()
        .filter(|value| value.is_finite())
        .collect();
    let values = &values[values.len().saturating_sub(POINTS_MAX)..];
    let (&newest, last) = (values.last()?, values.len() - 1);
    if last == 0 {
        return None;
    }
    // The base is zero unless the series goes below it: a cut axis makes noise look like news.
    let low = values.iter().copied().fold(0.0, f64::min);
    let high = values.iter().copied().fold(f64::MIN, f64::max);
    let points = points(values, low, high);
    let top = number(high);
    let title = format!(
        "{}: now {}, highest {top}",
        clean(&series.title),
        number(newest)
    );
    let bottom = HEIGHT;
    Some(html! {
        svg.spark viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(title) {
            title { (title) }
            polygon.spark-area points={ "0," (bottom) " " (points) " " (WIDTH) "," (bottom) } {}
            polyline.spark-line points=(points) vector-effect="non-scaling-stroke" {}
        }
    })
}

fn points(values: &[f64], low: f64, high: f64) -> String {
    let span = if high > low { high - low } else { 1.0 };
    let step = WIDTH / f64::from(u32::try_from(values.len() - 1).unwrap_or(u32::MAX));
    let mut text = String::new();
    let mut x = 0.0;
    for value in values {
        let y = HEIGHT - MARGIN - (value - low) / span * (HEIGHT - 2.0 * MARGIN);
        let gap = if text.is_empty() { "" } else { " " };
        write!(text, "{gap}{x:.1},{y:.1}").expect("writing to a string does not fail");
        x += step;
    }
    text
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(values: &[f64]) -> Option<String> {
        draw(&Series {
            title: "per minute".into(),
            values: values.into(),
        })
        .map(Markup::into_string)
    }

    #[test]
    fn the_curve_spans_the_picture_from_zero_to_the_highest_value() {
        let svg = drawn(&[0.0, 10.0, 5.0]).unwrap();
        assert!(
            svg.contains(r#"points="0.0,46.0 120.0,2.0 240.0,24.0""#),
            "{svg}"
        );
        assert!(
            svg.contains("<title>per minute: now 5, highest 10</title>"),
            "{svg}"
        );
    }

    #[test]
    fn a_series_that_goes_below_zero_has_its_lowest_value_at_the_bottom() {
        assert!(
            drawn(&[-4.0, 4.0])
                .unwrap()
                .contains(r#"points="0.0,46.0 240.0,2.0""#)
        );
    }

    #[test]
    fn values_that_are_no_numbers_are_left_out() {
        let svg = drawn(&[f64::NAN, 1.0, f64::INFINITY, 1.5]).unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(svg.contains("now 1.5"), "{svg}");
    }

    #[test]
    fn a_flat_line_at_zero_lies_on_the_ground() {
        assert!(
            drawn(&[0.0, 0.0])
                .unwrap()
                .contains(r#"points="0.0,46.0 240.0,46.0""#)
        );
    }

    #[test]
    fn fewer_than_two_values_draw_nothing() {
        assert_eq!(drawn(&[]), None);
        assert_eq!(drawn(&[3.0]), None);
    }

    #[test]
    fn a_long_series_is_cut_to_its_newest_values() {
        let mut values = vec![9_999.0; 50];
        values.extend(vec![1.0; POINTS_MAX]);
        assert!(drawn(&values).unwrap().contains("highest 1<"));
    }
}
