//! A file or a folder as programs see it now, as it lies on the disk, and the changes between the two.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::mem;
use std::sync::Arc;

pub(super) type NodeId = u64;

/// The names in a folder.
pub(super) type Names = BTreeMap<OsString, NodeId>;

#[derive(Debug)]
pub(super) struct Node {
    pub(super) body: Body,
    /// The tick of the last change.
    pub(super) modified: u64,
    /// Shared with every open handle: the node of a removed file lives while somebody has it open.
    pub(super) open: Arc<()>,
    pub(super) locked: bool,
}

impl Node {
    pub(super) fn new(body: Body, modified: u64) -> Self {
        Self {
            body,
            modified,
            open: Arc::default(),
            locked: false,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        Arc::strong_count(&self.open) > 1
    }
}

#[derive(Debug)]
pub(super) enum Body {
    File(File),
    Folder(Folder),
}

/// The two contents are shared until one of them changes: what is equal costs nothing, also over a crash.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) content: Arc<Vec<u8>>,
    pub(super) durable: Arc<Vec<u8>>,
    /// What was changed since the last sync, oldest first.
    pub(super) pending: Vec<Edit>,
}

#[derive(Debug)]
pub(super) enum Edit {
    Write { offset: usize, data: Vec<u8> },
    SetLen(usize),
}

impl Edit {
    pub(super) fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, data } => put(content, *offset, data),
            Self::SetLen(len) => content.resize(*len, 0),
        }
    }

    /// How long a file of `len` bytes is afterwards.
    pub(super) fn len_after(&self, len: usize) -> usize {
        match self {
            Self::Write { offset, data } => len.max(offset + data.len()),
            Self::SetLen(new) => *new,
        }
    }
}

impl File {
    pub(super) fn write(&mut self, offset: usize, data: &[u8]) {
        if !data.is_empty() {
            put(Arc::make_mut(&mut self.content), offset, data);
            self.pending.push(Edit::Write {
                offset,
                data: data.to_vec(),
            });
        }
    }

    pub(super) fn set_len(&mut self, len: usize) {
        let edit = Edit::SetLen(len);
        edit.apply(Arc::make_mut(&mut self.content));
        self.pending.push(edit);
    }

    /// Repeats the pending edits instead of copying the content: what an earlier failed sync lost stays lost, and a
    /// small write into a large file is a small sync.
    pub(super) fn sync(&mut self) {
        if !self.pending.is_empty() {
            let durable = Arc::make_mut(&mut self.durable);
            for edit in mem::take(&mut self.pending) {
                edit.apply(durable);
            }
        }
    }
}

/// Writes into `content`, filling a gap before `offset` with zeros.
pub(super) fn put(content: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(data);
}

#[derive(Debug, Default)]
pub(super) struct Folder {
    pub(super) names: Names,
    pub(super) durable: Names,
    /// What was changed since the last sync, oldest first.
    pub(super) pending: Vec<Change>,
}

/// Names set and removed together: found after a crash all or none.
pub(super) type Change = Vec<(OsString, Option<NodeId>)>;

impl Folder {
    pub(super) fn change(&mut self, change: Change) {
        apply(&mut self.names, &change);
        self.pending.push(change);
    }

    pub(super) fn sync(&mut self) {
        for change in mem::take(&mut self.pending) {
            apply(&mut self.durable, &change);
        }
    }

    /// Every node that this folder names now or may name after a crash.
    pub(super) fn possible_children(&self) -> impl Iterator<Item = NodeId> {
        let pending = self.pending.iter().flatten().filter_map(|(_, node)| *node);
        self.names
            .values()
            .chain(self.durable.values())
            .copied()
            .chain(pending)
    }
}

pub(super) fn apply(names: &mut Names, change: &Change) {
    for (name, node) in change {
        match node {
            Some(node) => names.insert(name.clone(), *node),
            None => names.remove(name),
        };
    }
}
