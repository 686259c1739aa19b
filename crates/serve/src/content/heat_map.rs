//! What came of many polls, by day and hour or by hour and minute, so that gaps can be seen from afar.
//!
//! A cell is filled from the top by shares: stored, unchanged, failed, not collected. The last two are never thinner than
//! their mark, so that one poll of a thousand that failed can be seen, and without colours too.

use maud::{Markup, Render, html};

use super::text::{clean, grouped};

/// How many rows and columns a map has at most.
const ROWS_MAX: usize = 62;
const COLUMNS_MAX: usize = 60;
/// More columns get narrow cells.
const WIDE_COLUMNS_MAX: usize = 24;
/// The least height of what went wrong, of 100: a mark has to fit.
const FAULT_SHARE_MIN: u64 = 38;
/// The least height of what is there beside both faults.
const GOOD_SHARE_MIN: u64 = 8;

/// What came of the polls of one cell. All zero: none is due yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// A body was stored.
    pub stored: u64,
    /// The body was the one before.
    pub unchanged: u64,
    /// Asked for in vain.
    pub failed: u64,
    /// Nobody asked.
    pub not_collected: u64,
}

impl Tally {
    fn parts(&self) -> [(Outcome, u64); 4] {
        [
            (Outcome::Stored, self.stored),
            (Outcome::Unchanged, self.unchanged),
            (Outcome::Failed, self.failed),
            (Outcome::NotCollected, self.not_collected),
        ]
    }

    fn total(&self) -> u128 {
        let counts = self.parts().map(|(_, count)| u128::from(count));
        counts.iter().sum()
    }

    fn plus(&self, other: &Self) -> Self {
        Self {
            stored: self.stored.saturating_add(other.stored),
            unchanged: self.unchanged.saturating_add(other.unchanged),
            failed: self.failed.saturating_add(other.failed),
            not_collected: self.not_collected.saturating_add(other.not_collected),
        }
    }

    /// In words: those that are not zero.
    fn told(&self) -> String {
        if self.total() == 0 {
            return "not due yet".to_owned();
        }
        let parts = self.parts().into_iter().filter(|(_, count)| *count > 0);
        let parts: Vec<String> = parts
            .map(|(outcome, count)| format!("{} {}", grouped(&count.to_string()), outcome.words()))
            .collect();
        parts.join(", ")
    }

    /// How much is there, in percent with one digit; never rounded up to all.
    fn covered(&self) -> Option<String> {
        let there = u128::from(self.stored) + u128::from(self.unchanged);
        let permille = (there * 1_000).checked_div(self.total())?;
        Some(match permille {
            1_000.. => "100 %".to_owned(),
            _ => format!("{}.{} %", permille / 10, permille % 10),
        })
    }

    /// Where each part begins and how high it is, of 100. What went wrong gets its room first, the rest shares what is left.
    fn shares(&self) -> Vec<(Outcome, u64, u64)> {
        let good = u128::from(self.stored) + u128::from(self.unchanged);
        let failed = self.fault(self.failed, self.not_collected > 0, good > 0);
        let missing = match (self.not_collected, good) {
            (1.., 0) => 100 - failed,
            (count, _) => self.fault(count, self.failed > 0, true),
        };
        let rest = 100 - failed - missing;
        let stored = part(self.stored, good, rest);
        let heights = [stored, rest - stored, failed, missing];
        let (mut top, mut shares) = (0, Vec::new());
        for ((outcome, count), height) in self.parts().into_iter().zip(heights) {
            if count > 0 {
                shares.push((outcome, top, height));
                top += height;
            }
        }
        shares
    }

    /// How high a fault is drawn, of 100, beside what else is in the cell.
    fn fault(&self, count: u64, beside_other: bool, beside_good: bool) -> u64 {
        if count == 0 {
            return 0;
        }
        let other = if beside_other { FAULT_SHARE_MIN } else { 0 };
        let good = if beside_good { GOOD_SHARE_MIN } else { 0 };
        part(count, self.total(), 100).clamp(FAULT_SHARE_MIN, 100 - other - good)
    }
}

/// The share of `count` in `of`, as a part of `whole`.
fn part(count: u64, of: u128, whole: u64) -> u64 {
    let share = u128::from(count) * u128::from(whole) / of.max(1);
    u64::try_from(share).unwrap_or(whole).min(whole)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Stored,
    Unchanged,
    Failed,
    NotCollected,
}

impl Outcome {
    const ALL: [Self; 4] = [
        Self::Stored,
        Self::Unchanged,
        Self::Failed,
        Self::NotCollected,
    ];

