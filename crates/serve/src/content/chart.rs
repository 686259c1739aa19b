//! Pictures, drawn on the server. Styles within a page are forbidden to it, so that a size is an attribute of SVG.

use maud::{Markup, Render, html};

use super::text::clean;
use crate::section::Series;
use crate::sparkline;

/// Values side by side.
#[derive(Clone, Debug)]
pub struct Bars {
    title: String,
    bars: Vec<Bar>,
    empty: String,
}

#[derive(Clone, Debug)]
struct Bar {
    name: String,
    hint: String,
    value: u64,
    marked: u64,
}

impl Bars {
    /// No bars yet; `empty` is said while there are none.
    #[must_use]
    pub fn new(title: impl Into<String>, empty: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            bars: Vec::new(),
            empty: empty.into(),
        }
    }

    /// One more bar: its name, a few words of explanation, and how much of its value is marked.
    #[must_use]
    pub fn bar(
        mut self,
        name: impl Into<String>,
        hint: impl Into<String>,
        value: u64,
        marked: u64,
    ) -> Self {
        self.bars.push(Bar {
            name: name.into(),
            hint: hint.into(),
            value,
            marked,
        });
        self
    }
}

impl Render for Bars {
    fn render(&self) -> Markup {
        let most = self
            .bars
            .iter()
            .map(|bar| bar.value)
            .max()
            .unwrap_or(0)
            .max(1);
        html! {
            article.card {
                h3 { (clean(&self.title)) }
                @if self.bars.is_empty() {
                    p.none { (clean(&self.empty)) }
                } @else {
                    ul.bars { @for bar in &self.bars { (bar.draw(most)) } }
                }
            }
        }
    }
}

impl Bar {
    fn draw(&self, most: u64) -> Markup {
        html! {
            li {
                span.bar-name { (clean(&self.name)) }
                svg.bar aria-hidden="true" {
                    rect.bar-all height="100%" width={ (percent(self.value, most)) "%" } {}
                    rect.bar-marked height="100%" width={ (percent(self.marked, most)) "%" } {}
                }
                span.bar-value { (clean(&self.hint)) }
            }
        }
    }
}

/// How much of the picture a value takes; what is there at all can be seen.
fn percent(value: u64, most: u64) -> u64 {
    let share = u128::from(value) * 100 / u128::from(most.max(1));
    let share = u64::try_from(share).unwrap_or(100).min(100);
    share.max(u64::from(value > 0))
}

/// A series over time.
#[derive(Clone, Debug)]
pub struct Curve {
    series: Series,
    value: String,
    label: String,
}

impl Curve {
    /// A curve, oldest value first. `title` says what is drawn and over which time.
    #[must_use]
    pub fn new(title: impl Into<String>, values: Vec<f64>) -> Self {
        Self {
            series: Series {
                title: title.into(),
                values,
            },
            value: String::new(),
            label: String::new(),
        }
    }

    /// The big value above it, and what it counts.
    #[must_use]
    pub fn value(mut self, value: impl Into<String>, label: impl Into<String>) -> Self {
        self.value = value.into();
        self.label = label.into();
        self
    }
}

impl Render for Curve {
    fn render(&self) -> Markup {
        html! {
            article.card.curve {
                h3 { (clean(&self.series.title)) }
                @if !self.value.is_empty() { p.value { (clean(&self.value)) " " span.label { (clean(&self.label)) } } }
                @match sparkline::draw(&self.series) {
                    Some(curve) => { (curve) }
                    None => { p.none { "The curve begins with the second interval." } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_can_be_seen_and_nothing_is_wider_than_the_picture() {
        let shares = [(0, 10), (1, 1_000_000), (5, 10), (10, 10), (11, 10)]
            .map(|(value, most)| percent(value, most));
        assert_eq!(shares, [0, 1, 50, 100, 100]);
        assert_eq!(percent(u64::MAX, u64::MAX), 100);
    }
}
