//! A row of a bundle, taken apart again.

use cannery_formats::spool::SpoolDate;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Which file a row was, and its JSON exactly as it stands in the row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row<'a> {
    pub(crate) name: String,
    pub(crate) raw: &'a [u8],
}

#[derive(Deserialize)]
struct Written<'a> {
    archiver: Archiver,
    #[serde(borrow)]
    raw: &'a RawValue,
}

#[derive(Deserialize)]
struct Archiver {
    #[serde(rename = "Filename")]
    filename: String,
}

impl<'a> Row<'a> {
    /// None for what is no row of this date.
    pub(crate) fn parse(line: &'a [u8], date: SpoolDate) -> Option<Self> {
        let written: Written<'a> = serde_json::from_slice(line).ok()?;
        Some(Self {
            name: name_in(&written.archiver.filename, date)?.to_owned(),
            raw: written.raw.get().as_bytes(),
        })
    }
}

/// The name of a file in the folder of its date. None for anything that leads elsewhere.
pub(crate) fn name_in(filename: &str, date: SpoolDate) -> Option<&str> {
    let name = filename
        .strip_prefix(&date.to_string())?
        .strip_prefix('/')?;
    let is_plain = !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != "..";
    is_plain.then_some(name)
}
