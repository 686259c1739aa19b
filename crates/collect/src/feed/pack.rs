//! Packing an hour: its bodies and its coverage become one archive, and only then they go.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cannery_formats::feed::{
    ArchiveName, BodyHash, ContentSet, Coverage, DownloadName, FeedId, Holding, Hour, Member,
};
use cannery_formats::hour_archive::{ArchiveWriter, Compression};
use cannery_formats::{Digest, Hasher};
use cannery_runtime::disk::{Disk, Kind, Open, create_dir_all, read};
use rustix::io::Errno;

use super::depot::{Depot, is_unfinished};
use super::disk_stream::{FileReader, FileWriter};
use super::shared::Habit;
use super::slots::{self, SLOTS_NAME};
use super::writer::PART;

/// The lines of an hour are fewer: ten polls a second, each with a short reason.
const SLOTS_BYTES_MAX: u64 = 16 << 20;
const BUFFER_BYTES: usize = 256 * 1024;
/// What an entry takes beside its body, at most.
const ENTRY_BYTES: u64 = 1_024;
/// This part of the room is left to others while an hour is packed.
const ROOM_LEFT: u64 = 16;
/// Threads that remove the files of one hour, and what each of them has to do at least.
const REMOVERS: usize = 4;
const REMOVE_MIN: usize = 256;

/// An hour that became an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packed {
    pub(super) name: ArchiveName,
    pub(super) bodies: u64,
    pub(super) archive_bytes: u64,
    /// Whether there is more in the folder.
    pub(super) is_part: bool,
}

/// Packs what lies in the folder of an hour, which nobody writes to. May be repeated after any error or crash: the same files make
/// an archive of the same name. Nothing when there was nothing. Where the bodies may not fit into `room`, only as many are packed as
/// do: that is an archive as well, and makes room. What says which polls were made stays for the last of them.
pub(super) fn pack(
    depot: &Depot,
    (feed, hour): (&FeedId, Hour),
    replica: &str,
    habit: Habit,
    room: Option<u64>,
) -> io::Result<Option<Packed>> {
    let folder = Folder::read(depot, feed, hour)?;
    let mut coverage = folder.coverage(feed, hour, replica, habit.periodicity)?;
    let room = room.map(|room| room - room / ROOM_LEFT);
    let (mut bodies, mut bytes, mut is_part) = (Vec::new(), 0, false);
    for name in &folder.names {
        let size = depot.disk().metadata(&folder.path.join(name))?.len + ENTRY_BYTES;
        let is_too_much = room.is_some_and(|room| bytes + size > room);
        if is_too_much && !bodies.is_empty() {
            (coverage, is_part) = (None, true);
            break;
        }
        bytes += size;
        match folder.member(name) {
            Ok(member) if is_another(feed, &member) => {
                let aside = depot.set_aside(&folder.path.join(name))?;
                tracing::error!(file = %aside.display(), "a downloaded body is not what its name says; it was set aside");
            }
            Ok(member) => bodies.push((member, name.clone())),
            // It stays where it is; whoever asks what is left hears of it.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
            // The others need not wait for it.
            Err(error) if is_of_the_medium(&error) => {
                let aside = depot.set_aside(&folder.path.join(name))?;
                tracing::error!(file = %aside.display(), %error, "the disk cannot read a downloaded body; it was set aside");
            }
            Err(error) => return Err(error),
        }
    }
    let members = bodies.iter().map(|(member, _)| member.clone());
    let set: ContentSet = members
        .chain(coverage.as_ref().map(|(member, _)| member.clone()))
        .collect();
    let mut packed = None;
    if !set.is_empty() {
        let holding = Holding::Set(set.hash(), habit.compression.codec);
        let name = ArchiveName {
            feed: feed.clone(),
            hour,
            holding,
        };
        let content = coverage.map(|(_, content)| content).unwrap_or_default();
        let archive_bytes = folder.write(&name, &set, &content, &habit.compression)?;
        packed = Some(Packed {
            name,
            bodies: bodies.len() as u64,
            archive_bytes,
            is_part,
        });
    }
    folder.clear(bodies.into_iter().map(|(_, name)| name), is_part)?;
    Ok(packed)
}

/// Whether the disk has changed a body: its name holds its hash.
fn is_another(feed: &FeedId, member: &Member) -> bool {
    let hash = BodyHash::of(&member.sha256());
    DownloadName::parse(feed, member.name()).is_some_and(|name| name.hash != hash)
}

/// Whether the disk has lost what was written: trying again reads it no better.
fn is_of_the_medium(error: &io::Error) -> bool {
    let codes = [Errno::IO, Errno::BADMSG, Errno::UCLEAN].map(Errno::raw_os_error);
    error
        .raw_os_error()
        .is_some_and(|code| codes.contains(&code))
}

/// The folder of an hour.
struct Folder<'a> {
    depot: &'a Depot,
    path: PathBuf,
    /// The bodies in it.
    names: Vec<OsString>,
    has_slots: bool,
}

