//! What feeds do and hold, as metrics. They are read from the [`Monitor`] when somebody asks, and kept nowhere else.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use cannery_formats::feed::{ArchiveName, FeedId};
use cannery_runtime::Clock;
use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::monitor::{Done, Lateness, Monitor, Totals};

#[cfg(test)]
mod tests;

/// The metrics of all feeds of a process; clones are the same.
///
/// What is counted is kept over the end of a process, so that a counter goes on where it was.
#[derive(Clone, Debug)]
pub struct FeedMetrics {
    monitor: Monitor,
    clock: Clock,
}

impl FeedMetrics {
    /// Those of the feeds that `monitor` remembers. `clock` says how old archives are.
    #[must_use]
    pub fn new(monitor: Monitor, clock: Clock) -> Self {
        Self { monitor, clock }
    }

    /// Adds the metrics to what `/metrics` shows, those of feeds that come later too.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("cannery_feed");
        registry.register_collector(Box::new(self.clone()));
    }
}

impl Collector for FeedMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (totals, waiting) = (self.monitor.totals(), self.monitor.waiting());
        let mut sheet = Sheet {
            encoder: &mut encoder,
            totals: &totals,
        };
        sheet.polls()?;
        sheet.tasks()?;
        sheet.unshipped(&waiting, self.clock.now())?;
        sheet.lateness(&self.monitor.lateness())
    }
}

/// What is written, and where.
struct Sheet<'a, 'e> {
    encoder: &'a mut DescriptorEncoder<'e>,
    totals: &'a BTreeMap<FeedId, Totals>,
}

type DoneOf = fn(&Totals) -> &Done;

impl Sheet<'_, '_> {
    fn polls(&mut self) -> fmt::Result {
        self.family(
            "polls",
            "Polls by what came of them; those whose time passed while the one before was waited for are missed.",
            |totals| {
                vec![
                    ("stored", totals.stored),
                    ("unchanged", totals.unchanged),
                    ("failed", totals.failed),
                    ("missed", totals.missed),
                ]
            },
        )?;
        self.bytes()?;
        self.latency()?;
        self.gauge(
            "last_success_timestamp",
            "When a poll last succeeded, since 1970; none before the first.",
            Some(&Unit::Seconds),
            |_, totals| totals.last_success.map(|at| at.as_second()),
        )
    }

    fn bytes(&mut self) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(
            "bytes",
            "Bytes of the bodies that were stored, without their compression.",
            None,
            MetricType::Counter,
        )?;
        for (feed, totals) in self.totals {
            metric
                .encode_family(&[("feed", feed.as_str())])?
                .encode_counter::<NoLabelSet, u64, f64>(&totals.bytes, None)?;
        }
        Ok(())
    }

    /// Sum and count, as a histogram with one bucket: more for each of a thousand feeds is too much.
    fn latency(&mut self) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(
            "latency",
            "How long polls took that succeeded, from the request to the last byte.",
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        for (feed, totals) in self.totals {
            let (sum, count) = (
                totals.latency_ms as f64 / 1_000.0,
                totals.stored + totals.unchanged,
            );
            metric
                .encode_family(&[("feed", feed.as_str())])?
                .encode_histogram::<NoLabelSet>(sum, count, &[(f64::INFINITY, count)], None)?;
        }
        Ok(())
    }

    fn tasks(&mut self) -> fmt::Result {
        let kinds: [(_, _, _, _, DoneOf); 3] = [
            (
                "archives",
                "Hours that were packed into an archive, or could not be.",
                "last_archive_success_timestamp",
                "When an hour was last packed, since 1970; none before the first.",
                |totals| &totals.archives,
            ),
            (
                "uploads",
                "Archives that a store got or not, at each attempt.",
                "last_upload_success_timestamp",
                "When a store last got an archive, since 1970; none before the first.",
                |totals| &totals.uploads,
            ),
            (
                "consolidations",
                "Hours of a store that this process consolidated, or could not, at each attempt.",
                "last_consolidation_success_timestamp",
                "When this process last consolidated an hour, since 1970; none before the first.",
                |totals| &totals.consolidations,
            ),
        ];
        for (name, help, last, help_of_last, of) in kinds {
            self.family(name, help, |totals| {
                let done = of(totals);
                vec![("ok", done.ok), ("failed", done.failed)]
            })?;
            self.gauge(last, help_of_last, Some(&Unit::Seconds), |_, totals| {
                of(totals).last.map(|at| at.as_second())
            })?;
        }
        Ok(())
    }

    fn unshipped(
        &mut self,
        waiting: &BTreeMap<FeedId, BTreeSet<ArchiveName>>,
        now: Timestamp,
    ) -> fmt::Result {
        self.gauge(
            "archives_unshipped",
            "Archives that not every mirror has.",
            None,
            |feed, _| Some(waiting.get(feed).map_or(0, BTreeSet::len) as u64),
        )?;
        self.gauge(
            "oldest_unshipped_age",
            "How long ago the hour ended whose archive has waited longest; 0 when none waits.",
            Some(&Unit::Seconds),
            |feed, _| {
                let ends = waiting.get(feed).into_iter().flatten();
                let oldest = ends.map(|name| name.hour.end()).min();
                let age = |oldest| now.duration_since(oldest).as_secs_f64().max(0.0);
                Some(oldest.map_or(0.0, age))
            },
        )
    }

    /// Of all feeds together.
    fn lateness(&mut self, lateness: &Lateness) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(
            "lateness",
            "How long after their time polls began, of all feeds since the start.",
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        let end = |end: Option<Duration>| end.map_or(f64::INFINITY, |end| end.as_secs_f64());
        let buckets: Vec<(f64, u64)> = lateness
            .buckets
            .iter()
            .map(|(to, count)| (end(*to), *count))
            .collect();
        let total = lateness.total.as_secs_f64();
        metric.encode_histogram::<NoLabelSet>(total, lateness.count(), &buckets, None)
    }

    /// Counters of each feed by their outcome.
    fn family(
        &mut self,
        name: &str,
        help: &str,
        values: impl Fn(&Totals) -> Vec<(&'static str, u64)>,
    ) -> fmt::Result {
        let mut metric = self
            .encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        for (feed, totals) in self.totals {
            for (outcome, value) in values(totals) {
                metric
                    .encode_family(&[("feed", feed.as_str()), ("outcome", outcome)])?
                    .encode_counter::<NoLabelSet, u64, f64>(&value, None)?;
            }
        }
        Ok(())
    }

    /// One value a feed; none where there is nothing to say.
    fn gauge<V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        value: impl Fn(&FeedId, &Totals) -> Option<V>,
    ) -> fmt::Result {
        let mut metric = self
            .encoder
            .encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for (feed, totals) in self.totals {
            if let Some(value) = value(feed, totals) {
                metric
                    .encode_family(&[("feed", feed.as_str())])?
                    .encode_gauge(&value)?;
            }
        }
        Ok(())
    }
}
