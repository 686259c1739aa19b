//! The name of a report within a can: a relative path, unique in its bucket.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::BucketDate;
use crate::feed::{FeedId, Hour};
use crate::key::{InvalidKey, Key};
use crate::spool::BundleName;

/// The name of a report: `<date>/<file name>` of a report file, the key of a bundle below `autoload/` without its `.gz`, or
/// `<feed>/<date>/<hour>/<name>` of a download. It keeps the rules of a [`Key`], so it is a safe relative path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TextName(Key);

impl TextName {
    /// Checks `text`.
    ///
    /// # Errors
    /// [`InvalidKey`] says which rule it breaks.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidKey> {
        Key::new(text).map(Self)
    }

    /// The name of a report file that arrived on this date.
    ///
    /// # Errors
    /// [`InvalidKey`] when it is no name of a file.
    pub fn of_report_file(bucket: BucketDate, name: &str) -> Result<Self, InvalidKey> {
        Self::new(format!("{bucket}/{name}"))
    }

    /// The name of the rows of a bundle.
    #[must_use]
    pub fn of_bundle(bundle: &BundleName) -> Self {
        Self(bundle.data_key().without_ends("autoload/", ".gz"))
    }

    /// Where the bundle of this name would lie, whether or not it is one.
    #[must_use]
    pub fn bundle_key(&self) -> Option<Key> {
        Key::new(format!("autoload/{self}.gz")).ok()
    }

    /// Where the report file of this name would lie, whether or not it is one.
    #[must_use]
    pub fn report_key(&self) -> Option<Key> {
        Key::new(format!("reports-raw/{self}")).ok()
    }

    /// The name of a member of an hour's archive.
    ///
    /// # Errors
    /// [`InvalidKey`] when they are too long together.
    pub fn of_download(feed: &FeedId, hour: Hour, name: &str) -> Result<Self, InvalidKey> {
        let begin = hour.begin();
        let folder = begin.strftime("%Y-%m-%d/%H");
        Self::new(format!("{feed}/{folder}/{name}"))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The last component.
    #[must_use]
    pub fn file_name(&self) -> &str {
        self.0.file_name()
    }
}

impl fmt::Display for TextName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for TextName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_input_has_its_form() {
        let bucket = "2026-11-15".parse().unwrap();
        let report = TextName::of_report_file(bucket, "x.json").unwrap();
        assert_eq!(report.as_str(), "2026-11-15/x.json");
        assert!(TextName::of_report_file(bucket, "../x").is_err());
        let key = "autoload/v1/ndt/scamper1/2026/11/14/20261115T182403.850914Z-scamper1-mlab1-lga01-ndt-data.jsonl.gz";
        let (bundle, _) = BundleName::parse(&Key::new(key).unwrap()).unwrap();
        assert_eq!(
            TextName::of_bundle(&bundle).as_str(),
            "v1/ndt/scamper1/2026/11/14/20261115T182403.850914Z-scamper1-mlab1-lga01-ndt-data.jsonl"
        );
        let feed = FeedId::new("f").unwrap();
        let hour = Hour::from_folder("2026/11/15/08").unwrap();
        let download = TextName::of_download(&feed, hour, "a/b").unwrap();
        assert_eq!(download.as_str(), "f/2026-11-15/08/a/b");
    }
}
