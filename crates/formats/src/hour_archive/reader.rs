//! The members of an archive one after the other, each checked against what the manifest says.

use std::collections::HashMap;
use std::io::{self, Read};

use super::fault::ArchiveFault;
use super::tar_reader::{Head, TarReader, shown};
use super::{HOARD_MANIFEST_NAME, Limits, Origin};
use crate::feed::{Codec, FeedId, Hour, MANIFEST_NAME, Manifest, ManifestError, Member};
use crate::{Hasher, Key};

/// Room for about a million entries; a manifest is held in memory as a whole.
pub(super) const MANIFEST_BYTES_MAX: u64 = 256 << 20;

const CHUNK_BYTES: usize = 64 * 1024;

/// Reads an archive that anybody may have made. Nothing it says is taken for true before [`ArchiveReader::next`] has
/// answered `None`: only then everything was there and nothing else.
pub struct ArchiveReader<R: Read> {
    tar: TarReader<R>,
    known: Known,
    /// A member whose header was read to find out whether it is the manifest.
    pending: Option<Head>,
    current: Option<Current>,
    /// Nothing is read on after a fault.
    is_broken: bool,
    /// For passing over members: one for all, as they are small and many.
    buffer: Vec<u8>,
}

/// What is known of the members before they are read.
enum Known {
    /// What the manifest lists and was not seen yet, by path.
    Listed(HashMap<String, Member>),
    /// Nothing. The paths that were handed out, each with the number that its next twin tries first.
    Seen(HashMap<String, u64>),
}

/// The member that is being read.
struct Current {
    name: String,
    path: String,
    size: u64,
    hasher: Hasher,
    listed: Option<Member>,
}

impl<R: Read> ArchiveReader<R> {
    /// Reads the beginning, with the manifest if there is one.
    ///
    /// # Errors
    /// [`ArchiveFault`], also when the manifest is of another feed or hour.
    pub fn open(
        input: R,
        feed: &FeedId,
        hour: Hour,
        limits: &Limits,
    ) -> Result<Self, ArchiveFault> {
        let mut reader = Self {
            tar: TarReader::new(input, limits)?,
            known: Known::Seen(HashMap::new()),
            pending: None,
            current: None,
            is_broken: false,
            buffer: vec![0; CHUNK_BYTES],
        };
        match reader.next_file()? {
            Some(head) if head.path == MANIFEST_NAME => {
                let (manifest, listed) = reader.manifest(&head, limits)?;
                check_place(&manifest, feed, hour)?;
                reader.known = Known::Listed(listed);
            }
            first => reader.pending = first,
        }
        Ok(reader)
    }

    /// Whether it has our manifest.
    #[must_use]
    pub fn origin(&self) -> Origin {
        match self.known {
            Known::Listed(_) => Origin::Ours,
            Known::Seen(_) => Origin::Foreign,
        }
    }

    /// How it is compressed.
    #[must_use]
    pub fn codec(&self) -> Codec {
        self.tar.codec()
    }

    /// The limits that just allow what was read so far.
    pub(super) fn extent(&self) -> Limits {
        self.tar.extent()
    }

