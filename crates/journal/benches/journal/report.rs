//! The table for people and the lines for programs.
#![allow(clippy::print_stdout, reason = "the table is what a bench is for")]

use serde::Serialize;

/// What a number should reach. A number that does not is shown, never an error: time is the machine's.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    fn is_met(self, number: f64) -> bool {
        match self {
            Self::AtLeast(least) => number >= least,
            Self::AtMost(most) => number <= most,
        }
    }

    fn shown(self) -> String {
        match self {
            Self::AtLeast(least) => format!(">= {least}"),
            Self::AtMost(most) => format!("<= {most}"),
        }
    }
}

/// What ours is compared with.
#[derive(Serialize)]
pub(crate) struct Reference {
    pub(crate) name: &'static str,
    pub(crate) value: f64,
    /// Ours by it: the median of the rounds, the worst and the best.
    pub(crate) ratio: f64,
    pub(crate) ratio_min: f64,
    pub(crate) ratio_max: f64,
}

/// One line. The goal is about the ratio where there is a reference, else about the value.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) side: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reference: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) goal: Option<Goal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    met: Option<bool>,
}

impl Row {
    /// A number that stands alone.
    pub(crate) fn new(
        name: impl Into<String>,
        side: &'static str,
        value: f64,
        unit: &'static str,
    ) -> Self {
        Self {
            name: name.into(),
            side,
            value,
            unit,
            reference: None,
            goal: None,
            met: None,
        }
    }

    pub(crate) fn beside(mut self, reference: Reference) -> Self {
        self.reference = Some(reference);
        self
    }

    pub(crate) fn goal(mut self, goal: Option<Goal>) -> Self {
        let number = self.reference.as_ref().map_or(self.value, |it| it.ratio);
        self.goal = goal;
        self.met = goal.map(|goal| goal.is_met(number));
        self
    }

    fn verdict(&self) -> String {
        match (self.goal, self.met) {
            (Some(goal), Some(true)) => format!("{} met", goal.shown()),
            (Some(goal), _) => format!("{} NOT MET", goal.shown()),
            (None, _) => String::new(),
        }
    }
}

/// Shows rows as they come, and all of them as JSON at the end.
pub(crate) struct Report(Vec<Row>);

impl Report {
    pub(crate) fn begin() -> Self {
        println!(
            "{:<42} {:<10} {:>11} {:<9} {:<15} {:>9} {:>6} {:>12}  goal",
            "what", "side", "value", "unit", "reference", "value", "ratio", "min..max"
        );
        Self(Vec::new())
    }

    pub(crate) fn add(&mut self, row: Row) {
        let (name, value, ratio, range) = match &row.reference {
            None => ("", String::new(), String::new(), String::new()),
            Some(reference) => (
                reference.name,
                number(reference.value),
                format!("{:.2}", reference.ratio),
                format!("{:.2}..{:.2}", reference.ratio_min, reference.ratio_max),
            ),
        };
        println!(
            "{:<42} {:<10} {:>11} {:<9} {name:<15} {value:>9} {ratio:>6} {range:>12}  {}",
            row.name,
            row.side,
            number(row.value),
            row.unit,
            row.verdict()
        );
        self.0.push(row);
    }

    pub(crate) fn end(self) {
        for row in self.0 {
            println!("{}", serde_json::to_string(&row).unwrap());
        }
    }
}

fn number(value: f64) -> String {
    if value.abs() < 100.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.0}")
    }
}

/// The middle of some numbers.
pub(crate) fn median(numbers: impl IntoIterator<Item = f64>) -> f64 {
    quantile(numbers, 0.5)
}

/// The smallest number that at least this part of all does not exceed.
pub(crate) fn quantile(numbers: impl IntoIterator<Item = f64>, part: f64) -> f64 {
    let mut sorted: Vec<f64> = numbers.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len() - 1;
    let place = (0..=last).find(|place| (place + 1) as f64 >= part * sorted.len() as f64);
    sorted[place.unwrap_or(last)]
}
