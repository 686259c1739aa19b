//! What spools do and hold, as metrics. They are read from [`Progress`] when somebody asks, and kept nowhere else.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cannery_runtime::Clock;
use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::progress::{DatatypeSnapshot, Progress, SpoolSnapshot};

#[cfg(test)]
mod tests;

/// The metrics of all spools of a process; clones are the same.
#[derive(Clone, Debug)]
pub struct SpoolMetrics {
    clock: Clock,
    /// By experiment: of two spools with the same labels the registry could show only nonsense.
    spools: Arc<Mutex<BTreeMap<String, Arc<Progress>>>>,
}

impl SpoolMetrics {
    /// No spools yet. `clock` says how old files are.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            spools: Arc::default(),
        }
    }

    /// Adds the metrics to what `/metrics` shows, those of spools that come later too.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("cannery_spool");
        registry.register_collector(Box::new(self.clone()));
    }

    /// Shows a spool, as [`Spool::progress`](super::Spool::progress) gives it. One of the same experiment takes the place of
    /// the one before.
    pub fn show(&self, progress: Arc<Progress>) {
        let experiment = progress.experiment().to_owned();
        self.lock().insert(experiment, progress);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Progress>>> {
        self.spools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for SpoolMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let spools: Vec<_> = self.lock().values().cloned().collect();
        let spools: Vec<_> = spools.iter().map(|spool| spool.snapshot()).collect();
        let mut sheet = Sheet {
            encoder: &mut encoder,
            spools: &spools,
        };
        sheet.files()?;
        sheet.bad_files()?;
        sheet.bundles()?;
        sheet.waiting(self.clock.now())?;
        sheet.scans()?;
        sheet.room()
    }
}

/// What is written, and where.
struct Sheet<'a, 'e> {
    encoder: &'a mut DescriptorEncoder<'e>,
    spools: &'a [SpoolSnapshot],
}

type Of<T, V> = fn(&T) -> V;

impl Sheet<'_, '_> {
    fn files(&mut self) -> fmt::Result {
        let counters: [(_, _, Of<DatatypeSnapshot, u64>); 4] = [
            (
                "files_seen",
                "Files that events and scans told, as often as each was told.",
                |one| one.files_seen,
            ),
            (
                "files_taken",
                "Files that were read and found good.",
                |one| one.files_taken,
            ),
            (
                "files_bundled",
                "Files in bundles that were sealed.",
                |one| one.files_bundled,
            ),
            (
                "files_removed",
                "Files that were removed because the lake has them.",
                |one| one.files_removed,
            ),
        ];
        self.counters(&counters)
    }

