//! What is to be done with the archives of an hour: pure, from their keys and sets alone.

use cannery_formats::Key;
use cannery_formats::feed::ContentSet;

/// An archive that was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub(super) key: &'a Key,
    pub(super) set: &'a ContentSet,
}

/// What becomes of archives that are named for their content, or by Hoard.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reduction {
    /// Where everything is in the end.
    pub(super) whole: Whole,
    /// What may go once the whole was read back: strictly less than it, or the same under a larger key. In that order
    /// nothing is above itself, so that whatever replicas do at the same time, something that holds everything stays.
    pub(super) redundant: Vec<Key>,
}

/// The archive that holds everything.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Whole {
    /// There is nothing.
    Nothing,
    /// It is there already.
    There(Key),
    /// It must be made.
    Made(ContentSet),
}

/// Everything in one archive. What is in `beside` must be in it too, but is not touched.
pub(super) fn reduce(pieces: &[Piece<'_>], beside: &ContentSet) -> Reduction {
    let whole = united(pieces, beside);
    if pieces.is_empty() && whole.is_empty() {
        return Reduction {
            whole: Whole::Nothing,
            redundant: Vec::new(),
        };
    }
    let all = |piece: &&Piece<'_>| *piece.set == whole;
    let there = pieces.iter().filter(all).map(|piece| piece.key).min();
    let others = pieces.iter().map(|piece| piece.key);
    let redundant = others.filter(|key| Some(*key) != there).cloned().collect();
    Reduction {
        whole: match there {
            Some(key) => Whole::There(key.clone()),
            None => Whole::Made(whole),
        },
        redundant,
    }
}

/// What becomes of a primary that is replaced by compare-and-swap.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Growth {
    /// What it must hold before anything may be deleted.
    pub(super) set: ContentSet,
    /// Whether it must be written for that.
    pub(super) is_new: bool,
}

/// The primary takes in all pieces; nothing when there are none.
pub(super) fn grow(primary: Option<&ContentSet>, pieces: &[Piece<'_>]) -> Option<Growth> {
    if pieces.is_empty() {
        return None;
    }
    let before = primary.cloned().unwrap_or_default();
    let set = united(pieces, &before);
    let is_new = primary.is_none() || set != before;
    Some(Growth { set, is_new })
}

fn united(pieces: &[Piece<'_>], beside: &ContentSet) -> ContentSet {
    let sets = pieces.iter().map(|piece| piece.set);
    sets.fold(beside.clone(), |all, set| all.union(set))
}

#[cfg(test)]
mod tests {
    use cannery_formats::Digest;
    use cannery_formats::feed::Member;

    use super::*;

    fn set(names: &str) -> ContentSet {
        let member = |c: char| Member::new(c.to_string(), 1, Digest::of(b"x")).unwrap();
        names.chars().map(member).collect()
    }

    /// `key=members` for each piece.
    fn reduced(text: &str, beside: &str) -> String {
        let pieces: Vec<_> = text
            .split_whitespace()
            .map(|piece| piece.split_once('=').unwrap())
            .map(|(key, names)| (Key::new(key).unwrap(), set(names)))
            .collect();
        let pieces: Vec<_> = pieces.iter().map(|(key, set)| Piece { key, set }).collect();
        let Reduction { whole, redundant } = reduce(&pieces, &set(beside));
        let whole = match whole {
            Whole::Nothing => "nothing".to_owned(),
            Whole::There(key) => key.to_string(),
            Whole::Made(set) => set.iter().map(Member::name).collect(),
        };
        let redundant: Vec<_> = redundant.iter().map(Key::as_str).collect();
        format!("{whole} -{}", redundant.join(","))
    }

    #[test]
    fn only_what_is_less_or_the_same_under_a_larger_key_goes() {
        for (pieces, beside, expected) in [
            ("", "", "nothing -"),
            ("k=a", "", "k -"),
            ("k=", "", "k -"),
            ("k=a l=b", "", "ab -k,l"),
            ("k=a l=ab", "", "l -k"),
            ("k=ab l=a m=b", "", "k -l,m"),
            ("m=a l=a k=", "", "l -m,k"),
            ("k=a l=b m=ab n=ab", "", "m -k,l,n"),
            ("k=a", "b", "ab -k"),
            ("k=ab", "b", "k -"),
            ("", "ab", "ab -"),
        ] {
            assert_eq!(
                reduced(pieces, beside),
                expected,
                "{pieces} beside {beside}"
            );
        }
    }

    #[test]
    fn a_primary_is_written_only_when_it_grows() {
        let key = Key::new("k").unwrap();
        for (primary, piece, expected) in [
            (None, Some("a"), Some(("a", true))),
            (None, Some(""), Some(("", true))),
            (Some("ab"), Some("a"), Some(("ab", false))),
            (Some("a"), Some("b"), Some(("ab", true))),
            (Some("a"), None, None),
            (None, None, None),
        ] {
            let piece = piece.map(set);
            let pieces = piece.iter().map(|set| Piece { key: &key, set });
            let pieces: Vec<_> = pieces.collect();
            let expected = expected.map(|(names, is_new)| Growth {
                set: set(names),
                is_new,
            });
            assert_eq!(grow(primary.map(set).as_ref(), &pieces), expected);
        }
    }
}
