//! What came of each poll of an hour, as lines beside the bodies, until both are packed.
//!
//! A line is `<ms after the beginning of the hour> <period in ms> stored|unchanged|failed [reason]`. Lines are not synced: what a power
//! cut takes away is found again from the names of the bodies, as far as something was stored.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use cannery_formats::feed::{CoverageSpan, DownloadName, FeedId, Hour, Slot, SlotRun};
use jiff::Timestamp;

/// The name of the file with the lines, in the folder of the hour.
pub(super) const SLOTS_NAME: &str = ".slots";

const REASON_CHARACTERS_MAX: usize = 80;
const HOUR_MILLIS: u32 = 3_600_000;
/// Of a feed that is not configured any more, and of which no line is left.
const PERIOD_GUESS: Duration = Duration::from_secs(60);

/// One poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Poll {
    at_ms: u32,
    period_ms: u32,
    slot: Slot,
}

impl Poll {
    /// A poll at `time`, which lies in `hour`.
    pub(super) fn new(hour: Hour, time: Timestamp, period: Duration, slot: Slot) -> Self {
        let after = time.as_millisecond() - hour.begin().as_millisecond();
        let period = u32::try_from(period.as_millis()).unwrap_or(HOUR_MILLIS);
        Self {
            at_ms: u32::try_from(after).unwrap_or(0).min(HOUR_MILLIS - 1),
            period_ms: period.clamp(1, HOUR_MILLIS),
            slot,
        }
    }

    /// Appends the line.
    pub(super) fn write(&self, lines: &mut String) {
        let Self {
            at_ms, period_ms, ..
        } = self;
        let written = match &self.slot {
            Slot::Stored => writeln!(lines, "{at_ms} {period_ms} stored"),
            Slot::Unchanged => writeln!(lines, "{at_ms} {period_ms} unchanged"),
            Slot::Failed { reason } => {
                writeln!(lines, "{at_ms} {period_ms} failed {}", tidy(reason))
            }
            Slot::NotCollected => Ok(()),
        };
        written.expect("writing to a string does not fail");
    }

    /// Reads a line; nothing when it is damaged.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(4, ' ');
        let at_ms: u32 = words.next()?.parse().ok()?;
        let period_ms: u32 = words.next()?.parse().ok()?;
        let slot = match (words.next()?, words.next()) {
            ("stored", None) => Slot::Stored,
            ("unchanged", None) => Slot::Unchanged,
            ("failed", reason) => Slot::Failed {
                reason: tidy(reason.unwrap_or_default()),
            },
            _ => return None,
        };
        let fits = at_ms < HOUR_MILLIS && (1..=HOUR_MILLIS).contains(&period_ms);
        fits.then_some(Self {
            at_ms,
            period_ms,
            slot,
        })
    }
}

/// A reason on one line: it may come from a server.
fn tidy(reason: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let plain: String = reason.chars().map(plain).collect();
    plain.trim().chars().take(REASON_CHARACTERS_MAX).collect()
}

/// The coverage of an hour: of its lines, and of the bodies whose lines were lost. How often it was asked is not known of those: as
/// often as the lines say, or `periodicity`.
pub(super) fn spans<'a>(
    lines: &str,
    (feed, hour): (&FeedId, Hour),
    bodies: impl IntoIterator<Item = &'a str>,
    periodicity: Option<Duration>,
) -> Vec<CoverageSpan> {
    let mut polls: BTreeMap<u32, Poll> = BTreeMap::new();
    for poll in lines.lines().filter_map(Poll::parse) {
        let better = polls
            .get(&poll.at_ms)
            .is_none_or(|known| known.slot < poll.slot);
        if better {
            polls.insert(poll.at_ms, poll);
        }
    }
    let last = polls.values().next_back();
    let said = last.map(|poll| Duration::from_millis(poll.period_ms.into()));
    let period = said.or(periodicity).unwrap_or(PERIOD_GUESS);
    for name in bodies {
        if let Some(name) = DownloadName::parse(feed, name) {
            let poll = Poll::new(hour, name.time, period, Slot::Stored);
            polls.entry(poll.at_ms).or_insert(poll);
        }
    }
    let mut spans: Vec<SpanInMaking> = Vec::new();
    for poll in polls.into_values() {
        let taken = spans.last_mut().is_some_and(|span| span.take(&poll));
        if !taken {
            spans.push(SpanInMaking::new(&poll));
        }
    }
    spans.into_iter().map(|span| span.span).collect()
}

