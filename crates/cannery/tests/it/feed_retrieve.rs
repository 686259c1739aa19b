//! Getting hours back, and getting rid of them, by the real binary.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::feed_commands::{RANGE, collect, config, files, lately, place, with};
use crate::program::{Place, pause, ran};

#[tokio::test(flavor = "multi_thread")]
async fn on_a_terminal_a_bar_says_how_far_it_is_and_elsewhere_none_does() {
    let (place, server) = place().await;
    collect(&place, &server);
    let retrieve = |target: &str| {
        let program = env!("CARGO_BIN_EXE_cannery");
        let range = RANGE.join(" ");
        format!("{program} retrieve --config-file c.yml {range} --target-directory {target}")
    };
    let mut on_terminal = Command::new("script");
    on_terminal
        .args([
            "--quiet",
            "--return",
            "--command",
            &retrieve("seen"),
            "/dev/null",
        ])
        .current_dir(place.path(""))
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::null());
    let seen = ran(&mut on_terminal);
    assert_eq!(seen.code, 0, "{}", seen.all());
    let is_bar = |text: &str| text.contains("main \u{2588}") && text.contains("B/s");
    assert!(is_bar(&seen.stdout), "{:?}", seen.stdout);
    assert!(seen.stdout.contains(" from `main`, "), "{:?}", seen.stdout);
    let target = [&RANGE[..], &["--target-directory", "unseen"]].concat();
    let unseen = place.run(&with(&["retrieve"], &target));
    assert_eq!(unseen.code, 0, "{}", unseen.all());
    assert!(!unseen.all().contains('\u{2588}'), "{}", unseen.all());
    assert_eq!(
        files(&place.path("seen")).len(),
        files(&place.path("unseen")).len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_archive_is_named_and_the_others_are_retrieved() {
    let (place, server) = place().await;
    collect(&place, &server);
    let lake = place.path("cannery-data/lake");
    let archive = files(&lake.join("a")).into_iter().next().unwrap();
    let mut content = std::fs::read(&archive).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 0x10;
    overwrite(Path::new(&archive), &content);
    let key = archive
        .strip_prefix(&format!("{}/", lake.display()))
        .unwrap();
    let target = [&RANGE[..], &["--target-directory", "out"]].concat();
    let got = place.run(&with(&["retrieve"], &target));
    assert_eq!(got.code, 3, "{}", got.all());
    assert!(got.stderr.contains(key), "{key}: {}", got.all());
    assert!(
        got.stdout.contains("1 damaged archive left out"),
        "{}",
        got.all()
    );
    let names = files(&place.path("out"));
    assert!(names.iter().any(|name| name.contains("/b/")), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("/a/")), "{names:?}");
    let refused = place.run(&with(&["retrieve", "--json"], &target));
    let line: serde_json::Value =
        serde_json::from_str(refused.stderr.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&line["event"], &line["key"]),
        (&"refused".into(), &key.into())
    );
}

