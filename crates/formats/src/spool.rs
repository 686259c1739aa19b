//! What spool collection writes: bundles of rows, their indexes, and the names of both.
//!
//! `docs/formats.md`, section "Spool", says the same for a reader without this crate.

mod bundle_name;
mod bundle_time;
mod date;
mod home;
mod index_line;
mod json_line;
mod row;
mod word;

pub use bundle_name::{BundleName, Part};
pub use bundle_time::{BundleTime, InvalidBundleTime};
pub use date::{InvalidSpoolDate, SpoolDate};
pub use home::{InvalidObjectHome, ObjectHome};
pub use index_line::{DamagedIndexLine, IndexLine};
pub use json_line::json_line;
pub use row::{Archiver, RowWriter};
pub use word::{Datatype, Experiment, InvalidWord, Organization, WORD_BYTES_MAX};

use crate::Key;

/// Where the table schema of a datatype lies. Organizations share it.
#[must_use]
pub fn table_key(home: &ObjectHome, experiment: &Experiment, datatype: &Datatype) -> Key {
    Key::spool_table(home, experiment, datatype.as_str())
}

/// Where the table schema of the indexes lies, if they are loadable.
#[must_use]
pub fn index_table_key(home: &ObjectHome, experiment: &Experiment) -> Key {
    Key::spool_table(home, experiment, word::INDEX)
}
