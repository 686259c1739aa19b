//! Clearing: report files go, once the sealed can that holds them was read from end to end.
//!
//! A final can is never replaced, so nothing that is removed here depends on what happens later. A report goes only if it is
//! still what was canned: it is read once more, right before it goes. What is not proven stays, and is reported with the
//! reason. A run may be repeated, be killed anywhere, and be made by several at once.

mod folder;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cannery_formats::can::{CannedFile, CannedText, TextName};
use cannery_formats::{BucketDate, Key, Summer, Sums};
use cannery_lake::{ErrorKind, Lake};
use cannery_runtime::Disk;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::Serialize;

use crate::blocking::blocking;
use crate::cans::{AT_ONCE, Indexes};
use crate::error::Error;
use crate::inputs::{Inputs, Reports, What};
use crate::stage::Plant;
use crate::verify::{Finding, Verifier};
use folder::Shelf;

/// Removes report files that are in verified cans. Clones are the same.
#[derive(Clone, Debug)]
pub struct Clearer {
    /// The lakes, and what every stage needs.
    pub plant: Plant,
    /// Where report files are.
    pub inputs: Inputs,
    /// The disk of their folder.
    pub disk: Arc<dyn Disk>,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClearReport {
    /// The report files that were removed; one in a folder by the key that it would have in the lake.
    pub removed: Vec<Key>,
    /// What stays, with the reason.
    pub kept: Vec<Finding>,
    /// Bytes that were read to prove it.
    pub bytes_in: u64,
}

/// What became of a report file.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Removed,
    /// Somebody else has removed it.
    Gone,
    /// It is not what was canned.
    Changed,
    /// The same, and another one has taken its name, so it lies elsewhere now.
    SetAside(PathBuf),
}

