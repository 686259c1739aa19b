//! Seeded records and report files: the same seed gives the same bytes, on every machine.

use cannery_runtime::Rng;
use jiff::Timestamp;
use serde_json::{Value, json};

mod report;

pub use report::{ReportFile, report_file};

/// Numbers that a reader who goes through `f64` changes. They are raw text because no Rust number holds them all.
pub const AWKWARD_NUMBERS: [&str; 8] = [
    "9007199254740993", // 2^53 + 1
    "-9007199254740993",
    "18446744073709551616", // 2^64
    "1e999",
    "-0.0",
    "0.1000",
    "1E+2",
    "3.141592653589793238462643383279",
];

const TEXTS: [&str; 10] = [
    "",
    "plain",
    "tab\tand\nnewline",
    "quote \" backslash \\ slash /",
    "naïve café",
    "日本語のテキスト",
    "Здравствуйте",
    "مرحبا",
    "👩\u{200d}🔬 e\u{301}",
    "\u{0}\u{1f}\u{7f}\u{2028}",
];

/// An endless supply of small JSON measurement records, each one line of JSON text without the newline.
#[derive(Clone, Debug)]
pub struct Records {
    rng: Rng,
    number: u64,
}

impl Records {
    /// Records that depend on nothing but `seed`.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self {
            rng: Rng::seeded(seed),
            number: 0,
        }
    }

    fn record(&self) -> String {
        if self.rng.chance(0.02) {
            return "{}".to_owned();
        }
        let mut fields = vec![
            field("number", &json!(self.number)),
            field("time", &json!(time_of(&self.rng).to_string())),
            field("host", &json!(host(&self.rng))),
            field("rtt_ms", &json!(self.below_f64(250_000) / 1000.0)),
            field("text", &json!(pick(&self.rng, &TEXTS))),
        ];
        if self.rng.chance(0.3) {
            let number = pick(&self.rng, &AWKWARD_NUMBERS);
            fields.push(format!("\"counter\":{number}"));
        }
        if self.rng.chance(0.5) {
            fields.push(field("answer", &self.nested(3)));
        }
        if self.rng.chance(0.1) {
            fields.push(field(pick(&self.rng, &TEXTS), &Value::Null));
        }
        format!("{{{}}}", fields.join(","))
    }

    /// A value of at most `depth` levels.
    fn nested(&self, depth: u32) -> Value {
        let width = self.rng.below(4);
        match self.rng.below(if depth == 0 { 4 } else { 6 }) {
            0 => Value::Null,
            1 => json!(self.rng.chance(0.5)),
            2 => json!(self.rng.below(1_000_000)),
            3 => json!(pick(&self.rng, &TEXTS)),
            4 => (0..width).map(|_| self.nested(depth - 1)).collect(),
            // Keys in falling order: a reader that sorts them is found out.
            _ => (0..width)
                .map(|i| (format!("k{}", width - i), self.nested(depth - 1)))
                .collect(),
        }
    }

    fn below_f64(&self, end: u32) -> f64 {
        f64::from(u32::try_from(self.rng.below(u64::from(end))).expect("below a u32"))
    }
}

impl Iterator for Records {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let record = self.record();
        self.number += 1;
        Some(record)
    }
}

fn field(name: &str, value: &Value) -> String {
    format!("{}:{value}", Value::from(name))
}

fn pick<'a>(rng: &Rng, choices: &[&'a str]) -> &'a str {
    let index = usize::try_from(rng.below(choices.len() as u64)).expect("an index of a slice");
    choices[index]
}

/// A second of the year 2025.
fn time_of(rng: &Rng) -> Timestamp {
    let start: i64 = 1_735_689_600;
    let offset = i64::try_from(rng.below(365 * 86_400)).expect("a year of seconds");
    Timestamp::from_second(start + offset).expect("2025 is a year that timestamps know")
}

fn host(rng: &Rng) -> String {
    format!("node-{:03}.example.net", rng.below(500))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_bytes() {
        let first: Vec<String> = Records::seeded(1).take(500).collect();
        assert_eq!(first, Records::seeded(1).take(500).collect::<Vec<_>>());
        assert_ne!(first, Records::seeded(2).take(500).collect::<Vec<_>>());
        // Held by value: a change of the generator invalidates what later fixtures were made from.
        assert_eq!(
            first[0],
            include_str!("records/first_of_seed_1.json").trim_end()
        );
    }

    #[test]
    fn records_are_small_varied_single_lines() {
        let records: Vec<String> = Records::seeded(3).take(2_000).collect();
        assert!(
            records
                .iter()
                .all(|record| record.len() < 4_096 && !record.contains('\n'))
        );
        assert!(records.iter().any(|record| record == "{}"));
        for number in AWKWARD_NUMBERS {
            let verbatim = format!("\"counter\":{number}");
            assert!(
                records.iter().any(|record| record.contains(&verbatim)),
                "{number}"
            );
        }
        for text in TEXTS {
            let escaped = Value::from(text).to_string();
            assert!(
                records.iter().any(|record| record.contains(&escaped)),
                "{text:?}"
            );
        }
    }

    #[test]
    fn every_record_is_json() {
        // 1e999 is valid JSON that serde_json's numbers cannot hold: put a number there that they can.
        for record in Records::seeded(4).take(500) {
            let holdable = record.replace("1e999", "1e9");
            let value: Value = serde_json::from_str(&holdable).expect(&record);
            assert!(value.is_object());
        }
    }
}
