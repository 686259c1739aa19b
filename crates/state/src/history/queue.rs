//! What waits to be written: bounded, and never in the way of a stage.

use std::collections::BTreeMap;
use std::sync::Arc;

use cannery_runtime::secret::redact;

use super::{Begin, End, Outcome};

/// So many executions wait at most, and those beside them that run and have been let in.
pub(super) const WAITING_MAX: usize = 2_048;
/// Of a reason.
const REASON_BYTES_MAX: usize = 4 << 10;
/// Of a report; a longer one is left out.
const REPORT_BYTES_MAX: usize = 16 << 10;

/// An execution that is to be written: as begun, or as ended.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) begin: Arc<Begin>,
    pub(super) end: Option<KeptEnd>,
}

/// An end, as short and harmless as it is kept.
#[derive(Clone, Debug)]
pub(super) struct KeptEnd {
    pub(super) ended_ms: i64,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    pub(super) outcome: Outcome,
    pub(super) reason: Option<String>,
    pub(super) report: Option<String>,
}

impl KeptEnd {
    pub(super) fn of(end: &End) -> Self {
        let outcome = match end.outcome {
            Outcome::Running => Outcome::CutOff,
            ended => ended,
        };
        Self {
            ended_ms: end.ended.as_millisecond(),
            bytes_in: end.bytes_in,
            bytes_out: end.bytes_out,
            outcome,
            reason: end.reason.as_deref().map(|reason| {
                let reason = redact(reason);
                shortened(&cleaned(&reason), REASON_BYTES_MAX)
            }),
            report: kept_report(&end.report),
        }
    }
}

/// A text that both databases keep.
pub(super) fn cleaned(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

fn shortened(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let mut end = bytes_max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

fn kept_report(report: &serde_json::Value) -> Option<String> {
    if report.is_null() {
        return None;
    }
    let text = redact(&report.to_string());
    Some(match text.len() {
        0..=REPORT_BYTES_MAX => text,
        bytes => format!("{{\"left_out_bytes\":{bytes}}}"),
    })
}

/// By number, so that an end takes the place of a begin that is not written yet.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: BTreeMap<u64, Item>,
    /// Executions that were told and will not be in the history.
    dropped: u64,
}

impl Queue {
    /// Whether the beginning was let in. What was let in has room for its end.
    pub(super) fn begin(&mut self, number: u64, begin: &Arc<Begin>) -> bool {
        let room = self.waiting.len() < WAITING_MAX;
        if room {
            let begin = Arc::clone(begin);
            self.waiting.insert(number, Item { begin, end: None });
        }
        room
    }

    /// Whether the end was let in; if not, the execution is dropped.
    pub(super) fn end(&mut self, number: u64, item: Item, begun: bool) -> bool {
        let room = begun || self.waiting.len() < WAITING_MAX;
        if room {
            self.waiting.insert(number, item);
        } else {
            self.dropped += 1;
        }
        room
    }

    /// Takes the oldest.
    pub(super) fn take(&mut self, count: usize) -> Vec<(u64, Item)> {
        let mut taken = Vec::new();
        while taken.len() < count
            && let Some(item) = self.waiting.pop_first()
        {
            taken.push(item);
        }
        taken
    }

    /// Puts back what could not be written. What has ended since stays ended.
    pub(super) fn put_back(&mut self, items: Vec<(u64, Item)>) {
        for (number, item) in items {
            self.waiting.entry(number).or_insert(item);
        }
    }

    pub(super) fn count_dropped(&mut self, count: usize) {
        self.dropped += u64::try_from(count).unwrap_or(u64::MAX);
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn begin() -> Arc<Begin> {
        Arc::new(Begin {
            stage: "can".to_owned(),
            key: "can/2026-11-15/ndt/open".to_owned(),
            bucket: None,
            kind: None,
            slice: None,
            attempt: 1,
            started: Timestamp::UNIX_EPOCH,
        })
    }

    fn end(reason: &str, report: serde_json::Value) -> KeptEnd {
        KeptEnd::of(&End {
            ended: Timestamp::UNIX_EPOCH,
            bytes_in: 1,
            bytes_out: 2,
            outcome: Outcome::Running,
            reason: Some(reason.to_owned()),
            report,
        })
    }

    fn ended() -> Item {
        Item {
            begin: begin(),
            end: Some(end("", serde_json::Value::Null)),
        }
    }

    #[test]
    fn it_is_full_once_and_what_was_let_in_may_end() {
        let mut queue = Queue::default();
        let many = u64::try_from(WAITING_MAX).unwrap();
        for number in 0..many {
            assert!(queue.begin(number, &begin()));
        }
        assert!(!queue.begin(many, &begin()));
        assert_eq!(queue.take(3).len(), 3);
        queue.put_back(vec![(0, ended()), (1, ended()), (2, ended())]);
        assert!(
            queue.end(3, ended(), true),
            "it takes the place of its begin"
        );
        assert_eq!((queue.len(), queue.dropped()), (WAITING_MAX, 0));
        assert!(!queue.end(many, ended(), false));
        assert_eq!((queue.len(), queue.dropped()), (WAITING_MAX, 1));
        assert_eq!(queue.take(1).len(), 1);
        assert!(queue.end(0, ended(), true), "its begin was written");
        assert!(queue.end(many + 1, ended(), true), "also when it is full");
    }

    #[test]
    fn what_is_put_back_does_not_undo_an_end() {
        let mut queue = Queue::default();
        queue.begin(7, &begin());
        let taken = queue.take(10);
        queue.end(7, ended(), true);
        queue.put_back(taken);
        let again = queue.take(10);
        assert!(again.len() == 1 && again[0].1.end.is_some(), "{again:?}");
    }

    #[test]
    fn ends_are_kept_short_and_clean() {
        let kept = end("a\0b", serde_json::json!({"a": "x".repeat(20_000)}));
        assert_eq!(kept.outcome, Outcome::CutOff);
        assert_eq!(kept.reason.unwrap(), "a\u{fffd}b");
        assert_eq!(kept.report.unwrap(), "{\"left_out_bytes\":20008}");
        let kept = end(&"ä".repeat(4_000), serde_json::json!([1]));
        let reason = kept.reason.unwrap();
        assert!(reason.len() <= REASON_BYTES_MAX + 3 && reason.ends_with("ä…"));
        assert_eq!(kept.report.unwrap(), "[1]");
    }
}
