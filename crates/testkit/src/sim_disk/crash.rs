//! What a power cut leaves: the only place where chance decides about content and names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use cannery_runtime::Rng;

use super::inode::{Body, Edit, File, Folder, Names, Node, NodeId, apply, put};
use super::tree::{ROOT, Tree};

/// What a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

impl Tree {
    /// The tree that is found when the power is back.
    pub(super) fn after_crash(&self, rng: &Rng) -> Self {
        let mut nodes: BTreeMap<NodeId, Node> = BTreeMap::new();
        let mut folders = BTreeSet::from([ROOT]);
        let mut found = VecDeque::from([ROOT]);
        while let Some(id) = found.pop_front() {
            if nodes.contains_key(&id) {
                continue;
            }
            let body = match &self.node(id).body {
                Body::File(file) => Body::File(File::on_disk(file.survivor(rng))),
                Body::Folder(folder) => {
                    let mut names = folder.survivor(rng);
                    // A file may be found under two names; of a folder, repair keeps the first, so that it is a tree.
                    names.retain(|_, child| self.is_file(*child) || folders.insert(*child));
                    found.extend(names.values());
                    Body::Folder(Folder::on_disk(names))
                }
            };
            nodes.insert(id, Node::new(body, self.node(id).modified));
        }
        Self::holding(nodes, self.tick())
    }

    /// A sync that failed: something of what it covered is on the disk, and nobody will write the rest.
    pub(super) fn spoil(&mut self, id: NodeId, rng: &Rng) {
        match &mut self.node_mut(id).body {
            Body::File(file) => {
                file.durable = file.survivor(rng);
                file.pending.clear();
            }
            Body::Folder(folder) => {
                folder.durable = folder.survivor(rng);
                folder.pending.clear();
            }
        }
    }
}

impl File {
    fn on_disk(content: Arc<Vec<u8>>) -> Self {
        Self {
            durable: Arc::clone(&content),
            content,
            pending: Vec::new(),
        }
    }

    /// The durable content with a part of the sectors changed since, at some length the file had since.
    ///
    /// A sector goes to the disk as the cache has it at that moment, so it is found as it was after some edit, whole. A
    /// sector that no edit touched is found as it was synced, unless the file was cut before it.
    fn survivor(&self, rng: &Rng) -> Arc<Vec<u8>> {
        if self.pending.is_empty() {
            return Arc::clone(&self.durable);
        }
        let lasting = self.lasting_edits(rng);
        let kept = Kept::draw(rng);
        let mut cached = self.durable.to_vec();
        let mut disk = cached.clone();
        for (n, edit) in self.pending.iter().enumerate() {
            edit.apply(&mut cached);
            if kept.whole(rng) {
                for sector in edit.sectors().filter(|_| kept.sector(rng)) {
                    write_back(&mut disk, &cached, sector);
                }
            }
            if let Edit::SetLen(len) = edit
                && n < lasting
            {
                // What was behind a cut never comes back, however long the file becomes.
                disk.truncate(*len);
            }
        }
        disk.resize(self.len_after(lasting), 0);
        Arc::new(disk)
    }

    /// How many edits the surviving length knows of. It is metadata: it reaches the disk in order, but on its own, before
    /// or after the data.
    fn lasting_edits(&self, rng: &Rng) -> usize {
        match rng.below(3) {
            0 => 0,
            1 => self.pending.len(),
            _ => below(rng, self.pending.len() + 1),
        }
    }

    fn len_after(&self, edits: usize) -> usize {
        let edits = self.pending[..edits].iter();
        edits.fold(self.durable.len(), |len, edit| edit.len_after(len))
    }
}

impl Edit {
    /// The numbers of the sectors that differ in the cache afterwards. A cut clears the rest of its last sector there,
    /// and that may reach the disk before the new length does.
    fn sectors(&self) -> Range<usize> {
        match self {
            Self::Write { offset, data } => {
                offset / SECTOR_BYTES..(offset + data.len()).div_ceil(SECTOR_BYTES)
            }
            Self::SetLen(len) => len / SECTOR_BYTES..len.div_ceil(SECTOR_BYTES),
        }
    }
}

/// Copies one sector from the cache to the disk; behind the end of the file the cache is zero.
fn write_back(disk: &mut Vec<u8>, cached: &[u8], sector: usize) {
    let start = sector * SECTOR_BYTES;
    let end = start + SECTOR_BYTES;
    let cached_end = end.min(cached.len());
    put(disk, start, &cached[start..cached_end]);
    let disk_end = end.min(disk.len());
    disk[cached_end..disk_end].fill(0);
}

/// How much of the pending edits of one file is kept. The extremes are drawn on purpose: among many edits, fair coins
/// alone would never keep or lose everything.
#[derive(Clone, Copy)]
enum Kept {
    All,
    Nothing,
    SomeEdits,
    SomeSectors,
}

impl Kept {
    fn draw(rng: &Rng) -> Self {
        match rng.below(4) {
            0 => Self::All,
            1 => Self::Nothing,
            2 => Self::SomeEdits,
            _ => Self::SomeSectors,
        }
    }

    /// Whether anything of one edit is kept.
    fn whole(self, rng: &Rng) -> bool {
        match self {
            Self::All | Self::SomeSectors => true,
            Self::Nothing => false,
            Self::SomeEdits => rng.chance(0.5),
        }
    }

    fn sector(self, rng: &Rng) -> bool {
        match self {
            Self::All | Self::Nothing | Self::SomeEdits => true,
            Self::SomeSectors => rng.chance(0.5),
        }
    }
}

impl Folder {
    fn on_disk(names: Names) -> Self {
        Self {
            durable: names.clone(),
            names,
            pending: Vec::new(),
        }
    }

    /// Changes of one folder reach the disk in order; how far, chance says.
    fn survivor(&self, rng: &Rng) -> Names {
        let mut names = self.durable.clone();
        for change in &self.pending[..below(rng, self.pending.len() + 1)] {
            apply(&mut names, change);
        }
        names
    }
}

fn below(rng: &Rng, end: usize) -> usize {
    usize::try_from(rng.below(end as u64)).expect("a number below a usize is a usize")
}
