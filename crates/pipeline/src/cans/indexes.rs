//! What the indexes of a bucket name, and whether the bucket is open.
//!
//! A bucket is closed in three steps, each an object that is created if absent and never changed:
//! 1. `closing` is there: canning adds nothing any more. Who has committed an index looks for it *afterwards*: if it is not
//!    there, every listing made after it has the index.
//! 2. `decision` names the indexes that are sealed. An index that it does not name does not count.
//! 3. `index.json.gz` is there: the bucket is sealed, and names what it holds.
//!
//! The first two are indexes without cans, with numbers that no can ever has; a reader that does not know them reads nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use cannery_formats::can::{
    CannedIndex, CannedObject, Expired, FileName, Input, OpenIndexName, TextName, read_canned_index,
};
use cannery_formats::feed::{FeedId, Hour};
use cannery_formats::gz_lines::IndexLimits;
use cannery_formats::{BucketDate, Digest, Key, Kind};
use cannery_lake::{Entry, ErrorKind, Lake};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;

use super::AT_ONCE;
use crate::blocking::blocking;
use crate::error::Error;

const INDEX_BYTES_MAX: u64 = 1 << 30;

/// What is kept of indexes that were read: 16 bytes for each report.
const KEPT_TEXTS_MAX: usize = 4 << 20;

/// Canning adds nothing to the bucket any more.
pub(crate) fn closing() -> OpenIndexName {
    OpenIndexName {
        kind: Kind::Unknown,
        number: u32::MAX,
    }
}

/// Which indexes are sealed, as the inputs that it names.
pub(crate) fn decision() -> OpenIndexName {
    OpenIndexName {
        kind: Kind::Unknown,
        number: u32::MAX - 1,
    }
}

/// How the version of an input is written: what a listing says of it, so that nobody has to read it.
pub(crate) fn version_of(modified: Timestamp) -> String {
    modified.to_string()
}

/// The index of an open can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenIndex {
    pub(crate) name: OpenIndexName,
    pub(crate) entry: Entry,
}

/// What lies in the folder of a bucket's cans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BucketState {
    pub(crate) bucket: BucketDate,
    /// The indexes of open cans, in order.
    pub(crate) open: Vec<OpenIndex>,
    pub(crate) is_closing: bool,
    pub(crate) is_decided: bool,
    pub(crate) is_sealed: bool,
    /// Whether cans of the time before the seal are there.
    pub(crate) has_open_cans: bool,
    /// The others.
    pub(crate) cans: BTreeSet<FileName>,
    /// Whether some of those before the seal are of feeds, whose indexes stay for good.
    pub(crate) has_open_feed_cans: bool,
    /// Cans that are marked to go, or are gone.
    pub(crate) marked_cans: BTreeSet<FileName>,
    /// Those of them that are gone.
    pub(crate) expired_cans: BTreeSet<FileName>,
    /// Archives that are gone on purpose, or go right now.
    pub(crate) expired_archives: BTreeSet<FileName>,
}

impl BucketState {
    pub(crate) fn of(bucket: BucketDate, entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut state = Self {
            bucket,
            open: Vec::new(),
            is_closing: false,
            is_decided: false,
            is_sealed: false,
            has_open_cans: false,
            cans: BTreeSet::new(),
            has_open_feed_cans: false,
            marked_cans: BTreeSet::new(),
            expired_cans: BTreeSet::new(),
            expired_archives: BTreeSet::new(),
        };
        for entry in entries {
            let Some((_, object)) = entry.key.as_canned() else {
                match entry.key.as_expired() {
                    Some((file, Expired::Can)) => state.marked_cans.insert(file.name),
                    Some((file, Expired::Archive)) => state.expired_archives.insert(file.name),
                    None => false,
                };
                continue;
            };
            match object {
                CannedObject::OpenIndex(name) if name == closing() => state.is_closing = true,
                CannedObject::OpenIndex(name) if name == decision() => state.is_decided = true,
                CannedObject::OpenIndex(name) => state.open.push(OpenIndex { name, entry }),
                CannedObject::SealedIndex => state.is_sealed = true,
                CannedObject::Open { kind, .. } => {
                    state.has_open_cans = true;
                    state.has_open_feed_cans |= matches!(kind, Kind::Feed(_));
                }
                CannedObject::Sealed { name, .. } | CannedObject::Plain(name) => {
                    state.cans.insert(name);
                }
                CannedObject::PrivateIndex => {}
            }
        }
        state.open.sort_by(|a, b| a.name.cmp(&b.name));
        let gone = state.marked_cans.difference(&state.cans);
        state.expired_cans = gone.cloned().collect();
        state
    }

    /// Whether cans may be added.
    pub(crate) fn is_open(&self) -> bool {
        !(self.is_closing || self.is_decided || self.is_sealed)
    }

    /// Whether what the bucket holds will never change.
    pub(crate) fn is_final(&self) -> bool {
        self.is_decided || self.is_sealed
    }