    fn bad_files(&mut self) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(
            "files_bad",
            "Files that cannot be collected; one that stays where it is counts once for each scan.",
            None,
            MetricType::Counter,
        )?;
        for (spool, one) in datatypes(self.spools) {
            for (reason, count) in &one.files_bad {
                let labels = [
                    ("experiment", spool.experiment.as_str()),
                    ("datatype", one.datatype.as_str()),
                    ("reason", reason),
                ];
                metric
                    .encode_family(&labels)?
                    .encode_counter::<NoLabelSet, u64, f64>(count, None)?;
            }
        }
        Ok(())
    }

    fn bundles(&mut self) -> fmt::Result {
        let counters: [(_, _, Of<DatatypeSnapshot, u64>); 5] = [
            ("bundles_sealed", "Bundles that were sealed.", |one| {
                one.bundles_sealed
            }),
            (
                "bundles_shipped",
                "Bundles that every mirror has got.",
                |one| one.bundles_shipped,
            ),
            (
                "bundles_given_up",
                "Bundles that the disk refused; their files are bundled again.",
                |one| one.bundles_given_up,
            ),
            (
                "bytes_shipped",
                "Bytes of the objects that were shipped, to one mirror of however many.",
                |one| one.bytes_shipped,
            ),
            (
                "raw_bytes_shipped",
                "Bytes of the files that were shipped.",
                |one| one.raw_bytes_shipped,
            ),
        ];
        self.counters(&counters)
    }

    fn waiting(&mut self, now: Timestamp) -> fmt::Result {
        self.by_datatype(
            "files_waiting",
            "Files in the date folders, bundled or not; exact after each scan.",
            None,
            |one| Some(one.files_waiting),
        )?;
        self.by_datatype(
            "oldest_unshipped_age",
            "How long ago the file changed that has waited longest; 0 when none waits.",
            Some(&Unit::Seconds),
            |one| {
                let age = |oldest| now.duration_since(oldest).as_secs_f64().max(0.0);
                Some(one.oldest_waiting.map_or(0.0, age))
            },
        )?;
        self.by_datatype(
            "last_ship_success_timestamp",
            "When a bundle was last shipped, since 1970; none before the first.",
            Some(&Unit::Seconds),
            |one| one.last_ship.map(|at| at.as_second()),
        )?;
        self.by_datatype(
            "bundles_open",
            "Bundles to which files are added.",
            None,
            |one| Some(one.open.len() as u64),
        )?;
        self.by_datatype(
            "bundles_unshipped",
            "Sealed bundles that not every mirror has.",
            None,
            |one| Some(one.unshipped.len() as u64),
        )
    }

    fn scans(&mut self) -> fmt::Result {
        let counters: [(_, _, Of<SpoolSnapshot, u64>); 4] = [
            (
                "scans",
                "Scans of everything that were finished.",
                |spool| spool.scans,
            ),
            (
                "scan_failures",
                "Folders that a scan could not watch or read, each time it tried.",
                |spool| spool.scan_failures,
            ),
            (
                "watch_overflows",
                "How often the system lost events; a scan made up for each.",
                |spool| spool.watch_overflows,
            ),
            (
                "quarantine_evictions",
                "Files that were removed from the quarantine for want of room.",
                |spool| spool.quarantine_evictions,
            ),
        ];
        for (name, help, value) in counters {
            self.counter(name, help, |sheet| {
                let values = sheet.iter();
                values
                    .map(|spool| (of_spool(spool), value(spool)))
                    .collect()
            })?;
        }
        self.by_spool("watches", "Folders that are watched.", None, |spool| {
            Some(spool.watches)
        })?;
        self.by_spool(
            "last_scan_timestamp",
            "When the last scan of everything ended, since 1970; none before the first.",
            Some(&Unit::Seconds),
            |spool| Some(spool.last_scan?.as_second()),
        )
    }

    fn room(&mut self) -> fmt::Result {
        self.by_spool(
            "quarantine_bytes",
            "Bytes in the quarantine of the home, of all experiments in it.",
            None,
            |spool| Some(spool.quarantine_bytes),
        )?;
        self.by_spool(
            "bytes",
            "Bytes below the configured datatypes and in the quarantine, at the last scan.",
            None,
            |spool| Some(spool.spool_bytes),
        )?;
        self.by_spool(
            "bytes_max",
            "How many there may be; none when nobody minds.",
            None,
            |spool| spool.spool_bytes_max,
        )?;
        self.by_spool(
            "full",
            "Whether there are more: 1 when somebody must make room.",
            None,
            |spool| Some(u64::from(spool.full)),
        )
    }

    fn counters(
        &mut self,
        counters: &[(&'static str, &'static str, Of<DatatypeSnapshot, u64>)],
    ) -> fmt::Result {
        for (name, help, value) in counters {
            self.counter(name, help, |spools| {
                let values = datatypes(spools);
                values
                    .map(|(spool, one)| (of_datatype(spool, one), value(one)))
                    .collect()
            })?;
        }
        Ok(())
    }

    /// Counters with their labels.
    fn counter<'s, L: EncodeLabelSet>(
        &'s mut self,
        name: &str,
        help: &str,
        values: impl FnOnce(&'s [SpoolSnapshot]) -> Vec<(L, u64)>,
    ) -> fmt::Result {
        let mut metric = self
            .encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in values(self.spools) {
            metric
                .encode_family(&labels)?
                .encode_counter::<NoLabelSet, u64, f64>(&value, None)?;
        }
        Ok(())
    }

    /// One value a datatype; none where there is nothing to say.
    fn by_datatype<V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        value: impl Fn(&DatatypeSnapshot) -> Option<V>,
    ) -> fmt::Result {
        let mut metric = self
            .encoder
            .encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for (spool, one) in datatypes(self.spools) {
            if let Some(value) = value(one) {
                metric
                    .encode_family(&of_datatype(spool, one))?
                    .encode_gauge(&value)?;
            }
        }
        Ok(())
    }

    /// One value a spool; none where there is nothing to say.
    fn by_spool<V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        value: impl Fn(&SpoolSnapshot) -> Option<V>,
    ) -> fmt::Result {
        let mut metric = self
            .encoder
            .encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for spool in self.spools {
            if let Some(value) = value(spool) {
                metric
                    .encode_family(&of_spool(spool))?
                    .encode_gauge(&value)?;
            }
        }
        Ok(())
    }
}

fn datatypes(
    spools: &[SpoolSnapshot],
) -> impl Iterator<Item = (&SpoolSnapshot, &DatatypeSnapshot)> {
    spools
        .iter()
        .flat_map(|spool| spool.datatypes.iter().map(move |one| (spool, one)))
}

fn of_spool(spool: &SpoolSnapshot) -> [(&'static str, &str); 1] {
    [("experiment", spool.experiment.as_str())]
}

fn of_datatype<'a>(
    spool: &'a SpoolSnapshot,
    one: &'a DatatypeSnapshot,
) -> [(&'static str, &'a str); 2] {
    [
        ("experiment", spool.experiment.as_str()),
        ("datatype", one.datatype.as_str()),
    ]
}