    /// The next member. What was not read of the one before is read now, so that it is checked. Folders and Hoard's
    /// manifest are passed over. After `None` the whole archive is known to be sound.
    ///
    /// # Errors
    /// [`ArchiveFault`]; there is nothing more to come then.
    #[expect(
        clippy::should_implement_trait,
        reason = "an entry borrows the reader, which no iterator allows"
    )]
    pub fn next(&mut self) -> Result<Option<ArchiveEntry<'_, R>>, ArchiveFault> {
        if self.is_broken {
            return Err(ArchiveFault::Damaged("a fault was found before".into()));
        }
        self.is_broken = true;
        self.finish_current()?;
        let head = match self.pending.take() {
            Some(head) => Some(head),
            None => self.next_file()?,
        };
        let Some(head) = head else {
            self.check_end()?;
            self.is_broken = false;
            return Ok(None);
        };
        self.current = Some(self.known.recognise(head)?);
        self.is_broken = false;
        Ok(Some(ArchiveEntry { reader: self }))
    }

    /// The next header of a file that counts.
    fn next_file(&mut self) -> Result<Option<Head>, ArchiveFault> {
        while let Some(mut head) = self.tar.next_head()? {
            if head.is_folder {
                check_folder(&head.path)?;
                continue;
            }
            head.path = without_dots(&head.path).to_owned();
            if head.path == HOARD_MANIFEST_NAME && self.origin() == Origin::Foreign {
                continue;
            }
            return Ok(Some(head));
        }
        Ok(None)
    }

    fn manifest(
        &mut self,
        head: &Head,
        limits: &Limits,
    ) -> Result<(Manifest, HashMap<String, Member>), ArchiveFault> {
        if head.size > MANIFEST_BYTES_MAX {
            let what = format!("its manifest has more than {MANIFEST_BYTES_MAX} bytes");
            return Err(ArchiveFault::TooLarge(what));
        }
        let mut json = Vec::new();
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            match self.tar.read_body(&mut buffer)? {
                0 => break,
                count => json.extend_from_slice(&buffer[..count]),
            }
        }
        let (manifest, listed) = Manifest::parse(&json).map_err(|error| match error {
            ManifestError::Newer(_) => ArchiveFault::Newer(error.to_string()),
            ManifestError::Damaged(_) => ArchiveFault::Damaged(error.to_string()),
        })?;
        if manifest.set.len() as u64 > limits.entries_max {
            let what = format!(
                "its manifest lists more than {} members",
                limits.entries_max
            );
            return Err(ArchiveFault::TooLarge(what));
        }
        Ok((manifest, listed))
    }

    fn read_current(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(current) = &mut self.current else {
            return Ok(0);
        };
        let count = self.tar.read_body(buffer)?;
        current.hasher.update(&buffer[..count]);
        if count == 0 && !buffer.is_empty() {
            current.member()?;
        }
        Ok(count)
    }

    /// Reads what is left of the member and says what it is.
    fn finish_current(&mut self) -> Result<Option<Member>, ArchiveFault> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let passed = loop {
            match self.read_current(&mut buffer) {
                Ok(0) => break Ok(()),
                Ok(_) => {}
                Err(error) => break Err(error),
            }
        };
        self.buffer = buffer;
        passed?;
        let member = self.current.take().map(|current| current.member());
        member.transpose()
    }

    fn check_end(&self) -> Result<(), ArchiveFault> {
        let Known::Listed(missing) = &self.known else {
            return Ok(());
        };
        match missing.keys().min() {
            None => Ok(()),
            Some(path) => Err(ArchiveFault::Damaged(format!(
                "its manifest lists {} and {} other members that are not there",
                shown(path),
                missing.len() - 1
            ))),
        }
    }
}

impl Known {
    fn recognise(&mut self, head: Head) -> Result<Current, ArchiveFault> {
        let Head { path, size, .. } = head;
        match self {
            Self::Listed(listed) => {
                let Some(member) = listed.remove(&path) else {
                    let what = format!("member {} is not in its manifest or twice", shown(&path));
                    return Err(ArchiveFault::Damaged(what));
                };
                if member.size() != size {
                    let what = format!("member {} has not the size in the manifest", shown(&path));
                    return Err(ArchiveFault::Damaged(what));
                }
                let name = member.name().to_owned();
                Ok(Current::new(name, path, size, Some(member)))
            }
            Self::Seen(seen) => {
                check_name(&path)?;
                let unique = unique(&path, seen);
                Ok(Current::new(path, unique, size, None))
            }
        }
    }
}

