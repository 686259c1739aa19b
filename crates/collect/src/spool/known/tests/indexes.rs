//! Bundles that have both objects, and everything that is not one of ours.

use super::*;

#[tokio::test]
async fn files_of_an_index_are_known_by_name_and_content() {
    let world = World::new(1);
    for name in ["a", "b", "c"] {
        world.write(name, &format!("{{\"n\":\"{name}\"}}\n"));
    }
    let bundle = world.bundle(1, &["a", "b"]);
    world.put_data(0, &bundle).await;
    world.put_index(0, &bundle).await;
    let known = world.recall().await;
    assert!(world.knows(&known, "a") && world.knows(&known, "b"));
    assert!(!world.knows(&known, "c"));
    let a = Digest::of(b"{\"n\":\"a\"}\n");
    assert!(known.has("a", &a) && !known.has("c", &a));
    assert_eq!((known.len(), known.orphans().len()), (2, 0));
    assert_eq!(known.damaged(), []);
    world.write("a", "{\"n\":\"new\"}\n");
    assert!(!world.knows(&known, "a"), "written anew");
}

#[tokio::test]
async fn an_empty_lake_knows_nothing() {
    let world = World::new(2);
    world.write("a", "1");
    let known = world.recall().await;
    assert!(!world.knows(&known, "a"));
    assert_eq!((known.len(), known.orphans().len()), (0, 0));
    assert_eq!(known.damaged(), []);
    let other = SpoolDate::from_path("2020/01/01").unwrap();
    assert_eq!(world.known.recall(1, other).await.unwrap().len(), 0);
}

#[tokio::test]
async fn what_others_shipped_does_not_count() {
    let mut world = World::new(1);
    world.write("a", "1");
    let mine = world.bundle(1, &["a"]);
    let mut others = Vec::new();
    for change in [
        (|name| name.node = NodeName::parse("mlab2-lga01").unwrap()) as fn(&mut BundleName),
        |name| name.node = NodeName::parse("mlab1-lga02").unwrap(),
        |name| name.datatype = Datatype::new("bar1").unwrap(),
        |name| name.experiment = Experiment::new("ndx").unwrap(),
        |name| name.date = SpoolDate::from_path("2026/11/14").unwrap(),
    ] {
        let mut name = mine.name.clone();
        change(&mut name);
        let (data, index) = (mine.data.clone(), mine.index.clone());
        others.push(Bundle { name, data, index });
    }
    for bundle in &others {
        world.put_data(0, bundle).await;
        world.put_index(0, bundle).await;
    }
    // Nor do their orphans, nor what is only nearly named so.
    let mut orphan = others.remove(0);
    orphan.name.opened = "20261115T130000.000000Z".parse().unwrap();
    world.put_data(0, &orphan).await;
    let nearly = mine.name.index_key().as_str().replace("-index1", "-index2");
    world.put(0, &Key::new(nearly).unwrap(), &mine.index).await;
    let known = world.recall().await;
    assert_eq!((known.len(), known.orphans()), (0, &[][..]));
    assert_eq!(known.damaged(), []);
    world.set(|settings| settings.node = NodeName::parse("mlab2-lga01").unwrap());
    let known = world.known.load(0, date()).await.unwrap();
    assert!(world.knows(&known, "a"), "it was theirs");
    assert_eq!(known.orphans().len(), 1);
}

#[tokio::test]
async fn bundles_that_the_outbox_has_are_left_to_it() {
    let mut world = World::new(1);
    world.write("a", "1");
    let bundle = world.bundle(1, &["a"]);
    world.put_data(0, &bundle).await;
    world.known.in_outbox.insert(bundle.name.clone());
    let known = world.recall().await;
    assert_eq!((known.len(), known.orphans().len()), (0, 0));
    assert_eq!(world.get(0, &bundle.name.index_key()).await, None);
}

#[tokio::test]
async fn an_index_without_data_is_damage() {
    let world = World::new(2);
    world.write("a", "1");
    let bundle = world.bundle(1, &["a"]);
    world.put_index(0, &bundle).await;
    let known = world.recall().await;
    assert!(!world.knows(&known, "a"));
    let damage = Damage::IndexWithoutData(bundle.name.index_key());
    assert_eq!(known.damaged(), [damage]);
    assert_eq!(world.get(1, &bundle.name.index_key()).await, None);
}

