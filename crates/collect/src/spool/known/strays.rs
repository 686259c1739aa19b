//! Files that were being removed when the outbox was lost: they lie in `.sent/<id>/`, where nobody would look again.
//!
//! Most are in the lake, but one that was written anew meanwhile is not. All go back to their folders, and what is known
//! tells them apart.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use cannery_formats::spool::SpoolDate;
use cannery_runtime::disk::{Disk, Kind, create_dir_all, read};

use super::super::bundle::id_of;
use super::super::remove::SENT;
use super::{Known, blocking};

impl Known {
    /// Puts files of bundles that the outbox does not have back into their date folders; says how many. To be called
    /// before [`Known::recall`], which looks for files there, and before anything is removed. May be called again.
    ///
    /// # Errors
    /// As the disk says; what is not back yet is found by the next call.
    pub(in crate::spool) async fn give_back_strays(&self, datatype: usize) -> io::Result<u64> {
        let (disk, folder) = (Arc::clone(&self.disk), self.folder(datatype));
        let in_outbox: BTreeSet<String> = self.in_outbox.iter().map(id_of).collect();
        blocking(move || give_back_strays(&*disk, &folder, &in_outbox)).await
    }
}

fn give_back_strays(
    disk: &dyn Disk,
    folder: &Path,
    in_outbox: &BTreeSet<String>,
) -> io::Result<u64> {
    let sent = folder.join(SENT);
    let entries = match disk.read_dir(&sent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let mut files = 0;
    for entry in entries {
        let id = entry.name.to_string_lossy();
        if entry.kind != Kind::Dir || in_outbox.contains(&*id) {
            continue;
        }
        match date_of(&id) {
            Some(date) => {
                let date = folder.join(date.to_string());
                files += empty(disk, &sent.join(&entry.name), &date)?;
            }
            None => {
                tracing::warn!(folder = ?sent.join(&entry.name), "left alone: not named like a bundle");
            }
        }
    }
    disk.sync_dir(&sent)?;
    Ok(files)
}

/// The folder that the files of a bundle came from, as its id tells.
fn date_of(id: &str) -> Option<SpoolDate> {
    let (_, date) = id.rsplit_once('-')?;
    let (year, day) = date.split_at_checked(4)?;
    let (month, day) = day.split_at_checked(2)?;
    SpoolDate::from_components(year, month, day).ok()
}

fn empty(disk: &dyn Disk, sent: &Path, date: &Path) -> io::Result<u64> {
    let mut files = 0;
    create_dir_all(disk, date)?;
    for entry in disk.read_dir(sent)? {
        if entry.kind == Kind::File {
            give_back(disk, &sent.join(&entry.name), date, &entry.name)?;
            files += 1;
        }
    }
    // In this order: a power cut may leave both names of a file, but never none.
    disk.sync_dir(date)?;
    disk.sync_dir(sent)?;
    match disk.remove_dir(sent) {
        Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => Err(error),
        Ok(()) | Err(_) => Ok(files),
    }
}

/// Under its own name. Where that is taken by the same content nothing is lost without it; where it is taken by a newer
/// file it gets another name, and is shipped under that, for the second time if the lake has it under the first.
fn give_back(disk: &dyn Disk, stray: &Path, date: &Path, name: &std::ffi::OsStr) -> io::Result<()> {
    let mut place = date.join(name);
    for number in 1_u64.. {
        match disk.rename_new(stray, &place) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            renamed => return renamed,
        }
        if is_same(disk, stray, &place)? {
            return disk.remove_file(stray);
        }
        let (stem, extension) = (Path::new(name).file_stem(), Path::new(name).extension());
        let mut other = stem.unwrap_or(name).to_owned();
        other.push(format!("~{number}"));
        place = date.join(other);
        if let Some(extension) = extension {
            place.as_mut_os_string().push(".");
            place.as_mut_os_string().push(extension);
        }
    }
    unreachable!("a folder does not hold so many files")
}

fn is_same(disk: &dyn Disk, stray: &Path, other: &Path) -> io::Result<bool> {
    let (mine, theirs) = (disk.metadata(stray)?, disk.metadata(other)?);
    if theirs.kind != Kind::File || mine.len != theirs.len {
        return Ok(false);
    }
    Ok(mine.id == theirs.id || read(disk, stray, mine.len)? == read(disk, other, mine.len)?)
}
