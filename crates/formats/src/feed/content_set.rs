//! What an hour's archive holds, whatever it is wrapped in: the set whose union is the merge of archives.

use std::collections::{BTreeSet, HashSet, btree_set};
use std::fmt;

use super::download_name::DownloadName;
use super::feed_id::FeedId;
use super::{MANIFEST_NAME, is_short_hash, short_hash};
use crate::key::{InvalidKey, Key};
use crate::{Digest, Hasher};

/// One entry of an archive. Two with the same name and other content are two entries.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    name: String,
    size: u64,
    sha256: Digest,
}

impl Member {
    /// Checks a name: it is a relative path without `..`, and not that of the manifest.
    ///
    /// # Errors
    /// [`InvalidKey`] says what is wrong with the name.
    pub fn new(name: impl Into<String>, size: u64, sha256: Digest) -> Result<Self, InvalidKey> {
        let name = Key::new(name)?.as_str().to_owned();
        if name == MANIFEST_NAME {
            return Err(InvalidKey {
                key: name,
                reason: "it is that of the manifest",
            });
        }
        Ok(Self { name, size, sha256 })
    }

    /// Its name, a safe relative path.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The length of its content in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The digest of its content.
    #[must_use]
    pub fn sha256(&self) -> Digest {
        self.sha256
    }
}

/// The hash of a set in a name: 26 characters of base32.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetHash(String);

impl SetHash {
    /// Reads a hash; nothing when the text is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        is_short_hash(text).then(|| Self(text.to_owned()))
    }
}

impl fmt::Display for SetHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A set of members, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentSet(BTreeSet<Member>);

impl ContentSet {
    /// Adds a member; says whether it is new.
    pub fn insert(&mut self, member: Member) -> bool {
        self.0.insert(member)
    }

    /// Everything that is in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0).cloned().collect())
    }

    /// Whether everything of `other` is here as well.
    #[must_use]
    pub fn contains_all(&self, other: &Self) -> bool {
        self.0.is_superset(&other.0)
    }

    /// Whether this member is here.
    #[must_use]
    pub fn contains(&self, member: &Member) -> bool {
        self.0.contains(member)
    }

    /// The members in order.
    pub fn iter(&self) -> btree_set::Iter<'_, Member> {
        self.0.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The hash of the set: of one line for each member, `<sha256> <size> <name>`, in order.
    #[must_use]
    pub fn hash(&self) -> SetHash {
        let mut hasher = Hasher::default();
        for Member { name, size, sha256 } in &self.0 {
            hasher.update(format!("{sha256} {size} {name}\n").as_bytes());
        }
        SetHash(short_hash(&hasher.finish()))
    }

    /// Where each member lies in an archive of this set of `feed`, in order of the members. That is its name; of several with
    /// one name, all but one have their hash behind it, so that no path is there twice.
    #[must_use]
    pub fn paths(&self, feed: &FeedId) -> Vec<(String, &Member)> {
        let names: HashSet<&str> = self.0.iter().map(Member::name).collect();
        let members: Vec<&Member> = self.0.iter().collect();
        let mut paths = Vec::with_capacity(members.len());
        for twins in members.chunk_by(|one, next| one.name == next.name) {
            let owner = owner(feed, twins);
            for (place, member) in twins.iter().enumerate() {
                let mut path = member.name.clone();
                if place != owner {
                    path = format!("{path}.~{}", short_hash(&member.sha256));
                    while names.contains(path.as_str()) {
                        path.push('~');
                    }
                }
                paths.push((path, *member));
            }
        }
        paths
    }
}

/// Which of several members with one name lies under it: the body that the name of a download is of, so that nobody takes its
/// place who uploads something else under its name; and otherwise the first.
fn owner(feed: &FeedId, twins: &[&Member]) -> usize {
    if twins.len() == 1 {
        return 0;
    }
    let is_genuine = |twin: &&Member| DownloadName::is_of(feed, &twin.name, &twin.sha256);
    twins.iter().position(is_genuine).unwrap_or(0)
}

impl FromIterator<Member> for ContentSet {
    fn from_iter<I: IntoIterator<Item = Member>>(members: I) -> Self {
        Self(members.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn feed() -> FeedId {
        FeedId::new("f").unwrap()
    }

    fn member(name: &str, body: &[u8]) -> Member {
        Member::new(name, body.len() as u64, Digest::of(body)).unwrap()
    }

    #[test]
    fn the_hash_is_that_of_the_documented_text() {
        let set: ContentSet = [member("b", b"2"), member("a", b"1")].into_iter().collect();
        let [one, two] = [Digest::of(b"1"), Digest::of(b"2")];
        let text = format!("{one} 1 a\n{two} 1 b\n");
        assert_eq!(
            set.hash().to_string(),
            short_hash(&Digest::of(text.as_bytes()))
        );
        assert_eq!(SetHash::parse(&set.hash().to_string()), Some(set.hash()));
        assert_eq!(SetHash::parse("short"), None);
    }

    #[test]
    fn no_path_is_there_twice() {
        let twin = member("a", b"2");
        let taken = format!("a.~{}", short_hash(&twin.sha256));
        let set: ContentSet = [member("a", b"1"), twin, member(&taken, b"3")]
            .into_iter()
            .collect();
        let paths = set.paths(&feed());
        let unique: HashSet<_> = paths.iter().map(|(path, _)| path).collect();
        assert_eq!(unique.len(), 3, "{paths:?}");
        assert_eq!(paths[0].0, "a");
    }

    #[test]
    fn the_body_that_a_name_is_of_lies_under_it_whatever_else_has_it() {
        let time = "2026-11-15T18:24:03.850Z".parse().unwrap();
        let download = DownloadName::new(feed(), time, &Digest::of(b"genuine"), ".json");
        let name = download.to_string();
        let genuine = member(&name, b"genuine");
        for forged in [&b""[..], b"short", b"forgery", b"a longer one"] {
            let forged = member(&name, forged);
            let set: ContentSet = [forged.clone(), genuine.clone()].into_iter().collect();
            let paths = set.paths(&feed());
            let members: Vec<_> = paths.iter().map(|(_, member)| *member).collect();
            assert!(set.iter().eq(members), "the order of the set stays");
            let beside = format!("{name}.~{}", short_hash(&forged.sha256));
            for (path, member) in paths {
                let expected = if *member == genuine { &name } else { &beside };
                assert_eq!(path, *expected, "{member:?}");
            }
        }
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_none() {
        for name in ["", "/a", "../a", "a/../b", "a\nb", MANIFEST_NAME] {
            assert!(Member::new(name, 0, Digest::of(b"")).is_err(), "{name:?}");
        }
    }

    fn some_set() -> impl Strategy<Value = ContentSet> {
        let members = proptest::collection::vec(("[ab]{1,2}", any::<bool>()), 0..6);
        members.prop_map(|members| {
            let members = members.iter();
            members
                .map(|(name, body)| member(name, &[u8::from(*body)]))
                .collect()
        })
    }

    proptest! {
        #[test]
        fn union_is_that_of_sets(a in some_set(), b in some_set(), c in some_set()) {
            prop_assert_eq!(a.union(&b), b.union(&a));
            prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
            prop_assert_eq!(&a.union(&a), &a);
            prop_assert!(a.union(&b).contains_all(&a));
            prop_assert_eq!(a.contains_all(&b), a.union(&b) == a);
            prop_assert_eq!(a.hash() == b.hash(), a == b);
        }
    }
}
