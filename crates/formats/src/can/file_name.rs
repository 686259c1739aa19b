//! The names of cans. An archive has the name of the can that it was made of.

use std::fmt;
use std::str::FromStr;

use data_encoding::{BASE32_NOPAD, HEXLOWER};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{CannedText, TextName};
use crate::frames::FrameCodec;
use crate::key::{COMPONENT_BYTES_MAX, Key};
use crate::{BucketDate, Digest, Hasher, Kind};

const TAR: &str = ".tar";

/// How the name of the index of one file ends.
pub(crate) const INDEX_END: &str = ".index.json.gz";

/// Stands before the hash in the name of a plain file whose report has a name that others could have too.
const HASHED: &str = ".~";

/// The digits of the hash of an open can.
const OPEN_DIGITS: usize = 16;

/// More slices than anybody has; with more digits the number could be the hash of an open can.
const SLICE_DIGITS_MAX: usize = 9;

/// The name of a can or of its archive, without folders. Which of the three it is can be told from its spelling.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName(String);

/// A file of a bucket: `<date>/<file name>`, as indexes write it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketFile {
    /// The bucket.
    pub bucket: BucketDate,
    /// The name.
    pub name: FileName,
}

/// The name of the index that commits an open can: `<kind>.<NNNN>.index.json.gz`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpenIndexName {
    /// What the can holds.
    pub kind: Kind,
    /// Counted from 0 for each kind and bucket.
    pub number: u32,
}

/// What an object in the folder of a bucket's cans is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CannedObject {
    /// `<kind>.<16 hex digits>.tar.lz4`: a can of a bucket that is not sealed, or of one before it was.
    Open {
        /// What it holds.
        kind: Kind,
        /// Its name.
        name: FileName,
    },
    /// The index that commits an open can.
    OpenIndex(OpenIndexName),
    /// `<kind>.<NN>.tar.lz4`.
    Sealed {
        /// What it holds.
        kind: Kind,
        /// Counted from 0.
        slice: u64,
        /// Its name.
        name: FileName,
    },
    /// `<report>.lz4`.
    Plain(FileName),
    /// `index.json.gz`, whose creation seals the bucket.
    SealedIndex,
    /// `private-index.json.gz`.
    PrivateIndex,
}

/// The text is no name of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid file name `{}`: it must be one component of a key with room for `{INDEX_END}` behind it, and end in `.lz4` or `.zst`", .name.escape_debug())]
pub struct InvalidFileName {
    /// The text, shortened.
    pub name: String,
}

impl FileName {
    /// Checks `text`.
    ///
    /// # Errors
    /// [`InvalidFileName`] when it breaks a rule.
    pub fn new(text: &str) -> Result<Self, InvalidFileName> {
        let is_component = Key::new(text).is_ok() && !text.contains('/');
        let fits = text.len() + INDEX_END.len() <= COMPONENT_BYTES_MAX;
        let has_stem = FrameCodec::of_file_name(text).is_some_and(|(stem, _)| !stem.is_empty());
        match is_component && fits && has_stem {
            true => Ok(Self(text.to_owned())),
            false => Err(InvalidFileName {
                name: text.chars().take(80).collect(),
            }),
        }
    }

    /// The name of an open can: made of its members, so that the same members make the same can, and no other.
    #[must_use]
    pub fn open(kind: &Kind, members: &[CannedText], codec: FrameCodec) -> Self {
        let mut hasher = Hasher::default();
        for CannedText { textname, text } in members {
            hasher.update(format!("{} {} {textname}\n", text.sha1, text.size).as_bytes());
        }
        let hash = HEXLOWER.encode(&hasher.finish().as_bytes()[..OPEN_DIGITS / 2]);
        Self(format!("{kind}.{hash}{TAR}.{}", codec.extension()))
    }

    /// The name of a sealed can that is the slice `number` of those up to `last`.
    #[must_use]
    pub fn sealed(kind: &Kind, number: u32, last: u32, codec: FrameCodec) -> Self {
        let digits = last.to_string().len();
        Self(format!(
            "{kind}.{number:0digits$}{TAR}.{}",
            codec.extension()
        ))
    }

