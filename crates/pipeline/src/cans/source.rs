//! Inputs become a plan: every report with its size, and where it is read from.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use cannery_formats::can::{CannedFile, Input, Slice, TextName, slices};
use cannery_formats::feed::{Codec, Coverage, FeedId, Hour};
use cannery_formats::hour_archive::{Limits, Origin};
use cannery_formats::large_object::COMMIT_BYTES_MAX;
use cannery_formats::{Key, Kind};
use cannery_lake::{ErrorKind, Head, Lake};
use cannery_runtime::RealDisk;
use cannery_runtime::disk::Disk as _;
use flate2::bufread::MultiGzDecoder;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;

use super::supply::save;
use super::{AT_ONCE, Named, Refused, version_of};
use crate::blocking::blocking;
use crate::error::Error;
use crate::fetched::{Fetch, Fetched, Fetcher, Subject};
use crate::inputs::{Found, Inputs, Reports, What};
use crate::scratch::ScratchFile;
use crate::stage::Plant;

/// Where reports are read from. What lies in the lake is fetched when its turn comes.
#[derive(Debug)]
pub(crate) enum Source {
    /// A report file in the lake.
    Report { key: Key, size: u64 },
    /// A report file in a folder.
    File { root: PathBuf, below: PathBuf },
    /// The rows of a bundle.
    Bundle { key: Key, file: ScratchFile },
    /// The downloads of an hour.
    Hour {
        key: Key,
        file: ScratchFile,
        subject: Subject,
    },
    /// A can in the lake.
    Can { key: Key, record: Box<CannedFile> },
}

impl Source {
    /// What to name when it cannot be read.
    pub(crate) fn key(&self) -> Option<&Key> {
        match self {
            Self::Report { key, .. }
            | Self::Bundle { key, .. }
            | Self::Hour { key, .. }
            | Self::Can { key, .. } => Some(key),
            Self::File { .. } => None,
        }
    }
}

/// A report, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) size: u64,
    /// The number of its source.
    pub(crate) source: usize,
    /// Its number there.
    pub(crate) ordinal: usize,
}

/// A report of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) name: TextName,
    pub(crate) size: u64,
    /// Its number among everything that the source holds.
    pub(crate) ordinal: usize,
}

impl Listed {
    /// The report of a source that holds nothing else.
    pub(crate) fn only(name: TextName, size: u64) -> Vec<Self> {
        let ordinal = 0;
        vec![Self {
            name,
            size,
            ordinal,
        }]
    }
}

/// The reports of one kind that are to be canned.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    pub(crate) sources: Vec<Source>,
    pub(crate) texts: BTreeMap<TextName, Place>,
}

impl Plan {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            sources: Vec::new(),
            texts: BTreeMap::new(),
        }
    }

    /// Adds a source with its reports, in its order. A report that is there already is not taken again.
    pub(crate) fn add(&mut self, source: Source, texts: impl IntoIterator<Item = Listed>) {
        let number = self.sources.len();
        for Listed {
            name,
            size,
            ordinal,
        } in texts
        {
            self.texts.entry(name).or_insert(Place {
                size,
                source: number,
                ordinal,
            });
        }
        self.sources.push(source);
    }

    /// Leaves out reports.
    pub(crate) fn without(&mut self, is_elsewhere: impl Fn(&TextName) -> bool) {
        self.texts.retain(|name, _| !is_elsewhere(name));
    }

    pub(crate) fn slices(&self, can_bytes: u64) -> Vec<Slice> {
        let texts = self.texts.iter();
        let texts = texts.map(|(name, place)| (name.clone(), place.size));
        slices(texts.collect(), can_bytes)
    }
}

/// The reports of a slice, in order.
pub(crate) fn reports_of(slice: &Slice) -> &[TextName] {
    match slice {
        Slice::Tar { reports, .. } => reports,
        Slice::Plain(report) => std::slice::from_ref(report),
    }
}