/// Collects into another workspace, and is killed before anything is packed.
fn collect_and_die(place: &Place, server: &cannery_testkit::feed_server::FeedServer) {
    let before = server.requests("/a").len();
    let up = place.up(&["--config-file", "c.yml", "--workspace", "late"]);
    for _ in 0..400 {
        if server.requests("/a").len() >= before + 5 {
            break;
        }
        pause();
    }
    up.kill();
    assert!(!files(&place.path("late/downloads/a")).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn under_primary_a_replica_that_comes_late_does_not_bring_a_deleted_hour_back() {
    let (place, server) = place().await;
    let storage =
        "object_storage: [{id: main, url: 'file:lake', reconciliation_algorithm: primary}]\n";
    place.write(
        "c.yml",
        format!("{}{storage}", config(&server, &["a", "b", "down"])),
    );
    collect(&place, &server);
    collect_and_die(&place, &server);
    let lake = place.path("lake/a");
    let secondary = files(&lake).into_iter().next().unwrap();
    let content = std::fs::read(&secondary).unwrap();
    let merged = place.run(&with(&["consolidate"], &[]));
    assert_eq!(merged.code, 0, "{}", merged.all());
    let primary = files(&lake).into_iter().next().unwrap();
    assert!(
        primary.ends_with("Z.tar.gz") && primary != secondary,
        "{primary}"
    );

    let lately = lately();
    let lately: Vec<&str> = lately.iter().map(String::as_str).collect();
    let of_a = ["--object-storage-ids", "main", "--feed-ids", "a"];
    let gone = place.run(&with(&["delete"], &[&lately[..], &of_a].concat()));
    assert_eq!(gone.code, 0, "{}", gone.all());
    let archives = || {
        let names = files(&lake).into_iter();
        names
            .filter(|name| name.contains(".tar"))
            .collect::<Vec<_>>()
    };
    assert_eq!(archives(), Vec::<String>::new());
    // The other replica ships what it has.
    let cleaned = place.run(&with(&["clean", "--workspace", "late"], &[]));
    assert_eq!(cleaned.code, 0, "{}", cleaned.all());
    assert_eq!(archives(), Vec::<String>::new());
    // One that does not look for the mark uploads again what was merged.
    overwrite(Path::new(&secondary), &content);
    let removed = place.run(&with(&["consolidate"], &[]));
    assert!(
        removed.stdout.contains("the hour was deleted on purpose"),
        "{}",
        removed.all()
    );
    assert_eq!(archives(), Vec::<String>::new());
    let target = ["--target-directory", "out", "--feed-ids", "a"];
    let nothing = place.run(&with(&["retrieve"], &[&RANGE[..], &target].concat()));
    assert_eq!(nothing.code, 10, "{}", nothing.all());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_is_damaged_on_this_disk_is_set_aside_and_named() {
    let (place, server) = place().await;
    let down = "object_storage: [{id: main, url: 's3://nowhere', endpoint_url: 'http://127.0.0.1:9', \
                aws_access_key_id: x, aws_secret_access_key: y}]\n";
    let feeds = config(&server, &["a", "b"]);
    place.write("c.yml", &feeds);
    let up = place.up(&["--config-file", "c.yml"]);
    for _ in 0..400 {
        if server.requests("/b").len() >= 8 && server.requests("/a").len() >= 8 {
            break;
        }
        pause();
    }
    up.kill();
    // Packed while the store is down, then damaged.
    place.write("c.yml", format!("{feeds}flush_timeout: 1s\n{down}"));
    assert_eq!(place.run(&with(&["clean"], &[])).code, 3);
    place.write("c.yml", &feeds);
    let waiting = files(&place.path("cannery-data/archives/a"));
    let archive = waiting.iter().find(|name| name.contains(".tar")).unwrap();
    let mut content = std::fs::read(archive).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    overwrite(Path::new(archive), &content);
    let said = "warning: damaged on this disk, not shipped and set aside: cannery-data/damaged/a_";
    // Also when there is nothing else to do.
    for _ in 0..2 {
        let cleaned = place.run(&with(&["clean"], &[]));
        assert_eq!(cleaned.code, 3, "{}", cleaned.all());
        assert!(cleaned.stderr.contains(said), "{}", cleaned.all());
    }
    assert_eq!(files(&place.path("cannery-data/lake/a")).len(), 0);
    assert_eq!(files(&place.path("cannery-data/lake/b")).len(), 1);
    let aside = files(&place.path("cannery-data/damaged"));
    assert_eq!(std::fs::read(aside.first().unwrap()).unwrap(), content);
    let status = place.run(&with(&["feed", "status", "--json"], &[]));
    let lines = status.json();
    assert!(
        lines.iter().any(|line| line["event"] == "damaged"),
        "{lines:?}"
    );
}

#[allow(clippy::disallowed_methods, reason = "damage need not be durable")]
fn overwrite(path: &Path, content: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}
