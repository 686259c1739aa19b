//! What a power cut leaves: the only place where chance decides about content and names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cannery_runtime::Rng;

use super::inode::{Body, File, Folder, Names, Node, NodeId, Write, apply, put};
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
    fn on_disk(content: Vec<u8>) -> Self {
        Self {
            durable: content.clone(),
            content,
            pending: Vec::new(),
        }
    }

    /// The durable content with a part of the sectors written since, at some length the file had since.
    fn survivor(&self, rng: &Rng) -> Vec<u8> {
        let kept = Kept::draw(rng);
        let mut content = self.durable.clone();
        for write in &self.pending {
            for (offset, sector) in kept
                .whole(rng)
                .then(|| sectors(write))
                .into_iter()
                .flatten()
            {
                if kept.sector(rng) {
                    put(&mut content, offset, sector);
                }
            }
        }
        content.resize(self.surviving_len(rng), 0);
        content
    }

    /// The length is metadata: it reaches the disk on its own, before or after the data.
    fn surviving_len(&self, rng: &Rng) -> usize {
        let writes = match rng.below(3) {
            0 => 0,
            1 => self.pending.len(),
            _ => below(rng, self.pending.len() + 1),
        };
        let ends = self.pending[..writes].iter().map(Write::end);
        ends.fold(self.durable.len(), usize::max)
    }
}

/// How much of the pending writes of one file is kept. The extremes are drawn on purpose: among many writes, fair coins
/// alone would never keep or lose everything.
#[derive(Clone, Copy)]
enum Kept {
    All,
    Nothing,
    SomeWrites,
    SomeSectors,
}

impl Kept {
    fn draw(rng: &Rng) -> Self {
        match rng.below(4) {
            0 => Self::All,
            1 => Self::Nothing,
            2 => Self::SomeWrites,
            _ => Self::SomeSectors,
        }
    }

    /// Whether anything of one write is kept.
    fn whole(self, rng: &Rng) -> bool {
        match self {
            Self::All | Self::SomeSectors => true,
            Self::Nothing => false,
            Self::SomeWrites => rng.chance(0.5),
        }
    }

    fn sector(self, rng: &Rng) -> bool {
        match self {
            Self::All | Self::Nothing | Self::SomeWrites => true,
            Self::SomeSectors => rng.chance(0.5),
        }
    }
}

/// The parts of a write by the sector of the file they fall into.
fn sectors(write: &Write) -> impl Iterator<Item = (usize, &[u8])> {
    let mut offset = write.offset;
    std::iter::from_fn(move || {
        let end = write.end().min((offset / SECTOR_BYTES + 1) * SECTOR_BYTES);
        let part = &write.data[offset - write.offset..end - write.offset];
        let at = std::mem::replace(&mut offset, end);
        (!part.is_empty()).then_some((at, part))
    })
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