struct SpanInMaking {
    span: CoverageSpan,
    count: u32,
}

impl SpanInMaking {
    fn new(poll: &Poll) -> Self {
        let run = SlotRun {
            slot: poll.slot.clone(),
            count: 1,
        };
        Self {
            span: CoverageSpan {
                offset_ms: poll.at_ms,
                period_ms: poll.period_ms,
                runs: vec![run],
            },
            count: 1,
        }
    }

    /// Takes a poll that lies on the same grid.
    fn take(&mut self, poll: &Poll) -> bool {
        let period = self.span.period_ms;
        let after = poll.at_ms.saturating_sub(self.span.offset_ms);
        let number = (after + period / 2) / period;
        let deviation = after.abs_diff(number * period);
        if poll.period_ms != period || number < self.count || deviation > period / 4 {
            return false;
        }
        self.push(Slot::NotCollected, number - self.count);
        self.push(poll.slot.clone(), 1);
        true
    }

    fn push(&mut self, slot: Slot, count: u32) {
        if count == 0 {
            return;
        }
        self.count += count;
        match self.span.runs.last_mut() {
            Some(run) if run.slot == slot => run.count += count,
            Some(_) | None => self.span.runs.push(SlotRun { slot, count }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cannery_formats::Digest;

    fn feed() -> FeedId {
        FeedId::new("f").unwrap()
    }

    fn hour() -> Hour {
        "20261115T18Z".parse().unwrap()
    }

    fn failed(reason: &str) -> Slot {
        Slot::Failed {
            reason: reason.into(),
        }
    }

    fn lines(polls: &[(u32, u32, Slot)]) -> String {
        let mut lines = String::new();
        for (at_ms, period_ms, slot) in polls {
            let poll = Poll {
                at_ms: *at_ms,
                period_ms: *period_ms,
                slot: slot.clone(),
            };
            poll.write(&mut lines);
        }
        lines
    }

    fn runs(span: &CoverageSpan) -> Vec<(Slot, u32)> {
        let runs = span.runs.iter();
        runs.map(|run| (run.slot.clone(), run.count)).collect()
    }

    #[test]
    fn polls_on_one_grid_are_one_span_with_its_gaps() {
        let lines = lines(&[
            (100, 1_000, Slot::Stored),
            (1_103, 1_000, Slot::Unchanged),
            (2_098, 1_000, Slot::Unchanged),
            (5_100, 1_000, failed("status 503\nx")),
        ]);
        let spans = spans(&lines, (&feed(), hour()), [], None);
        assert_eq!(spans.len(), 1);
        assert_eq!((spans[0].offset_ms, spans[0].period_ms), (100, 1_000));
        assert_eq!(
            runs(&spans[0]),
            [
                (Slot::Stored, 1),
                (Slot::Unchanged, 2),
                (Slot::NotCollected, 2),
                (failed("status 503 x"), 1)
            ]
        );
    }

    #[test]
    fn a_new_start_and_another_period_begin_a_span() {
        let lines = lines(&[
            (0, 1_000, Slot::Stored),
            (1_500, 1_000, Slot::Stored),
            (2_500, 2_000, Slot::Stored),
        ]);
        let spans = spans(&lines, (&feed(), hour()), [], None);
        let offsets: Vec<_> = spans.iter().map(|span| span.offset_ms).collect();
        assert_eq!(offsets, [0, 1_500, 2_500]);
    }

    #[test]
    fn a_body_whose_line_was_lost_still_counts_and_damaged_lines_do_not() {
        let time = "2026-11-15T18:00:02.100Z".parse().unwrap();
        let name = DownloadName::new(feed(), time, &Digest::of(b"x"), "").to_string();
        let text = "100 1000 stored\ngarbage\n1100 1000 unch\n-1 0 stored\n9999999 5 stored\n11";
        let found = spans(text, (&feed(), hour()), [name.as_str(), "other"], None);
        assert_eq!(found.len(), 1);
        assert_eq!(
            runs(&found[0]),
            [
                (Slot::Stored, 1),
                (Slot::NotCollected, 1),
                (Slot::Stored, 1)
            ]
        );
        assert_eq!(spans("", (&feed(), hour()), [], None), []);
        let period = Some(Duration::from_secs(300));
        let found = spans("", (&feed(), hour()), [name.as_str()], period);
        assert_eq!(found[0].period_ms, 300_000);
    }
}
