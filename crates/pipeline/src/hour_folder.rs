//! What lies in the folder of an hour, by its names alone.

use std::collections::BTreeSet;

use cannery_formats::Key;
use cannery_formats::feed::{ArchiveName, Codec, FeedId, FoundName, Holding, Hour, SetHash};
use cannery_lake::{Entry, Lake};

/// An archive that is named for its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secondary {
    /// Where it is.
    pub entry: Entry,
    /// The hash of the set that its name promises.
    pub hash: SetHash,
    /// The codec that its name promises.
    pub codec: Codec,
}

/// The objects of an hour, sorted by what their names say; each list in the order of the keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HourFolder {
    /// The archive that everybody knows.
    pub primary: Option<Entry>,
    /// Archives named for their content.
    pub secondaries: Vec<Secondary>,
    /// Archives that Hoard made.
    pub foreign: Vec<Entry>,
    /// Whether the hour was deleted on purpose.
    pub tombstone: bool,
    /// Archives that cannot be read and are marked for it, each with its mark; they are in none of the lists above.
    pub set_aside: Vec<Entry>,
    /// Whether the key that everybody knows is marked: nothing else can have it.
    pub is_primary_lost: bool,
    /// The marks; there may be more than archives.
    pub marks: Vec<Key>,
    /// The archives that the marks name, there or not: nobody would find what is put under such a name.
    pub marked: BTreeSet<Key>,
    /// What nobody knows here; it is never touched.
    pub unknown: Vec<Entry>,
}

impl HourFolder {
    /// Lists the folder.
    ///
    /// # Errors
    /// Any failure of the store: a part of a listing is never taken for the whole.
    pub async fn list(lake: &Lake, feed: &FeedId, hour: Hour) -> cannery_lake::Result<Self> {
        let folder = Key::feed_hour(feed, hour);
        let entries = lake.list_all(Some(&folder)).await?;
        Ok(Self::of(feed, hour, entries))
    }

    /// Sorts the objects of a listing that holds the whole folder; what lies elsewhere is passed over.
    #[must_use]
    pub fn of(feed: &FeedId, hour: Hour, entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut folder = Self::default();
        let home = Key::feed_hour(feed, hour);
        for entry in entries {
            let below = entry.key.as_str().strip_prefix(home.as_str());
            if let Some(name) = below.and_then(|rest| rest.strip_prefix('/')) {
                let found = FoundName::of(feed, hour, name);
                if let FoundName::SetAside(archive) = &found {
                    folder.marked.extend(Key::new(format!("{home}/{archive}")));
                }
                folder.take(found, entry);
            }
        }
        folder.put_aside();
        folder.is_primary_lost = folder.marked.contains(&Key::feed_archive(&ArchiveName {
            feed: feed.clone(),
            hour,
            holding: Holding::Primary,
        }));
        folder.marks.sort();
        folder
            .secondaries
            .sort_by(|a, b| a.entry.key.cmp(&b.entry.key));
        folder.foreign.sort_by(|a, b| a.key.cmp(&b.key));
        folder.unknown.sort_by(|a, b| a.key.cmp(&b.key));
        folder
    }

    fn take(&mut self, found: FoundName, entry: Entry) {
        match found {
            FoundName::Ours(name) => match name.holding {
                Holding::Primary => self.primary = Some(entry),
                Holding::Set(hash, codec) => {
                    self.secondaries.push(Secondary { entry, hash, codec });
                }
            },
            FoundName::Foreign => self.foreign.push(entry),
            FoundName::Tombstone => self.tombstone = true,
            FoundName::SetAside(_) => self.marks.push(entry.key),
            FoundName::Unknown => self.unknown.push(entry),
        }
    }

    fn put_aside(&mut self) {
        let marked = &self.marked;
        let is_marked = |entry: &Entry| marked.contains(&entry.key);
        let own = self
            .secondaries
            .extract_if(.., |found| is_marked(&found.entry));
        self.set_aside.extend(own.map(|found| found.entry));
        let foreign = self.foreign.extract_if(.., |entry| is_marked(entry));
        self.set_aside.extend(foreign);
        let primary = self.primary.take_if(|entry| is_marked(entry));
        self.set_aside.extend(primary);
        self.set_aside.sort_by(|a, b| a.key.cmp(&b.key));
    }

    /// The archives that are marked and gone.
    pub fn lone_marks(&self) -> impl Iterator<Item = &Key> {
        let is_there = |key: &Key| self.set_aside.iter().any(|entry| entry.key == *key);
        self.marked.iter().filter(move |key| !is_there(key))
    }

