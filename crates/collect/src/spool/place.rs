//! Where a file of a spool lies.

use std::path::PathBuf;

use cannery_formats::spool::SpoolDate;

/// A file below the root of a spool. The name is a plain one: UTF-8, without control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FilePlace {
    /// Which of the configured datatypes.
    pub(crate) datatype: usize,
    pub(crate) date: SpoolDate,
    pub(crate) name: Box<str>,
}

impl FilePlace {
    /// As rows and index lines name it.
    pub(crate) fn filename(&self) -> String {
        format!("{}/{}", self.date, self.name)
    }

    /// Below the folder of its datatype.
    pub(crate) fn below_datatype(&self) -> PathBuf {
        PathBuf::from(self.filename())
    }
}
