//! Mirrors that do not hold the same: a file is known only once all of them have it.

use super::*;

/// Every state that an interrupted shipping leaves in two mirrors, and what only somebody's hand leaves.
#[tokio::test]
async fn all_mirrors_have_both_objects_before_a_file_is_known() {
    for state in 0_u8..16 {
        let world = World::new(2);
        world.write("a", "1");
        let bundle = world.bundle(1, &["a"]);
        for mirror in 0..2 {
            if state & (1 << mirror) != 0 {
                world.put_data(mirror, &bundle).await;
            }
            if state & (4 << mirror) != 0 {
                world.put_index(mirror, &bundle).await;
            }
        }
        let known = world.recall().await;
        let has_data = state & 3 != 0;
        assert_eq!(world.knows(&known, "a"), has_data, "{state:04b}");
        if !has_data {
            continue;
        }
        let mut indexes = Vec::new();
        for mirror in 0..2 {
            let data = world.get(mirror, &bundle.name.data_key()).await;
            assert_eq!(data.as_ref(), Some(&bundle.data), "{state:04b}");
            indexes.push(world.get(mirror, &bundle.name.index_key()).await.unwrap());
        }
        assert_eq!(indexes[0], indexes[1], "{state:04b}");
        assert_eq!(entries(&indexes[0]), entries(&bundle.index), "{state:04b}");
    }
}

#[tokio::test]
async fn a_bundle_whose_files_are_gone_is_not_copied() {
    let world = World::new(2);
    world.write("a", "1");
    let bundle = world.bundle(1, &["a"]);
    world.put_data(0, &bundle).await;
    world.put_index(0, &bundle).await;
    world.remove("a");
    assert_eq!(world.recall().await.len(), 0);
    assert_eq!(world.get(1, &bundle.name.data_key()).await, None);
}

#[tokio::test]
async fn damage_in_one_mirror_is_not_spread() {
    let world = World::new(3);
    world.write("a", "1");
    let bundle = world.bundle(1, &["a"]);
    let (data, index) = (bundle.name.data_key(), bundle.name.index_key());
    world.put(0, &data, &bundle.data.slice(..20)).await;
    world.put(0, &index, &bundle.index.slice(..20)).await;
    world.put_data(1, &bundle).await;
    world.put_index(1, &bundle).await;
    let known = world.recall().await;
    assert!(world.knows(&known, "a"));
    assert_eq!(known.damaged().len(), 1);
    assert_eq!(world.get(2, &data).await, Some(bundle.data));
    assert_eq!(world.get(2, &index).await, Some(bundle.index));
}

#[tokio::test]
async fn an_orphan_that_differs_between_mirrors_is_left_alone() {
    let world = World::new(2);
    world.write("a", "1");
    let bundle = world.bundle(1, &["a"]);
    world.put_data(0, &bundle).await;
    let data = bundle.name.data_key();
    world.put(1, &data, &gzip(b"another\n")).await;
    let known = world.recall().await;
    assert!(!world.knows(&known, "a"));
    let conflict = Damage::Conflict {
        key: data,
        lake: "b".to_owned(),
    };
    assert_eq!(known.damaged(), [conflict]);
    assert_eq!(world.get(0, &bundle.name.index_key()).await, None);
}

#[tokio::test]
async fn a_mirror_that_takes_nothing_leaves_all_unknown() {
    for with_index in [false, true] {
        for fault in [Fault::ErrorBefore, Fault::ErrorAfter] {
            let world = World::new(2);
            world.write("a", "1");
            let bundle = world.bundle(1, &["a"]);
            world.put_data(0, &bundle).await;
            if with_index {
                world.put_index(0, &bundle).await;
            }
            world.faults[1].next(Request::Put, fault, 1);
            let failed = world.known.recall(0, date()).await;
            assert!(matches!(failed, Err(KnownError::Lake(_))), "{fault:?}");
            let known = world.recall().await;
            assert!(world.knows(&known, "a"), "{fault:?}");
            let key = bundle.name.index_key();
            let index = world.get(0, &key).await.unwrap();
            assert_eq!(world.get(1, &key).await, Some(index));
        }
    }
}