    /// The name of the file that holds one report: that of the report file, if no other report of the bucket can have the
    /// same; else it ends with a hash of the whole name.
    #[must_use]
    pub fn plain(report: &TextName, codec: FrameCodec) -> Self {
        let name = report.file_name();
        let end = codec.extension();
        let room = COMPONENT_BYTES_MAX - INDEX_END.len() - end.len() - 1;
        let is_report_file = report
            .as_str()
            .strip_suffix(name)
            .and_then(|folder| folder.strip_suffix('/'))
            .is_some_and(|folder| folder.parse::<BucketDate>().is_ok());
        let is_plain =
            is_report_file && name.len() <= room && !name.ends_with(TAR) && !name.contains(HASHED);
        if is_plain {
            return Self(format!("{name}.{end}"));
        }
        let hash = Digest::of(report.as_str().as_bytes());
        let hash = BASE32_NOPAD.encode(hash.as_bytes()).to_ascii_lowercase();
        let mut length = name.len().min(room - HASHED.len() - 26);
        while !name.is_char_boundary(length) {
            length -= 1;
        }
        Self(format!("{}{HASHED}{}.{end}", &name[..length], &hash[..26]))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What its frames are compressed with.
    #[must_use]
    pub fn codec(&self) -> FrameCodec {
        let (_, codec) = FrameCodec::of_file_name(&self.0).expect("every name was made with one");
        codec
    }

    /// Whether its text is a tar, and not a single report.
    #[must_use]
    pub fn is_tar(&self) -> bool {
        self.stem().ends_with(TAR)
    }

    fn stem(&self) -> &str {
        FrameCodec::of_file_name(&self.0).map_or("", |(stem, _)| stem)
    }
}

impl BucketFile {
    /// Puts a name into a bucket.
    #[must_use]
    pub fn new(bucket: BucketDate, name: FileName) -> Self {
        Self { bucket, name }
    }
}

impl OpenIndexName {
    fn parse(name: &str) -> Option<Self> {
        let (kind, number) = name.strip_suffix(INDEX_END)?.rsplit_once('.')?;
        let parsed = Self {
            kind: kind.parse().ok()?,
            number: number.parse().ok()?,
        };
        (parsed.to_string() == name).then_some(parsed)
    }
}

impl CannedObject {
    /// What the object `name` in the folder of a bucket's cans is; nothing for a name that nobody here gives.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "index.json.gz" => return Some(Self::SealedIndex),
            "private-index.json.gz" => return Some(Self::PrivateIndex),
            _ => {}
        }
        if name.ends_with(INDEX_END) {
            return OpenIndexName::parse(name).map(Self::OpenIndex);
        }
        let name = FileName::new(name).ok()?;
        let Some(stem) = name.stem().strip_suffix(TAR) else {
            return Some(Self::Plain(name));
        };
        let (kind, part) = stem.rsplit_once('.')?;
        let kind = kind.parse().ok()?;
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if part.len() == OPEN_DIGITS && part.bytes().all(is_hex) {
            return Some(Self::Open { kind, name });
        }
        let is_number = (1..=SLICE_DIGITS_MAX).contains(&part.len())
            && part.bytes().all(|byte| byte.is_ascii_digit());
        let slice = is_number.then(|| part.parse().ok())??;
        Some(Self::Sealed { kind, slice, name })
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for BucketFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.bucket, self.name)
    }
}

impl fmt::Debug for BucketFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string(), f)
    }
}

impl fmt::Display for OpenIndexName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:04}{INDEX_END}", self.kind, self.number)
    }
}

impl FromStr for BucketFile {
    type Err = InvalidFileName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidFileName {
            name: text.chars().take(80).collect(),
        };
        let (bucket, name) = text.split_once('/').ok_or_else(invalid)?;
        Ok(Self {
            bucket: bucket.parse().map_err(|_| invalid())?,
            name: FileName::new(name)?,
        })
    }
}

