//! Data without an index.

use super::*;

#[tokio::test]
async fn an_orphan_gets_the_index_that_it_would_have_had() {
    for loadable in [false, true] {
        let mut world = World::new(1);
        world.set(|settings| settings.index_loadable = loadable);
        world.write("a.json", "{\"n\": 1,\n \"m\": [2]}\n");
        world.write("b.json", "  {\"n\": 9007199254740993, \"n\":1e999}");
        world.write("c.json", "\"\\ud800\"\r\n");
        let bundle = world.bundle(1, &["b.json", "a.json", "c.json"]);
        world.put_data(0, &bundle).await;
        let loaded = world.known.load(0, date()).await.unwrap();
        assert_eq!((loaded.len(), loaded.orphans().len()), (0, 1));
        let known = world.recall().await;
        for name in ["a.json", "b.json", "c.json"] {
            assert!(world.knows(&known, name), "{name}");
        }
        assert_eq!(known.orphans(), []);
        let index = world.get(0, &bundle.name.index_key()).await.unwrap();
        assert_eq!(entries(&index), entries(&bundle.index));
        let first = text_of(&index).lines().next().unwrap().to_owned();
        assert!(
            first.contains("\"TimeAdded\":\"2026-11-15T12:00:01.000000Z\""),
            "{first}"
        );
        assert_eq!(
            first.starts_with("{\"date\":\"2026-11-15\",\"archiver\":{"),
            loadable
        );
        // The next time it is a bundle like any other.
        let again = world.known.load(0, date()).await.unwrap();
        assert_eq!((again.len(), again.orphans().len()), (3, 0));
    }
}

#[tokio::test]
async fn names_are_whatever_a_file_can_be_called() {
    let world = World::new(1);
    let long = "x".repeat(250) + ".json";
    let names = [
        "a b.json",
        "\"},\"raw\":{\"x\":1}.json",
        "back\\slash\\u0041.json",
        "ümläut \u{1F980}.json",
        "..json",
        "-rf",
        "%2e%2e",
        "tab\tand\u{1}control",
        &long,
    ];
    for (number, name) in names.iter().enumerate() {
        world.write(name, &format!("{{\"raw\":{{\"n\":{number}}}}}\n"));
    }
    let bundle = world.bundle(1, &names);
    world.put_data(0, &bundle).await;
    let mended = world.recall().await;
    let indexed = world.known.load(0, date()).await.unwrap();
    for known in [mended, indexed] {
        assert_eq!((known.len(), known.orphans().len()), (names.len(), 0));
        assert_eq!(known.damaged(), []);
        assert!(names.iter().all(|name| world.knows(&known, name)));
    }
    let index = world.get(0, &bundle.name.index_key()).await.unwrap();
    assert_eq!(entries(&index), entries(&bundle.index));
}

async fn mend(world: &World) -> (Mended, DateKnown) {
    let mut known = world.known.load(0, date()).await.unwrap();
    let orphan = known.orphans()[0].clone();
    let mended = world.known.mend(&orphan, &mut known).await.unwrap();
    (mended, known)
}

#[tokio::test]
async fn an_orphan_with_a_file_gone_or_changed_is_left() {
    let world = World::new(1);
    for name in ["same", "gone", "changed", "folder"] {
        world.write(name, "{\"n\":1}");
    }
    let bundle = world.bundle(1, &["same", "gone", "changed", "folder"]);
    world.put_data(0, &bundle).await;
    world.remove("gone");
    world.write("changed", "{\"n\": 1}");
    world.remove("folder");
    world.known.disk.create_dir(&world.path("folder")).unwrap();
    let (mended, known) = mend(&world).await;
    let left = Left {
        unchanged: 1,
        gone: 1,
        changed: 2,
        damaged: 0,
    };
    assert_eq!(mended, Mended::Left(left));
    assert!(world.knows(&known, "same") && !world.knows(&known, "changed"));
    assert!(!known.has("gone", &Digest::of(b"{\"n\":1}")));
    assert_eq!(world.get(0, &bundle.name.index_key()).await, None);
    assert_eq!(world.recall().await.orphans().len(), 1, "and stays one");
}