impl Clearer {
    /// What it takes at most, beside about 300 bytes for each report.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let plant = self.plant.clone();
        Verifier { plant }.memory_bytes()
    }

    /// The names of all report files that are there, also of those that somebody was about to remove when he died.
    ///
    /// # Errors
    /// When they cannot be listed; there is no partial list.
    pub async fn left(&self) -> Result<BTreeSet<TextName>, Error> {
        self.left_of(None).await
    }

    async fn left_of(&self, date: Option<BucketDate>) -> Result<BTreeSet<TextName>, Error> {
        let mut left = BTreeSet::new();
        let mut take = |what: &What| left.extend(what.text_name());
        for found in self.inputs.reports(date).await? {
            take(&found.what);
        }
        if let Some(Reports::Folder(root)) = &self.inputs.reports {
            let aside = self.on_shelf(root, move |shelf| shelf.aside(date)).await?;
            for (bucket, name) in aside {
                take(&What::Report { bucket, name });
            }
        }
        Ok(left)
    }

    /// Whether report files are there that are in this can.
    pub(crate) async fn has_some_of(&self, can: &CannedFile) -> Result<bool, Error> {
        let places = can.texts().iter().filter_map(place_of);
        let dates: BTreeSet<BucketDate> = places.map(|place| place.date).collect();
        for date in dates {
            let left = self.left_of(Some(date)).await?;
            if can.texts().iter().any(|text| left.contains(&text.textname)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes the report files that are in the cans of a sealed bucket. One that is not sealed is left alone.
    ///
    /// # Errors
    /// Those of the lake and of the disk. What was removed until then was proven.
    pub async fn bucket(&self, bucket: BucketDate) -> Result<ClearReport, Error> {
        let mut report = ClearReport::default();
        let indexes = Indexes::new(self.plant.raw.clone());
        let Some(sealed) = indexes.find(&Key::canned_index(bucket)).await? else {
            return Ok(report);
        };
        let texts = sealed.files.iter().flat_map(CannedFile::texts);
        let dates: BTreeSet<BucketDate> = texts
            .filter_map(|text| Some(place_of(text)?.date))
            .collect();
        let mut left = BTreeSet::new();
        for date in dates {
            left.extend(self.left_of(Some(date)).await?);
        }
        let state = indexes.state(bucket).await?;
        // A report file whose can is kept no longer is compared with nothing, and stays.
        let is_there = |can: &&CannedFile| !state.expired_cans.contains(&can.filename.name);
        for can in sealed.files.iter().filter(is_there) {
            let is_left = |text: &&CannedText| left.contains(&text.textname);
            let texts: Vec<&CannedText> = can.texts().iter().filter(is_left).collect();
            if !texts.is_empty() {
                self.can(can, &texts, &mut report).await?;
            }
        }
        Ok(report)
    }

    /// Removes some reports of a can.
    async fn can(
        &self,
        can: &CannedFile,
        texts: &[&CannedText],
        report: &mut ClearReport,
    ) -> Result<(), Error> {
        let plant = self.plant.clone();
        match (Verifier { plant }).can(can).await? {
            Ok(bytes) => report.bytes_in += bytes,
            Err(finding) => {
                report.kept.push(finding);
                return Ok(());
            }
        }
        let places: Vec<_> = texts.iter().filter_map(|text| place_of(text)).collect();
        let fates = self.remove(&places).await?;
        for (Place { key, sums, .. }, fate) in places.into_iter().zip(fates) {
            let why = match fate {
                Fate::Gone => continue,
                Fate::Removed => {
                    report.bytes_in += sums.size;
                    report.removed.push(key);
                    continue;
                }
                Fate::Changed => {
                    "it has changed since it was canned; give it another name to have it canned, or remove it".to_owned()
                }
                Fate::SetAside(path) => format!(
                    "it has changed since it was canned, twice; one of the two is `{}` now",
                    path.display()
                ),
            };
            report.kept.push(Finding { key, why });
        }
        Ok(())
    }

    async fn remove(&self, places: &[Place]) -> Result<Vec<Fate>, Error> {
        match &self.inputs.reports {
            None => Ok(Vec::new()),
            Some(Reports::Lake) => {
                let lake = &self.inputs.lake;
                let removed = places.iter().map(|place| remove_object(lake, place));
                let removed = stream::iter(removed.collect::<Vec<_>>()).buffered(AT_ONCE);
                removed.boxed().try_collect().await
            }
            Some(Reports::Folder(root)) => {
                let files = places.iter().cloned();
                let files = files.map(|place| (place.date, place.name, place.sums));
                let files: Vec<_> = files.collect();
                self.on_shelf(root, move |shelf| shelf.remove(&files)).await
            }
        }
    }

    async fn on_shelf<T: Send + 'static>(
        &self,
        root: &Path,
        work: impl FnOnce(&Shelf<'_>) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let (disk, folder) = (Arc::clone(&self.disk), root.to_owned());
        let done = blocking(move || work(&Shelf::new(&*disk, &folder))).await;
        done.and_then(|done| done).map_err(|why| Error::Report {
            path: root.to_owned(),
            why,
        })
    }
}

/// A report file, and what it should hold.
#[derive(Clone, Debug)]
struct Place {
    key: Key,
    date: BucketDate,
    name: String,
    sums: Sums,
}

/// Where a report came from; nothing for one that came in something else than a report file.
fn place_of(text: &CannedText) -> Option<Place> {
    let key = text.textname.report_key()?;
    let what = What::of(&key)?;
    let is_it = what.text_name().is_some_and(|name| name == text.textname);
    match what {
        What::Report { bucket, name } if is_it => Some(Place {
            key,
            date: bucket,
            name,
            sums: text.text,
        }),
        What::Report { .. } | What::Bundle(_) | What::Hour { .. } => None,
    }
}

async fn remove_object(lake: &Lake, place: &Place) -> Result<Fate, Error> {
    let Place { key, sums, .. } = place;
    match sums_of(lake, key).await {
        Ok(found) if found == *sums => {
            lake.delete(key).await?;
            Ok(Fate::Removed)
        }
        Ok(_) => Ok(Fate::Changed),
        Err(error) if error.kind == ErrorKind::Absent => Ok(Fate::Gone),
        Err(error) => Err(error.into()),
    }
}

async fn sums_of(lake: &Lake, key: &Key) -> cannery_lake::Result<Sums> {
    let mut pieces = lake.stream(key).await?;
    let mut summer = Summer::default();
    while let Some(piece) = pieces.try_next().await? {
        summer.update(&piece);
    }
    Ok(summer.finish())
}