/// What became of inputs.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) plan: Plan,
    /// What each source was, by its number. A can is none.
    pub(crate) inputs: Vec<Input>,
    pub(crate) refused: Vec<Refused>,
}

/// Looks at inputs of one kind, as far as needed to know the sizes of their reports, and leaves out what is in a can already.
/// Those that are gone by now, or that somebody is writing again, are passed over.
pub(crate) async fn prepare(
    plant: &Plant,
    inputs: &Inputs,
    kind: &Kind,
    keys: &[Key],
    named: &Named,
) -> Result<Prepared, Error> {
    let is_new = |what: &What| what.text_name().is_none_or(|name| !named.has_text(&name));
    let wanted = keys.iter().filter_map(|key| {
        let what = What::of(key)?;
        (what.kind() == *kind && is_new(&what)).then_some((key, what))
    });
    let wanted: BTreeMap<&Key, What> = wanted.collect();
    let looks = wanted.into_iter().map(|(key, what)| async move {
        let looked = look(plant, inputs, key, what).await?;
        Ok::<_, Error>((key.clone(), looked))
    });
    let looks = stream::iter(looks).buffered(AT_ONCE).boxed();
    let looks: Vec<(Key, Looked)> = looks.try_collect().await?;
    let mut prepared = Prepared {
        plan: Plan::new(kind.clone()),
        inputs: Vec::new(),
        refused: Vec::new(),
    };
    for (key, looked) in looks {
        match looked {
            Looked::Source(source, texts, input) => {
                prepared.inputs.push(input);
                prepared.plan.add(source, texts);
            }
            Looked::Unusable(why) => prepared.refused.push(Refused { key, why }),
            // What is still being written is found again when it is not.
            Looked::Gone | Looked::Unsettled => {}
        }
    }
    prepared.plan.without(|name| named.has_text(name));
    Ok(prepared)
}

enum Looked {
    Source(Source, Vec<Listed>, Input),
    Unusable(String),
    Gone,
    Unsettled,
}

async fn look(plant: &Plant, inputs: &Inputs, key: &Key, what: What) -> Result<Looked, Error> {
    if let (What::Report { bucket, name }, Some(Reports::Folder(root))) = (&what, &inputs.reports) {
        let below = PathBuf::from(bucket.to_string()).join(name);
        let (root, now) = (root.clone(), plant.clock.now());
        let is_settled = |modified| inputs.unsettled_until(&what, modified, now).is_none();
        return look_at_file(key, root, below, what.text_name(), is_settled).await;
    }
    let name = what.text_name();
    let head = match inputs.lake.head(key).await {
        Ok(head) => head,
        Err(error) if error.kind == ErrorKind::Absent => return Ok(Looked::Gone),
        Err(error) => return Err(error.into()),
    };
    let input = input(key, &head);
    match (what, name) {
        (What::Report { .. }, Some(name)) => {
            let key = key.clone();
            let size = head.bytes;
            let source = Source::Report { key, size };
            Ok(Looked::Source(source, Listed::only(name, size), input))
        }
        (What::Bundle(_), Some(name)) => look_at_bundle(plant, inputs, key, name, input).await,
        (What::Hour { feed, hour }, _) => look_at_hour(plant, inputs, key, feed, hour, input).await,
        (What::Report { .. } | What::Bundle(_), None) => {
            Ok(Looked::Unusable("its name is no name of a report".into()))
        }
    }
}

fn input(key: &Key, head: &Head) -> Input {
    Input {
        key: key.clone(),
        size: head.bytes,
        version: version_of(head.modified),
    }
}

async fn look_at_file(
    key: &Key,
    root: PathBuf,
    below: PathBuf,
    name: Option<TextName>,
    is_settled: impl Fn(Timestamp) -> bool,
) -> Result<Looked, Error> {
    let path = root.join(&below);
    let asked = path.clone();
    let found = blocking(move || RealDisk.metadata(&asked)).await;
    let found = match found.and_then(|found| found) {
        Ok(found) => found,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Looked::Gone),
        Err(why) => return Err(Error::Report { path, why }),
    };
    if !is_settled(found.modified) {
        return Ok(Looked::Unsettled);
    }
    let Some(name) = name else {
        return Ok(Looked::Unusable("its name is no name of a report".into()));
    };
    let head = Head {
        bytes: found.len,
        modified: found.modified,
    };
    let source = Source::File { root, below };
    Ok(Looked::Source(
        source,
        Listed::only(name, found.len),
        input(key, &head),
    ))
}

