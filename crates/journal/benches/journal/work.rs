//! What is measured, and what a side of a comparison can do.

use std::time::Duration;

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Entries are added.
    Put,
    /// What was claimed is done and more is claimed, in one commit.
    DoneAndClaim,
    /// Entries are claimed, and done in a commit of its own.
    ClaimThenDone,
    /// Entries are added, claimed and done, one by one.
    Cycle,
}

/// A load: of a kind, in batches, by clients that do the same at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) kind: Kind,
    pub(crate) batch: u32,
    pub(crate) clients: u32,
}

impl Work {
    pub(crate) const fn new(kind: Kind, batch: u32, clients: u32) -> Self {
        Self {
            kind,
            batch,
            clients,
        }
    }

    pub(crate) fn name(self) -> String {
        let what = match self.kind {
            Kind::Put => "put",
            Kind::DoneAndClaim => "claim+done, one commit,",
            Kind::ClaimThenDone => "claim, done, two commits,",
            Kind::Cycle => "put->claim->done",
        };
        let clients = match self.clients {
            1 => String::new(),
            clients => format!(", {clients} clients"),
        };
        match self.kind {
            Kind::Cycle => format!("{what}{clients}"),
            Kind::Put | Kind::DoneAndClaim | Kind::ClaimThenDone => {
                format!("{what} b{}{clients}", self.batch)
            }
        }
    }

    /// Whether entries must be there before it begins.
    pub(crate) fn drains(self) -> bool {
        matches!(self.kind, Kind::DoneAndClaim | Kind::ClaimThenDone)
    }
}

/// Who takes part in a comparison.
pub(crate) trait Contestant {
    fn name(&self) -> &'static str;

    fn can(&self, work: Work) -> bool;

    /// An empty list of its own.
    fn open(&self) -> Box<dyn Side + '_>;

    /// How many rows it may do in a second, not to run out of them; more than it can is good.
    fn pace(&self, work: Work) -> u64;
}

/// A list that work is done on.
pub(crate) trait Side {
    /// Adds entries.
    fn fill(&mut self, count: u64);

    /// Works for a while, or until nothing is left to be claimed; gives back how many rows a second were put, done, or
    /// went the whole way. What was claimed and not done at the end does not count.
    fn rate(&mut self, work: Work, turn: Duration) -> f64;

    /// How many entries wait, for one that is filled.
    fn waiting(&self) -> u64;
}
