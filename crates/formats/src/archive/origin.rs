//! Where a measurement stood in its raw report: the private index says it.

use std::io::Read;

use serde::Deserialize;

use super::Origin;
use crate::can::TextName;
use crate::checksum::Sha1;
use crate::gz_lines::{GzLineReader, IndexLimits};
use crate::hour_archive::ArchiveFault;
use crate::uid::Uid;

#[derive(Deserialize)]
struct Line {
    r#type: String,
    textname: Option<TextName>,
    id: Option<Uid>,
    src_off: Option<u64>,
    src_size: Option<u64>,
    orig_sha1: Option<Sha1>,
}

impl Origin {
    /// Looks a measurement up in a private index: the first of this report with this id, since the same text may stand in
    /// it several times. Nothing when it does not have it.
    ///
    /// # Errors
    /// [`ArchiveFault`] when it is no private index.
    pub fn find(
        index: impl Read,
        limits: IndexLimits,
        report: &TextName,
        uid: Uid,
    ) -> Result<Option<Self>, ArchiveFault> {
        let mut lines = GzLineReader::new(index, limits);
        let mut is_in_report = false;
        while let Some(line) = lines.next_line()? {
            let line: Line = serde_json::from_slice(line)
                .map_err(|error| ArchiveFault::Damaged(format!("a line of the index: {error}")))?;
            match line.r#type.as_str() {
                "report" => is_in_report = line.textname.as_ref() == Some(report),
                "datum" if is_in_report && line.id == Some(uid) => {
                    let parts = (line.src_off, line.src_size, line.orig_sha1);
                    let (Some(src_off), Some(src_size), Some(orig_sha1)) = parts else {
                        return Ok(None);
                    };
                    return Ok(Some(Self {
                        src_off,
                        src_size,
                        orig_sha1,
                    }));
                }
                _ => {}
            }
        }
        Ok(None)
    }
}
