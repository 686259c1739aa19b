//! Files that cannot be collected, kept for a person to look at, with the reason beside each.
//!
//! ```text
//! <home>/.quarantine/20261116/20261116T040455.773550Z-a.json
//!                            /20261116T040455.773550Z-a.json.reason.json
//! ```
//! The reason is written first: a file never lies there without one. When all together take more than is allowed, the
//! oldest go, which is counted and logged. Several spools may share a home, in one process or in more: each takes names
//! that are free, and learns of what the others put there by [`Quarantine::refresh`].

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cannery_formats::spool::BundleTime;
use cannery_runtime::Clock;
use cannery_runtime::disk::{Disk, Kind, Open, create_dir_all, read};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

const REASON: &str = ".reason.json";
const REASON_BYTES_MAX: u64 = 64 * 1024;
/// Names are cut so that what is put before and behind them has room.
const NAME_BYTES_MAX: usize = 200;

/// Why a file is here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// In a word.
    pub reason: String,
    /// For a person.
    pub text: String,
    /// Where it lay, below the home of its spool.
    pub file: String,
    /// When it was put here.
    pub quarantined: Timestamp,
}

/// A file in quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// What names it here: its day and its own name.
    pub id: String,
    /// Its length.
    pub bytes: u64,
    /// Why it is here; nothing when that was lost.
    pub reason: Option<Reason>,
}

/// The quarantine of a spool's home.
#[derive(Debug)]
pub struct Quarantine {
    disk: Arc<dyn Disk>,
    clock: Clock,
    dir: PathBuf,
    bytes_max: u64,
    bytes: u64,
    evictions: u64,
    last: Option<BundleTime>,
}

impl Quarantine {
    /// Opens the quarantine below a home and adds up what is there. It is made when something is put into it.
    ///
    /// # Errors
    /// As the disk says.
    pub fn open(
        disk: Arc<dyn Disk>,
        clock: Clock,
        home: &Path,
        bytes_max: u64,
    ) -> io::Result<Self> {
        let mut quarantine = Self {
            disk,
            clock,
            dir: home.join(".quarantine"),
            bytes_max,
            bytes: 0,
            evictions: 0,
            last: None,
        };
        quarantine.bytes = quarantine.weigh()?;
        Ok(quarantine)
    }

    /// How many bytes it holds, as far as is known here.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many files were removed here because there was no room.
    #[must_use]
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Adds up once more what is there, as others may have changed it, and removes what is too much.
    ///
    /// # Errors
    /// As the disk says.
    pub fn refresh(&mut self) -> io::Result<u64> {
        self.bytes = self.weigh()?;
        self.shrink_to(self.bytes_max)
    }

    /// Moves a file here; `file` says where it lay. Gives back how many had to go for it.
    ///
    /// # Errors
    /// As the disk says; then the file is where it was.
    pub fn put(&mut self, from: &Path, file: &str, reason: &str, text: &str) -> io::Result<u64> {
        let bytes = weigh(&*self.disk, from)?;
        let now = self.clock.now();
        let note = Reason {
            reason: reason.to_owned(),
            text: text.to_owned(),
            file: file.to_owned(),
            quarantined: now,
        };
        let note = serde_json::to_vec_pretty(&note)?;
        let day = loop {
            let time = self.next_time(now);
            match self.put_at(time, from, &note) {
                // Somebody else who shares the home had the same name in the same moment.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                put => break put?,
            }
        };
        self.disk.sync_dir(&day)?;
        if let Some(folder) = from.parent() {
            self.disk.sync_dir(folder)?;
        }
        self.bytes += bytes + note.len() as u64;
        self.shrink_to(self.bytes_max)
    }

    /// Moves a file to the name that a time gives it, its reason first; says into which folder.
    fn put_at(&self, time: BundleTime, from: &Path, note: &[u8]) -> io::Result<PathBuf> {
        let day = self
            .dir
            .join(time.to_string().get(..8).unwrap_or("unknown"));
        create_dir_all(&*self.disk, &day)?;
        let file = day.join(format!("{time}-{}", short(from)));
        let reason = reason_of(&file);
        let open = self.disk.open(&reason, Open::CreateNew)?;
        // From here on the name is ours.
        let put = open
            .write_all_at(0, note)
            .and_then(|()| open.sync())
            .and_then(|()| self.disk.sync_dir(&day))
            .and_then(|()| self.disk.rename_new(from, &file));
        if let Err(error) = put {
            // Without its file the reason is rubbish; what cannot be removed now goes when room is made. But an error may
            // come after the deed.
            let taken = error.kind() == io::ErrorKind::AlreadyExists;
            if taken || self.disk.metadata(&file).is_err() {
                self.disk.remove_file(&reason).ok();
            }
            return Err(error);
        }
        Ok(day)
    }

    fn next_time(&mut self, now: Timestamp) -> BundleTime {
        let next = BundleTime::from_timestamp(now).after(self.last);
        self.last = Some(next);
        next
    }

    /// Removes the oldest until the rest fits into so many bytes, or nothing is left; says how many.
    ///
    /// # Errors
    /// As the disk says; what was removed until then is counted.
    pub fn shrink_to(&mut self, bytes_max: u64) -> io::Result<u64> {
        let before = self.evictions;
        if self.bytes <= bytes_max {
            return Ok(0);
        }
        for day in self.days()? {
            let mut names = self.names(&day)?;
            names.sort();
            for name in names {
                if self.bytes <= bytes_max {
                    return Ok(self.evictions - before);
                }
                let file = day.join(&name);
                tracing::warn!(file = %file.display(), "there is no room; the oldest file in quarantine is removed");
                self.remove(&file)?;
                self.evictions += 1;
            }
            self.clear(&day)?;
        }
        Ok(self.evictions - before)
    }

