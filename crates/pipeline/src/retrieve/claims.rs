//! Which paths of the tree are taken, so that no two contents get the same one, on whatever disk.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use cannery_formats::Digest;
use cannery_formats::feed::{BodyHash, DownloadName, FeedId};
use cannery_formats::key::COMPONENT_BYTES_MAX;

/// Between a name and the hash behind it.
const BEHIND: &str = ".~";

const TIME_BYTES: usize = "_20261115T182403.850Z".len();

/// The paths that were given out. It depends on what was asked before and on nothing else, so the same archives give the
/// same tree.
///
/// Names of downloads are not remembered: they hold feed, time and hash, so no two contents share one. Whatever else looks
/// like one is renamed, taken or not: nobody gets the name of a body who uploads something else under it, be it before the
/// body comes. That keeps a tree of millions of files out of memory, too.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// By the digest of the path in lower case: a disk may not tell `a` from `A`.
    taken: HashMap<Digest, Claim>,
}

#[derive(Debug, PartialEq, Eq)]
struct Claim {
    /// Of the path as it is.
    path: Digest,
    /// None for a folder.
    content: Option<Digest>,
}

impl Claims {
    pub(super) fn clear(&mut self) {
        self.taken.clear();
    }

    /// The path for a file below `folder`: its name if that is free, or taken by the same content, or that of a download of
    /// this content. Otherwise the component that is not free gets a hash behind it. The folders of the path follow from
    /// `name` alone, not from the content.
    pub(super) fn path(
        &mut self,
        folder: &str,
        feed: &FeedId,
        name: &str,
        content: Digest,
    ) -> String {
        let is_genuine = DownloadName::is_of(feed, name, &content);
        // With a hash behind it, a name looks like one with an odd postfix: who brings such a name has to ask for it.
        if is_genuine && !name.contains(BEHIND) {
            return name.to_owned();
        }
        let (folders, file) = name.rsplit_once('/').unwrap_or(("", name));
        let mut path = String::new();
        for component in folders.split('/').filter(|part| !part.is_empty()) {
            let suffix = Digest::of(format!("{path}{component}/").as_bytes());
            let wanted = wanted(component, suffix, false);
            let claim = (component, suffix, None);
            let free = self.free(&format!("{folder}/{path}"), wanted, claim);
            path = format!("{path}{free}/");
        }
        let above = format!("{folder}/{path}");
        let wanted = wanted(file, content, is_genuine);
        let free = self.free(&above, wanted, (file, content, Some(content)));
        format!("{path}{free}")
    }

