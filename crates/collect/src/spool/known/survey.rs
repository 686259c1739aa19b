//! Which bundles of this node there are of a date, and in which mirrors their objects lie.

use std::collections::BTreeMap;

use cannery_formats::Key;
use cannery_formats::spool::{BundleName, Part, SpoolDate};
use cannery_lake::Lake;
use futures::TryStreamExt as _;

use super::{Known, KnownError};

/// The mirrors that have an object, by their number.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Whereabouts {
    pub(super) data: Vec<usize>,
    pub(super) index: Vec<usize>,
}

impl Known {
    /// All mirrors are asked: one that was down while a bundle was shipped does not know of it.
    pub(super) async fn survey(
        &self,
        datatype: usize,
        date: SpoolDate,
    ) -> Result<BTreeMap<BundleName, Whereabouts>, KnownError> {
        let settings = &self.settings;
        let (home, experiment) = (&settings.object_home, &settings.experiment);
        let name = &settings.datatypes[datatype].name;
        let folders = [
            Key::spool_data_folder(home, experiment, name, Some(date)),
            Key::spool_index_folder(home, experiment, Some(date)),
        ];
        let mut found: BTreeMap<BundleName, Whereabouts> = BTreeMap::new();
        for (mirror, lake) in self.mirrors.iter().enumerate() {
            for folder in &folders {
                for (bundle, part) in ours(lake, folder, settings, datatype).await? {
                    let found = found.entry(bundle).or_default();
                    match part {
                        Part::Data => found.data.push(mirror),
                        Part::Index => found.index.push(mirror),
                    }
                }
            }
        }
        Ok(found)
    }
}

impl Known {
    /// The objects of this node that every mirror has, without those of bundles that the outbox still has.
    pub(in crate::spool) async fn everywhere(
        &self,
        datatype: usize,
        date: SpoolDate,
    ) -> Result<Vec<(BundleName, Key)>, KnownError> {
        let mirrors = self.mirrors.iter().count();
        let mut objects = Vec::new();
        for (name, found) in self.survey(datatype, date).await? {
            if self.in_outbox.contains(&name) {
                continue;
            }
            if found.data.len() == mirrors {
                objects.push((name.clone(), name.data_key()));
            }
            if found.index.len() == mirrors {
                let key = name.index_key();
                objects.push((name, key));
            }
        }
        Ok(objects)
    }
}

/// The objects of this node and datatype in a folder: those of others, who may be many, are passed over as they come.
async fn ours(
    lake: &Lake,
    folder: &Key,
    settings: &super::SpoolSettings,
    datatype: usize,
) -> Result<Vec<(BundleName, Part)>, cannery_lake::Error> {
    let datatype = &settings.datatypes[datatype].name;
    let (mut found, mut strange) = (Vec::new(), 0_u64);
    let mut entries = lake.list(Some(folder));
    while let Some(entry) = entries.try_next().await? {
        match BundleName::parse(&entry.key) {
            Some((name, part)) if name.node == settings.node && name.datatype == *datatype => {
                found.push((name, part));
            }
            Some(_) => {}
            None => strange += 1,
        }
    }
    if strange > 0 {
        tracing::warn!(lake = lake.id(), %folder, objects = strange, "passed over: not named like objects of a bundle");
    }
    Ok(found)
}
