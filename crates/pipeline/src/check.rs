//! Checking: whether the indexes, the objects that they name, and the catalog agree. It changes nothing.
//!
//! Names, sizes and indexes are looked at always. A share of the files is read from end to end on demand; the shares are
//! such that those of successive days make up everything.

mod bucket;
mod finding;
mod share;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cannery_catalog::Catalog;
use cannery_formats::BucketDate;
use cannery_formats::archive::Generation;
use jiff::Timestamp;
use serde::Serialize;

use crate::error::Error;
use crate::features::Features;
use crate::holdings::Ground;
use crate::stage::Plant;

pub use finding::{Finding, Problem};
pub use share::{InvalidShare, Share};

/// Checks a lake and its catalog.
#[derive(Clone, Debug)]
pub struct Checker {
    /// The lakes, and what every stage needs.
    pub plant: Plant,
    /// The catalog.
    pub catalog: Catalog,
    /// What is taken out of measurements.
    pub features: Arc<Features>,
    /// The generation of the rules that are configured.
    pub generation: Generation,
    /// What is younger may still be worked on, and is not reported as left behind.
    pub grace: Duration,
}

/// What was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// Buckets.
    pub buckets: u64,
    /// Cans that an index names.
    pub cans: u64,
    /// Archives, in all generations.
    pub archives: u64,
    /// Cans and archives that were read from end to end.
    pub files_read: u64,
    /// Their bytes.
    pub bytes_read: u64,
    /// What is wrong.
    pub findings: u64,
}

/// Hears what is found, and how far it is.
pub trait Listener: Send {
    /// A bucket begins; so many of so many are done.
    fn bucket(&mut self, bucket: BucketDate, done: u64, all: u64);

    /// Something is wrong.
    fn found(&mut self, finding: Finding);
}

impl Checker {
    /// Checks everything, and reads `share` of the files.
    ///
    /// # Errors
    /// Those of the lakes, the disk and the catalog: what could not be looked at proves nothing.
    pub async fn run(
        &self,
        share: Option<Share>,
        listener: &mut dyn Listener,
    ) -> Result<CheckReport, Error> {
        let mut report = CheckReport::default();
        let mut found = Vec::new();
        for why in self.catalog.check().await? {
            found.push(Finding::new(
                Problem::Contradiction,
                None,
                &"the catalog",
                &why,
                false,
            ));
        }
        let ground = Ground::survey(&self.plant, self.generation).await?;
        let mut buckets = ground.buckets.clone();
        buckets.extend(self.known_buckets(&mut found).await?);
        for (done, bucket) in (0..).zip(&buckets) {
            tell(&mut found, &mut report, listener);
            listener.bucket(*bucket, done, buckets.len() as u64);
            let mut look = bucket::Look::new(self, &ground, *bucket, share).await?;
            look.run(&mut report).await?;
            found.append(&mut look.found);
            report.buckets += 1;
        }
        tell(&mut found, &mut report, listener);
        Ok(report)
    }

    /// The buckets that the catalog has files of.
    async fn known_buckets(&self, found: &mut Vec<Finding>) -> Result<BTreeSet<BucketDate>, Error> {
        let mut buckets = BTreeSet::new();
        for name in self.catalog.buckets().await? {
            match name.parse() {
                Ok(bucket) => drop(buckets.insert(bucket)),
                Err(_) => {
                    let why = format!("it has files of `{name}`, which is no date");
                    found.push(Finding::new(
                        Problem::Contradiction,
                        None,
                        &"the catalog",
                        &why,
                        false,
                    ));
                }
            }
        }
        Ok(buckets)
    }

    /// Whether something is old enough that nobody works on it any more.
    fn is_settled(&self, modified: Timestamp) -> bool {
        let end = modified.checked_add(self.grace).unwrap_or(Timestamp::MAX);
        self.plant.clock.now() >= end
    }
}

fn tell(found: &mut Vec<Finding>, report: &mut CheckReport, listener: &mut dyn Listener) {
    for finding in found.drain(..) {
        report.findings += 1;
        listener.found(finding);
    }
}
