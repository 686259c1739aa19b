//! The keys of raw reports, cans and archives.

use super::{InvalidKey, Key};
use crate::BucketDate;
use crate::archive::Generation;
use crate::can::{BucketFile, CannedObject, Expired, FileName, INDEX_END, OpenIndexName};

const RAW: &str = "reports-raw";
const CANNED: &str = "canned";
const AUTOCLAVED: &str = "autoclaved";
const INDEX: &str = "index.json.gz";
const PRIVATE_INDEX: &str = "private-index.json.gz";
const CURRENT: &str = "current.json";
const EXPIRED_CANS: &str = "expired-cans";
const EXPIRED_ARCHIVES: &str = "expired-archives";
const EXPIRED_END: &str = ".json.gz";

/// What an object in the folder of a bucket's archives is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AutoclavedObject {
    /// An archive.
    File(FileName),
    /// The index of an archive.
    FileIndex(FileName),
    /// `index.json.gz`: the indexes of all archives of a sealed bucket.
    SealedIndex,
}

impl Key {
    /// The folder of all raw report files, or of those that arrived on one date.
    #[must_use]
    pub fn raw_reports(bucket: Option<BucketDate>) -> Self {
        Self(match bucket {
            None => RAW.to_owned(),
            Some(bucket) => format!("{RAW}/{bucket}"),
        })
    }

    /// A raw report file.
    ///
    /// # Errors
    /// [`InvalidKey`] when `name` is no name of a file.
    pub fn raw_report(bucket: BucketDate, name: &str) -> Result<Self, InvalidKey> {
        Self::new(format!("{RAW}/{bucket}/{name}"))
    }

    /// When a raw report file arrived, and its name; nothing for any other key.
    #[must_use]
    pub fn as_raw_report(&self) -> Option<(BucketDate, &str)> {
        self.in_bucket(RAW)
    }

    /// The folder of all cans, or of those of one bucket.
    #[must_use]
    pub fn canned_folder(bucket: Option<BucketDate>) -> Self {
        Self(match bucket {
            None => CANNED.to_owned(),
            Some(bucket) => format!("{CANNED}/{bucket}"),
        })
    }

    /// A can.
    #[must_use]
    pub fn canned(file: &BucketFile) -> Self {
        Self(format!("{CANNED}/{file}"))
    }

    /// The index that commits an open can.
    #[must_use]
    pub fn canned_open_index(bucket: BucketDate, name: &OpenIndexName) -> Self {
        Self(format!("{CANNED}/{bucket}/{name}"))
    }

    /// The index that seals a bucket.
    #[must_use]
    pub fn canned_index(bucket: BucketDate) -> Self {
        Self(format!("{CANNED}/{bucket}/{INDEX}"))
    }

    /// The hashes of what was not sanitised.
    #[must_use]
    pub fn canned_private_index(bucket: BucketDate) -> Self {
        Self(format!("{CANNED}/{bucket}/{PRIVATE_INDEX}"))
    }

    /// The bucket of an object among the cans, and what it is; nothing for any other key.
    #[must_use]
    pub fn as_canned(&self) -> Option<(BucketDate, CannedObject)> {
        let (bucket, name) = self.in_bucket(CANNED)?;
        Some((bucket, CannedObject::parse(name)?))
    }

    /// The mark of a can or an archive that was removed because it is kept no longer; see [`crate::can::expired_object`].
    #[must_use]
    pub fn expired(file: &BucketFile, what: Expired) -> Self {
        let folder = match what {
            Expired::Can => EXPIRED_CANS,
            Expired::Archive => EXPIRED_ARCHIVES,
        };
        let BucketFile { bucket, name } = file;
        Self(format!("{CANNED}/{bucket}/{folder}/{name}{EXPIRED_END}"))
    }

    /// What such a mark is of; nothing for any other key.
    #[must_use]
    pub fn as_expired(&self) -> Option<(BucketFile, Expired)> {
        let rest = self.0.strip_prefix(CANNED)?.strip_prefix('/')?;
        let (bucket, rest) = rest.split_once('/')?;
        let (folder, name) = rest.split_once('/')?;
        let what = match folder {
            EXPIRED_CANS => Expired::Can,
            EXPIRED_ARCHIVES => Expired::Archive,
            _ => return None,
        };
        let name = FileName::new(name.strip_suffix(EXPIRED_END)?).ok()?;
        Some((BucketFile::new(bucket.parse().ok()?, name), what))
    }

