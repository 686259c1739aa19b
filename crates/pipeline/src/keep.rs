//! How long cans and archives are kept, by kind. Nothing said is for ever.

use std::collections::BTreeMap;
use std::time::Duration;

use cannery_formats::{BucketDate, Kind};
use jiff::Timestamp;

use crate::seal::due;

/// How long what the stages make of one kind is kept, after the day of its bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// Its cans.
    pub canned: Option<Duration>,
    /// Its archives, and their rows in the catalog.
    pub autoclaved: Option<Duration>,
}

/// What is kept for how long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// By kind, in lower case: anybody may choose how the name of a test is spelled.
    kinds: BTreeMap<String, Spans>,
    /// For what is not said there.
    others: Spans,
}

/// What of a file may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Over {
    /// The can.
    pub can: bool,
    /// The archive, and its rows in the catalog. Never before the can: it would be made again.
    pub archive: bool,
}

impl Keep {
    /// What is kept by kind, and of all others.
    #[must_use]
    pub fn new(kinds: impl IntoIterator<Item = (Kind, Spans)>, others: Spans) -> Self {
        let kinds = kinds.into_iter();
        Self {
            kinds: kinds.map(|(kind, spans)| (plain(&kind), spans)).collect(),
            others,
        }
    }

    /// How long something of a kind is kept.
    #[must_use]
    pub fn of(&self, kind: &Kind) -> Spans {
        let own = self.kinds.get(&plain(kind)).copied().unwrap_or_default();
        Spans {
            canned: own.canned.or(self.others.canned),
            autoclaved: own.autoclaved.or(self.others.autoclaved),
        }
    }

    /// What may go of the files of a kind and a bucket.
    #[must_use]
    pub fn over(&self, kind: &Kind, bucket: BucketDate, now: Timestamp) -> Over {
        let spans = self.of(kind);
        let is_over = |span: Option<Duration>| span.is_some_and(|span| due(bucket, span) <= now);
        let can = is_over(spans.canned);
        Over {
            can,
            archive: can && is_over(spans.autoclaved),
        }
    }

    /// Whether something of a bucket may go.
    #[must_use]
    pub fn is_any_over(&self, bucket: BucketDate, now: Timestamp) -> bool {
        let spans = self.kinds.values().chain([&self.others]);
        let shortest = spans.filter_map(|spans| spans.canned).min();
        shortest.is_some_and(|span| due(bucket, span) <= now)
    }
}

fn plain(kind: &Kind) -> String {
    kind.to_string().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn spans(canned: Option<u32>, autoclaved: Option<u32>) -> Spans {
        Spans {
            canned: canned.map(|days| DAY * days),
            autoclaved: autoclaved.map(|days| DAY * days),
        }
    }

    #[test]
    fn a_kind_says_what_differs_and_nothing_said_is_for_ever() {
        let (ndt, dash): (Kind, Kind) = ("ndt".parse().unwrap(), "dash".parse().unwrap());
        let kinds = [
            ("NDT".parse().unwrap(), spans(Some(2), None)),
            (dash.clone(), spans(None, Some(20))),
        ];
        let keep = Keep::new(kinds, spans(Some(10), None));
        let bucket: BucketDate = "2026-11-01".parse().unwrap();
        for (kind, time, can, archive) in [
            (&ndt, "2026-11-03T23:59:59Z", false, false),
            (&ndt, "2026-11-04T00:00:00Z", true, false),
            (&ndt, "2036-11-04T00:00:00Z", true, false),
            (&dash, "2026-11-04T00:00:00Z", false, false),
            (&dash, "2026-11-12T00:00:00Z", true, false),
            (&dash, "2026-11-22T00:00:00Z", true, true),
            (&Kind::Unknown, "2026-11-11T23:00:00Z", false, false),
            (&Kind::Unknown, "2026-11-12T00:00:00Z", true, false),
        ] {
            let time: Timestamp = time.parse().unwrap();
            let over = keep.over(kind, bucket, time);
            assert_eq!(over, Over { can, archive }, "{kind} at {time}");
            let is_any = time >= "2026-11-04T00:00:00Z".parse().unwrap();
            assert_eq!(keep.is_any_over(bucket, time), is_any);
        }
        let for_ever = Keep::default().over(&ndt, bucket, Timestamp::MAX);
        assert_eq!(for_ever, Over::default());
    }
}
