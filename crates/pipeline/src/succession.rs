//! Which cans of a bucket count, and which sealed cans took the place of which open ones. From the lake alone.

use std::collections::{BTreeMap, BTreeSet};

use cannery_formats::can::{CannedFile, CannedText, FileName, TextName};
use cannery_formats::{BucketDate, Key, Kind, Sums};

use crate::cans::Indexes;
use crate::error::Error;

/// The cans of a sealed bucket, and the open ones that are still there.
#[derive(Debug)]
pub(crate) struct Succession {
    /// The cans that count.
    pub(crate) sealed: BTreeMap<FileName, CannedFile>,
    /// Cans that count no more.
    pub(crate) replaced: BTreeMap<FileName, Replaced>,
    /// Indexes of open cans, with the cans that each names.
    pub(crate) indexes: BTreeMap<Key, OpenIndex>,
}

/// An open can of a sealed bucket.
#[derive(Debug)]
pub(crate) struct Replaced {
    /// What it holds.
    pub(crate) record: CannedFile,
    /// The sealed cans that hold its reports now.
    pub(crate) successors: BTreeSet<FileName>,
    /// Whether they hold every one of them, with the same sums.
    pub(crate) is_whole: bool,
}

/// The index of an open can.
#[derive(Debug, Default)]
pub(crate) struct OpenIndex {
    pub(crate) kind: Option<Kind>,
    pub(crate) cans: Vec<FileName>,
}

impl Succession {
    /// Reads the indexes of a bucket; nothing for one that is not sealed.
    pub(crate) async fn read(indexes: &Indexes, bucket: BucketDate) -> Result<Option<Self>, Error> {
        let state = indexes.state(bucket).await?;
        if !state.is_sealed {
            return Ok(None);
        }
        let sealed = indexes.read(&Key::canned_index(bucket)).await?.files;
        let holders = holders(&sealed);
        let mut succession = Self {
            sealed: BTreeMap::new(),
            replaced: BTreeMap::new(),
            indexes: BTreeMap::new(),
        };
        for index in &state.open {
            // One that was swept since the listing is nobody's any more.
            let Some(read) = indexes.find(&index.entry.key).await? else {
                continue;
            };
            let names = read.files.iter().map(|can| can.filename.name.clone());
            let open = OpenIndex {
                kind: Some(index.name.kind.clone()),
                cans: names.collect(),
            };
            succession.indexes.insert(index.entry.key.clone(), open);
            for record in read.files {
                let replaced = Replaced::of(record, &holders);
                let name = replaced.record.filename.name.clone();
                succession.replaced.insert(name, replaced);
            }
        }
        let by_name = sealed.into_iter();
        succession.sealed = by_name
            .map(|can| (can.filename.name.clone(), can))
            .collect();
        Ok(Some(succession))
    }

    /// The open cans whose reports are partly or wholly in this sealed one, and wholly in sealed ones.
    pub(crate) fn replaced_by<'s>(
        &'s self,
        name: &'s FileName,
    ) -> impl Iterator<Item = &'s Replaced> + 's {
        let replaced = self.replaced.values();
        replaced.filter(move |replaced| replaced.is_whole && replaced.successors.contains(name))
    }
}

type Holders = BTreeMap<TextName, (Sums, FileName)>;

fn holders(sealed: &[CannedFile]) -> Holders {
    let mut holders = Holders::new();
    for can in sealed {
        for CannedText { textname, text } in can.texts() {
            holders.insert(textname.clone(), (*text, can.filename.name.clone()));
        }
    }
    holders
}

impl Replaced {
    fn of(record: CannedFile, holders: &Holders) -> Self {
        let mut successors = BTreeSet::new();
        let mut is_whole = true;
        for CannedText { textname, text } in record.texts() {
            match holders.get(textname) {
                Some((sums, name)) => {
                    successors.insert(name.clone());
                    is_whole &= sums == text;
                }
                None => is_whole = false,
            }
        }
        Self {
            record,
            successors,
            is_whole,
        }
    }
}

/// The record of a can, if the can counts: that of a sealed bucket stands in its index, and an open one in an index that was
/// not given up.
pub(crate) async fn record_of(
    indexes: &Indexes,
    bucket: BucketDate,
    kind: Option<&Kind>,
    name: &FileName,
) -> Result<Option<CannedFile>, Error> {
    let state = indexes.state(bucket).await?;
    for key in indexes.counting(&state, kind).await? {
        if !indexes.names(&key).await?.files.contains(name) {
            continue;
        }
        let files = indexes.read(&key).await?.files.into_iter();
        let mut named = files.filter(|can| can.filename.name == *name);
        return Ok(named.next());
    }
    Ok(None)
}
