//! All files and folders of a disk, by number; what has no name and no reader is swept away.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustix::io::Errno;

use super::inode::{Body, Change, File, Folder, Names, Node, NodeId};

pub(super) const ROOT: NodeId = 0;
/// Below this many nodes it is not worth looking for dead ones.
const SWEEP_MIN: usize = 256;

/// A node that somebody has open, so that it is not swept away.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) node: NodeId,
    _open: Arc<()>,
}

#[derive(Debug)]
pub(super) struct Tree {
    nodes: BTreeMap<NodeId, Node>,
    next: NodeId,
    tick: u64,
    sweep_at: usize,
}

impl Default for Tree {
    fn default() -> Self {
        let root = Node::new(Body::Folder(Folder::default()), 0);
        Self::holding(BTreeMap::from([(ROOT, root)]), 0)
    }
}

impl Tree {
    pub(super) fn holding(nodes: BTreeMap<NodeId, Node>, tick: u64) -> Self {
        let next = nodes.keys().next_back().map_or(ROOT, |last| last + 1);
        Self {
            nodes,
            next,
            tick,
            sweep_at: SWEEP_MIN,
        }
    }

    pub(super) fn tick(&self) -> u64 {
        self.tick
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        self.nodes
            .get(&id)
            .expect("a node that is named or open is not swept")
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes
            .get_mut(&id)
            .expect("a node that is named or open is not swept")
    }

    pub(super) fn add(&mut self, body: Body) -> NodeId {
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, Node::new(body, self.tick));
        id
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn is_file(&self, id: NodeId) -> bool {
        matches!(self.node(id).body, Body::File(_))
    }

    pub(super) fn handle(&self, id: NodeId) -> Handle {
        Handle {
            node: id,
            _open: Arc::clone(&self.node(id).open),
        }
    }

    pub(super) fn content(&self, id: NodeId) -> Result<&[u8], Errno> {
        match &self.node(id).body {
            Body::File(file) => Ok(&file.content),
            Body::Folder(_) => Err(Errno::ISDIR),
        }
    }

    pub(super) fn len(&self, id: NodeId) -> u64 {
        self.content(id).map_or(0, |content| content.len() as u64)
    }

    pub(super) fn names(&self, id: NodeId) -> Result<&Names, Errno> {
        match &self.node(id).body {
            Body::File(_) => Err(Errno::NOTDIR),
            Body::Folder(folder) => Ok(&folder.names),
        }
    }

    pub(super) fn write(&mut self, id: NodeId, offset: usize, data: &[u8]) {
        if let Some(file) = self.file_to_change(id) {
            file.write(offset, data);
        }
    }

    pub(super) fn set_len(&mut self, id: NodeId, len: usize) {
        if let Some(file) = self.file_to_change(id) {
            file.set_len(len);
        }
    }

    /// A file that changes now; a folder is never open for writing.
    fn file_to_change(&mut self, id: NodeId) -> Option<&mut File> {
        self.tick += 1;
        let tick = self.tick;
        let node = self.node_mut(id);
        node.modified = tick;
        match &mut node.body {
            Body::File(file) => Some(file),
            Body::Folder(_) => None,
        }
    }

    /// Changes names in a folder.
    pub(super) fn change(&mut self, folder: NodeId, change: Change) {
        self.tick += 1;
        let tick = self.tick;
        let node = self.node_mut(folder);
        node.modified = tick;
        match &mut node.body {
            Body::Folder(folder) => folder.change(change),
            Body::File(_) => unreachable!("only a folder has names"),
        }
    }

    /// Makes content or names survive.
    pub(super) fn sync(&mut self, id: NodeId) {
        match &mut self.node_mut(id).body {
            Body::File(file) => file.sync(),
            Body::Folder(folder) => {
                folder.sync();
                self.sweep();
            }
        }
    }

    /// The length of all files that have a name or are open.
    pub(super) fn used_bytes(&self) -> u64 {
        let used = self.closure(|folder| folder.names.values().copied().collect());
        used.iter().map(|id| self.len(*id)).sum()
    }

    /// Forgets what is neither open nor can be found under any name after a crash.
    fn sweep(&mut self) {
        if self.nodes.len() >= self.sweep_at {
            let needed = self.closure(|folder| folder.possible_children().collect());
            self.nodes.retain(|id, _| needed.contains(id));
            self.sweep_at = SWEEP_MIN.max(2 * self.nodes.len());
        }
    }

    /// What `children` leads to from the root and from everything open.
    fn closure(&self, children: impl Fn(&Folder) -> Vec<NodeId>) -> BTreeSet<NodeId> {
        let open = self
            .nodes
            .iter()
            .filter(|(_, node)| node.is_open())
            .map(|(id, _)| *id);
        let mut todo: Vec<NodeId> = open.chain([ROOT]).collect();
        let mut found = BTreeSet::new();
        while let Some(id) = todo.pop() {
            if found.insert(id)
                && let Body::Folder(folder) = &self.node(id).body
            {
                todo.extend(children(folder));
            }
        }
        found
    }
}
