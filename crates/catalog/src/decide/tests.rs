use super::*;

fn facts() -> FileFacts {
    FileFacts {
        name: "2026-11-15/ndt.00.tar.lz4".to_owned(),
        generation: "r00000001".to_owned(),
        bucket: "2026-11-15".to_owned(),
        kind: "ndt".to_owned(),
        file_sha1: "f1".to_owned(),
        text_sha1: "t1".to_owned(),
        file_size: 10,
        text_size: 20,
        rules_hash: "rules".to_owned(),
    }
}

fn known(version: Option<u64>) -> KnownFile {
    let versions = version.map(|version| ("http".to_owned(), version));
    KnownFile {
        facts: facts(),
        versions: versions.into_iter().collect(),
    }
}

fn http(version: u64, min_compatible: u64) -> FeatureVersion {
    FeatureVersion {
        name: "http".to_owned(),
        version,
        min_compatible,
    }
}

#[test]
fn by_what_the_file_is() {
    assert_eq!(decide(&facts(), None, &[]), Decision::Ingest);
    assert_eq!(decide(&facts(), Some(&known(None)), &[]), Decision::Skip);
    let reframed = FileFacts {
        file_sha1: "f2".to_owned(),
        ..facts()
    };
    assert_eq!(
        decide(&reframed, Some(&known(None)), &[]),
        Decision::Repoint
    );
    let moved = FileFacts {
        generation: "r00000002".to_owned(),
        ..facts()
    };
    assert_eq!(decide(&moved, Some(&known(None)), &[]), Decision::Repoint);
    let other = FileFacts {
        file_sha1: "f2".to_owned(),
        text_sha1: "t2".to_owned(),
        ..facts()
    };
    assert_eq!(decide(&other, Some(&known(None)), &[]), Decision::Reingest);
    let renamed = FileFacts {
        kind: "dns".to_owned(),
        ..facts()
    };
    assert_eq!(
        decide(&renamed, Some(&known(None)), &[]),
        Decision::Reingest
    );
}

#[test]
fn by_the_versions_of_the_features() {
    let decided = |version, feature| decide(&facts(), Some(&known(version)), &[feature]);
    let features = vec!["http".to_owned()];
    let reprocess = Decision::Reprocess {
        features: features.clone(),
    };
    assert_eq!(decided(Some(3), http(3, 2)), Decision::Skip);
    assert_eq!(
        decided(Some(2), http(3, 2)),
        Decision::MarkCurrent { features }
    );
    assert_eq!(decided(Some(1), http(3, 2)), reprocess);
    assert_eq!(decided(None, http(3, 2)), reprocess);
    let newer = Decision::NewerThanCode {
        feature: "http".to_owned(),
        known: 4,
        declared: 3,
    };
    assert_eq!(decided(Some(4), http(3, 2)), newer);
}

#[test]
fn an_older_program_does_not_touch_what_a_newer_one_loaded() {
    let other = FileFacts {
        text_sha1: "t2".to_owned(),
        ..facts()
    };
    let decided = decide(&other, Some(&known(Some(4))), &[http(3, 1)]);
    assert!(matches!(decided, Decision::NewerThanCode { .. }));
}

#[test]
fn what_the_lake_has_no_more() {
    let known = ["a", "b", "c"].map(str::to_owned);
    let listing = ["a", "c", "d"].map(str::to_owned).into();
    assert_eq!(vanished(&known, &listing), ["b"]);
}
