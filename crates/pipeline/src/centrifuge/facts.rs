//! What the index of an archive says of the file as a whole.

use cannery_catalog::FileFacts;
use cannery_formats::archive::{Entry, Generation, IndexReader};
use cannery_formats::can::{BucketFile, CannedObject};
use cannery_formats::gz_lines::IndexLimits;
use cannery_formats::hour_archive::ArchiveFault;
use cannery_formats::{Key, Kind};
use cannery_lake::ErrorKind;

use crate::archive_index::{self, Found};
use crate::blocking::blocking;
use crate::error::Error;
use crate::report_facts::ReportFacts;
use crate::stage::Plant;

/// A file, as its index describes it.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) facts: FileFacts,
    pub(crate) kind: Kind,
    /// Whether all measurements have one: the original's have none.
    pub(crate) has_uids: bool,
}

/// Reads the index of an archive; nothing when it is not there.
///
/// # Errors
/// [`Error::Unusable`] for one that is damaged; those of the lake.
pub(crate) async fn fetch(
    plant: &Plant,
    generation: Generation,
    file: &BucketFile,
) -> Result<Option<Known>, Error> {
    let Found { key, bytes: index } = match archive_index::find(plant, generation, file).await {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(None),
        Err(Error::Lake(error)) if error.kind == ErrorKind::Corrupt => {
            let key = Key::autoclaved_file_index(generation, file);
            return Err(Error::unusable(&plant.public, &key, &error));
        }
        Err(error) => return Err(error),
    };
    let about = file.clone();
    let known = blocking(move || read(&index, generation, &about)).await;
    let known = known.map_err(|why| Error::scratch(plant.scratch.folder(), why))?;
    known
        .map(Some)
        .map_err(|fault| Error::unusable(&plant.public, &key, &fault))
}

/// Reads an index from end to end.
///
/// # Errors
/// What is wrong with it; also when it is that of another file.
pub(crate) fn read(
    index: &[u8],
    generation: Generation,
    file: &BucketFile,
) -> Result<Known, ArchiveFault> {
    let mut reader = IndexReader::new(index, IndexLimits::default());
    let (mut named, mut rules, mut end, mut report) = (None, None, None, None);
    let (mut text_size, mut has_uids) = (0, true);
    while let Some(entry) = reader.next()? {
        match entry {
            Entry::File(name) if named.is_none() => named = Some(name),
            Entry::File(_) => return Err(damaged("the index is of several files")),
            Entry::Frame(span) => text_size = span.text_off + span.text_size,
            Entry::Report(new) => report = report.or(Some(new)),
            Entry::Datum { datum, .. } => has_uids &= datum.id.is_some(),
            Entry::Rules(new) => rules = Some(new),
            Entry::EndFile(sums) => end = Some(sums),
            Entry::BadBlob(_) | Entry::EndReport | Entry::EndFrame => {}
        }
    }
    let (Some(named), Some(end)) = (named, end) else {
        return Err(damaged("the index is of no file"));
    };
    if named != *file {
        return Err(damaged("the index is of another file"));
    }
    let kind = match (CannedObject::parse(file.name.as_str()), report) {
        (Some(CannedObject::Open { kind, .. } | CannedObject::Sealed { kind, .. }), _) => kind,
        (_, Some(report)) => ReportFacts::of(&report.textname).kind,
        (_, None) => Kind::Unknown,
    };
    let file_sha1 = end.sha1.to_string();
    let facts = FileFacts {
        name: file.to_string(),
        generation: generation.to_string(),
        bucket: file.bucket.to_string(),
        kind: kind.to_string(),
        // The original's indexes do not say it. Another file is then taken for another text, which is never wrong.
        text_sha1: match &rules {
            Some(rules) => rules.text.sha1.to_string(),
            None => file_sha1.clone(),
        },
        file_sha1,
        file_size: end.size,
        text_size,
        rules_hash: match &rules {
            Some(rules) => rules.rules_sha256.to_string(),
            None => String::new(),
        },
    };
    Ok(Known {
        facts,
        kind,
        has_uids,
    })
}

fn damaged(what: &str) -> ArchiveFault {
    ArchiveFault::Damaged(what.into())
}