    /// What is wanted, or else the name with a suffix that is free.
    fn free(
        &mut self,
        above: &str,
        wanted: String,
        (name, suffix, content): (&str, Digest, Option<Digest>),
    ) -> String {
        let mut free = wanted;
        let mut turn = 0;
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

/// What a component is called if nobody has that name yet.
fn wanted(name: &str, suffix: Digest, is_genuine: bool) -> String {
    match looks_like_download(name) && !is_genuine {
        true => with_suffix(name, suffix, 0),
        false => name.to_owned(),
    }
}

/// Whether a disk could take it for the name of a download of some feed, also one that does not tell `a` from `A`.
fn looks_like_download(name: &str) -> bool {
    let some_feed = FeedId::new("f").expect("it is a letter");
    let folded = name.to_lowercase();
    let mut ends = folded.match_indices('_').map(|(end, _)| end);
    ends.any(|end| {
        let Some((time, rest)) = folded[end..].split_at_checked(TIME_BYTES) else {
            return false;
        };
        let name = format!("f{}{rest}", time.to_ascii_uppercase());
        DownloadName::parse(&some_feed, &name).is_some()
    })
}

/// The name with a hash behind it, as archives have it for members of one name, and short enough for a disk.
fn with_suffix(name: &str, digest: Digest, turn: usize) -> String {
    let more = "~".repeat(turn);
    let suffix = format!("{BEHIND}{}{more}", BodyHash::of(&digest));
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

    fn paths<const N: usize>(asked: [(&str, &str); N]) -> [String; N] {
        let mut claims = Claims::default();
        asked.map(|(name, content)| {
            claims.path("folder", &feed(), name, Digest::of(content.as_bytes()))
        })
    }

    fn hash(content: &str) -> String {
        BodyHash::of(&Digest::of(content.as_bytes())).to_string()
    }

    #[test]
    fn other_content_and_other_case_get_a_hash() {
        let found = paths([("a", "1"), ("a", "2"), ("a", "1"), ("A", "3"), ("a", "2")]);
        let (two, three) = (format!("a.~{}", hash("2")), format!("A.~{}", hash("3")));
        assert_eq!(found, ["a", &two, "a", &three, &two]);
    }

    #[test]
    fn a_file_is_no_folder() {
        let found = paths([
            ("a", "1"),
            ("a/b", "2"),
            ("a/c", "3"),
            ("d/e", "4"),
            ("d", "5"),
        ]);
        let folder = format!("a.~{}", hash("a/"));
        let [b, c] = ["b", "c"].map(|name| format!("{folder}/{name}"));
        assert_eq!(found, ["a", &b, &c, "d/e", &format!("d.~{}", hash("5"))]);
    }

    #[test]
    fn a_name_that_somebody_prepared_is_passed_over() {
        let prepared = format!("a.~{}", hash("2"));
        let found = paths([("a", "1"), (prepared.as_str(), "x"), ("a", "2")]);
        assert_eq!(found[2], format!("{prepared}~"));
    }

    #[test]
    fn names_stay_short_enough_for_a_disk() {
        let long = format!("{}é", "x".repeat(253));
        let [_, two] = paths([(&long, "1"), (&long, "2")]);
        assert!(two.len() <= 255 && two.ends_with(&hash("2")), "{two}");
    }

    #[test]
    fn of_what_looks_like_a_download_only_a_true_one_has_its_name() {
        let name =
            |feed: &str, content| format!("{feed}_20261115T182403.850Z_{}.json", hash(content));
        let (own, other) = (name("f", "1"), name("g_h", "1"));
        let below = format!("{own}/x");
        let found = paths([
            (&own, "2"),
            (&own, "1"),
            (&other, "1"),
            (&below, "3"),
            (&own, "1"),
        ]);
        assert_eq!(found[0], format!("{own}.~{}", hash("2")));
        assert_eq!(found[1], own, "whoever comes first");
        assert_eq!(
            found[2],
            format!("{other}.~{}", hash("1")),
            "it is of another feed"
        );
        assert_eq!(found[3], format!("{own}.~{}/x", hash(&format!("{own}/"))));
        assert_eq!(found[4], own);
    }

    #[test]
    fn nothing_is_taken_for_a_download_by_a_disk_without_upper_case() {
        let own = format!("f_20261115T182403.850Z_{}.json", hash("1"));
        let others = [
            own.to_uppercase(),
            own.to_lowercase(),
            own.replace('f', "F"),
            own.replace(".json", ".JSON"),
        ];
        let own_folded = own.to_lowercase();
        for other in others {
            let [one, two] = paths([(&other, "2"), (&own, "1")]);
            assert_ne!(one.to_lowercase(), own_folded, "{other}");
            assert_eq!(two, own);
        }
    }

    #[test]
    fn a_name_that_is_genuine_and_prepared_for_another_is_passed_over() {
        let own = format!("f_20261115T182403.850Z_{}.json", hash("1"));
        // Its postfix is what a forged body of the same name gets behind its own.
        let prepared = format!("{own}.~{}", hash("2"));
        for asked in [
            [(own.as_str(), "2"), (&prepared, "1"), (&own, "1")],
            [(&prepared, "1"), (&own, "1"), (&own, "2")],
        ] {
            let found = paths(asked);
            let unique: std::collections::BTreeSet<_> = found.iter().collect();
            assert_eq!(unique.len(), 3, "{found:?}");
            assert!(found.contains(&own), "{found:?}");
        }
    }
}
