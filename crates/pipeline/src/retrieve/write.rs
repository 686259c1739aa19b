//! The files of an hour, from its archives to the tree. It blocks.

use std::collections::HashMap;
use std::io::{BufReader, Read};
use std::sync::Arc;

use cannery_formats::feed::Member;
use cannery_formats::hour_archive::{ArchiveEntry, ArchiveFault, ArchiveReader, Limits};
use cannery_runtime::disk::NewFile;
use tokio_util::sync::CancellationToken;

use super::arrange::Placement;
use super::error::Error;
use super::report::{InTheWay, LISTED_MAX};
use super::target::Target;
use crate::fetched::{Fetched, Subject};
use crate::scratch::Place;

const BUFFER_BYTES: usize = 256 * 1024;
const CHUNK_BYTES: usize = 64 * 1024;

/// What is to be written.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) subject: Subject,
    /// Of the hour, below the target.
    pub(super) folder: Vec<String>,
    pub(super) archives: Vec<Arc<Fetched>>,
    /// Whether the archives are the files; otherwise their members are.
    pub(super) as_files: bool,
    pub(super) placements: Vec<Placement>,
    pub(super) limits: Limits,
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) present: u64,
    pub(super) in_the_way_count: u64,
    /// The first of them.
    pub(super) in_the_way: Vec<InTheWay>,
}

