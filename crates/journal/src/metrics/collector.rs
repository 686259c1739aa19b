//! What the engines last said, as metrics. Their totals are durable, so they are shown as they are and not counted again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::{JournalMetrics, Measured};
use crate::date::Date;
use crate::engine::{Engine as _, Health};
use crate::op::{Depth, Stats};
use crate::priority::Priority;

/// Reads what is known; asks nobody.
#[derive(Debug)]
pub(super) struct Numbers(pub(super) JournalMetrics);

/// One journal at the moment of a scrape.
struct Seen {
    name: String,
    journal: Option<Arc<Measured>>,
    stats: Option<Arc<Stats>>,
}

/// The totals in the order of [`crate::Counts::values`].
pub(super) const TOTALS: [(&str, &str); 15] = [
    ("adds", "Entries added."),
    ("merged", "Adds that became part of a waiting entry."),
    (
        "stale",
        "Adds that became part of a waiting entry with newer data.",
    ),
    (
        "absorbed",
        "Entries that came back and became part of a waiting one.",
    ),
    ("done", "Entries done."),
    ("expired", "Entries expired."),
    ("cancelled", "Entries cancelled."),
    ("forgotten", "Dead entries taken off the dead list."),
    ("died", "Entries that came to the dead list."),
    ("claims", "Entries handed out."),
    ("timeouts", "Leases that ran out."),
    ("releases", "Leases given back."),
    ("failures", "Leases ended badly."),
    (
        "clamped",
        "Insertion dates that were too far in the future and were moved.",
    ),
    ("lost", "Entries whose records were damaged beyond reading."),
];

/// They are always shown, so that an empty journal is a zero and not a gap.
pub(super) const STANDARD: [Priority; 8] = [
    Priority::NOW,
    Priority::IMPORTANT,
    Priority::NEW,
    Priority::RESET,
    Priority::UPDATES,
    Priority::SLOW,
    Priority::REVIEW,
    Priority::TIME_ALLOWS,
];

impl Collector for Numbers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let seen = self.seen();
        let now = Date::from(self.0.clock.now());
        let mut sheet = Sheet {
            encoder: &mut encoder,
            seen: &seen,
        };
        sheet.depths()?;
        sheet.ages(now)?;
        sheet.engines()?;
        sheet.totals()
    }
}

impl Numbers {
    fn seen(&self) -> Vec<Seen> {
        let journals = self.0.lock();
        let seen = journals.iter().map(|(name, journal)| Seen {
            name: name.clone(),
            journal: journal.clone(),
            stats: journal.as_ref().and_then(|journal| journal.last_stats()),
        });
        seen.collect()
    }
}

/// What is written, and where.
struct Sheet<'a, 'e> {
    encoder: &'a mut DescriptorEncoder<'e>,
    seen: &'a [Seen],
}

impl Sheet<'_, '_> {
    fn depths(&mut self) -> fmt::Result {
        let mut depth = |name, help, count: fn(&Depth) -> u64| self.by_priority(name, help, count);
        depth(
            "waiting",
            "Entries to be handed out, due or not.",
            |depth| depth.waiting,
        )?;
        depth("due", "Entries that could be handed out now.", |depth| {
            depth.due
        })?;
        depth(
            "blocked",
            "Entries waiting for the processing entry of the same key.",
            |depth| depth.blocked,
        )?;
        depth("processing", "Entries handed out.", |depth| {
            depth.processing
        })?;
        self.gauge("dead", "Entries on the dead list.", None, |seen| {
            seen.stats.as_ref().map(|stats| stats.dead)
        })
    }

    fn ages(&mut self, now: Date) -> fmt::Result {
        let age = |seen: &Seen, date: fn(&Stats) -> Option<Date>| {
            let stats = seen.stats.as_ref()?;
            Some(date(stats).map_or(0.0, |date| now.since(date).as_secs_f64()))
        };
        self.gauge(
            "oldest_due_age",
            "For how long the oldest due entry has been due; 0 when nothing is.",
            Some(&Unit::Seconds),
            |seen| age(seen, |stats| stats.oldest_due),
        )?;
        self.gauge(
            "oldest_lease_age",
            "How long ago the oldest lease began or was last heard of; 0 when there is none.",
            Some(&Unit::Seconds),
            |seen| age(seen, |stats| stats.oldest_lease),
        )?;
        self.gauge(
            "last_success_timestamp",
            "When the numbers of the journal were last heard, since 1970.",
            Some(&Unit::Seconds),
            |seen| Some(seen.journal.as_ref()?.last_success()?.as_second()),
        )
    }

    fn engines(&mut self) -> fmt::Result {
        self.gauge(
            "up",
            "Whether the journal is open and works.",
            None,
            |seen| {
                let health = seen.journal.as_ref().map(|journal| journal.health());
                Some(u64::from(matches!(
                    health,
                    Some(Health::Good | Health::Warn(_))
                )))
            },
        )?;
        let usage = |seen: &Seen| seen.journal.as_ref().and_then(|journal| journal.usage());
        self.gauge(
            "segments",
            "Files of a journal on the local disk.",
            None,
            |seen| usage(seen).map(|usage| usage.segments),
        )?;
        self.gauge(
            "bytes",
            "Bytes of a journal on the local disk.",
            None,
            |seen| usage(seen).map(|usage| usage.bytes),
        )
    }

    fn totals(&mut self) -> fmt::Result {
        for (at, (name, help)) in TOTALS.into_iter().enumerate() {
            let mut metric =
                self.encoder
                    .encode_descriptor(name, help, None, MetricType::Counter)?;
            for seen in self.seen {
                if let Some(stats) = &seen.stats {
                    let value = stats.counts.values()[at];
                    metric
                        .encode_family(&[("journal", seen.name.as_str())])?
                        .encode_counter::<NoLabelSet, u64, f64>(&value, None)?;
                }
            }
        }
        Ok(())
    }

    /// One value a journal; none where there is nothing to say.
    fn gauge<V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        value: impl Fn(&Seen) -> Option<V>,
    ) -> fmt::Result {
        let mut metric = self
            .encoder
            .encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for seen in self.seen {
            if let Some(value) = value(seen) {
                metric
                    .encode_family(&[("journal", seen.name.as_str())])?
                    .encode_gauge(&value)?;
            }
        }
        Ok(())
    }

    fn by_priority(
        &mut self,
        name: &str,
        help: &str,
        count: impl Fn(&Depth) -> u64,
    ) -> fmt::Result {
        let mut metric = self
            .encoder
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        for seen in self.seen {
            let Some(stats) = &seen.stats else { continue };
            let mut counts: BTreeMap<Priority, u64> =
                STANDARD.into_iter().map(|priority| (priority, 0)).collect();
            counts.extend(
                stats
                    .depths
                    .iter()
                    .map(|depth| (depth.priority, count(depth))),
            );
            for (priority, count) in counts {
                let labels = [
                    ("journal", seen.name.clone()),
                    ("priority", priority.0.to_string()),
                ];
                metric.encode_family(&labels)?.encode_gauge(&count)?;
            }
        }
        Ok(())
    }
}
