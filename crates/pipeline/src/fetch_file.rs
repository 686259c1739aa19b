//! An object of the lake, brought to a file.

use std::io::{Seek as _, SeekFrom, Write as _};

use cannery_formats::Key;
use cannery_lake::Lake;
use futures::TryStreamExt as _;

use crate::blocking::blocking;
use crate::error::Error;
use crate::scratch::{Scratch, ScratchFile};

/// Brings an object here, whatever its size.
pub(crate) async fn fetch_file(
    lake: &Lake,
    key: &Key,
    scratch: &Scratch,
) -> Result<ScratchFile, Error> {
    let failed = |why| Error::scratch(scratch.folder(), why);
    let mut pieces = lake.stream(key).await?;
    let folder = scratch.clone();
    let made = blocking(move || folder.file()).await.map_err(failed)?;
    let file = made.map_err(failed)?;
    let mut at = 0;
    while let Some(piece) = pieces.try_next().await? {
        let (mut place, from) = (file.begin(), at);
        at += piece.len() as u64;
        let written = blocking(move || {
            place.seek(SeekFrom::Start(from))?;
            place.write_all(&piece)
        });
        written.await.map_err(failed)?.map_err(failed)?;
    }
    Ok(file)
}