impl Serialize for BucketFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BucketFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::Sums;
    use proptest::prelude::*;

    fn text(name: &str) -> TextName {
        TextName::new(name).unwrap()
    }

    fn plain(name: &str) -> String {
        FileName::plain(&text(name), FrameCodec::Lz4).to_string()
    }

    #[test]
    fn a_listing_says_what_is_there() {
        let kind: Kind = "feed-a.0001".parse().unwrap();
        let member = CannedText {
            textname: text("2026-11-15/a"),
            text: Sums::of(b"a"),
        };
        let open = FileName::open(&kind, &[member], FrameCodec::Lz4);
        // `printf '%s %s %s\n' hvfkN/qlp/zhXR3cuerq6jd2Z7g= 1 2026-11-15/a | sha256sum`
        assert_eq!(open.as_str(), "feed-a.0001.c1b6e3d91b48fb97.tar.lz4");
        let sealed = FileName::sealed(&kind, 7, 10, FrameCodec::Zstd);
        assert_eq!(sealed.as_str(), "feed-a.0001.07.tar.zst");
        let index = OpenIndexName {
            kind: kind.clone(),
            number: 12,
        };
        assert_eq!(index.to_string(), "feed-a.0001.0012.index.json.gz");
        let report = FileName::new("x-probe.json.lz4").unwrap();
        for (name, object) in [
            (
                open.to_string(),
                CannedObject::Open {
                    kind: kind.clone(),
                    name: open,
                },
            ),
            (
                sealed.to_string(),
                CannedObject::Sealed {
                    kind,
                    slice: 7,
                    name: sealed,
                },
            ),
            (index.to_string(), CannedObject::OpenIndex(index)),
            (report.to_string(), CannedObject::Plain(report)),
            ("index.json.gz".into(), CannedObject::SealedIndex),
            ("private-index.json.gz".into(), CannedObject::PrivateIndex),
        ] {
            assert_eq!(CannedObject::parse(&name), Some(object), "{name}");
        }
        for name in [
            "",
            "x",
            ".lz4",
            "ndt.tar.lz4",
            "ndt.x.tar.lz4",
            "ndt.0.tar.gz",
            "a-b.0.tar.lz4",
            "ndt.1.index.json.gz",
            "ndt.00012.index.json.gz",
            "ndt.+012.index.json.gz",
            ".0001.index.json.gz",
            "a/b.lz4",
            "ndt.1234567890.tar.lz4",
            "ndt..tar.lz4",
        ] {
            assert_eq!(CannedObject::parse(name), None, "{name}");
        }
    }

    #[test]
    fn no_report_takes_the_name_of_another_file() {
        assert_eq!(plain("2026-11-15/x.json"), "x.json.lz4");
        let hashed = [
            "2026-11-15/ndt.0.tar",
            "2026-11-15/x.json.~abc",
            "ndt/2026/11/15/x.json",
            "f/2026-11-15/00/x.json",
            "x.json",
        ];
        for name in hashed {
            let stem = plain(name);
            let stem = stem.strip_suffix(".lz4").unwrap();
            assert_eq!(stem.rsplit_once(".~").unwrap().1.len(), 26, "{stem}");
            assert!(matches!(
                CannedObject::parse(&plain(name)),
                Some(CannedObject::Plain(_))
            ));
        }
        let long = "ü".repeat(127);
        assert!(plain(&format!("2026-11-15/{long}")).len() <= 255 - INDEX_END.len());
        assert!(plain(&format!("f/{long}")).len() <= 255 - INDEX_END.len());
    }

    proptest! {
        #[test]
        fn plain_names_are_valid_and_differ(a in "(2026-11-15/|f/|)[a.~ü]{1,140}(.tar|)", b in "(2026-11-15/|f/|)[a.~ü]{1,140}(.tar|)") {
            let (Ok(a), Ok(b)) = (TextName::new(a), TextName::new(b)) else {
                return Ok(());
            };
            let name = |name: &TextName| FileName::plain(name, FrameCodec::Lz4);
            prop_assert_eq!(FileName::new(name(&a).as_str()), Ok(name(&a)));
            prop_assert!(!name(&a).is_tar());
            prop_assert_eq!(a == b, name(&a) == name(&b));
        }
    }
}