    /// Everything that goes when the hour is deleted on purpose: archives, those that were set aside, and their marks last.
    #[must_use]
    pub fn removable(&self) -> Vec<Key> {
        let archives = self.archives().into_iter().chain(&self.set_aside);
        let archives = archives.map(|entry| entry.key.clone());
        archives.chain(self.marks.iter().cloned()).collect()
    }

    /// Every archive but the primary: what a consolidation may remove, in the order of the keys.
    #[must_use]
    pub fn parts(&self) -> Vec<&Entry> {
        let own = self.secondaries.iter().map(|secondary| &secondary.entry);
        let mut parts: Vec<_> = own.chain(&self.foreign).collect();
        parts.sort_by(|a, b| a.key.cmp(&b.key));
        parts
    }

    /// Every archive, the primary first.
    #[must_use]
    pub fn archives(&self) -> Vec<&Entry> {
        let mut all: Vec<_> = self.primary.iter().collect();
        all.extend(self.parts());
        all
    }
}

#[cfg(test)]
mod tests {
    use cannery_formats::feed::ContentSet;
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn every_object_of_the_hour_is_one_of_six_things() {
        let feed = FeedId::new("f").unwrap();
        let hour: Hour = "20261115T18Z".parse().unwrap();
        let hash = ContentSet::default().hash();
        let names = [
            "f/2026/11/15/18/.deleted.json".to_owned(),
            "f/2026/11/15/18/f_20261115T18Z.tar.gz".to_owned(),
            format!("f/2026/11/15/18/f_20261115T18Z_{hash}.tar.zst"),
            format!("f/2026/11/15/18/f_20261115T18Z_{hash}.tar.gz"),
            "f/2026/11/15/18/f_20261115T18Z_abcdefghij23.tar.gz".to_owned(),
            "f/2026/11/15/18/notes.txt".to_owned(),
            "f/2026/11/15/18/below/f_20261115T18Z.tar.gz".to_owned(),
            "f/2026/11/15/19/f_20261115T19Z.tar.gz".to_owned(),
            "f/2026/11/15/18/f_20261115T18Z_abcdefghij24.tar.gz".to_owned(),
            "f/2026/11/15/18/.set-aside/f_20261115T18Z_abcdefghij24.tar.gz.json".to_owned(),
        ];
        let entries = names.iter().map(|name| Entry {
            key: Key::new(name).unwrap(),
            stored_bytes: 1,
            modified: Timestamp::UNIX_EPOCH,
        });
        let folder = HourFolder::of(&feed, hour, entries);
        assert!(folder.tombstone);
        assert_eq!(folder.primary.as_ref().unwrap().key.as_str(), names[1]);
        let codecs: Vec<_> = folder.secondaries.iter().map(|found| found.codec).collect();
        assert_eq!(codecs, [Codec::Gzip, Codec::Zstd]);
        assert_eq!(folder.foreign.len(), 1);
        let unknown: Vec<_> = folder
            .unknown
            .iter()
            .map(|entry| entry.key.as_str())
            .collect();
        assert_eq!(unknown, [&names[6], &names[5]]);
        let aside: Vec<_> = folder
            .set_aside
            .iter()
            .map(|entry| entry.key.as_str())
            .collect();
        assert_eq!(aside, [&names[8]]);
        assert!(!folder.is_primary_lost);
        assert_eq!(folder.removable().len(), 6);
        assert_eq!(folder.parts().len(), 3);
        assert_eq!(folder.archives().len(), 4);
    }

    #[test]
    fn a_mark_counts_also_when_its_archive_is_gone() {
        let feed = FeedId::new("f").unwrap();
        let hour: Hour = "20261115T18Z".parse().unwrap();
        let primary = "f/2026/11/15/18/f_20261115T18Z.tar.gz";
        let mark = "f/2026/11/15/18/.set-aside/f_20261115T18Z.tar.gz.json";
        let entry = |name: &str| Entry {
            key: Key::new(name).unwrap(),
            stored_bytes: 1,
            modified: Timestamp::UNIX_EPOCH,
        };
        let lone = HourFolder::of(&feed, hour, [entry(mark)]);
        assert!(lone.is_primary_lost);
        assert!(lone.lone_marks().eq([&Key::new(primary).unwrap()]));
        let both = HourFolder::of(&feed, hour, [entry(mark), entry(primary)]);
        assert!(both.is_primary_lost);
        assert_eq!(both.lone_marks().count(), 0);
        assert_eq!(both.archives().len(), 0);
    }
}
