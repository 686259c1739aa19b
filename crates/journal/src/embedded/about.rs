//! `journal.json`: what must outlive an empty log.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use cannery_runtime::disk::{self, Disk};
use serde::{Deserialize, Serialize};

use crate::declaration::Declaration;
use crate::op::Counts;
use crate::state::{Handle, State};

/// Its name in the folder.
pub(super) const NAME: &str = "journal.json";
const BYTES_MAX: u64 = 16 * 1024 * 1024;
const FORMAT: u32 = 1;

/// What is known of the journal as a whole. Where there is a log, it knows better, except for the incarnation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) format: u32,
    /// The last opening; every one has a larger number.
    pub(super) incarnation: u64,
    pub(super) next_seq: u64,
    pub(super) counts: Counts,
    /// The first segment that counts: what an emptied log left behind has a smaller number.
    pub(super) front: u32,
    /// By version.
    pub(super) declarations: BTreeMap<u32, Declaration>,
}

/// What every version begins with.
#[derive(Deserialize)]
struct Versioned {
    format: u32,
}

/// What was found.
#[derive(Debug)]
pub(super) enum Found {
    About(Box<About>),
    Nothing,
    /// It cannot be read.
    Damaged(String),
    /// A later version of the program wrote it.
    Newer(u32),
}

impl About {
    pub(super) fn new<D: Handle>(state: &State<D>, incarnation: u64, front: u32) -> Self {
        Self {
            format: FORMAT,
            incarnation,
            next_seq: state.next_seq(),
            counts: *state.counts(),
            front,
            declarations: state.declarations().clone(),
        }
    }

    pub(super) fn read(disk: &dyn Disk, dir: &Path) -> io::Result<Found> {
        let text = match disk::read(disk, &dir.join(NAME), BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                return Ok(Found::Damaged("it is far too long".to_owned()));
            }
            Err(error) => return Err(error),
        };
        // The number first: what else a later version says may not be understood.
        if let Ok(Versioned { format }) = serde_json::from_slice(&text)
            && format > FORMAT
        {
            return Ok(Found::Newer(format));
        }
        Ok(match serde_json::from_slice::<Self>(&text) {
            Ok(about) if about.declarations.is_empty() => {
                Found::Damaged("it holds no declaration".to_owned())
            }
            Ok(about) => Found::About(Box::new(about)),
            Err(error) => Found::Damaged(error.to_string()),
        })
    }

    pub(super) fn write(&self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(self).expect("it is plain data");
        disk::write_private(disk, &dir.join(NAME), &text)
    }
}