#[tokio::test]
async fn of_a_damaged_index_no_line_counts_but_the_rows_do() {
    for damage in ["cut", "flipped", "text", "empty"] {
        let world = World::new(1);
        world.write("a", "{\"n\":1}\n");
        world.write("b", "2");
        let bundle = world.bundle(1, &["a", "b"]);
        let whole = bundle.index.to_vec();
        let index = match damage {
            "cut" => whole[..whole.len() - 1].to_vec(),
            "flipped" => [&whole[..whole.len() - 8], &[1; 8]].concat(),
            "text" => text_of(&bundle.index).into_bytes(),
            _ => Vec::new(),
        };
        world.put_data(0, &bundle).await;
        let index: Bytes = index.into();
        world.put(0, &bundle.name.index_key(), &index).await;
        // The second file is another now: by the index alone it would be told apart, by the row as well.
        world.write("b", "3");
        let loaded = world.known.load(0, date()).await.unwrap();
        assert!(!world.knows(&loaded, "a"), "{damage}");
        assert_eq!(loaded.damaged().len(), 1, "{damage}");
        let known = world.recall().await;
        assert!(world.knows(&known, "a"), "{damage}");
        assert!(!world.knows(&known, "b"), "{damage}");
        assert_eq!(known.orphans().len(), 1, "{damage}");
        let there = world.get(0, &bundle.name.index_key()).await;
        assert_eq!(there, Some(index), "{damage}: it is never replaced");
    }
}

#[tokio::test]
async fn lines_that_are_none_do_not_count_and_the_others_do() {
    let world = World::new(1);
    for name in ["a", "b", "c"] {
        world.write(name, "1");
    }
    let mut bundle = world.bundle(1, &["a", "b", "c"]);
    let text = text_of(&bundle.index);
    let lines: Vec<&str> = text.lines().collect();
    let elsewhere = lines[2].replace(DATE, "2026/11/14");
    let outside = lines[2].replace("/c\"", "/../c\"");
    let long = format!("\"{}\"", "x".repeat(200_000));
    let text = [lines[0], &lines[1][..40], &elsewhere, &outside, &long].join("\n");
    bundle.index = gzip(text.as_bytes());
    world.put_data(0, &bundle).await;
    world.put_index(0, &bundle).await;
    let loaded = world.known.load(0, date()).await.unwrap();
    assert!(world.knows(&loaded, "a"));
    assert!(!world.knows(&loaded, "b") && !world.knows(&loaded, "c"));
    let damage = Damage::Lines {
        key: bundle.name.index_key(),
        lake: "a".to_owned(),
        count: 4,
    };
    assert_eq!(loaded.damaged(), [damage]);
    let known = world.recall().await;
    assert!(["a", "b", "c"].iter().all(|name| world.knows(&known, name)));
}

#[tokio::test]
async fn indexes_that_are_tables_are_read_as_well() {
    let mut world = World::new(1);
    world.set(|settings| settings.index_loadable = true);
    world.write("a", "1");
    let bundle = world.bundle(1, &["a"]);
    assert!(text_of(&bundle.index).contains("\"raw\":{\"Filename\""));
    world.put_data(0, &bundle).await;
    world.put_index(0, &bundle).await;
    assert!(world.knows(&world.recall().await, "a"));
}

#[tokio::test]
async fn a_long_index_takes_memory_only_for_what_waits() {
    let world = World::new(1);
    let line = |number: u32| IndexLine {
        filename: format!("{DATE}/{number:040}.json"),
        size: 1,
        sha256: Digest::of(&number.to_be_bytes()),
        time_added: "2026-11-15T12:00:00Z".parse().unwrap(),
    };
    let mut text = Vec::new();
    for number in 0..50_000 {
        line(number).append_to(&mut text);
    }
    for number in (0..50_000).step_by(100) {
        let path = world.path(&format!("{number:040}.json"));
        world.known.disk.open(&path, Open::CreateNew).unwrap();
    }
    let name = world.name(1);
    world.put(0, &name.data_key(), &gzip(b"")).await;
    world.put(0, &name.index_key(), &gzip(&text)).await;
    let known = world.recall().await;
    assert_eq!(known.len(), 500);
    for number in [0, 100, 49_900] {
        let name = format!("{number:040}.json");
        assert!(known.has(&name, &line(number).sha256));
        assert!(!known.has(&name, &line(number + 1).sha256));
    }
    assert!(!known.has(&format!("{:040}.json", 1), &line(1).sha256));
    assert_eq!(size_of::<Digest>(), 32, "no name is kept");
}

#[tokio::test]
async fn a_lake_that_does_not_answer_is_no_empty_lake() {
    for (request, fault) in [
        (Request::List, Fault::ListEndsAfter(0)),
        (Request::List, Fault::ErrorBefore),
        (Request::Get, Fault::ErrorBefore),
        (Request::Get, Fault::ShortRead),
    ] {
        let world = World::new(2);
        world.write("a", "1");
        let bundle = world.bundle(1, &["a"]);
        world.put_data(0, &bundle).await;
        world.put_index(0, &bundle).await;
        world.faults[0].next(request, fault, 1);
        let failed = world.known.recall(0, date()).await;
        assert!(matches!(failed, Err(KnownError::Lake(_))), "{request:?}");
        assert!(world.knows(&world.recall().await, "a"), "{request:?}");
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_read_is_no_empty_folder() {
    let world = World::new(1);
    world.known.disk.remove_dir(&world.path("")).unwrap();
    let folder = world.known.folder(0).join(DATE);
    write_durably(&*world.known.disk, &folder, b"a file").unwrap();
    let failed = world.known.recall(0, date()).await;
    assert!(matches!(failed, Err(KnownError::Disk(_))), "{failed:?}");
}