impl<'a> Folder<'a> {
    fn read(depot: &'a Depot, feed: &FeedId, hour: Hour) -> io::Result<Self> {
        let path = depot.hour(feed, hour);
        let (mut names, mut has_slots) = (Vec::new(), false);
        for entry in depot.disk().read_dir(&path)? {
            // Links, pipes and folders are nobody's here: they are not opened, not followed and not removed.
            if entry.kind != Kind::File {
                continue;
            }
            if is_unfinished(&entry.name) {
                // Of a process that died: nobody was told that it is there.
                depot.disk().remove_file(&path.join(&entry.name))?;
            } else if entry.name == SLOTS_NAME {
                has_slots = true;
            } else {
                names.push(entry.name);
            }
        }
        names.sort();
        Ok(Self {
            depot,
            path,
            names,
            has_slots,
        })
    }

    fn disk(&self) -> &dyn Disk {
        &**self.depot.disk()
    }

    fn slots(&self) -> io::Result<String> {
        if !self.has_slots {
            return Ok(String::new());
        }
        match read(self.disk(), &self.path.join(SLOTS_NAME), SLOTS_BYTES_MAX) {
            Ok(lines) => Ok(String::from_utf8_lossy(&lines).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            // What the bodies say is better than an hour that is never packed.
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(String::new()),
            Err(error) => Err(error),
        }
    }

    fn coverage(
        &self,
        feed: &FeedId,
        hour: Hour,
        replica: &str,
        periodicity: Option<Duration>,
    ) -> io::Result<Option<(Member, Vec<u8>)>> {
        let bodies = self.names.iter().filter_map(|name| name.to_str());
        let spans = slots::spans(&self.slots()?, (feed, hour), bodies, periodicity);
        if spans.is_empty() {
            return Ok(None);
        }
        let coverage = Coverage::new(feed.clone(), hour, replica, spans);
        let (name, content) = coverage.to_member();
        let member = Member::new(name, content.len() as u64, Digest::of(&content));
        Ok(Some((member.map_err(io::Error::other)?, content)))
    }

    /// A body as a member. `InvalidInput` when it can be none.
    fn member(&self, name: &OsString) -> io::Result<Member> {
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
        let text = name
            .to_str()
            .ok_or_else(|| invalid("its name is no text".into()))?;
        let file = self.disk().open(&self.path.join(name), Open::Read)?;
        let mut counting = Counting::default();
        io::copy(&mut FileReader::new(&*file), &mut counting)?;
        Member::new(text, counting.bytes, counting.hasher.finish())
            .map_err(|error| invalid(error.to_string()))
    }

    /// Writes the archive durably; gives back its length.
    fn write(
        &self,
        name: &ArchiveName,
        set: &ContentSet,
        coverage: &[u8],
        compression: &Compression,
    ) -> io::Result<u64> {
        let path = self.depot.archive(name);
        let folder = path.parent().unwrap_or(Path::new("."));
        create_dir_all(self.disk(), folder)?;
        let part = path.with_file_name(format!(".{name}{PART}"));
        match self.disk().remove_file(&part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let written = self.write_part(&part, name, set, coverage, compression);
        if written.is_err() {
            // It takes room that others need, perhaps a part of the same hour.
            self.disk().remove_file(&part).ok();
        }
        let bytes = written?;
        self.disk().rename(&part, &path)?;
        self.disk().sync_dir(folder)?;
        Ok(bytes)
    }

    fn write_part(
        &self,
        part: &Path,
        name: &ArchiveName,
        set: &ContentSet,
        coverage: &[u8],
        compression: &Compression,
    ) -> io::Result<u64> {
        let file = self.disk().open(part, Open::CreateNew)?;
        let out = BufWriter::with_capacity(BUFFER_BYTES, FileWriter::new(&*file));
        let mut archive = ArchiveWriter::new(out, &name.feed, name.hour, set, compression)?;
        while let Some(member) = archive.next_member() {
            if Coverage::is_member(member.name()) {
                archive.append(coverage)?;
            } else {
                let body = self
                    .disk()
                    .open(&self.path.join(member.name()), Open::Read)?;
                archive.append(FileReader::new(&*body))?;
            }
        }
        let mut out = archive.finish()?;
        out.flush()?;
        let bytes = out.get_ref().written();
        file.sync()?;
        Ok(bytes)
    }

    /// The archive is durable: removes what is in it. What a power cut brings back is packed again, under the same name.
    fn clear(&self, packed: impl Iterator<Item = OsString>, is_part: bool) -> io::Result<()> {
        let slots = self.has_slots && !is_part;
        let slots = slots.then(|| OsString::from(SLOTS_NAME));
        let packed: Vec<_> = packed.chain(slots).collect();
        // A file system takes long to free a file, and mostly waits: several at once are faster on any number of cores.
        let share = packed.len().div_ceil(REMOVERS).max(REMOVE_MIN);
        let (first, rest) = packed.split_at(share.min(packed.len()));
        std::thread::scope(|scope| {
            let rest = rest.chunks(share);
            let removers: Vec<_> = rest
                .map(|share| scope.spawn(|| self.remove(share)))
                .collect();
            self.remove(first)?;
            removers.into_iter().try_for_each(|remover| {
                let panicked = |_| io::Error::other("removing packed files panicked");
                remover.join().map_err(panicked)?
            })
        })?;
        self.depot.prune(&self.path)
    }

    fn remove(&self, names: &[OsString]) -> io::Result<()> {
        for name in names {
            match self.disk().remove_file(&self.path.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

#[derive(Default)]
struct Counting {
    hasher: Hasher,
    bytes: u64,
}

impl io::Write for Counting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
