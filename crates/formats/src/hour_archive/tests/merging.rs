//! A merge is the union of sets, whatever the inputs look like.

use std::io;

use proptest::prelude::*;

use super::support::*;
use crate::feed::{Codec, ContentSet};
use crate::hour_archive::{ArchiveFault, Input, Survey, merge};

/// Unites archives as a caller does: survey all, then merge.
fn unite(archives: &[Vec<u8>], codec: Codec) -> Result<(ContentSet, Vec<u8>), ArchiveFault> {
    let surveys: Vec<Survey> = archives.iter().map(|one| look(one).unwrap()).collect();
    unite_surveyed(&surveys, archives, codec)
}

fn unite_surveyed(
    surveys: &[Survey],
    archives: &[Vec<u8>],
    codec: Codec,
) -> Result<(ContentSet, Vec<u8>), ArchiveFault> {
    let inputs = surveys.iter().zip(archives).map(|(survey, archive)| Input {
        survey,
        content: Box::new(archive.as_slice()),
    });
    merge(
        inputs.collect(),
        &mut scratch(),
        Vec::new(),
        &feed(),
        hour(),
        &fast(codec),
    )
}

#[derive(Clone, Debug)]
struct Made {
    bodies: Vec<Body>,
    is_ours: bool,
    codec: Codec,
}

impl Made {
    fn archive(&self) -> Vec<u8> {
        match self.is_ours {
            true => ours(&self.bodies, fast(self.codec)),
            false => foreign(&self.bodies, self.codec),
        }
    }
}

fn some_codec() -> impl Strategy<Value = Codec> {
    proptest::sample::select(Codec::ALL.to_vec())
}

fn some_archive() -> impl Strategy<Value = Made> {
    let name = prop_oneof!["[ab]{1,2}", "[ab]/[ab]", "c{101,110}"];
    let content = prop_oneof![Just(vec![]), Just(vec![1]), Just(vec![2; 700])];
    let bodies = proptest::collection::vec((name, content), 0..7);
    (bodies, any::<bool>(), any::<bool>(), some_codec()).prop_map(
        |(mut bodies, is_sorted, is_ours, codec)| {
            if is_sorted {
                bodies.sort_by_key(member);
            }
            Made {
                bodies,
                is_ours,
                codec,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_merge_is_the_union(
        some in proptest::collection::vec(some_archive(), 0..5),
        codec in some_codec(),
    ) {
        let archives: Vec<_> = some.iter().map(Made::archive).collect();
        let union = some
            .iter()
            .fold(ContentSet::default(), |all, one| all.union(&set_of(&one.bodies)));
        let (set, merged) = unite(&archives, codec).unwrap();
        prop_assert_eq!(&set, &union);
        let survey = look(&merged).unwrap();
        prop_assert_eq!(&survey.set, &union);
        prop_assert!(survey.in_order);
        let bodies: Vec<Body> = some.into_iter().flat_map(|one| one.bodies).collect();
        prop_assert!(merged == ours(&bodies, fast(codec)), "other bytes than a writer makes");
    }
}

#[test]
fn an_input_that_is_not_what_was_surveyed_is_a_fault() {
    let [a, b, c] = [body("a", b"1"), body("b", b"2"), body("c", b"3")];
    let changed = |name: &str| body(name, b"9");
    let before = [a.clone(), b.clone(), c.clone()];
    let others = [
        vec![a.clone(), b.clone()],
        vec![a.clone(), changed("b"), c.clone()],
        vec![a.clone(), b.clone(), c.clone(), changed("d")],
        vec![b, a, c],
        vec![],
    ];
    for sorted in [true, false] {
        let mut bodies = before.to_vec();
        if !sorted {
            bodies.reverse();
        }
        let archives = [foreign(&bodies, Codec::Gzip), foreign(&bodies, Codec::Zstd)];
        let surveys = archives.each_ref().map(|archive| look(archive).unwrap());
        assert!(surveys.iter().all(|survey| survey.in_order == sorted));
        for other in &others {
            for place in 0..2 {
                if !sorted && set_of(other) == surveys[0].set {
                    continue;
                }
                let mut now = archives.to_vec();
                now[place] = foreign(other, Codec::Gzip);
                let fault = unite_surveyed(&surveys, &now, Codec::Gzip).unwrap_err();
                assert!(
                    matches!(fault, ArchiveFault::Damaged(_) | ArchiveFault::TooLarge(_)),
                    "{other:?}: {fault}"
                );
            }
        }
    }
}

#[test]
fn a_scratch_that_fails_is_not_the_fault_of_an_archive() {
    let archive = foreign(&[body("b", b"1"), body("a", b"2")], Codec::Gzip);
    let survey = look(&archive).unwrap();
    let input = Input {
        survey: &survey,
        content: Box::new(archive.as_slice()),
    };
    let result = merge(
        vec![input],
        &mut || Err(io::ErrorKind::StorageFull.into()),
        Vec::new(),
        &feed(),
        hour(),
        &fast(Codec::Gzip),
    );
    assert!(
        matches!(result, Err(ArchiveFault::Io(error)) if error.kind() == io::ErrorKind::StorageFull)
    );
}

#[test]
fn an_output_that_is_full_is_not_the_fault_of_an_archive() {
    let archive = ours(&some_bodies(), fast(Codec::Gzip));
    let survey = look(&archive).unwrap();
    let input = Input {
        survey: &survey,
        content: Box::new(archive.as_slice()),
    };
    let result = merge(
        vec![input],
        &mut scratch(),
        Full(100),
        &feed(),
        hour(),
        &fast(Codec::Bzip2),
    );
    assert!(
        matches!(result.err(), Some(ArchiveFault::Io(error)) if error.kind() == io::ErrorKind::StorageFull)
    );
}
