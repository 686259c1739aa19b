//! The stages that reports pass, the keys of their work in a journal, and what every stage needs.

use std::fmt;
use std::str::FromStr;

use cannery_formats::frames::FrameEncoder;
use cannery_formats::{BucketDate, Kind, LakeKey};
use cannery_lake::Lake;
use cannery_runtime::Clock;
use jiff::tz::TimeZone;

use crate::scratch::Scratch;

/// Stands for every kind, or every slice, in a key.
const ALL: &str = "-";

/// A step on the way of a report. Each reads objects and writes objects; none calls another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// What is in no can yet is found.
    Discover,
    /// It becomes a can of an open bucket.
    Can,
    /// The cans of a bucket get their final names.
    Seal,
    /// A can becomes an archive that may be public.
    Autoclave,
    /// An archive becomes rows of the catalog.
    Centrifuge,
    /// What was written is read again and compared.
    Verify,
    /// Report files that are in verified cans are removed.
    Clear,
    /// What was replaced is removed.
    Sweep,
    /// What is kept no longer is removed.
    Expire,
    /// Tables by the date of measurements are computed again.
    Aggregate,
    /// What came of an hour of a feed, and what did not, is written to the catalog.
    Cover,
}

impl Stage {
    /// All of them, in the order in which a report passes them.
    pub const ALL: [Self; 11] = [
        Self::Discover,
        Self::Can,
        Self::Seal,
        Self::Autoclave,
        Self::Centrifuge,
        Self::Verify,
        Self::Clear,
        Self::Sweep,
        Self::Expire,
        Self::Aggregate,
        Self::Cover,
    ];

    /// Its name in keys, on pages and in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Discover => "discover",
            Self::Can => "can",
            Self::Seal => "seal",
            Self::Autoclave => "autoclave",
            Self::Centrifuge => "centrifuge",
            Self::Verify => "verify",
            Self::Clear => "clear",
            Self::Sweep => "sweep",
            Self::Expire => "expire",
            Self::Aggregate => "aggregate",
            Self::Cover => "cover",
        }
    }
}

/// The key of the work of a stage: `<stage>/<bucket>/<kind>/<slice>`; `-` stands for all kinds and for all slices.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StageKey {
    /// What is to be done.
    pub stage: Stage,
    /// In which bucket.
    pub bucket: BucketDate,
    /// With reports of which kind; all when left out.
    pub kind: Option<Kind>,
    /// With which of them: `open`, the name of a file, or all when left out. Never empty, `-`, or with a `/`.
    pub slice: Option<String>,
}

/// The text is no key of a stage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a key of the form `<stage>/<bucket>/<kind>/<slice>`")]
pub struct InvalidStageKey;

impl StageKey {
    /// What is in no can yet is to be added to the open cans of a bucket.
    #[must_use]
    pub fn can(bucket: BucketDate, kind: Kind) -> Self {
        Self {
            stage: Stage::Can,
            bucket,
            kind: Some(kind),
            slice: Some("open".to_owned()),
        }
    }

    /// A bucket is to be sealed.
    #[must_use]
    pub fn seal(bucket: BucketDate) -> Self {
        Self {
            stage: Stage::Seal,
            bucket,
            kind: None,
            slice: None,
        }
    }

    /// A can is to become an archive.
    #[must_use]
    pub fn autoclave(bucket: BucketDate, kind: Kind, file: &str) -> Self {
        Self {
            stage: Stage::Autoclave,
            bucket,
            kind: Some(kind),
            slice: Some(file.to_owned()),
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Stage {
    type Err = InvalidStageKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        all.find(|stage| stage.name() == text)
            .ok_or(InvalidStageKey)
    }
}

impl fmt::Display for StageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/", self.stage, self.bucket)?;
        match &self.kind {
            Some(kind) => write!(f, "{kind}/")?,
            None => write!(f, "{ALL}/")?,
        }
        f.write_str(self.slice.as_deref().unwrap_or(ALL))
    }
}

impl FromStr for StageKey {
    type Err = InvalidStageKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split('/');
        let [Some(stage), Some(bucket), Some(kind), Some(slice), None] =
            [(); 5].map(|()| parts.next())
        else {
            return Err(InvalidStageKey);
        };
        if slice.is_empty() {
            return Err(InvalidStageKey);
        }
        let kind = (kind != ALL).then(|| kind.parse()).transpose();
        Ok(Self {
            stage: stage.parse()?,
            bucket: bucket.parse().map_err(|_| InvalidStageKey)?,
            kind: kind.map_err(|_| InvalidStageKey)?,
            slice: (slice != ALL).then(|| slice.to_owned()),
        })
    }
}

/// What every stage needs. Clones are the same.
#[derive(Clone, Debug)]
pub struct Plant {
    /// Where reports, bundles, hours and cans are.
    pub raw: Lake,
    /// Where archives are; it may be the same.
    pub public: Lake,
    /// For what is being worked on.
    pub scratch: Scratch,
    /// The time.
    pub clock: Clock,
    /// How cans and archives are compressed.
    pub encoder: FrameEncoder,
    /// The text of a can; see [`cannery_formats::can::CAN_BYTES`].
    pub can_bytes: u64,
    /// The text of a frame of an archive, at least.
    pub frame_bytes: u64,
    /// The secret of the lake.
    pub lake_key: LakeKey,
}

impl Plant {
    /// The bucket of what arrives now.
    #[must_use]
    pub fn today(&self) -> BucketDate {
        let now = TimeZone::UTC.to_datetime(self.clock.now());
        BucketDate::new(now.date()).expect("a clock shows a year after 0")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_as_they_are_written() {
        let bucket = "2026-11-15".parse().unwrap();
        let kind: Kind = "feed-a.1".parse().unwrap();
        for (key, text) in [
            (
                StageKey::can(bucket, kind.clone()),
                "can/2026-11-15/feed-a.1/open",
            ),
            (StageKey::seal(bucket), "seal/2026-11-15/-/-"),
            (
                StageKey::autoclave(bucket, kind, "feed-a.1.0.tar.lz4"),
                "autoclave/2026-11-15/feed-a.1/feed-a.1.0.tar.lz4",
            ),
        ] {
            assert_eq!(key.to_string(), text);
            assert_eq!(text.parse(), Ok(key));
        }
        for stage in Stage::ALL {
            assert_eq!(stage.name().parse(), Ok(stage));
        }
    }

    #[test]
    fn nothing_else_is_a_key() {
        for text in [
            "",
            "can",
            "can/2026-11-15/ndt",
            "can/2026-11-15/ndt/",
            "can/2026-11-15//open",
            "can/2026-11-15/ndt/open/",
            "can/2026-11-15/n-dt/open",
            "can/2026-11-31/ndt/open",
            "consolidate/2026-11-15/ndt/open",
            "Can/2026-11-15/ndt/open",
        ] {
            assert_eq!(text.parse::<StageKey>(), Err(InvalidStageKey), "{text}");
        }
    }
}
