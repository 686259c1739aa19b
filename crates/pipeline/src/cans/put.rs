//! A can goes to the lake, or one of the same reports is there already.

use std::io::{self, BufReader};

use cannery_formats::can::{BucketFile, CanReader, Canned, CannedFile, FileName};
use cannery_formats::hour_archive::ArchiveFault;
use cannery_formats::{BucketDate, Key, Summer, Sums};
use cannery_lake::{Body, Lake, PutNew};

use super::press::Pressed;
use super::supply::save;
use crate::blocking::blocking;
use crate::error::Error;
use crate::scratch::{Scratch, ScratchFile};

/// Puts a can where nothing is. If something is there, it must be a can of the same reports; another version of a codec
/// makes other bytes of them. The record is of what is there.
pub(crate) async fn put_can(
    lake: &Lake,
    scratch: &Scratch,
    bucket: BucketDate,
    name: FileName,
    pressed: Pressed,
) -> Result<CannedFile, Error> {
    let record = CannedFile {
        filename: BucketFile::new(bucket, name),
        file: pressed.sums,
        canned: pressed.canned,
    };
    let key = Key::canned(&record.filename);
    let body = Body::File(pressed.file.path().to_owned());
    match lake.put_new(&key, body).await? {
        PutNew::Created | PutNew::Same => Ok(record),
        PutNew::Different => {
            let file = save(lake, &key, scratch).await?;
            let checked = blocking(move || adopt(record, &file)).await;
            let checked = checked.map_err(|why| Error::scratch(scratch.folder(), why))?;
            checked.map_err(|fault| Error::unusable(lake, &key, &fault))
        }
    }
}

/// The record of a can that somebody else made of the same reports.
fn adopt(record: CannedFile, file: &ScratchFile) -> Result<CannedFile, ArchiveFault> {
    let record = CannedFile {
        file: sums_of(file)?,
        ..record
    };
    let input = BufReader::with_capacity(256 << 10, file.begin());
    let mut reader = CanReader::new(input, &record)?;
    while reader.next()?.is_some() {}
    Ok(record)
}

fn sums_of(file: &ScratchFile) -> io::Result<Sums> {
    let mut sums = Summer::default();
    let mut place = file.begin();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match io::Read::read(&mut place, &mut buffer)? {
            0 => return Ok(sums.finish()),
            count => sums.update(&buffer[..count]),
        }
    }
}

/// How long the reports of a can are together.
pub(crate) fn text_bytes(canned: &Canned) -> u64 {
    match canned {
        Canned::Tar { texts, .. } => texts.iter().map(|text| text.text.size).sum(),
        Canned::Plain(text) => text.text.size,
    }
}