    /// The folder of all archives of all generations.
    #[must_use]
    pub fn autoclaved_folder() -> Self {
        Self(AUTOCLAVED.to_owned())
    }

    /// The folder of a generation of archives, or of those of one bucket.
    #[must_use]
    pub fn autoclaved_generation(generation: Generation, bucket: Option<BucketDate>) -> Self {
        Self(match bucket {
            None => format!("{AUTOCLAVED}/{generation}"),
            Some(bucket) => format!("{AUTOCLAVED}/{generation}/{bucket}"),
        })
    }

    /// An archive.
    #[must_use]
    pub fn autoclaved(generation: Generation, file: &BucketFile) -> Self {
        Self(format!("{AUTOCLAVED}/{generation}/{file}"))
    }

    /// The index of an archive.
    #[must_use]
    pub fn autoclaved_file_index(generation: Generation, file: &BucketFile) -> Self {
        Self(format!("{AUTOCLAVED}/{generation}/{file}{INDEX_END}"))
    }

    /// The indexes of all archives of a sealed bucket.
    #[must_use]
    pub fn autoclaved_index(generation: Generation, bucket: BucketDate) -> Self {
        Self(format!("{AUTOCLAVED}/{generation}/{bucket}/{INDEX}"))
    }

    /// Which generation is in force; see [`crate::archive::Current`].
    #[must_use]
    pub fn autoclaved_current() -> Self {
        Self(format!("{AUTOCLAVED}/{CURRENT}"))
    }

    /// The generation and the bucket of an object among the archives, and what it is; nothing for any other key.
    #[must_use]
    pub fn as_autoclaved(&self) -> Option<(Generation, BucketDate, AutoclavedObject)> {
        let rest = self.0.strip_prefix(AUTOCLAVED)?.strip_prefix('/')?;
        let (generation, rest) = rest.split_once('/')?;
        let (bucket, name) = rest.split_once('/')?;
        let object = match name.strip_suffix(INDEX_END) {
            _ if name == INDEX => AutoclavedObject::SealedIndex,
            Some(file) => AutoclavedObject::FileIndex(FileName::new(file).ok()?),
            None => AutoclavedObject::File(FileName::new(name).ok()?),
        };
        Some((generation.parse().ok()?, bucket.parse().ok()?, object))
    }

    /// The date and the name of `<folder>/<date>/<name>`.
    fn in_bucket(&self, folder: &str) -> Option<(BucketDate, &str)> {
        let rest = self.0.strip_prefix(folder)?.strip_prefix('/')?;
        let (bucket, name) = rest.split_once('/')?;
        match name.contains('/') {
            true => None,
            false => Some((bucket.parse().ok()?, name)),
        }
    }