impl Written {
    /// Something else has a name that is needed: that file is passed over, and the others go on. Any other error stays one.
    fn passed_over<T>(&mut self, result: Result<T, Error>) -> Result<Option<T>, Error> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Error::Occupied { path, what }) => {
                self.in_the_way_count += 1;
                // One link can be in the way of a whole folder.
                let is_new = self.in_the_way.last().is_none_or(|last| last.path != path);
                if is_new && self.in_the_way.len() < LISTED_MAX {
                    self.in_the_way.push(InTheWay { path, what });
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Writes what is not there yet. It ends early when `stop` is cancelled; whole files stay.
pub(super) fn write(
    job: &Job,
    target: &Target,
    stop: &CancellationToken,
) -> Result<Written, Error> {
    let mut writing = Writing {
        job,
        target,
        stop,
        last: None,
        todo: HashMap::new(),
        left: 0,
        written: Written::default(),
    };
    writing.find_missing()?;
    for archive in &job.archives {
        match job.as_files {
            true => writing.copy(archive)?,
            false => writing.extract(archive)?,
        }
    }
    match writing.left {
        0 => Ok(writing.written),
        left => Err(job.unread(format!("{left} members are gone"))),
    }
}

impl Job {
    fn unread(&self, why: String) -> Error {
        Error::Scratch {
            feed: self.subject.feed.clone(),
            hour: self.subject.hour,
            why,
        }
    }

    /// A fault in what was sound a moment ago.
    fn fault(&self, fault: impl Into<ArchiveFault>) -> Error {
        self.unread(fault.into().to_string())
    }
}

struct Writing<'a> {
    job: &'a Job,
    target: &'a Target,
    stop: &'a CancellationToken,
    /// The folder that was used last, with its path: many files in a row go to the same one, and a hostile archive can have
    /// more folders than a process can have open.
    last: Option<(String, Target)>,
    /// What is not there yet, by the name in the archive.
    todo: HashMap<&'a str, Vec<&'a Placement>>,
    left: usize,
    written: Written,
}

impl<'a> Writing<'a> {
    fn find_missing(&mut self) -> Result<(), Error> {
        for placement in &self.job.placements {
            self.check_stop()?;
            let place = self.place(placement);
            let has = place.and_then(|(folder, name)| folder.has(name, placement));
            match self.written.passed_over(has)? {
                None => {}
                Some(true) => self.written.present += 1,
                Some(false) => {
                    let todo = self.todo.entry(placement.member.name()).or_default();
                    todo.push(placement);
                    self.left += 1;
                }
            }
        }
        Ok(())
    }

    fn check_stop(&self) -> Result<(), Error> {
        match self.stop.is_cancelled() {
            true => Err(Error::Stopped),
            false => Ok(()),
        }
    }

    /// The folder of a file, and its name there.
    fn place(&mut self, placement: &'a Placement) -> Result<(Target, &'a str), Error> {
        let (above, name) = match placement.path.rsplit_once('/') {
            Some((above, name)) => (above, name),
            None => ("", placement.path.as_str()),
        };
        if let Some((path, folder)) = &self.last
            && path == above
        {
            return Ok((folder.clone(), name));
        }
        let mut folder = self.target.clone();
        let below = above.split('/').filter(|part| !part.is_empty());
        for part in self.job.folder.iter().map(String::as_str).chain(below) {
            folder = folder.enter(part)?;
        }
        self.last = Some((above.to_owned(), folder.clone()));
        Ok((folder, name))
    }

    fn has_todo(&self, member: &Member) -> bool {
        let same_name = self.todo.get(member.name());
        same_name.is_some_and(|found| found.iter().any(|one| one.member == *member))
    }

    /// Takes what is not there yet out of an archive.
    fn extract(&mut self, archive: &Fetched) -> Result<(), Error> {
        let wanted = archive.set().iter().filter(|member| self.has_todo(member));
        let mut wanted = wanted.count();
        if wanted == 0 {
            return Ok(());
        }
        let Job {
            subject, limits, ..
        } = self.job;
        let content = BufReader::with_capacity(BUFFER_BYTES, archive.file.begin());
        let mut reader = ArchiveReader::open(content, &subject.feed, subject.hour, limits)
            .map_err(|fault| self.job.fault(fault))?;
        while wanted > 0 {
            let next = reader.next().map_err(|fault| self.job.fault(fault))?;
            let Some(entry) = next else { break };
            wanted -= usize::from(self.entry(entry)?);
        }
        Ok(())
    }

    /// Whether it was wanted. Of two members with one name and length only the digest tells which is which, and that is
    /// known at the end; the folder is the same for both.
    fn entry(&mut self, mut entry: ArchiveEntry<'_, BufReader<Place>>) -> Result<bool, Error> {
        self.check_stop()?;
        let size = entry.size();
        let same_name = self.todo.get(entry.name()).map(Vec::as_slice);
        let mut likely = same_name.unwrap_or_default().iter();
        let Some(likely) = likely.find(|one| one.member.size() == size).copied() else {
            return Ok(false);
        };
        let (folder, name) = self.place(likely)?;
        let mut file = folder.begin(name)?;
        self.fill(&mut entry, &mut *file, &folder, name)?;
        let member = entry.finish().map_err(|fault| self.job.fault(fault))?;
        let Some(placement) = self.take(&member) else {
            return Ok(false);
        };
        self.publish(file, placement)?;
        Ok(true)
    }

    /// Puts an archive itself.
    fn copy(&mut self, archive: &Fetched) -> Result<(), Error> {
        self.check_stop()?;
        let todo = self.todo.get(archive.key.file_name());
        let Some(placement) = todo.and_then(|found| found.first()).copied() else {
            return Ok(());
        };
        let (folder, name) = self.place(placement)?;
        let mut file = folder.begin(name)?;
        self.fill(archive.file.begin(), &mut *file, &folder, name)?;
        self.take(&placement.member);
        self.publish(file, placement)
    }

    fn fill(
        &self,
        mut content: impl Read,
        file: &mut dyn NewFile,
        folder: &Target,
        name: &str,
    ) -> Result<(), Error> {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            self.check_stop()?;
            let count = content
                .read(&mut buffer)
                .map_err(|error| self.job.fault(error))?;
            if count == 0 {
                return Ok(());
            }
            file.write_all(&buffer[..count])
                .map_err(|why| Error::target(folder.path_of(name), why))?;
        }
    }

    /// What is to be done about a member; it is not to be done again.
    fn take(&mut self, member: &Member) -> Option<&'a Placement> {
        let same_name = self.todo.get_mut(member.name())?;
        let at = same_name.iter().position(|one| one.member == *member)?;
        self.left -= 1;
        Some(same_name.swap_remove(at))
    }

    fn publish(&mut self, file: Box<dyn NewFile>, placement: &'a Placement) -> Result<(), Error> {
        let (folder, name) = self.place(placement)?;
        let published = folder.publish(file, name, placement);
        match self.written.passed_over(published)? {
            None => {}
            Some(true) => {
                self.written.files += 1;
                self.written.bytes += placement.member.size();
            }
            Some(false) => self.written.present += 1,
        }
        Ok(())
    }
}
