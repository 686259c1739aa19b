//! The pieces of a can that are in no archive.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};

use bytes::Bytes;
use cannery_formats::Key;
use cannery_formats::archive::{BadBlob, Entry, IndexReader};
pub(super) use cannery_formats::can::BadPiece;
use cannery_formats::can::{CanReader, CannedFile, TextName};
use cannery_formats::gz_lines::IndexLimits;
use cannery_formats::hour_archive::ArchiveFault;
use cannery_formats::redaction::Redaction;

use crate::blocking::blocking;
use crate::error::Error;
use crate::fetch_file::fetch_file;
use crate::redact::Redactions;
use crate::stage::Plant;
use crate::verify::{Finding, damage};

/// A can with more bad bytes stays: they are held in memory.
pub(super) const BYTES_MAX: u64 = 32 << 20;
const BUFFER_BYTES: usize = 256 << 10;

type Blobs = BTreeMap<TextName, Vec<BadBlob>>;

/// What an archive leaves to the can.
pub(super) enum Left {
    /// These pieces.
    Pieces(Vec<BadPiece>),
    /// Something is still to be taken out of it.
    Redacted,
}

/// Reads a can from end to end, and what the index of its archive says to be no measurement; or what is wrong with it.
pub(super) async fn read(
    plant: &Plant,
    record: &CannedFile,
    index: Bytes,
    redactions: Redactions,
) -> Result<Result<Left, Finding>, Error> {
    let key = Key::canned(&record.filename);
    let input = match fetch_file(&plant.raw, &key, &plant.scratch).await {
        Ok(input) => input,
        Err(error) => return damage(&key, error).map(Err),
    };
    let can = record.clone();
    let pieces = blocking(move || {
        let Some(blobs) = named_in(&index, &redactions)? else {
            return Ok(Left::Redacted);
        };
        let input = BufReader::with_capacity(BUFFER_BYTES, input.begin());
        pieces_of(input, &can, &blobs).map(Left::Pieces)
    });
    let failed = |why: io::Error| Error::scratch(plant.scratch.folder(), why);
    match pieces.await.map_err(failed)? {
        Ok(left) => Ok(Ok(left)),
        Err(ArchiveFault::Io(why)) => Err(failed(why)),
        Err(fault) => Ok(Err(Finding {
            key,
            why: fault.to_string(),
        })),
    }
}

/// What an index names as bad; nothing when it has a measurement that no archive may hold. What was redacted is not bad: it
/// shall be nowhere.
fn named_in(index: &[u8], redactions: &Redactions) -> Result<Option<Blobs>, ArchiveFault> {
    let mut reader = IndexReader::new(index, IndexLimits::default());
    let (mut blobs, mut report, mut bytes) = (Blobs::new(), None, 0_u64);
    while let Some(entry) = reader.next()? {
        match entry {
            Entry::Report(begun) => report = Some(begun.textname),
            Entry::BadBlob(blob) if !Redaction::is_info(&blob.info) => {
                bytes = bytes.saturating_add(blob.src_size);
                let name = report.clone();
                let name = name.ok_or(ArchiveFault::Damaged("a piece is of no report".into()))?;
                blobs.entry(name).or_default().push(blob);
            }
            Entry::Datum { datum, .. }
                if datum
                    .id
                    .is_some_and(|uid| redactions.info_of(&uid).is_some()) =>
            {
                return Ok(None);
            }
            Entry::BadBlob(_)
            | Entry::File(_)
            | Entry::Frame(_)
            | Entry::Datum { .. }
            | Entry::EndReport
            | Entry::EndFrame
            | Entry::Rules(_)
            | Entry::EndFile(_) => {}
        }
    }
    match bytes <= BYTES_MAX {
        true => Ok(Some(blobs)),
        false => Err(ArchiveFault::TooLarge(format!(
            "{bytes} bytes of its reports are no measurements, more than are copied before a can goes"
        ))),
    }
}

fn pieces_of(
    input: impl Read,
    can: &CannedFile,
    blobs: &Blobs,
) -> Result<Vec<BadPiece>, ArchiveFault> {
    let mut reader = CanReader::new(input, can)?;
    let mut pieces = Vec::new();
    while let Some(mut report) = reader.next()? {
        let textname = report.text().textname.clone();
        let mut at = 0;
        for blob in blobs.get(&textname).into_iter().flatten() {
            let before = blob.src_off.checked_sub(at);
            let before = before.ok_or(ArchiveFault::Damaged("bad pieces overlap".into()))?;
            io::copy(&mut (&mut report).take(before), &mut io::sink())?;
            let mut text = Vec::new();
            let mut piece = (&mut report).take(blob.src_size);
            piece.read_to_end(&mut text)?;
            if text.len() as u64 != blob.src_size {
                let what = "a bad piece lies behind the end of its report".into();
                return Err(ArchiveFault::Damaged(what));
            }
            at = blob.src_off + blob.src_size;
            pieces.push(BadPiece {
                textname: textname.clone(),
                info: blob.info.clone(),
                src_off: blob.src_off,
                text,
            });
        }
    }
    Ok(pieces)
}