impl Current {
    fn new(name: String, path: String, size: u64, listed: Option<Member>) -> Self {
        Self {
            name,
            path,
            size,
            hasher: Hasher::default(),
            listed,
        }
    }

    /// What was read to its end.
    fn member(&self) -> Result<Member, ArchiveFault> {
        let digest = self.hasher.clone().finish();
        let member = Member::new(self.name.as_str(), self.size, digest)
            .map_err(|error| ArchiveFault::Hostile(error.to_string()))?;
        match &self.listed {
            Some(listed) if *listed != member => Err(ArchiveFault::Damaged(format!(
                "member {} has not the SHA-256 in the manifest",
                shown(&self.path)
            ))),
            Some(_) | None => Ok(member),
        }
    }
}

/// A member of an archive; its content comes from `Read`. An error of that carries an [`ArchiveFault`], which `From`
/// takes out. Content that is not what the manifest says ends in an error instead of the end.
pub struct ArchiveEntry<'a, R: Read> {
    reader: &'a mut ArchiveReader<R>,
}

impl<R: Read> ArchiveEntry<'_, R> {
    /// Its name, a safe relative path. Two members can have the same.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.current().name
    }

    /// A safe relative path that no other member of this archive has. In an archive of ours it is the one that the manifest
    /// says; in a foreign one, names that were there before have a number behind them.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.current().path
    }

    /// The length of its content.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.current().size
    }

    /// Reads what is left of it and says what it is.
    ///
    /// # Errors
    /// [`ArchiveFault`], also when it is not what the manifest says.
    pub fn finish(self) -> Result<Member, ArchiveFault> {
        let member = self.reader.finish_current();
        self.reader.is_broken = member.is_err();
        Ok(member?.expect("an entry is the current member"))
    }

    fn current(&self) -> &Current {
        let current = self.reader.current.as_ref();
        current.expect("an entry is the current member")
    }
}

impl<R: Read> Read for ArchiveEntry<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let result = self.reader.read_current(buffer);
        self.reader.is_broken |= result.is_err();
        result
    }
}

fn check_place(manifest: &Manifest, feed: &FeedId, hour: Hour) -> Result<(), ArchiveFault> {
    if manifest.feed == *feed && manifest.hour == hour {
        return Ok(());
    }
    Err(ArchiveFault::Damaged(format!(
        "its manifest is of feed `{}` and hour `{}`",
        manifest.feed, manifest.hour
    )))
}

/// A path without the `./` that some tools put before it.
fn without_dots(path: &str) -> &str {
    let mut path = path;
    while let Some(rest) = path.strip_prefix("./") {
        path = rest;
    }
    path
}

fn check_name(path: &str) -> Result<(), ArchiveFault> {
    if path == MANIFEST_NAME {
        let what = "its manifest is not the first member";
        return Err(ArchiveFault::Damaged(what.into()));
    }
    check_path(path)
}

fn check_folder(path: &str) -> Result<(), ArchiveFault> {
    let inner = without_dots(path);
    match inner.strip_suffix('/').unwrap_or(inner) {
        "" | "." if path.starts_with('.') => Ok(()),
        inner => check_path(inner),
    }
}

fn check_path(path: &str) -> Result<(), ArchiveFault> {
    Key::new(path).map(|_| ()).map_err(|error| {
        ArchiveFault::Hostile(format!(
            "the name of member {} is refused: {}",
            shown(path),
            error.reason
        ))
    })
}

/// The path, or the path with the first number behind it that nobody has.
fn unique(path: &str, seen: &mut HashMap<String, u64>) -> String {
    let Some(mut number) = seen.get(path).copied() else {
        seen.insert(path.to_owned(), 2);
        return path.to_owned();
    };
    let mut twin = format!("{path}.~{number}");
    while seen.contains_key(&twin) {
        number += 1;
        twin = format!("{path}.~{number}");
    }
    seen.insert(path.to_owned(), number + 1);
    seen.insert(twin.clone(), 2);
    twin
}
