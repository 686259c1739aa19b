//! The schema file of a datatype, and the local copy of its table schema.

use std::io;
use std::path::{Path, PathBuf};

use cannery_formats::spool::Datatype;
use cannery_formats::table_schema::{Field, SchemaFault, TableSchema, parse_datatype};
use cannery_runtime::disk::{Disk, Kind, create_dir_all, read, write_durably};

/// No longer schema file is read.
pub const DATATYPE_BYTES_MAX: u64 = 1 << 20;

/// The table of the indexes, which no datatype can be called.
const INDEX: &str = "index1";

/// The schema file of a datatype: the fields of its rows, as whoever runs the node wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaFile {
    path: PathBuf,
    fields: Vec<Field>,
}

/// A schema file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaFileError {
    /// It is not there.
    #[error(
        "datatype `{datatype}` has no schema: there is no `{}`; write the fields of its rows there as a JSON array, \
         or name another file with `--datatype-file {datatype}:PATH`", .path.display()
    )]
    Missing {
        /// Whose schema it is.
        datatype: Datatype,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// It is longer than any schema.
    #[error(
        "cannot read schema file `{}` of datatype `{datatype}`: it is longer than {DATATYPE_BYTES_MAX} bytes; \
         is it the right file?", .path.display()
    )]
    TooLarge {
        /// Whose schema it is.
        datatype: Datatype,
        /// The file.
        path: PathBuf,
    },
    /// It is there, but the system does not let it be read.
    #[error(
        "cannot read schema file `{}` of datatype `{datatype}`: {why}; make it a file that this user may read",
        .path.display()
    )]
    Unreadable {
        /// Whose schema it is.
        datatype: Datatype,
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// It is no schema.
    #[error("cannot use schema file `{}` of datatype `{datatype}`: {fault}; correct the file", .path.display())]
    Invalid {
        /// Whose schema it is.
        datatype: Datatype,
        /// The file.
        path: PathBuf,
        /// Which field, and what is wrong with it.
        fault: SchemaFault,
    },
    /// A table schema could not be written.
    #[error(
        "cannot write table schema `{}`: {why}; name a folder that this user may write to", .path.display()
    )]
    NotWritten {
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: io::Error,
    },
}

impl SchemaFile {
    /// Where the schema of a datatype lies if nobody says otherwise: `<home>/datatypes/<datatype>.json`.
    #[must_use]
    pub fn default_path(home: &Path, datatype: &Datatype) -> PathBuf {
        home.join("datatypes")
            .join(format!("{}.json", datatype.as_str()))
    }

    /// Reads and checks the schema of `datatype` in the file at `path`.
    ///
    /// # Errors
    /// [`SchemaFileError`] names the datatype, the file, the field where there is one, and what to do.
    pub fn read(
        disk: &dyn Disk,
        datatype: &Datatype,
        path: &Path,
    ) -> Result<Self, SchemaFileError> {
        let (datatype, path) = (datatype.clone(), path.to_owned());
        let text = match read_regular(disk, &path) {
            Ok(text) => text,
            Err(why) => {
                return Err(match why.kind() {
                    io::ErrorKind::NotFound => SchemaFileError::Missing { datatype, path },
                    io::ErrorKind::FileTooLarge => SchemaFileError::TooLarge { datatype, path },
                    _ => SchemaFileError::Unreadable {
                        datatype,
                        path,
                        why,
                    },
                });
            }
        };
        match parse_datatype(&text) {
            Ok(fields) => Ok(Self { path, fields }),
            Err(fault) => Err(SchemaFileError::Invalid {
                datatype,
                path,
                fault,
            }),
        }
    }

    /// The file, for messages: what [`settle`](super::settle) takes as source.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The fields of a row.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The table that these rows make.
    #[must_use]
    pub fn table(&self, id_column: bool) -> TableSchema {
        TableSchema::of(&self.fields, id_column)
    }
}

/// Follows a link, as files that are handed to a container are often links, but waits for no pipe.
fn read_regular(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let mut path = path.to_owned();
    let mut kind = disk.metadata(&path)?.kind;
    if kind == Kind::Other {
        path = std::fs::canonicalize(&path)?;
        kind = disk.metadata(&path)?.kind;
    }
    if kind != Kind::File {
        return Err(io::Error::other("it is not a regular file"));
    }
    read(disk, &path, DATATYPE_BYTES_MAX)
}

/// Writes the table schema of a datatype to `<folder>/<datatype>-table.json`, making the folder if needed, and returns
/// that path. After `Ok` the file survives a power cut; before, it is the old one or the new one, whole. May be repeated.
///
/// # Errors
/// [`SchemaFileError::NotWritten`] names the file.
pub fn write_local(
    disk: &dyn Disk,
    folder: &Path,
    datatype: &Datatype,
    schema: &TableSchema,
) -> Result<PathBuf, SchemaFileError> {
    write_table(disk, folder, datatype.as_str(), schema)
}

/// The same for the table of the indexes, where they are loadable: `<folder>/index1-table.json`. In the lake it lies at
/// [`index_table_key`](cannery_formats::spool::index_table_key), where [`settle`](super::settle) puts it like any other.
///
/// # Errors
/// As [`write_local`].
pub fn write_local_index(disk: &dyn Disk, folder: &Path) -> Result<PathBuf, SchemaFileError> {
    write_table(disk, folder, INDEX, &TableSchema::index1())
}

fn write_table(
    disk: &dyn Disk,
    folder: &Path,
    name: &str,
    schema: &TableSchema,
) -> Result<PathBuf, SchemaFileError> {
    let path = folder.join(format!("{name}-table.json"));
    let written =
        create_dir_all(disk, folder).and_then(|()| write_durably(disk, &path, &schema.to_bytes()));
    match written {
        Ok(()) => Ok(path),
        Err(why) => Err(SchemaFileError::NotWritten { path, why }),
    }
}

#[cfg(test)]
mod tests;
