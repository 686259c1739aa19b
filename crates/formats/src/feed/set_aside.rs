//! The mark of an archive that cannot be read: it stays where it is, and nobody counts on it or reports it any more.
//!
//! A mark and not a move: no store deletes an object only if it is still the one that was looked at. A delete that comes late would
//! hit a sound archive that somebody has put under the name that became free.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Key;

/// The folder of marks, in the folder of the hour.
pub const SET_ASIDE_FOLDER: &str = ".set-aside";

const END: &str = ".json";

/// What the object says. That it is there is what counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAside {
    /// The archive.
    pub archive: Key,
    /// What is wrong with it.
    pub why: String,
    /// When it was found.
    pub set_aside: Timestamp,
    /// The program that did it.
    pub by: String,
}

impl SetAside {
    /// The object.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec(self).expect("names and times are always JSON");
        text.push(b'\n');
        text
    }
}

/// The mark of the archive `name`, below the folder of the hour.
pub(crate) fn mark_of(name: &str) -> String {
    format!("{SET_ASIDE_FOLDER}/{name}{END}")
}

/// The name of the archive that a name below the folder of the hour is the mark of.
pub(crate) fn marked(name: &str) -> Option<&str> {
    let name = name.strip_prefix(SET_ASIDE_FOLDER)?.strip_prefix('/')?;
    let name = name.strip_suffix(END)?;
    (!name.is_empty() && !name.contains('/')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::FoundName;

    #[test]
    fn a_mark_belongs_to_the_hour_of_its_archive() {
        let archive = Key::new("f/2026/11/15/18/f_20261115T18Z.tar.gz").unwrap();
        let mark = Key::feed_set_aside(&archive).unwrap();
        let expected = "f/2026/11/15/18/.set-aside/f_20261115T18Z.tar.gz.json";
        assert_eq!(mark.as_str(), expected);
        let (feed, hour, name) = mark.as_feed_object().unwrap();
        assert_eq!(
            (feed.as_str(), hour.to_string().as_str()),
            ("f", "20261115T18Z")
        );
        let found = FoundName::SetAside("f_20261115T18Z.tar.gz".to_owned());
        assert_eq!(FoundName::of(&feed, hour, name), found);
    }

    #[test]
    fn what_only_looks_like_a_mark_is_none() {
        for name in [
            ".set-aside",
            ".set-aside/.json",
            ".set-aside/a",
            ".set-aside/a/b.json",
        ] {
            assert_eq!(marked(name), None, "{name}");
        }
        for key in [
            "x.set-aside/a.json",
            "f/.set-aside/a.json",
            "f/2026/11/15/18/x.set-aside/a",
        ] {
            assert_eq!(Key::new(key).unwrap().as_feed_object(), None, "{key}");
        }
        assert_eq!(Key::feed_set_aside(&Key::new("autoload/x").unwrap()), None);
    }
}
