//! Which objects of the lake other programs read as they are: lines of JSON, compressed with gzip or zstd.

use std::collections::BTreeMap;
use std::time::Duration;

use cannery_formats::archive::Generation;
use cannery_formats::can::{BucketFile, CannedObject};
use cannery_formats::frames::FrameCodec;
use cannery_formats::{BucketDate, Key, Kind};
use cannery_lake::{Entry, Lake};

use crate::centrifuge::facts;
use crate::error::Error;
use crate::holdings::{Ground, Holdings};
use crate::inputs::{Choice, Inputs, Seen, What};
use crate::stage::Plant;

/// What lies below is looked at more closely: it may be the commit of a large object, which others cannot follow.
const COMMIT_BYTES_MAX: u64 = 64 << 10;

/// What to look for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Of this date and later ones.
    pub from: Option<BucketDate>,
    /// Of dates before this one.
    pub to: Option<BucketDate>,
    /// Of this kind.
    pub kind: Option<Kind>,
}

/// The objects, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readable {
    /// Bundles: lines of JSON in gzip, by kind.
    pub bundles: BTreeMap<String, Vec<Key>>,
    /// Archives of one report: lines of JSON in zstd, by kind.
    pub lines: BTreeMap<String, Vec<Key>>,
    /// Indexes of archives: lines of JSON in gzip.
    pub indexes: Vec<Key>,
    /// Archives that have to be read in another way: tars, and those compressed with LZ4.
    pub other_archives: u64,
    /// Objects that are stored in parts.
    pub large: Vec<Key>,
}

impl Wanted {
    fn has_date(&self, date: BucketDate) -> bool {
        self.from.is_none_or(|from| date >= from) && self.to.is_none_or(|to| date < to)
    }

    fn has_kind(&self, kind: &Kind) -> bool {
        self.kind.as_ref().is_none_or(|wanted| wanted == kind)
    }
}

/// Looks for them. `ours` is the generation of the rules that are configured.
///
/// # Errors
/// Those of the lakes; [`Error::Unusable`] for an index that is damaged.
pub async fn readable(plant: &Plant, ours: Generation, wanted: &Wanted) -> Result<Readable, Error> {
    let mut readable = Readable::default();
    bundles(plant, wanted, &mut readable).await?;
    let ground = Ground::survey(plant, ours).await?;
    let dates = ground.buckets.iter().filter(|date| wanted.has_date(**date));
    for bucket in dates {
        let holdings = Holdings::read(plant, &ground, *bucket).await?;
        for (file, generation) in holdings.belonging() {
            let archive = &holdings.archives[&file.name][&generation];
            let (Some(entry), Some(index)) = (&archive.file, &archive.index) else {
                continue;
            };
            let Some(kind) = kind_of(plant, generation, &file).await? else {
                continue;
            };
            if !wanted.has_kind(&kind) {
                continue;
            }
            match is_large(&plant.public, index).await? {
                true => readable.large.push(index.key.clone()),
                false => readable.indexes.push(index.key.clone()),
            }
            // What a feed downloads need not be JSON.
            let is_lines = file.name.codec() == FrameCodec::Zstd
                && !file.name.is_tar()
                && !matches!(kind, Kind::Feed(_));
            if !is_lines {
                readable.other_archives += 1;
            } else if is_large(&plant.public, entry).await? {
                readable.large.push(entry.key.clone());
            } else {
                let of_kind = readable.lines.entry(kind.to_string()).or_default();
                of_kind.push(entry.key.clone());
            }
        }
    }
    Ok(readable)
}

async fn bundles(plant: &Plant, wanted: &Wanted, readable: &mut Readable) -> Result<(), Error> {
    let inputs = Inputs {
        lake: plant.raw.clone(),
        reports: None,
        spools: Choice::All,
        feeds: Choice::None,
        settle: Duration::ZERO,
    };
    let mut found = Vec::new();
    let mut take = |one: crate::inputs::Found| {
        let What::Bundle(bundle) = &one.what else {
            return;
        };
        let kind = one.what.kind();
        let date = BucketDate::new(bundle.date.date());
        if wanted.has_kind(&kind) && date.is_ok_and(|date| wanted.has_date(date)) {
            found.push((kind.to_string(), one));
        }
    };
    inputs.whole(&mut Seen::default(), &mut take).await?;
    found.sort();
    for (kind, one) in found {
        let entry = Entry {
            key: one.key,
            stored_bytes: one.stored_bytes,
            modified: one.modified,
        };
        match is_large(&plant.raw, &entry).await? {
            true => readable.large.push(entry.key),
            false => readable.bundles.entry(kind).or_default().push(entry.key),
        }
    }
    Ok(())
}

/// What an archive holds: its name says it, or else its index.
async fn kind_of(
    plant: &Plant,
    generation: Generation,
    file: &BucketFile,
) -> Result<Option<Kind>, Error> {
    if let Some(CannedObject::Open { kind, .. } | CannedObject::Sealed { kind, .. }) =
        CannedObject::parse(file.name.as_str())
    {
        return Ok(Some(kind));
    }
    let known = facts::fetch(plant, generation, file).await?;
    Ok(known.map(|known| known.kind))
}

async fn is_large(lake: &Lake, entry: &Entry) -> Result<bool, Error> {
    if entry.stored_bytes > COMMIT_BYTES_MAX {
        return Ok(false);
    }
    Ok(lake.head(&entry.key).await?.bytes != entry.stored_bytes)
}
