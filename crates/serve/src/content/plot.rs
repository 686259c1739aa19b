//! A graph over time, drawn on the server.
//!
//! The picture is as wide as its place and its words are not stretched with it: what is stretched stands in an inner picture,
//! everything else is placed by percentages.

use std::time::Duration;

use jiff::Timestamp;
use maud::{Markup, Render, html};

use super::text::clean;

mod axis;
mod draw;
mod thin;

use axis::{VALUE_MAX, Values, number, told};
use thin::Point;

/// Values over time, with polls that failed and a line not to be crossed.
#[derive(Clone, Debug)]
pub struct Plot {
    title: String,
    unit: String,
    value_words: String,
    span: Option<(i64, i64)>,
    every: Option<Duration>,
    points: Vec<Point>,
    failures: Vec<(i64, String)>,
    target: Option<(f64, String)>,
    as_dots: bool,
    empty: String,
}

impl Plot {
    /// A graph without values. `title` says what is drawn, `unit` stands behind every value and may be empty.
    #[must_use]
    pub fn new(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            unit: unit.into(),
            value_words: "value".to_owned(),
            span: None,
            every: None,
            points: Vec::new(),
            failures: Vec::new(),
            target: None,
            as_dots: false,
            empty: "No values yet.".to_owned(),
        }
    }

    /// From when to when; without this, from the first value or failure to the last. What lies outside is not drawn.
    #[must_use]
    pub fn over(mut self, from: Timestamp, to: Timestamp) -> Self {
        let (from, to) = (from.as_millisecond(), to.as_millisecond());
        self.span = Some((from.min(to), from.max(to)));
        self
    }

    /// How far apart values are when all is well: where they are more than two and a half times as far, the line is broken
    /// and the gap is marked. Without this, the usual distance is taken from the values.
    #[must_use]
    pub fn every(mut self, distance: Duration) -> Self {
        self.every = Some(distance);
        self
    }

    /// What a value is, for the legend.
    #[must_use]
    pub fn values_are(mut self, words: impl Into<String>) -> Self {
        self.value_words = words.into();
        self
    }

    /// More values, in any order. One that is no number is left out.
    #[must_use]
    pub fn points(mut self, points: impl IntoIterator<Item = (Timestamp, f64)>) -> Self {
        let finite = points.into_iter().filter(|(_, value)| value.is_finite());
        let bounded = |(at, value): (Timestamp, f64)| {
            (at.as_millisecond(), value.clamp(-VALUE_MAX, VALUE_MAX))
        };
        self.points.extend(finite.map(bounded));
        self
    }

    /// One more poll that gave no value, and why.
    #[must_use]
    pub fn failed(mut self, at: Timestamp, reason: impl Into<String>) -> Self {
        self.failures.push((at.as_millisecond(), reason.into()));
        self
    }

    /// A dashed line at a value, and what it is.
    #[must_use]
    pub fn target(mut self, value: f64, label: impl Into<String>) -> Self {
        self.target = value
            .is_finite()
            .then(|| (value.clamp(-VALUE_MAX, VALUE_MAX), label.into()));
        self
    }

    /// Points that are not connected, for values that do not follow from each other.
    #[must_use]
    pub fn dots(mut self) -> Self {
        self.as_dots = true;
        self
    }

    /// What to say while there is nothing to draw.
    #[must_use]
    pub fn empty(mut self, text: impl Into<String>) -> Self {
        self.empty = text.into();
        self
    }

    /// A value with its unit.
    fn told(&self, value: f64) -> String {
        let unit = clean(&self.unit);
        format!("{} {unit}", number(value)).trim_end().to_owned()
    }

    /// What is inside the picture, in order of time.
    fn settled(&self) -> Option<Settled<'_>> {
        let times = || {
            let points = self.points.iter().map(|(at, _)| *at);
            points.chain(self.failures.iter().map(|(at, _)| *at))
        };
        let whole = || Some((times().min()?, times().max()?));
        let (from, to) = self.span.or_else(whole)?;
        let is_inside = |at: i64| (from..=to).contains(&at);
        let mut points: Vec<Point> = self.points.clone();
        points.retain(|(at, _)| is_inside(*at));
        points.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
        let failures = self.failures.iter().filter(|(at, _)| is_inside(*at));
        let mut failures: Vec<(i64, &str)> = failures
            .map(|(at, reason)| (*at, reason.as_str()))
            .collect();
        failures.sort_unstable();
        // A picture of a single moment has no width.
        let to = to.max(from + 1);
        (!points.is_empty() || !failures.is_empty()).then(|| Settled {
            span: (from, to),
            gap: self.gap(&points),
            figures: Figures::of(&points),
            points,
            failures,
        })
    }

    /// How far apart points are no longer connected.
    fn gap(&self, points: &[Point]) -> i64 {
        let usual = match self.every {
            Some(every) => i64::try_from(every.as_millis()).unwrap_or(i64::MAX),
            None => {
                let mut distances: Vec<i64> = points
                    .windows(2)
                    .map(|pair| pair[1].0 - pair[0].0)
                    .collect();
                distances.sort_unstable();
                match distances.get(distances.len() / 2) {
                    Some(median) if *median > 0 => *median,
                    _ => return i64::MAX,
                }
            }
        };
        usual.saturating_mul(5) / 2
    }
}

/// A graph that has something to draw.
struct Settled<'a> {
    span: (i64, i64),
    gap: i64,
    points: Vec<Point>,
    failures: Vec<(i64, &'a str)>,
    figures: Option<Figures>,
}

/// What the values come to.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figures {
    lowest: f64,
    median: f64,
    highest: f64,
}

impl Figures {
    fn of(points: &[Point]) -> Option<Self> {
        let mut values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
        values.sort_by(f64::total_cmp);
        let (lowest, highest) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self {
            lowest,
            median,
            highest,
        })
    }
}

impl Render for Plot {
    fn render(&self) -> Markup {
        html! {
            figure.card.plot {
                @match self.settled() {
                    Some(settled) => { (draw::whole(self, &settled)) }
                    None => {
                        figcaption { h3 { (clean(&self.title)) } }
                        p.none { (clean(&self.empty)) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
