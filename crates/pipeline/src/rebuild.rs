//! The catalog is made anew, from the lake alone.
//!
//! Files are loaded in the order of their names, so that no measurement changes its holder on the way. Whatever the catalog
//! had before is not asked: the result depends on the lake, the rules' generation and the declared features.

use std::collections::BTreeSet;
use std::sync::Arc;

use cannery_catalog::{Beside, Catalog, Decision, Difference};
use cannery_formats::archive::Generation;
use cannery_formats::can::BucketFile;
use cannery_formats::{BucketDate, Key};
use cannery_lake::ErrorKind;
use futures::FutureExt as _;
use serde::Serialize;

use crate::cans::Indexes;
use crate::centrifuge::{Centrifuge, CentrifugeReport, Target};
use crate::cover::Coverer;
use crate::error::Error;
use crate::features::Features;
use crate::holdings::{Ground, Holdings};
use crate::stage::Plant;
use crate::verify::Finding;

/// Fills catalogs from the lake.
#[derive(Clone, Debug)]
pub struct Rebuilder {
    /// The lakes, and what every stage needs.
    pub plant: Plant,
    /// What is taken out of measurements.
    pub features: Arc<Features>,
    /// The generation of the rules that are configured: its archives are taken where they are there.
    pub generation: Generation,
}

/// What was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RebuildReport {
    /// Files.
    pub files: u64,
    /// Their measurements, duplicates included.
    pub measurements: u64,
    /// Bytes read of indexes and archives.
    pub bytes_in: u64,
    /// What could not be loaded, with the reason.
    pub left_out: Vec<Finding>,
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress<'p> {
    /// The bucket that is loaded.
    pub bucket: BucketDate,
    /// Buckets that are done, and all of them.
    pub buckets: (u64, u64),
    /// What was loaded so far.
    pub so_far: &'p RebuildReport,
}