    fn words(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Unchanged => "unchanged",
            Self::Failed => "failed",
            Self::NotCollected => "not collected",
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::Stored => "heat-stored",
            Self::Unchanged => "heat-unchanged",
            Self::Failed => "heat-failed",
            Self::NotCollected => "heat-missing",
        }
    }

    /// For those who cannot see the colour.
    fn mark(self) -> Option<&'static str> {
        match self {
            Self::Stored | Self::Unchanged => None,
            Self::Failed => Some("×"),
            Self::NotCollected => Some("?"),
        }
    }
}

/// Polls by two parts of their time.
#[derive(Clone, Debug)]
pub struct HeatMap {
    title: String,
    columns: Vec<String>,
    rows: Vec<(String, Vec<Tally>)>,
    empty: String,
}

impl HeatMap {
    /// A map without rows; at most 60 columns, each with a short label.
    #[must_use]
    pub fn new(
        title: impl Into<String>,
        columns: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let columns = columns.into_iter().map(Into::into);
        Self {
            title: title.into(),
            columns: columns.take(COLUMNS_MAX).collect(),
            rows: Vec::new(),
            empty: "Nothing was collected yet.".to_owned(),
        }
    }

    /// A map whose rows are days and whose columns are their 24 hours.
    #[must_use]
    pub fn of_days(title: impl Into<String>) -> Self {
        Self::new(title, (0..24).map(|hour| format!("{hour:02}")))
    }

    /// A map whose rows are hours and whose columns are as many minutes each; `minutes` divides 60.
    #[must_use]
    pub fn of_hours(title: impl Into<String>, minutes: u8) -> Self {
        let step = usize::from(minutes.clamp(1, 60));
        Self::new(
            title,
            (0..60).step_by(step).map(|minute| format!(":{minute:02}")),
        )
    }

    /// One more row, with a cell for each column; what is missing at its end is not due yet. Of more than 62 rows the
    /// first are kept.
    #[must_use]
    pub fn row(mut self, label: impl Into<String>, mut cells: Vec<Tally>) -> Self {
        if self.rows.len() < ROWS_MAX {
            cells.resize(self.columns.len(), Tally::default());
            self.rows.push((label.into(), cells));
        }
        self
    }

    /// What to say while there are no rows.
    #[must_use]
    pub fn empty(mut self, text: impl Into<String>) -> Self {
        self.empty = text.into();
        self
    }

    fn total(&self) -> Tally {
        let cells = self.rows.iter().flat_map(|(_, cells)| cells);
        cells.fold(Tally::default(), |total, cell| total.plus(cell))
    }

    fn grid(&self) -> Markup {
        let title = clean(&self.title);
        html! {
            div.scroll tabindex="0" role="region" aria-label=(title) {
                table.heat.narrow[self.columns.len() > WIDE_COLUMNS_MAX] {
                    caption.sr { (title) }
                    thead { tr {
                        th scope="col" { span.sr { "When" } }
                        @for label in &self.columns { th scope="col" { (clean(label)) } }
                    } }
                    tbody { @for (label, cells) in &self.rows { (self.line(label, cells)) } }
                }
            }
        }
    }

    fn line(&self, label: &str, cells: &[Tally]) -> Markup {
        let label = clean(label);
        let total = cells
            .iter()
            .fold(Tally::default(), |total, cell| total.plus(cell));
        html! {
            tr {
                th scope="row" { div { span { (label) } @if let Some(covered) = total.covered() { " " small { (covered) } } } }
                @for (column, cell) in self.columns.iter().zip(cells) {
                    td { (square(cell, &format!("{label}, {}: {}", clean(column), cell.told()))) }
                }
            }
        }
    }
}

/// One cell.
fn square(cell: &Tally, title: &str) -> Markup {
    html! {
        svg role="img" aria-label=(title) {
            title { (title) }
            @for (outcome, top, height) in cell.shares() {
                rect.(outcome.class()) y={ (top) "%" } width="100%" height={ (height) "%" } {}
                @if let Some(mark) = outcome.mark() { text x="50%" y={ (top + height / 2) "%" } { (mark) } }
            }
        }
    }
}

fn legend() -> Markup {
    html! {
        p.legend.heat-legend {
            @for outcome in Outcome::ALL {
                span {
                    svg aria-hidden="true" width="18" height="16" {
                        rect.(outcome.class()) width="100%" height="100%" {}
                        @if let Some(mark) = outcome.mark() { text x="50%" y="50%" { (mark) } }
                    }
                    (outcome.words())
                }
            }
            span { svg.heat-due aria-hidden="true" width="18" height="16" {} "not due yet" }
        }
    }
}

impl Render for HeatMap {
    fn render(&self) -> Markup {
        let total = self.total();
        html! {
            figure.card.heat-card {
                figcaption {
                    h3 { (clean(&self.title)) }
                    @if let Some(covered) = total.covered() { p.heat-total { strong { (covered) } " covered: " (total.told()) } }
                }
                @if self.rows.is_empty() {
                    p.none { (clean(&self.empty)) }
                } @else {
                    (self.grid())
                    (legend())
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
