//! A bundle that is still open: rows and index lines are written to the outbox as files are taken.

use std::io;

use cannery_formats::spool::{Archiver, BundleName, IndexLine, Part, RowWriter, SpoolDate};

use jiff::Timestamp;

use super::gzip_file::GzipFile;
use super::outbox::{FileRecord, Outbox, Sealed};
use super::take::Taken;

/// How many files a bundle holds, so that what is known of them takes a bounded amount of memory.
const FILES_MAX: usize = 20_000;

/// How rows are written.
#[derive(Clone, Debug)]
pub(super) struct RowStyle {
    pub(super) version: String,
    pub(super) git_commit: String,
    /// The URL of the first storage, to which a key is appended.
    pub(super) lake_url: String,
    pub(super) id_column: bool,
    pub(super) index_loadable: bool,
}

/// A bundle to which files are added.
#[derive(Debug)]
pub(super) struct OpenBundle {
    id: String,
    name: BundleName,
    data: GzipFile,
    index: GzipFile,
    rows: RowWriter,
    index_rows: Option<RowWriter>,
    files: Vec<FileRecord>,
    /// Bytes of rows, before they are compressed.
    bytes: u64,
    line: Vec<u8>,
}

impl OpenBundle {
    /// Begins a bundle in the outbox; nothing of it counts until it is sealed.
    pub(super) fn begin(outbox: &Outbox, name: BundleName, style: &RowStyle) -> io::Result<Self> {
        let id = id_of(&name);
        outbox.begin(&id)?;
        let disk = &**outbox.disk();
        let writer = |part| {
            let key = match part {
                Part::Data => name.data_key(),
                Part::Index => name.index_key(),
            };
            let archiver = Archiver {
                version: style.version.clone(),
                git_commit: style.git_commit.clone(),
                archive_url: format!("{}/{key}", style.lake_url.trim_end_matches('/')),
            };
            // Index lines have no `id`: their table has none.
            RowWriter::new(name.date, &archiver, style.id_column && part == Part::Data)
        };
        Ok(Self {
            data: GzipFile::create(disk, &outbox.object(&id, Part::Data))?,
            index: GzipFile::create(disk, &outbox.object(&id, Part::Index))?,
            rows: writer(Part::Data),
            index_rows: style.index_loadable.then(|| writer(Part::Index)),
            id,
            name,
            files: Vec::new(),
            bytes: 0,
            line: Vec::new(),
        })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn date(&self) -> SpoolDate {
        self.name.date
    }

    pub(super) fn opened(&self) -> Timestamp {
        self.name.opened.timestamp()
    }

    pub(super) fn files(&self) -> u64 {
        self.files.len() as u64
    }

    /// Bytes of rows, before they are compressed.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a file has room; the first always has.
    pub(super) fn has_room(&self, taken: &Taken, bytes_max: u64) -> bool {
        let row = self.rows.row_bytes_max(&taken.place.name, &taken.raw) as u64;
        self.files.is_empty() || (self.files.len() < FILES_MAX && self.bytes + row <= bytes_max)
    }

    /// Adds a file.
    ///
    /// # Errors
    /// The bundle must be given up then: a part of a row may be in it.
    pub(super) fn add(&mut self, taken: &Taken, now: Timestamp) -> io::Result<()> {
        let name = &*taken.place.name;
        self.line.clear();
        self.rows.append(&mut self.line, name, &taken.raw);
        self.bytes += self.line.len() as u64;
        self.data.write(&self.line)?;
        let index = IndexLine {
            filename: taken.place.filename(),
            size: taken.mark.size,
            sha256: taken.sha256,
            // A clock that went back adds nothing before the bundle was opened.
            time_added: now.max(self.name.opened.timestamp()),
        };
        self.line.clear();
        match &self.index_rows {
            Some(rows) => index.append_wrapped(rows, &mut self.line),
            None => index.append_to(&mut self.line),
        }
        self.index.write(&self.line)?;
        let record = FileRecord::new(name, taken.mark, taken.read, taken.sha256);
        self.files.push(record);
        Ok(())
    }

    /// From here on the bundle never changes, and survives a power cut.
    pub(super) fn seal(self, outbox: &Outbox) -> io::Result<Sealed> {
        let sealed = Sealed {
            data: self.data.finish()?,
            index: self.index.finish()?,
            id: self.id,
            name: self.name,
            files: self.files,
        };
        outbox.commit(&sealed)?;
        Ok(sealed)
    }
}

/// The folder of a bundle: sorts by when it was opened, and tells where its files lay.
pub(super) fn id_of(name: &BundleName) -> String {
    let date = name.date.dashed().replace('-', "");
    format!("{}-{}-{date}", name.opened, name.datatype)
}
