//! One measurement, the table of them, and how a fair one is made.
#![allow(clippy::print_stdout, reason = "the table is what a bench is for")]

use serde::Serialize;

/// One line of the table. The rates are medians; the ratio is the median of the ratios of the rounds.
#[derive(Serialize)]
pub(crate) struct Row {
    name: String,
    ours: f64,
    reference: f64,
    ratio: f64,
    /// The ratio of the worst and of the best round: how far to trust the median.
    ratio_min: f64,
    ratio_max: f64,
    unit: &'static str,
}

impl Row {
    /// Measures both sides in turns after a round that does not count. Who goes first changes, so that drift and what one
    /// leaves behind hit both.
    pub(crate) fn measure(
        name: impl Into<String>,
        unit: &'static str,
        rounds: usize,
        mut ours: impl FnMut() -> f64,
        mut reference: impl FnMut() -> f64,
    ) -> Self {
        ours();
        reference();
        let pairs: Vec<(f64, f64)> = (0..rounds)
            .map(|round| {
                if round % 2 == 0 {
                    let ours = ours();
                    (ours, reference())
                } else {
                    let reference = reference();
                    (ours(), reference)
                }
            })
            .collect();
        let ratios = sorted(pairs.iter().map(|(ours, reference)| ours / reference));
        Self {
            name: name.into(),
            ours: median(&sorted(pairs.iter().map(|pair| pair.0))),
            reference: median(&sorted(pairs.iter().map(|pair| pair.1))),
            ratio: median(&ratios),
            ratio_min: ratios[0],
            ratio_max: ratios[ratios.len() - 1],
            unit,
        }
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}

/// Shows rows as they come, and all of them as JSON at the end.
pub(crate) struct Table(Vec<Row>);

impl Table {
    pub(crate) fn begin() -> Self {
        println!(
            "{:<78} {:>9} {:>9} {:>6} {:>12}  unit",
            "ours / reference", "ours", "reference", "ratio", "min..max"
        );
        Self(Vec::new())
    }

    pub(crate) fn add(&mut self, row: Row) {
        println!(
            "{:<78} {:>9.0} {:>9.0} {:>6.2} {:>12}  {}",
            row.name,
            row.ours,
            row.reference,
            row.ratio,
            format!("{:.2}..{:.2}", row.ratio_min, row.ratio_max),
            row.unit
        );
        self.0.push(row);
    }

    pub(crate) fn end(self) {
        for row in self.0 {
            println!("{}", serde_json::to_string(&row).unwrap());
        }
    }
}
