//! Where everything goes: decided in the order of feeds and hours, so that it does not depend on who is faster.

use std::collections::{BTreeSet, HashSet};

use cannery_formats::Digest;
use cannery_formats::feed::{Coverage, DownloadName, FeedId, Member};
use jiff::Timestamp;

use super::claims::Claims;
use super::options::RetrieveOptions;
use super::plan::HourOf;
use super::report::Renamed;

/// A file of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    /// What it is: the name in the archive, the length and the digest.
    pub(super) member: Member,
    /// Where it goes, below the folder of the hour.
    pub(super) path: String,
    pub(super) modified: Timestamp,
}

/// What becomes of an hour.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Arranged {
    pub(super) placements: Vec<Placement>,
    pub(super) duplicates: u64,
    pub(super) renamed: Vec<Renamed>,
}

/// Decides for one hour after the other. It remembers 32 bytes of each body of a feed if repeated ones are dropped, and the
/// odd names of folders that hours share.
#[derive(Debug)]
pub(super) struct Arranger {
    options: RetrieveOptions,
    claims: Claims,
    feed: Option<FeedId>,
    seen: HashSet<Digest>,
}

impl Arranger {
    pub(super) fn new(options: &RetrieveOptions) -> Self {
        Self {
            options: options.clone(),
            claims: Claims::default(),
            feed: None,
            seen: HashSet::new(),
        }
    }

    /// The hours have to come by feed and time.
    pub(super) fn hour(&mut self, of: &HourOf, members: BTreeSet<Member>) -> Arranged {
        if !self.options.is_collapsed() {
            self.claims.clear();
        }
        if self.feed.as_ref() != Some(&of.feed) {
            self.feed = Some(of.feed.clone());
            self.seen.clear();
        }
        let folder = self.options.folder(&of.feed, of.hour).join("/");
        let mut arranged = Arranged::default();
        for member in members {
            self.member(of, &folder, member, &mut arranged);
        }
        arranged
    }

    fn member(&mut self, of: &HourOf, folder: &str, member: Member, arranged: &mut Arranged) {
        let is_coverage = !self.options.no_extract && Coverage::is_member(member.name());
        if is_coverage && !self.options.with_coverage {
            return;
        }
        let drops_repeated = self.options.dedupe && !self.options.no_extract && !is_coverage;
        if drops_repeated && !self.seen.insert(member.sha256()) {
            arranged.duplicates += 1;
            return;
        }
        let path = self
            .claims
            .path(folder, &of.feed, member.name(), member.sha256());
        if path != member.name() {
            let name = member.name().to_owned();
            let path = [folder, &path].iter().collect();
            let of = of.clone();
            arranged.renamed.push(Renamed { of, name, path });
        }
        let download = DownloadName::parse(&of.feed, member.name());
        let modified = download.map_or(of.hour.begin(), |name| name.time);
        arranged.placements.push(Placement {
            member,
            path,
            modified,
        });
    }
}
