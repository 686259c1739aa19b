//! What goes wrong with lines.

use super::draw::Draw;
use super::{Expected, Report};

/// The lines of a report and what is in them.
#[derive(Debug, Default)]
pub(super) struct Lines {
    content: Vec<u8>,
    /// Where the good lines begin and end, without their newlines.
    good: Vec<(usize, usize)>,
    malformed: usize,
    pub(super) expected: Expected,
}

impl Lines {
    fn push(&mut self, line: &[u8]) {
        self.content.extend_from_slice(line);
        self.content.push(b'\n');
        self.expected.bytes = self.content.len() as u64;
    }

    pub(super) fn good(&mut self, line: &str) {
        let start = self.content.len();
        self.push(line.as_bytes());
        self.good.push((start, start + line.len()));
        self.expected.measurements += 1;
    }

    /// One of the good lines again.
    pub(super) fn again(&mut self, draw: &mut Draw) {
        if self.good.is_empty() {
            return;
        }
        let (start, end) = self.good[draw.index(self.good.len())];
        let line = self.content[start..end].to_vec();
        self.push(&line);
        self.expected.measurements += 1;
        self.expected.duplicates += 1;
    }

    /// The first part of a line.
    pub(super) fn truncated(&mut self, draw: &mut Draw, line: &str) {
        let mut end = 1 + draw.index(line.len() - 1);
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        self.push(&line.as_bytes()[..end.max(1)]);
        self.expected.bad += 1;
    }

    /// A line with a fault, each time another.
    pub(super) fn malformed(&mut self, draw: &mut Draw, line: &str) {
        let body = &line[1..];
        let number = draw.below(4);
        // Which one depends on its place in the report and on chance, so that small buckets see different ones.
        let harm = (self.malformed + usize::try_from(number).unwrap_or_default()) % 8;
        self.malformed += 1;
        let bad = match harm {
            0 => format!("{{\"not_a_number\":NaN,{body}").into_bytes(),
            1 => format!("{{\"probe_ip\":\"192.0.2.1\",{body}").into_bytes(),
            2 => [b"{\"latin\":\"caf\xe9\",", body.as_bytes()].concat(),
            3 => format!("[{line}]").into_bytes(),
            4 => format!("{{\"deep\":{}1{},{body}", "[".repeat(200), "]".repeat(200)).into_bytes(),
            5 => format!("{line}{line}").into_bytes(),
            6 => format!("{{\"control\":\"\u{1}\",{body}").into_bytes(),
            _ => b"<html><body>502 Bad Gateway</body></html>".to_vec(),
        };
        self.push(&bad);
        self.expected.bad += 1;
    }

    pub(super) fn into_report(mut self, name: String) -> Report {
        self.expected.reports = 1;
        Report {
            name,
            content: self.content,
            expected: self.expected,
        }
    }
}