#[tokio::test]
async fn links_are_not_followed() {
    let base = tempfile::tempdir().unwrap();
    let world = World::on(Arc::new(RealDisk), base.path(), 1);
    world.write("a", "1");
    world.write("elsewhere", "1");
    let bundle = world.bundle(1, &["a"]);
    world.put_data(0, &bundle).await;
    world.remove("a");
    std::os::unix::fs::symlink("elsewhere", world.path("a")).unwrap();
    let (mended, known) = mend(&world).await;
    let left = Left {
        changed: 1,
        ..Left::default()
    };
    assert_eq!((mended, known.len()), (Mended::Left(left), 0));
}

#[tokio::test]
async fn a_disk_that_does_not_answer_tells_nothing() {
    let disk = SimDisk::new(7);
    let mut world = World::on(Arc::new(disk.clone()), Path::new("/"), 1);
    world.write("a", "1");
    let bundle = world.bundle(1, &["a"]);
    world.put_data(0, &bundle).await;
    let mut known = world.known.load(0, date()).await.unwrap();
    let orphan = known.orphans()[0].clone();
    let after = disk.crash();
    let failed = world.known.mend(&orphan, &mut known).await;
    assert!(matches!(failed, Err(KnownError::Disk(_))), "{failed:?}");
    assert_eq!(known.len(), 0);
    world.known.disk = Arc::new(after);
    let mended = world.known.mend(&orphan, &mut known).await.unwrap();
    assert_eq!(mended, Mended::Indexed { files: 1 });
}

#[tokio::test]
async fn a_file_that_would_not_be_taken_is_not_read() {
    let mut world = World::new(1);
    world.write("a", "[1, 2, 3]");
    let bundle = world.bundle(1, &["a"]);
    world.put_data(0, &bundle).await;
    world.set(|settings| settings.bundle_bytes_max = 8);
    let (mended, known) = mend(&world).await;
    let left = Left {
        changed: 1,
        ..Left::default()
    };
    assert_eq!((mended, known.len()), (Mended::Left(left), 0));
}

#[tokio::test]
async fn rows_that_are_none_keep_an_orphan_from_its_index() {
    let world = World::new(1);
    world.write("a", "1");
    world.write("b", "2");
    let mut bundle = world.bundle(1, &["a", "b"]);
    let text = text_of(&bundle.data);
    let rows: Vec<&str> = text.lines().collect();
    let outside = rows[1].replace("2026/11/15/b", "2026/11/15/../15/b");
    let without_raw = rows[1].replace("\"raw\"", "\"row\"");
    let long = rows[1].replace("/b\"", &format!("/{}\"", "b".repeat(2_000_000)));
    let text = [rows[0], &outside, &without_raw, &long, "", "{}"].join("\n");
    bundle.data = gzip(text.as_bytes());
    world.put_data(0, &bundle).await;
    let (mended, known) = mend(&world).await;
    let left = Left {
        unchanged: 1,
        damaged: 5,
        ..Left::default()
    };
    assert_eq!(mended, Mended::Left(left));
    assert!(world.knows(&known, "a") && !world.knows(&known, "b"));
}

#[tokio::test]
async fn damaged_data_proves_nothing() {
    for cut in [1, 9, 20] {
        let world = World::new(1);
        world.write("a", "1");
        let mut bundle = world.bundle(1, &["a"]);
        bundle.data = bundle.data.slice(..bundle.data.len() - cut);
        world.put_data(0, &bundle).await;
        let (mended, known) = mend(&world).await;
        assert_eq!((mended, known.len()), (Mended::Unreadable, 0), "{cut}");
        assert_eq!(known.damaged().len(), 1, "{cut}");
        assert_eq!(world.get(0, &bundle.name.index_key()).await, None);
        assert_eq!(world.recall().await.orphans().len(), 1);
    }
}

#[tokio::test]
async fn data_without_rows_gets_no_index() {
    let world = World::new(1);
    let name = world.name(1);
    world.put(0, &name.data_key(), &gzip(b"")).await;
    let (mended, known) = mend(&world).await;
    assert_eq!((mended, known.len()), (Mended::Left(Left::default()), 0));
    assert_eq!(world.get(0, &name.index_key()).await, None);
}
