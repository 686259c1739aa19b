//! Remembers what was installed, so that the next run need not ask pip and npm.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Result;
use crate::shell::write_text;

/// One line for the folder, then one for each thing installed there, as it was asked for. A changed
/// requirement is therefore not found and is installed.
pub(super) struct Stamp {
    file: PathBuf,
    folder: String,
    items: BTreeSet<String>,
    moved: bool,
}

impl Stamp {
    /// Reads the stamp of `tools`; empty if there is none or it tells of another folder.
    pub(super) fn load(tools: &Path) -> Self {
        let file = tools.join("setup.stamp");
        let folder = tools.display().to_string();
        let text = fs::read_to_string(&file).unwrap_or_default();
        let mut lines = text.lines().map(str::to_owned);
        let moved = lines.next().is_some_and(|made_for| made_for != folder);
        let items = if moved {
            BTreeSet::new()
        } else {
            lines.collect()
        };
        Self {
            file,
            folder,
            items,
            moved,
        }
    }

    /// Whether the tools were installed for another folder: their scripts hold its path.
    pub(super) fn moved(&self) -> bool {
        self.moved
    }

    pub(super) fn has(&self, item: &str) -> bool {
        self.items.contains(item)
    }

    /// Records `item` on disk at once, so that a later failure does not repeat it.
    pub(super) fn add(&mut self, item: &str) -> Result<()> {
        self.items.insert(item.to_owned());
        let mut text = format!("{}\n", self.folder);
        for item in &self.items {
            text += item;
            text.push('\n');
        }
        write_text(&self.file, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn remembers_across_runs() {
        let scratch = Scratch::new();
        let mut stamp = Stamp::load(scratch.path());
        assert!(!stamp.has("moto") && !stamp.moved());
        stamp.add("moto").unwrap();
        stamp.add("azurite").unwrap();
        let stamp = Stamp::load(scratch.path());
        assert!(stamp.has("moto") && stamp.has("azurite") && !stamp.moved());
        assert!(!stamp.has("rclone"));
    }

    #[test]
    fn a_moved_folder_has_nothing() {
        let (old, new) = (Scratch::new(), Scratch::new());
        Stamp::load(old.path()).add("moto").unwrap();
        #[allow(clippy::disallowed_methods, reason = "a stamp can be made again")]
        fs::copy(
            old.path().join("setup.stamp"),
            new.path().join("setup.stamp"),
        )
        .unwrap();
        let stamp = Stamp::load(new.path());
        assert!(stamp.moved() && !stamp.has("moto"));
    }
}
