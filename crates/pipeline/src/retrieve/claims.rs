//! Which paths of the tree are taken, so that no two contents get the same one, on whatever disk.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use cannery_formats::Digest;
use cannery_formats::feed::{BodyHash, DownloadName, FeedId};
use cannery_formats::key::COMPONENT_BYTES_MAX;

/// The paths that were given out. It depends on what was asked before and on nothing else, so the same archives give the
/// same tree.
#[derive(Debug)]
pub(super) struct Claims {
    /// By the digest of the path in lower case: a disk may not tell `a` from `A`.
    taken: HashMap<Digest, Claim>,
    /// Names of downloads are not remembered: they hold feed, time and hash, so no two contents share one. Whatever else
    /// looks like one is renamed without being asked. That keeps a tree of millions of files out of memory.
    trusts_downloads: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct Claim {
    /// Of the path as it is.
    path: Digest,
    /// None for a folder.
    content: Option<Digest>,
}

impl Claims {
    pub(super) fn new(trusts_downloads: bool) -> Self {
        let taken = HashMap::new();
        Self {
            taken,
            trusts_downloads,
        }
    }

    pub(super) fn clear(&mut self) {
        self.taken.clear();
    }

    /// The path for a file below `folder`: its name if that is free, or taken by the same content. Otherwise the component
    /// that is not free gets a hash behind it. The folders of the path follow from `name` alone, not from the content.
    pub(super) fn path(
        &mut self,
        folder: &str,
        feed: &FeedId,
        name: &str,
        content: Digest,
    ) -> String {
        if self.trusts_downloads && is_true_download(feed, name, content) {
            return name.to_owned();
        }
        let (folders, file) = name.rsplit_once('/').unwrap_or(("", name));
        let mut path = String::new();
        for component in folders.split('/').filter(|part| !part.is_empty()) {
            let suffix = Digest::of(format!("{path}{component}/").as_bytes());
            let free = self.free(&format!("{folder}/{path}"), component, suffix, None);
            path = format!("{path}{free}/");
        }
        let above = format!("{folder}/{path}");
        let free = self.free(&above, file, content, Some(content));
        format!("{path}{free}")
    }

    fn free(&mut self, above: &str, name: &str, suffix: Digest, content: Option<Digest>) -> String {
        let mut free = name.to_owned();
        let mut turn = 0;
        if self.trusts_downloads && looks_like_download(name) {
            free = with_suffix(name, suffix, turn);
        }
        loop {
            let path = format!("{above}{free}");
            let claim = Claim {
                path: Digest::of(path.as_bytes()),
                content,
            };
            let folded = Digest::of(path.to_lowercase().as_bytes());
            match self.taken.entry(folded) {
                Entry::Vacant(place) => {
                    place.insert(claim);
                    return free;
                }
                Entry::Occupied(other) if *other.get() == claim => return free,
                Entry::Occupied(_) => {}
            }
            free = with_suffix(name, suffix, turn);
            turn += 1;
        }
    }
}

/// Whether it is the name that a collector gives to this content.
fn is_true_download(feed: &FeedId, name: &str, content: Digest) -> bool {
    let hash = BodyHash::of(&content);
    DownloadName::parse(feed, name).is_some_and(|name| name.hash == hash)
}

/// Whether some feed could have a download of this name.
fn looks_like_download(name: &str) -> bool {
    let mut ends = name.match_indices('_').map(|(end, _)| end);
    ends.any(|end| {
        let feed = FeedId::new(&name[..end]);
        feed.is_ok_and(|feed| DownloadName::parse(&feed, name).is_some())
    })
}

/// The name with a hash behind it, as archives have it for members of one name, and short enough for a disk.
fn with_suffix(name: &str, digest: Digest, turn: usize) -> String {
    let more = "~".repeat(turn);
    let suffix = format!(".~{}{more}", BodyHash::of(&digest));
    let mut end = name.len().min(COMPONENT_BYTES_MAX - suffix.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed() -> FeedId {
        FeedId::new("f").unwrap()
    }

    fn paths<const N: usize>(trusts: bool, asked: [(&str, &str); N]) -> [String; N] {
        let mut claims = Claims::new(trusts);
        asked.map(|(name, content)| {
            claims.path("folder", &feed(), name, Digest::of(content.as_bytes()))
        })
    }

    fn hash(content: &str) -> String {
        BodyHash::of(&Digest::of(content.as_bytes())).to_string()
    }

    #[test]
    fn other_content_and_other_case_get_a_hash() {
        let found = paths(
            false,
            [("a", "1"), ("a", "2"), ("a", "1"), ("A", "3"), ("a", "2")],
        );
        let (two, three) = (format!("a.~{}", hash("2")), format!("A.~{}", hash("3")));
        assert_eq!(found, ["a", &two, "a", &three, &two]);
    }

    #[test]
    fn a_file_is_no_folder() {
        let found = paths(
            false,
            [
                ("a", "1"),
                ("a/b", "2"),
                ("a/c", "3"),
                ("d/e", "4"),
                ("d", "5"),
            ],
        );
        let folder = format!("a.~{}", hash("a/"));
        let [b, c] = ["b", "c"].map(|name| format!("{folder}/{name}"));
        assert_eq!(found, ["a", &b, &c, "d/e", &format!("d.~{}", hash("5"))]);
    }

    #[test]
    fn a_name_that_somebody_prepared_is_passed_over() {
        let prepared = format!("a.~{}", hash("2"));
        let found = paths(false, [("a", "1"), (prepared.as_str(), "x"), ("a", "2")]);
        assert_eq!(found[2], format!("{prepared}~"));
    }

    #[test]
    fn names_stay_short_enough_for_a_disk() {
        let long = format!("{}é", "x".repeat(253));
        let [_, two] = paths(false, [(&long, "1"), (&long, "2")]);
        assert!(two.len() <= 255 && two.ends_with(&hash("2")), "{two}");
    }

    #[test]
    fn of_what_looks_like_a_download_only_a_true_one_has_its_name() {
        let name =
            |feed: &str, content| format!("{feed}_20261115T182403.850Z_{}.json", hash(content));
        let (own, other) = (name("f", "1"), name("g_h", "1"));
        let below = format!("{own}/x");
        let found = paths(
            true,
            [
                (&own, "1"),
                (&own, "2"),
                (&other, "1"),
                (&below, "3"),
                (&own, "1"),
            ],
        );
        assert_eq!(found[0], own);
        assert_eq!(found[1], format!("{own}.~{}", hash("2")));
        assert_eq!(
            found[2],
            format!("{other}.~{}", hash("1")),
            "it is of another feed"
        );
        assert_eq!(found[3], format!("{own}.~{}/x", hash(&format!("{own}/"))));
        assert_eq!(found[4], own);
    }
}
