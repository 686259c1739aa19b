//! The files of the monitor: `<yyyymmddThhZ>.jsonl`, one an hour, and `totals.json`.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cannery_formats::feed::{FeedId, Hour};
use cannery_runtime::Disk;
use cannery_runtime::disk::{Open, create_dir_all, read, write_durably};
use jiff::Timestamp;

use super::record::{Line, Totals};

const EXTENSION: &str = ".jsonl";
const TOTALS: &str = "totals.json";
/// A file of an hour is shorter, also with thousands of feeds.
const FILE_BYTES_MAX: u64 = 256 << 20;

#[derive(Clone, Debug)]
pub(super) struct Shelf {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
}

impl Shelf {
    pub(super) fn open(disk: Arc<dyn Disk>, folder: &Path) -> io::Result<Self> {
        create_dir_all(&*disk, folder)?;
        Ok(Self {
            disk,
            folder: folder.to_owned(),
        })
    }

    /// What was counted before; nothing, with a warning, when it cannot be read.
    pub(super) fn totals(&self) -> BTreeMap<FeedId, Totals> {
        let path = self.folder.join(TOTALS);
        let text = match read(&*self.disk, &path, FILE_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return BTreeMap::new(),
            Err(error) => return self.without_totals(&error.to_string()),
        };
        serde_json::from_slice(&text).unwrap_or_else(|error| {
            let aside = self.folder.join("totals.damaged.json");
            if let Err(error) = self.disk.rename(&path, &aside) {
                tracing::warn!(%error, "cannot set damaged totals aside");
            }
            self.without_totals(&error.to_string())
        })
    }

    fn without_totals(&self, why: &str) -> BTreeMap<FeedId, Totals> {
        let folder = self.folder.display();
        tracing::warn!(%folder, why, "the totals of feeds cannot be read; counting from 0");
        BTreeMap::new()
    }

    pub(super) fn keep_totals(&self, totals: &BTreeMap<FeedId, Totals>) -> io::Result<()> {
        let text = serde_json::to_vec(totals).map_err(io::Error::other)?;
        write_durably(&*self.disk, &self.folder.join(TOTALS), &text)
    }

    /// The lines since a time, oldest first. Damaged ones are passed over with a warning.
    pub(super) fn lines(&self, oldest: Timestamp) -> io::Result<Vec<Line>> {
        let mut lines = Vec::new();
        for (_, path) in self.files()?.range(Hour::of(oldest)..) {
            let text = match read(&*self.disk, path, FILE_BYTES_MAX) {
                Ok(text) => text,
                Err(error) => {
                    tracing::warn!(file = %path.display(), %error, "a log of feeds cannot be read");
                    continue;
                }
            };
            let before = lines.len();
            let texts = text.split(|byte| *byte == b'\n');
            let texts: Vec<_> = texts.filter(|text| !text.is_empty()).collect();
            lines.extend(
                texts
                    .iter()
                    .filter_map(|text| serde_json::from_slice::<Line>(text).ok()),
            );
            let damaged = texts.len() - (lines.len() - before);
            if damaged > 0 {
                tracing::warn!(file = %path.display(), damaged, "a log of feeds has damaged lines");
            }
        }
        Ok(lines)
    }

    pub(super) fn append(&self, now: Timestamp, lines: &[Line]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let mut text = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut text, line).map_err(io::Error::other)?;
            text.push(b'\n');
        }
        let path = self.folder.join(format!("{}{EXTENSION}", Hour::of(now)));
        let file = match self.disk.open(&path, Open::ReadWrite) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_dir_all(&*self.disk, &self.folder)?;
                self.disk.open(&path, Open::CreateNew)?
            }
            opened => opened?,
        };
        let end = file.len()?;
        // A line that a crash cut in two must not take this one with it.
        let torn = end > 0 && {
            let mut last = [0];
            file.read_at(end - 1, &mut last)? == 1 && last != *b"\n"
        };
        if torn {
            text.insert(0, b'\n');
        }
        file.write_all_at(end, &text)
    }

    pub(super) fn forget_before(&self, oldest: Timestamp) -> io::Result<()> {
        for (_, path) in self.files()?.range(..Hour::of(oldest)) {
            self.disk.remove_file(path)?;
        }
        Ok(())
    }

    fn files(&self) -> io::Result<BTreeMap<Hour, PathBuf>> {
        let names = self.disk.read_dir(&self.folder)?.into_iter();
        let files = names.filter_map(|entry| {
            let hour = entry.name.to_str()?.strip_suffix(EXTENSION)?.parse().ok()?;
            Some((hour, self.folder.join(&entry.name)))
        });
        Ok(files.collect())
    }
}