    /// The rest of a key that is known to begin and end so, and to have something between.
    pub(crate) fn without_ends(&self, begin: &str, end: &str) -> Self {
        let rest = self.0.strip_prefix(begin).unwrap_or(&self.0);
        let rest = rest.strip_suffix(end).unwrap_or(rest);
        Self(rest.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Digest;
    use crate::frames::FrameCodec;

    #[test]
    fn keys_are_spelled_once_and_read_back() {
        let bucket: BucketDate = "2026-11-15".parse().unwrap();
        let generation = Generation::of(Digest::of(b"abc"));
        let kind = "ndt".parse().unwrap();
        let name = FileName::sealed(&kind, 0, 12, FrameCodec::Lz4);
        let file = BucketFile::new(bucket, name.clone());
        let open = OpenIndexName {
            kind: kind.clone(),
            number: 3,
        };
        for (key, text) in [
            (Key::raw_reports(None), "reports-raw"),
            (Key::raw_reports(Some(bucket)), "reports-raw/2026-11-15"),
            (
                Key::raw_report(bucket, "x").unwrap(),
                "reports-raw/2026-11-15/x",
            ),
            (Key::canned_folder(None), "canned"),
            (Key::canned_folder(Some(bucket)), "canned/2026-11-15"),
            (Key::canned(&file), "canned/2026-11-15/ndt.00.tar.lz4"),
            (
                Key::canned_open_index(bucket, &open),
                "canned/2026-11-15/ndt.0003.index.json.gz",
            ),
            (Key::canned_index(bucket), "canned/2026-11-15/index.json.gz"),
            (
                Key::expired(&file, Expired::Can),
                "canned/2026-11-15/expired-cans/ndt.00.tar.lz4.json.gz",
            ),
            (
                Key::expired(&file, Expired::Archive),
                "canned/2026-11-15/expired-archives/ndt.00.tar.lz4.json.gz",
            ),
            (
                Key::canned_private_index(bucket),
                "canned/2026-11-15/private-index.json.gz",
            ),
            (Key::autoclaved_folder(), "autoclaved"),
            (
                Key::autoclaved_generation(generation, None),
                "autoclaved/rba7816bf",
            ),
            (
                Key::autoclaved_generation(generation, Some(bucket)),
                "autoclaved/rba7816bf/2026-11-15",
            ),
            (
                Key::autoclaved(generation, &file),
                "autoclaved/rba7816bf/2026-11-15/ndt.00.tar.lz4",
            ),
            (
                Key::autoclaved_file_index(generation, &file),
                "autoclaved/rba7816bf/2026-11-15/ndt.00.tar.lz4.index.json.gz",
            ),
            (
                Key::autoclaved_index(generation, bucket),
                "autoclaved/rba7816bf/2026-11-15/index.json.gz",
            ),
            (Key::autoclaved_current(), "autoclaved/current.json"),
            (Key::lake_key(), ".cannery/lake-key"),
        ] {
            assert_eq!(key.as_str(), text);
            assert_eq!(Key::new(text).unwrap(), key);
        }
        assert!(Key::lake_key().is_internal());
        assert_eq!(
            Key::raw_report(bucket, "x").unwrap().as_raw_report(),
            Some((bucket, "x"))
        );
        let sealed = CannedObject::Sealed {
            kind,
            slice: 0,
            name: name.clone(),
        };
        assert_eq!(Key::canned(&file).as_canned(), Some((bucket, sealed)));
        for what in [Expired::Can, Expired::Archive] {
            let mark = Key::expired(&file, what);
            assert_eq!(mark.as_expired(), Some((file.clone(), what)));
            assert_eq!(mark.as_canned(), None);
        }
        let canned = |key: Key| key.as_canned().map(|(_, object)| object);
        assert_eq!(
            canned(Key::canned_open_index(bucket, &open)),
            Some(CannedObject::OpenIndex(open))
        );
        assert_eq!(
            canned(Key::canned_private_index(bucket)),
            Some(CannedObject::PrivateIndex)
        );
        for (key, object) in [
            (
                Key::autoclaved(generation, &file),
                AutoclavedObject::File(name.clone()),
            ),
            (
                Key::autoclaved_file_index(generation, &file),
                AutoclavedObject::FileIndex(name),
            ),
            (
                Key::autoclaved_index(generation, bucket),
                AutoclavedObject::SealedIndex,
            ),
        ] {
            assert_eq!(key.as_autoclaved(), Some((generation, bucket, object)));
        }
    }

    #[test]
    fn other_keys_are_nothing_here() {
        for text in [
            "canned",
            "canned/2026-11-15",
            "canned/2026-11-32/index.json.gz",
            "canned/2026-11-15/a/index.json.gz",
            "canneds/2026-11-15/index.json.gz",
            "autoclaved/current.json",
            "autoclaved/rba7816bf/index.json.gz",
            "autoclaved/x/2026-11-15/index.json.gz",
            "autoclaved/rba7816bf/2026-11-15/a/b.lz4",
            "reports-raw/x",
        ] {
            let key = Key::new(text).unwrap();
            assert_eq!(
                (key.as_canned(), key.as_autoclaved(), key.as_raw_report()),
                (None, None, None),
                "{text}"
            );
        }
    }
}
