//! All that one disk is, behind its one lock.

use std::collections::BTreeSet;
use std::io;

use cannery_runtime::Rng;
use rustix::io::Errno;

use super::fault::Faults;
use super::inode::NodeId;
use super::tree::Tree;

/// A longer file is a mistake of the test, and would fill the memory with the zeros of its hole.
const FILE_BYTES_MAX: usize = 1 << 32;

pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) faults: Faults,
    pub(super) capacity_bytes: u64,
    /// Files that cannot be read any more.
    pub(super) lost: BTreeSet<NodeId>,
    rng: Rng,
}

impl State {
    pub(super) fn new(seed: u64) -> Self {
        // Other numbers than those of the crash, which begins again from the seed itself.
        Self::holding(Tree::default(), Rng::seeded(!seed), u64::MAX)
    }

    fn holding(tree: Tree, rng: Rng, capacity_bytes: u64) -> Self {
        Self {
            tree,
            faults: Faults::default(),
            capacity_bytes,
            lost: BTreeSet::new(),
            rng,
        }
    }

    /// What is found when the power is back: no locks, no faults planned, the same capacity.
    pub(super) fn after_crash(&self, rng: &Rng) -> Self {
        Self::holding(self.tree.after_crash(rng), rng.clone(), self.capacity_bytes)
    }

    pub(super) fn spoil(&mut self, node: NodeId) {
        self.tree.spoil(node, &self.rng);
    }

    /// Writes `data`, or a part of it when the disk is too full for the whole.
    pub(super) fn write(&mut self, node: NodeId, offset: u64, data: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(|_| Errno::FBIG)?;
        let end = offset
            .checked_add(data.len())
            .filter(|end| *end <= FILE_BYTES_MAX);
        let end = end.ok_or(Errno::FBIG)?;
        let end_max = self.end_max(self.tree.len(node));
        if end as u64 <= end_max {
            self.tree.write(node, offset, data);
            return Ok(());
        }
        let part = self.rng.below(end_max.saturating_sub(offset as u64) + 1);
        let part = usize::try_from(part).expect("a part is shorter than the data");
        self.tree.write(node, offset, &data[..part]);
        Err(Errno::NOSPC.into())
    }

    /// Cuts a file, or makes it longer by a hole, which needs no space.
    pub(super) fn set_len(&mut self, node: NodeId, bytes: u64) -> io::Result<()> {
        // The real disk cannot even ask for more.
        i64::try_from(bytes).map_err(|_| Errno::INVAL)?;
        let len = usize::try_from(bytes).ok();
        let len = len
            .filter(|len| *len <= FILE_BYTES_MAX)
            .ok_or(Errno::FBIG)?;
        self.tree.set_len(node, len);
        Ok(())
    }

    /// How long a file of `len` bytes may become; what it has already, it keeps.
    fn end_max(&self, len: u64) -> u64 {
        match self.capacity_bytes {
            u64::MAX => u64::MAX,
            capacity => len + capacity.saturating_sub(self.tree.used_bytes()),
        }
    }
}