/// The size of its rows is known only when they were read: once to count them, once to can them.
async fn look_at_bundle(
    plant: &Plant,
    inputs: &Inputs,
    key: &Key,
    name: TextName,
    input: Input,
) -> Result<Looked, Error> {
    let file = save(&inputs.lake, key, &plant.scratch).await?;
    let mut text = bundle_text(&file);
    let counted = blocking(move || io::copy(&mut text, &mut io::sink())).await;
    match counted.and_then(|count| count) {
        Ok(size) => {
            let key = key.clone();
            let source = Source::Bundle { key, file };
            Ok(Looked::Source(source, Listed::only(name, size), input))
        }
        Err(error) => Ok(Looked::Unusable(format!("damaged: {error}"))),
    }
}

/// The rows of a bundle.
pub(crate) fn bundle_text(file: &ScratchFile) -> impl Read + Send + 'static {
    MultiGzDecoder::new(io::BufReader::with_capacity(256 << 10, file.begin()))
}

async fn look_at_hour(
    plant: &Plant,
    inputs: &Inputs,
    key: &Key,
    feed: FeedId,
    hour: Hour,
    input: Input,
) -> Result<Looked, Error> {
    let fetcher = Fetcher::new(plant.scratch.clone());
    let subject = Subject { feed, hour };
    let archive = match fetcher.fetch(&inputs.lake, &subject, key).await? {
        Fetch::Archive(archive) => archive,
        Fetch::Unusable(unusable) => return Ok(Looked::Unusable(unusable.why)),
        Fetch::Vanished => return Ok(Looked::Gone),
    };
    let texts = downloads(&subject, &archive);
    let file = in_order(&fetcher, &subject, archive).await?;
    let key = key.clone();
    let source = Source::Hour { key, file, subject };
    Ok(Looked::Source(source, texts, input))
}

/// The downloads of an archive, by their places in its set; what it says of itself is none.
fn downloads(subject: &Subject, archive: &Fetched) -> Vec<Listed> {
    let Subject { feed, hour } = subject;
    let paths = archive.set().paths(feed).into_iter().enumerate();
    let paths = paths.filter(|(_, (path, _))| !Coverage::is_member(path));
    let listed = paths.filter_map(|(ordinal, (path, member))| {
        Some(Listed {
            name: TextName::of_download(feed, *hour, &path).ok()?,
            size: member.size(),
            ordinal,
        })
    });
    listed.collect()
}

/// The archive with its members in the order of the set.
async fn in_order(
    fetcher: &Fetcher,
    subject: &Subject,
    archive: Arc<Fetched>,
) -> Result<ScratchFile, Error> {
    if archive.survey.in_order && archive.survey.origin == Origin::Ours {
        match Arc::try_unwrap(archive) {
            Ok(archive) => return Ok(archive.file),
            Err(archive) => return Ok(fetcher.unite(subject, vec![archive], Codec::Zstd).await?.1),
        }
    }
    let (_, file) = fetcher.unite(subject, vec![archive], Codec::Zstd).await?;
    Ok(file)
}

/// What an hour's archive is read with.
pub(crate) fn hour_limits() -> Limits {
    Limits::default()
}

/// The size of a report file that was listed. A small object can stand for a large one.
pub(crate) async fn size_of_report(lake: &Lake, found: &Found) -> Result<u64, Error> {
    match found.stored_bytes <= COMMIT_BYTES_MAX {
        true => Ok(lake.head(&found.key).await?.bytes),
        false => Ok(found.stored_bytes),
    }
}