    /// Whether cans are left that the seal has replaced.
    pub(crate) fn is_to_be_swept(&self) -> bool {
        self.is_sealed && (self.has_open_cans || self.has_open_indexes())
    }

    /// Whether something is left that is compared with the sealed cans when it goes. A can that nobody committed is not.
    pub(crate) fn needs_sealed_cans(&self) -> bool {
        self.has_open_feed_cans || self.has_open_indexes()
    }

    /// Whether indexes of open cans are there that go with them.
    fn has_open_indexes(&self) -> bool {
        let is_feed = |kind: &Kind| matches!(kind, Kind::Feed(_));
        self.open.iter().any(|index| !is_feed(&index.name.kind))
    }

    /// The number of the next can of a kind.
    pub(crate) fn next_number(&self, kind: &Kind) -> u32 {
        let of_kind = self.open.iter().filter(|index| index.name.kind == *kind);
        let last = of_kind.map(|index| index.name.number).max();
        last.map_or(0, |last| last.saturating_add(1))
    }
}

/// What an index names.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Its cans.
    pub(crate) files: Vec<FileName>,
    /// The hashes of the names of its reports, in order.
    texts: Vec<u128>,
    /// The objects that went into it as a whole.
    pub(crate) inputs: Vec<Input>,
    /// The bytes of its cans.
    pub(crate) bytes: u64,
}

impl Names {
    fn of(index: CannedIndex) -> Self {
        let texts = index.files.iter().flat_map(|file| file.texts());
        let mut texts: Vec<u128> = texts.map(|text| hash_of(&text.textname)).collect();
        texts.sort_unstable();
        let files = index.files.iter();
        Self {
            files: files.map(|file| file.filename.name.clone()).collect(),
            bytes: index.files.iter().map(|file| file.file.size).sum(),
            texts,
            inputs: index.inputs.unwrap_or_default(),
        }
    }

    /// How many reports are in its cans.
    pub(crate) fn reports(&self) -> u64 {
        u64::try_from(self.texts.len()).unwrap_or(u64::MAX)
    }

    /// Whether a report is in one of its cans.
    pub(crate) fn has_text(&self, name: &TextName) -> bool {
        self.texts.binary_search(&hash_of(name)).is_ok()
    }

    /// Whether one of these reports is in one of its cans, by the hashes of their names.
    pub(crate) fn has_any(&self, hashes: &[u128]) -> bool {
        let mut hashes = hashes.iter();
        hashes.any(|hash| self.texts.binary_search(hash).is_ok())
    }
}

/// What is kept of the name of a report.
pub(crate) fn hash_of(name: &TextName) -> u128 {
    let digits = Digest::of(name.as_str().as_bytes()).to_string();
    u128::from_str_radix(&digits[..32], 16).expect("a digest has 64 hex digits")
}

/// Which reports and inputs are in a can.
#[derive(Debug, Default)]
pub(crate) struct Named {
    texts: Vec<u128>,
    /// With their versions; one may be replaced by another.
    inputs: HashMap<Key, Vec<String>>,
}

impl Named {
    fn new(indexes: &[Arc<Names>]) -> Self {
        let mut texts: Vec<u128> = indexes
            .iter()
            .flat_map(|names| &names.texts)
            .copied()
            .collect();
        texts.sort_unstable();
        let mut inputs = HashMap::<Key, Vec<String>>::new();
        for Input { key, version, .. } in indexes.iter().flat_map(|names| &names.inputs) {
            inputs.entry(key.clone()).or_default().push(version.clone());
        }
        Self { texts, inputs }
    }

    /// Whether a report is in a can.
    pub(crate) fn has_text(&self, name: &TextName) -> bool {
        self.texts.binary_search(&hash_of(name)).is_ok()
    }

    /// The hours of feeds that are in cans as a whole.
    pub(crate) fn hours(&self) -> impl Iterator<Item = (FeedId, Hour)> {
        let hours = self.inputs.keys().filter_map(Key::as_feed_object);
        hours.map(|(feed, hour, _)| (feed, hour))
    }

    /// Whether this version of an object is in cans as a whole.
    pub(crate) fn has_version(&self, key: &Key, version: &str) -> bool {
        let known = self.inputs.get(key);
        known.is_some_and(|known| known.iter().any(|known| known == version))
    }
}

/// The indexes of a lake. They are never changed, so what was read of them is kept. Clones are the same.
#[derive(Clone)]
pub(crate) struct Indexes {
    lake: Lake,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    names: HashMap<Key, Arc<Names>>,
    texts: usize,
}

impl Indexes {
    pub(crate) fn new(lake: Lake) -> Self {
        let kept = Arc::default();
        Self { lake, kept }
    }

    /// What lies in the folder of a bucket's cans.
    pub(crate) async fn state(&self, bucket: BucketDate) -> Result<BucketState, Error> {
        let folder = Key::canned_folder(Some(bucket));
        let entries = self.lake.list_all(Some(&folder)).await?;
        Ok(BucketState::of(bucket, entries))
    }

