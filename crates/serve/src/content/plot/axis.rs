//! Where the lines of a picture's grid are, and what is written beside them.

use jiff::Timestamp;

use crate::content::text::grouped;

const VALUE_TICKS_MAX: f64 = 5.0;
const TIME_TICKS_MAX: i64 = 10;
/// Larger values are drawn as this one: beyond it the steps of a scale cannot be told from rounding.
pub(super) const VALUE_MAX: f64 = 1e15;
const SMALLEST_STEP: f64 = 1e-6;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// The distances at which people expect times, in milliseconds.
const TIME_STEPS: [i64; 22] = [
    SECOND,
    5 * SECOND,
    10 * SECOND,
    30 * SECOND,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    7 * DAY,
    14 * DAY,
    30 * DAY,
    90 * DAY,
    365 * DAY,
];

/// The scale of values: from the lowest line of the grid to the highest.
#[derive(Debug, PartialEq)]
pub(super) struct Values {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) ticks: Vec<f64>,
}

impl Values {
    /// A scale on which both values are. It begins at zero unless one is below: a cut axis makes noise look like news.
    pub(super) fn holding(lowest: f64, highest: f64) -> Self {
        let (low, high) = (lowest.min(0.0), highest.max(0.0));
        let span = if high > low { high - low } else { 1.0 };
        let mut step = SMALLEST_STEP;
        let mut factors = [2.0, 2.5, 2.0].into_iter().cycle();
        while span / step > VALUE_TICKS_MAX {
            step *= factors.next().expect("a cycle does not end");
        }
        let low = (low / step).floor() * step;
        let mut ticks = vec![low];
        let mut tick = low;
        while tick < high || ticks.len() == 1 {
            tick += step;
            // What rounding left of a sum that should be zero.
            ticks.push(if tick.abs() < step / 2.0 { 0.0 } else { tick });
        }
        Self {
            low,
            high: tick,
            ticks,
        }
    }

    /// How far from the top, of 100.
    pub(super) fn place(&self, value: f64) -> f64 {
        100.0 * (self.high - value) / (self.high - self.low)
    }
}

/// The times to write below a picture, each with its words.
pub(super) fn times(from: i64, to: i64) -> Vec<(i64, String)> {
    let span = to - from;
    let fits = |step: &&i64| span / **step < TIME_TICKS_MAX;
    let step = *TIME_STEPS
        .iter()
        .find(fits)
        .unwrap_or(&(span / TIME_TICKS_MAX).max(1));
    let mut times = Vec::new();
    let mut at = from.div_euclid(step) * step;
    while at <= to {
        if at >= from {
            times.push((at, words(at, step)));
        }
        at += step;
    }
    times
}

fn words(at: i64, step: i64) -> String {
    if step % DAY == 0 || at % DAY == 0 {
        told(at, "%-d %b")
    } else if step < MINUTE {
        told(at, "%H:%M:%S")
    } else {
        told(at, "%H:%M")
    }
}

/// A time in UTC.
pub(super) fn told(at: i64, format: &str) -> String {
    Timestamp::from_millisecond(at)
        .map_or_else(|_| String::new(), |time| time.strftime(format).to_string())
}

/// A number of three digits or more, without those that say nothing.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ if size >= 0.1 => 3,
        _ => 6,
    };
    let plain = format!("{value:.decimals$}");
    let (whole, rest) = plain.split_once('.').unwrap_or((&plain, ""));
    let rest = rest.trim_end_matches('0');
    let dot = if rest.is_empty() { "" } else { "." };
    format!("{}{dot}{rest}", grouped(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_begins_at_zero_and_has_round_steps() {
        let ticks = |lowest, highest| Values::holding(lowest, highest).ticks;
        assert_eq!(ticks(80.0, 412.0), [0.0, 100.0, 200.0, 300.0, 400.0, 500.0]);
        assert_eq!(ticks(0.0, 10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(-3.0, 4.0), [-4.0, -2.0, 0.0, 2.0, 4.0]);
        assert_eq!(ticks(-3.0, -1.0), [-3.0, -2.0, -1.0, 0.0]);
        for (lowest, highest) in [
            (0.0, 0.0),
            (0.0, 1e-12),
            (-VALUE_MAX, VALUE_MAX),
            (0.3, 0.7),
        ] {
            let values = Values::holding(lowest, highest);
            assert!((2..=8).contains(&values.ticks.len()), "{values:?}");
            assert!(values.low <= lowest && values.high >= highest, "{values:?}");
            assert!(
                (-1e-9..=100.000_001).contains(&values.place(highest)),
                "{values:?}"
            );
        }
    }

    #[test]
    fn times_are_round_and_few() {
        let noon = 1_794_744_000_000;
        let told = |span| -> Vec<String> {
            let times = times(noon - span, noon).into_iter();
            times.map(|(_, words)| words).collect()
        };
        assert_eq!(
            told(20 * SECOND),
            ["11:59:40", "11:59:45", "11:59:50", "11:59:55", "12:00:00"]
        );
        assert_eq!(
            told(HOUR),
            [
                "11:00", "11:10", "11:20", "11:30", "11:40", "11:50", "12:00"
            ]
        );
        let day = told(DAY);
        assert_eq!(day[..5], ["12:00", "15:00", "18:00", "21:00", "15 Nov"]);
        assert_eq!(day.len(), 9);
        assert_eq!(told(7 * DAY)[6], "15 Nov");
        for days in [3, 30, 366, 10_000] {
            let ticks = told(days * DAY).len();
            assert!((2..=11).contains(&ticks), "{days} days: {ticks}");
        }
        assert_eq!(times(noon + 1, noon + 1), []);
        assert_eq!(times(noon, noon).len(), 1);
    }

    #[test]
    fn numbers_are_short_and_grouped() {
        let told = [
            0.0,
            0.25,
            1.0,
            1.234_5,
            12.34,
            123.4,
            1_234.0,
            1_234_567.8,
            -1_000.0,
            0.000_2,
        ];
        let expected = [
            "0",
            "0.25",
            "1",
            "1.23",
            "12.3",
            "123",
            "1,234",
            "1,234,568",
            "-1,000",
            "0.0002",
        ];
        assert_eq!(told.map(number), expected);
    }
}
