//! What is wrong, and what to do about it.

use std::fmt;

use cannery_formats::BucketDate;
use serde::Serialize;

/// What is wrong with something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Problem {
    /// An index cannot be read.
    DamagedIndex,
    /// An index names an object that is not there.
    Missing,
    /// An object is not as long as its index says.
    WrongSize,
    /// Nobody names an object.
    Orphan,
    /// A can has no archive.
    NotAutoclaved,
    /// An archive is not in the catalog.
    NotLoaded,
    /// The catalog has another state of an archive, or rows of old features.
    Outdated,
    /// A newer program has loaded an archive.
    NewerThanCode,
    /// The catalog has an archive that the lake has not.
    Vanished,
    /// An object that was read is not what its index says.
    Damaged,
    /// The catalog does not have measurements of an archive where they are.
    Misplaced,
    /// The catalog contradicts itself.
    Contradiction,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What is wrong.
    pub problem: Problem,
    /// The date it is of.
    pub bucket: Option<String>,
    /// With which object or file.
    pub subject: String,
    /// What was seen.
    pub why: String,
    /// What to do about it.
    pub next: String,
}

impl Finding {
    /// `can_be_made` says that it is an archive whose can is there.
    pub(super) fn new(
        problem: Problem,
        bucket: Option<BucketDate>,
        subject: &dyn fmt::Display,
        why: &dyn fmt::Display,
        can_be_made: bool,
    ) -> Self {
        let bucket = bucket.map(|bucket| bucket.to_string());
        let subject = subject.to_string();
        Self {
            problem,
            next: problem.next(bucket.as_deref().unwrap_or("DATE"), can_be_made),
            bucket,
            subject,
            why: why.to_string(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.subject, self.why, self.next)
    }
}

impl Problem {
    fn next(self, bucket: &str, can_be_made: bool) -> String {
        match self {
            Self::Missing if can_be_made => {
                format!("run `cannery autoclave {bucket}`, which makes it again of its can")
            }
            Self::DamagedIndex | Self::WrongSize | Self::Damaged if can_be_made => format!(
                "remove the archive and its index with `cannery lake rm`, and run `cannery autoclave {bucket}`, which makes them again of the can"
            ),
            Self::DamagedIndex | Self::Missing | Self::WrongSize | Self::Damaged => {
                "put a sound copy in its place, from a mirror or a version of the bucket".to_owned()
            }
            Self::Orphan => {
                "nothing reads it; remove it with `cannery lake rm` while no worker runs".to_owned()
            }
            Self::NotAutoclaved => format!("run `cannery autoclave {bucket}`"),
            Self::NotLoaded | Self::Outdated => format!("run `cannery centrifuge {bucket}`"),
            Self::NewerThanCode => "use the newer program".to_owned(),
            Self::Vanished => {
                "put it back, or run `cannery rebuild` if it was removed on purpose".to_owned()
            }
            Self::Misplaced | Self::Contradiction => "run `cannery rebuild`".to_owned(),
        }
    }
}