    /// Every bucket that has something, in order.
    pub(crate) async fn buckets(&self) -> Result<Vec<BucketState>, Error> {
        let entries = self.lake.list_all(Some(&Key::canned_folder(None))).await?;
        let mut buckets = BTreeMap::<_, Vec<_>>::new();
        for entry in entries {
            let canned = entry.key.as_canned().map(|(bucket, _)| bucket);
            let expired = || entry.key.as_expired().map(|(file, _)| file.bucket);
            if let Some(bucket) = canned.or_else(expired) {
                buckets.entry(bucket).or_default().push(entry);
            }
        }
        let state = |(bucket, entries)| BucketState::of(bucket, entries);
        Ok(buckets.into_iter().map(state).collect())
    }

    /// The indexes that count, of all kinds or of one where that can be told.
    pub(crate) async fn counting(
        &self,
        state: &BucketState,
        kind: Option<&Kind>,
    ) -> Result<Vec<Key>, Error> {
        let bucket = state.bucket;
        if state.is_sealed {
            return Ok(vec![Key::canned_index(bucket)]);
        }
        let is_wanted = |name: &OpenIndexName| kind.is_none_or(|kind| name.kind == *kind);
        let open = state.open.iter().filter(|index| is_wanted(&index.name));
        let open = open.map(|index| index.entry.key.clone());
        if !state.is_decided {
            return Ok(open.collect());
        }
        let decided = Key::canned_open_index(bucket, &decision());
        let decided = self.read(&decided).await?.inputs.unwrap_or_default();
        let is_decided = |key: &Key| decided.iter().any(|input| input.key == *key);
        Ok(open.filter(is_decided).collect())
    }

    /// The indexes of a sealed bucket that say which versions of hours were taken: the sealed one names reports alone.
    async fn of_hours(&self, state: &BucketState, kind: Option<&Kind>) -> Result<Vec<Key>, Error> {
        let is_wanted = |name: &OpenIndexName| {
            matches!(name.kind, Kind::Feed(_)) && kind.is_none_or(|kind| name.kind == *kind)
        };
        let open = state.open.iter().filter(|index| is_wanted(&index.name));
        let open: Vec<Key> = open.map(|index| index.entry.key.clone()).collect();
        if open.is_empty() || !state.is_decided {
            return Ok(Vec::new());
        }
        let decided = Key::canned_open_index(state.bucket, &decision());
        let decided = self.names(&decided).await?;
        let is_decided = |key: &Key| decided.inputs.iter().any(|input| input.key == *key);
        Ok(open.into_iter().filter(is_decided).collect())
    }

    /// What the indexes that count name in several buckets, of all kinds or of one.
    pub(crate) async fn named(
        &self,
        states: &[BucketState],
        kind: Option<&Kind>,
    ) -> Result<Named, Error> {
        let mut keys = Vec::new();
        for state in states {
            keys.extend(self.counting(state, kind).await?);
            if state.is_sealed {
                keys.extend(self.of_hours(state, kind).await?);
            }
        }
        let all = stream::iter(&keys).map(|key| self.names(key));
        let all: Vec<_> = all.buffered(AT_ONCE).boxed().try_collect().await?;
        Ok(Named::new(&all))
    }

    /// What an index names.
    pub(crate) async fn names(&self, key: &Key) -> Result<Arc<Names>, Error> {
        if let Some(names) = self.lock().names.get(key) {
            return Ok(Arc::clone(names));
        }
        let names = Arc::new(Names::of(self.read(key).await?));
        let mut kept = self.lock();
        if kept.texts > KEPT_TEXTS_MAX {
            *kept = Kept::default();
        }
        kept.texts += names.texts.len();
        kept.names.insert(key.clone(), Arc::clone(&names));
        Ok(names)
    }

    /// An index as a whole.
    pub(crate) async fn read(&self, key: &Key) -> Result<CannedIndex, Error> {
        let object = self.lake.get(key, INDEX_BYTES_MAX).await?;
        let index = blocking(move || read_canned_index(&object.bytes[..], IndexLimits::default()));
        let unusable = |why: String| Error::unusable(&self.lake, key, &why);
        let index = index.await.map_err(|error| unusable(error.to_string()))?;
        index.map_err(|fault| unusable(fault.to_string()))
    }

    /// Several, in the order of the keys.
    pub(crate) async fn read_all(&self, keys: &[&Key]) -> Result<Vec<CannedIndex>, Error> {
        let all = stream::iter(keys).map(|key| self.read(key));
        all.buffered(AT_ONCE).boxed().try_collect().await
    }

    /// The same as [`Indexes::read`], or nothing if it is not there.
    pub(crate) async fn find(&self, key: &Key) -> Result<Option<CannedIndex>, Error> {
        match self.read(key).await {
            Err(Error::Lake(error)) if error.kind == ErrorKind::Absent => Ok(None),
            other => other.map(Some),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Indexes({:?})", self.lake)
    }
}