/// Hears how far it is.
pub type Watch<'w> = &'w mut (dyn FnMut(&Progress<'_>) + Send);

/// What is done about files that cannot be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damaged {
    /// The catalog stays as it was.
    Refuse,
    /// The new catalog does not have them.
    LeaveOut,
}

/// What became of the catalog.
#[derive(Debug)]
pub struct Rebuilt {
    /// What was loaded.
    pub report: RebuildReport,
    /// Whether the new catalog took the place of the old one.
    pub is_replaced: bool,
}

impl Rebuilder {
    /// Makes the catalog anew beside the old one and puts it in its place in one transaction. What others load meanwhile is
    /// loaded again afterwards.
    ///
    /// # Errors
    /// Those of the lakes, the disk and the catalog. The old catalog is then as it was, or the new one is whole.
    pub async fn replace(
        &self,
        beside: Beside,
        damaged: Damaged,
        watch: Watch<'_>,
    ) -> Result<Rebuilt, Error> {
        let report = self.fill(beside.new_one(), watch).await?;
        if damaged == Damaged::Refuse && !report.left_out.is_empty() {
            beside.discard().await?.close().await;
            return Ok(Rebuilt {
                report,
                is_replaced: false,
            });
        }
        let catalog = beside.take_over().await?;
        let late = self.catch_up(&catalog, &report).await;
        catalog.close().await;
        late?;
        Ok(Rebuilt {
            report,
            is_replaced: true,
        })
    }

    /// Makes the catalog anew beside the old one, compares both table by table, and removes it again.
    ///
    /// # Errors
    /// As [`Rebuilder::replace`]; the old catalog is as it was in any case.
    pub async fn compare(
        &self,
        beside: Beside,
        watch: Watch<'_>,
    ) -> Result<(RebuildReport, Vec<Difference>), Error> {
        let report = self.fill(beside.new_one(), watch).await?;
        let differences = beside.old().differences(beside.new_one()).await?;
        beside.discard().await?.close().await;
        Ok((report, differences))
    }

    /// Loads everything that belongs into a catalog. It may be repeated: what is loaded is not read again.
    ///
    /// # Errors
    /// As [`Rebuilder::replace`].
    pub async fn fill(&self, catalog: &Catalog, watch: Watch<'_>) -> Result<RebuildReport, Error> {
        let centrifuge = self.centrifuge(catalog);
        centrifuge.declare().await?;
        let ground = Ground::survey(&self.plant, self.generation).await?;
        let count = ground.buckets.len() as u64;
        let mut report = RebuildReport::default();
        for (number, bucket) in (0..).zip(&ground.buckets) {
            watch(&Progress {
                bucket: *bucket,
                buckets: (number, count),
                so_far: &report,
            });
            let holdings = match Holdings::read(&self.plant, &ground, *bucket).await {
                // Which archives of the bucket count cannot be told.
                Err(Error::Unusable { key, why, .. }) => {
                    report.left_out.push(Finding { key, why });
                    continue;
                }
                read => read?,
            };
            for (file, generation) in holdings.belonging() {
                load(&centrifuge, file, generation, &mut report).await?;
            }
        }
        let dates = catalog.dates().await?;
        catalog.recompute(dates.iter().map(String::as_str)).await?;
        self.cover(catalog).await?;
        Ok(report)
    }

    /// Loads what came while the catalog was made: what is not in it, or was made with other rules.
    async fn catch_up(&self, catalog: &Catalog, before: &RebuildReport) -> Result<(), Error> {
        let centrifuge = self.centrifuge(catalog);
        let ground = Ground::survey(&self.plant, self.generation).await?;
        let is_left_out = |key: &Key| before.left_out.iter().any(|finding| finding.key == *key);
        let (mut late, mut dates) = (RebuildReport::default(), BTreeSet::new());
        for bucket in &ground.buckets {
            let holdings = match Holdings::read(&self.plant, &ground, *bucket).await {
                Err(Error::Unusable { .. }) => continue,
                read => read?,
            };
            for (file, generation) in holdings.belonging() {
                let known = catalog.known(&file.to_string()).await?;
                let known = known.map(|known| known.facts.generation);
                if known == Some(generation.to_string())
                    || is_left_out(&Key::autoclaved(generation, &file))
                {
                    continue;
                }
                dates.extend(load(&centrifuge, file, generation, &mut late).await?);
            }
        }
        catalog.recompute(dates.iter().map(String::as_str)).await?;
        self.cover(catalog).await
    }

    /// Writes what came of the hours of feeds, as far as the catalog does not have it.
    async fn cover(&self, catalog: &Catalog) -> Result<(), Error> {
        let indexes = Indexes::new(self.plant.raw.clone());
        let coverer = Coverer::new(self.plant.clone(), indexes, catalog.clone());
        let hours = coverer.hours().await?;
        for (feed, hour) in coverer.lacking(hours).await? {
            coverer.hour(&feed, hour).await?;
        }
        Ok(())
    }

    fn centrifuge(&self, catalog: &Catalog) -> Centrifuge {
        Centrifuge {
            plant: self.plant.clone(),
            catalog: catalog.clone(),
            features: Arc::clone(&self.features),
        }
    }
}

/// Loads a file, and those whose rows are to be made again because of it. The dates that changed.
pub(crate) async fn load(
    centrifuge: &Centrifuge,
    file: BucketFile,
    generation: Generation,
    report: &mut RebuildReport,
) -> Result<BTreeSet<String>, Error> {
    let key = Key::autoclaved(generation, &file);
    let target = Target {
        generation,
        file,
        replaces: Vec::new(),
    };
    let mut dates = BTreeSet::new();
    let mut targets = vec![target];
    while let Some(target) = targets.pop() {
        let loaded = centrifuge.run(&target, &|| async { Ok(()) }.boxed()).await;
        let loaded = match loaded {
            Err(Error::Unusable { key, why, .. }) => {
                report.left_out.push(Finding { key, why });
                continue;
            }
            Err(Error::Lake(error)) if error.kind == ErrorKind::Absent => {
                let why = "its index is there, and it is not".to_owned();
                let key = Key::autoclaved(target.generation, &target.file);
                report.left_out.push(Finding { key, why });
                continue;
            }
            loaded => loaded?,
        };
        note(&loaded, &key, report);
        for name in &loaded.committed.outdated {
            targets.extend(target_of(&centrifuge.catalog, name).await?);
        }
        dates.extend(loaded.committed.dates);
    }
    Ok(dates)
}

fn note(loaded: &CentrifugeReport, key: &Key, report: &mut RebuildReport) {
    report.bytes_in += loaded.index_bytes + loaded.bytes_in;
    match loaded.decisions.as_slice() {
        [Decision::Ingest, ..] => {
            report.files += 1;
            report.measurements += loaded.measurements;
        }
        [Decision::NewerThanCode { feature, .. }] => report.left_out.push(Finding {
            key: key.clone(),
            why: format!("a newer version of feature `{feature}` has loaded it"),
        }),
        _ => {}
    }
}

/// A file that the catalog has.
async fn target_of(catalog: &Catalog, name: &str) -> Result<Option<Target>, Error> {
    let Some(known) = catalog.known(name).await? else {
        return Ok(None);
    };
    let wrong = |why: String| Error::NoArchive {
        file: name.to_owned(),
        why,
    };
    let generation = known.facts.generation.parse();
    let file = name.parse();
    Ok(Some(Target {
        generation: generation.map_err(|error| wrong(format!("{error}")))?,
        file: file.map_err(|error| wrong(format!("{error}")))?,
        replaces: Vec::new(),
    }))
}
