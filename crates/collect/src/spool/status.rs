//! What lies on the disk of a node, for a person who looks: nothing is changed, and nothing has to run.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use cannery_formats::spool::{Datatype, SpoolDate};
use cannery_runtime::disk::{Disk, Kind};
use jiff::Timestamp;
use serde::Serialize;

use super::find::is_hidden;
use super::outbox::Outbox;
use super::remove::SENT;

/// The state of a spool on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SpoolStatus {
    /// What waits in the folders.
    pub datatypes: Vec<DatatypeStatus>,
    /// Sealed bundles that are not done, the oldest first.
    pub bundles: Vec<BundleStatus>,
}

/// The files of one datatype.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DatatypeStatus {
    /// Its name.
    pub datatype: String,
    /// Files in date folders.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the oldest of them was changed last.
    pub oldest: Option<Timestamp>,
    /// Files that are being removed because the lake has them.
    pub leaving: u64,
}

/// A sealed bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BundleStatus {
    /// Its folder in the outbox.
    pub id: String,
    /// The key of its data.
    pub key: String,
    /// How many files it was made of.
    pub files: u64,
    /// Its data and index, compressed.
    pub bytes: u64,
    /// Whether every mirror has it.
    pub shipped: bool,
}

/// Looks at the folders of a spool below `root`, and at its outbox.
///
/// # Errors
/// As the disk says; what vanishes meanwhile is no error.
pub fn status(
    disk: &Arc<dyn Disk>,
    root: &Path,
    datatypes: &[Datatype],
    outbox: &Path,
) -> io::Result<SpoolStatus> {
    let mut found = Vec::new();
    for datatype in datatypes {
        let mut status = DatatypeStatus {
            datatype: datatype.to_string(),
            ..DatatypeStatus::default()
        };
        count(&**disk, &root.join(datatype.as_str()), &mut status)?;
        found.push(status);
    }
    Ok(SpoolStatus {
        datatypes: found,
        bundles: bundles(disk, outbox)?,
    })
}

fn count(disk: &dyn Disk, folder: &Path, status: &mut DatatypeStatus) -> io::Result<()> {
    for year in folders(disk, folder)? {
        if year == SENT {
            for id in folders(disk, &folder.join(&year))? {
                files(disk, &folder.join(&year).join(id), &mut |_, _| {
                    status.leaving += 1;
                })?;
            }
            continue;
        }
        for month in folders(disk, &folder.join(&year))? {
            for day in folders(disk, &folder.join(&year).join(&month))? {
                if SpoolDate::from_components(&year, &month, &day).is_err() {
                    continue;
                }
                let folder = folder.join(&year).join(&month).join(&day);
                files(disk, &folder, &mut |bytes, modified| {
                    status.files += 1;
                    status.bytes += bytes;
                    let older = status.oldest.is_none_or(|oldest| modified < oldest);
                    status.oldest = if older { Some(modified) } else { status.oldest };
                })?;
            }
        }
    }
    Ok(())
}

/// The names of folders in a folder; none if it is not there.
fn folders(disk: &dyn Disk, folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    let visited = disk.visit_dir(folder, &mut |entry| {
        if entry.kind == Kind::Dir
            && let Ok(name) = entry.name.into_string()
        {
            names.push(name);
        }
        ControlFlow::Continue(())
    });
    unless_gone(visited)?;
    names.sort();
    Ok(names)
}

fn files(disk: &dyn Disk, folder: &Path, tell: &mut dyn FnMut(u64, Timestamp)) -> io::Result<()> {
    let visited = disk.visit_dir(folder, &mut |entry| {
        if entry.kind == Kind::File
            && !is_hidden(&entry.name)
            && let Ok(found) = disk.metadata(&folder.join(&entry.name))
        {
            tell(found.len, found.modified);
        }
        ControlFlow::Continue(())
    });
    unless_gone(visited)
}

fn unless_gone(visited: io::Result<()>) -> io::Result<()> {
    match visited {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        visited => visited,
    }
}

fn bundles(disk: &Arc<dyn Disk>, dir: &Path) -> io::Result<Vec<BundleStatus>> {
    let outbox = Outbox::at(Arc::clone(disk), dir);
    let mut bundles = Vec::new();
    for id in folders(&**disk, dir)? {
        if id.starts_with('.') {
            continue;
        }
        // One that is just being written or forgotten is no bundle.
        if let Ok(Some(sealed)) = outbox.sealed(&id) {
            bundles.push(BundleStatus {
                key: sealed.name.data_key().to_string(),
                files: sealed.files.len() as u64,
                bytes: sealed.data.bytes + sealed.index.bytes,
                shipped: outbox.is_confirmed(&id)?,
                id,
            });
        }
    }
    Ok(bundles)
}
