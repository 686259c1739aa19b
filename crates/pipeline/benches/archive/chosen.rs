//! The one measurement that is read cold, by us and by others: the same member of the same archive.

use std::path::Path;

use cannery_catalog::Found;
use cannery_formats::Key;
use cannery_formats::archive::Generation;
use cannery_formats::can::BucketFile;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Chosen {
    pub(crate) uid: String,
    /// The key of the archive that holds it.
    pub(crate) archive: String,
    /// Its report.
    pub(crate) member: String,
}

impl Chosen {
    pub(crate) fn of(found: &Found) -> Self {
        let generation: Generation = found.generation.parse().unwrap();
        let file: BucketFile = found.file.parse().unwrap();
        Self {
            uid: found.uid.clone(),
            archive: Key::autoclaved(generation, &file).to_string(),
            member: found.report.clone(),
        }
    }

    pub(crate) fn write(&self, folder: &Path) {
        let text = serde_json::to_vec(self).unwrap();
        std::fs::write(folder.join("chosen.json"), text).unwrap();
    }

    pub(crate) fn read(folder: &Path) -> Self {
        let text = std::fs::read(folder.join("chosen.json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    }
}