    /// Removes the folder of a day without files, and the reasons in it, which a crash left.
    fn clear(&mut self, day: &Path) -> io::Result<()> {
        let today = BundleTime::from_timestamp(self.clock.now()).to_string();
        if day.file_name().unwrap_or_default().as_encoded_bytes() == &today.as_bytes()[..8] {
            // Somebody may have written a reason and be about to move the file.
            return Ok(());
        }
        for entry in self.disk.read_dir(day)? {
            let name = entry.name.to_string_lossy();
            if name.ends_with(REASON) || name.starts_with('.') {
                let path = day.join(&entry.name);
                let bytes = self.disk.metadata(&path).map_or(0, |found| found.len);
                unless_gone(remove_all(&*self.disk, &path))?;
                self.bytes = self.bytes.saturating_sub(bytes);
            }
        }
        match self.disk.remove_dir(day) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            removed => unless_gone(removed),
        }
    }

    /// Removes a file and its reason, the reason last.
    fn remove(&mut self, file: &Path) -> io::Result<()> {
        for path in [file.to_owned(), reason_of(file)] {
            let bytes = match self.disk.metadata(&path) {
                Ok(found) => found.len,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            unless_gone(remove_all(&*self.disk, &path))?;
            self.bytes = self.bytes.saturating_sub(bytes);
        }
        Ok(())
    }

    /// What is there, the oldest first.
    ///
    /// # Errors
    /// As the disk says.
    pub fn list(&self) -> io::Result<Vec<Quarantined>> {
        let mut all = Vec::new();
        for day in self.days()? {
            let mut names = self.names(&day)?;
            names.sort();
            for name in names {
                let file = day.join(&name);
                let day = day.file_name().unwrap_or_default().to_string_lossy();
                all.push(Quarantined {
                    id: format!("{day}/{name}"),
                    bytes: self.disk.metadata(&file).map_or(0, |found| found.len),
                    reason: self.reason(&file),
                });
            }
        }
        Ok(all)
    }

    fn reason(&self, file: &Path) -> Option<Reason> {
        let text = read(&*self.disk, &reason_of(file), REASON_BYTES_MAX).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Puts a file back where it lay, to be tried again.
    ///
    /// # Errors
    /// `NotFound` when there is none of this id or its reason is lost, `AlreadyExists` when something lies in its place.
    pub fn release(&mut self, id: &str) -> io::Result<String> {
        let is_plain = |part: &str| !part.is_empty() && part != ".." && !part.contains('/');
        let Some((day, name)) = id
            .split_once('/')
            .filter(|(day, name)| is_plain(day) && is_plain(name))
        else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let file = self.dir.join(day).join(name);
        let reason = self.reason(&file).ok_or(io::ErrorKind::NotFound)?;
        let home = self.dir.parent().unwrap_or(Path::new("/"));
        let is_below = |component| matches!(component, std::path::Component::Normal(_));
        let place = Path::new(&reason.file);
        if !place.components().all(is_below) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let place = home.join(place);
        let folder = place.parent().unwrap_or(home);
        create_dir_all(&*self.disk, folder)?;
        let bytes = self.disk.metadata(&file)?.len;
        self.disk.rename_new(&file, &place)?;
        self.disk.sync_dir(folder)?;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.remove(&file)?;
        Ok(reason.file)
    }

    /// The folders of days, the oldest first.
    fn days(&self) -> io::Result<Vec<PathBuf>> {
        let entries = match self.disk.read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let folders = entries.into_iter().filter(|entry| entry.kind == Kind::Dir);
        let mut days: Vec<_> = folders.map(|entry| self.dir.join(entry.name)).collect();
        days.sort();
        Ok(days)
    }

    /// The files of a day, without their reasons.
    fn names(&self, day: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        self.disk.visit_dir(day, &mut |entry| {
            if let Ok(name) = entry.name.into_string()
                && !name.ends_with(REASON)
                // What was being written when the power went.
                && !name.starts_with('.')
            {
                names.push(name);
            }
            ControlFlow::Continue(())
        })?;
        Ok(names)
    }

    fn weigh(&self) -> io::Result<u64> {
        let mut bytes = 0;
        for day in self.days()? {
            bytes += weigh(&*self.disk, &day)?;
        }
        Ok(bytes)
    }
}

/// The bytes of a file, or of everything in a folder.
fn weigh(disk: &dyn Disk, path: &Path) -> io::Result<u64> {
    let found = disk.metadata(path)?;
    if found.kind != Kind::Dir {
        return Ok(found.len);
    }
    let mut bytes = 0;
    let weighed = disk.visit_dir(path, &mut |entry| {
        // What is gone by now weighs nothing.
        bytes += weigh(disk, &path.join(entry.name)).unwrap_or(0);
        ControlFlow::Continue(())
    });
    unless_gone(weighed)?;
    Ok(bytes)
}

/// What somebody else has removed need not be.
fn unless_gone(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Removes a file, or a folder with everything in it.
fn remove_all(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    if disk.metadata(path)?.kind != Kind::Dir {
        return disk.remove_file(path);
    }
    for entry in disk.read_dir(path)? {
        remove_all(disk, &path.join(entry.name))?;
    }
    disk.remove_dir(path)
}

fn reason_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(REASON);
    PathBuf::from(name)
}

/// The last name of a path as far as it may stand in a name of ours.
fn short(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let plain = |c: char| {
        if c.is_control() || c == '\u{fffd}' {
            '_'
        } else {
            c
        }
    };
    let mut short = String::new();
    for c in name.chars().map(plain) {
        if short.len() + c.len_utf8() > NAME_BYTES_MAX {
            break;
        }
        short.push(c);
    }
    if short.ends_with(REASON) {
        // Only reasons end so.
        short.push('_');
    }
    short
}
