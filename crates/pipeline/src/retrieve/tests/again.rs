//! A target in which something is already.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use cannery_runtime::RealDisk;

use super::support::{Bench, Body, body, download, tree, tree_of};
use crate::retrieve::{Error, Outcome, RetrieveOptions};

const FOLDER: &str = "a/2026/11/15/18";

fn bodies() -> [Body; 3] {
    [
        download("a", 18, 1, "one"),
        download("a", 18, 2, "two"),
        body("sub/odd", "three"),
    ]
}

async fn filled() -> Bench {
    let bench = Bench::new();
    bench.upload("a", 18, &bodies()).await;
    bench
}

#[expect(clippy::disallowed_methods, reason = "a test plants what it likes")]
fn plant(path: &Path, content: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

#[tokio::test]
async fn twice_is_as_good_as_once() {
    let bench = filled().await;
    let options = bench.options();
    let first = bench.retrieve(&options).await.unwrap();
    assert_eq!((first.files, first.present), (3, 0));
    let before = bench.tree();
    let second = bench.retrieve(&options).await.unwrap();
    assert_eq!((second.files, second.bytes, second.present), (0, 0, 3));
    assert_eq!(bench.tree(), before);
}

#[tokio::test]
async fn what_came_later_is_added_and_other_files_stay() {
    let bench = filled().await;
    let options = bench.options();
    bench.retrieve(&options).await.unwrap();
    plant(&bench.target().join(FOLDER).join("mine.txt"), "mine");
    bench.upload("a", 18, &[download("a", 18, 9, "late")]).await;
    let second = bench.retrieve(&options).await.unwrap();
    assert_eq!((second.files, second.present), (1, 3));
    let [one, two, three] = bodies();
    let (late, mine) = (download("a", 18, 9, "late"), body("mine.txt", "mine"));
    let all = [&one, &two, &three, &late, &mine];
    let folder = format!("{FOLDER}/");
    assert_eq!(bench.tree(), tree(all.map(|body| (folder.as_str(), body))));
}

async fn occupied(bench: &Bench, options: &RetrieveOptions, path: &Path, context: &str) {
    let retrieved = bench.retrieve(options).await.unwrap();
    assert_eq!(retrieved.outcome(), Outcome::Partial, "{context}");
    let named = retrieved.in_the_way.iter().map(|found| &found.path);
    assert!(
        named.clone().any(|found| found == path),
        "{context}: {retrieved:?}"
    );
    assert!(
        retrieved.in_the_way_count >= named.count() as u64,
        "{context}"
    );
}

#[tokio::test]
async fn other_content_is_named_and_never_overwritten() {
    let [one, two, _] = bodies();
    for collapse in [false, true] {
        for content in ["ONE", "on", "oneone", ""] {
            let bench = filled().await;
            let options = RetrieveOptions {
                collapse_feeds: collapse,
                collapse_time: collapse,
                ..bench.options()
            };
            let folder = if collapse { "" } else { FOLDER };
            let path = bench.target().join(folder).join(&one.0);
            plant(&path, content);
            occupied(&bench, &options, &path, content).await;
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
            let other = bench.target().join(folder).join(&two.0);
            assert_eq!(std::fs::read_to_string(other).unwrap(), "two", "it goes on");
        }
    }
}

#[tokio::test]
async fn links_in_the_target_are_not_followed() {
    let [one, ..] = bodies();
    let places = [
        "a".to_owned(),
        "a/2026".to_owned(),
        FOLDER.to_owned(),
        format!("{FOLDER}/sub"),
        format!("{FOLDER}/{}", one.0),
    ];
    for place in places {
        for leads_to in ["elsewhere", "elsewhere/new", "elsewhere/file"] {
            let bench = filled().await;
            let outside = bench.around.path().join("elsewhere");
            plant(&outside.join("file"), "one");
            let link = bench.target().join(&place);
            std::fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(bench.around.path().join(leads_to), &link).unwrap();
            let context = format!("{place} -> {leads_to}");
            occupied(&bench, &bench.options(), &link, &context).await;
            let left = tree_of(&outside);
            assert_eq!(left, tree([("", &body("file", "one"))]), "{context}");
            assert!(link.is_symlink(), "{context}");
        }
    }
}

#[tokio::test]
async fn a_target_that_is_a_link_is_its_owners_choice() {
    let mut bench = filled().await;
    bench.workplace.disk = Arc::new(RealDisk);
    let real = bench.around.path().join("real");
    std::fs::create_dir(&real).unwrap();
    symlink(&real, bench.target()).unwrap();
    bench.retrieve(&bench.options()).await.unwrap();
    assert_eq!(tree_of(&real).len(), 3);
}

#[tokio::test]
async fn a_folder_or_a_pipe_in_the_place_of_a_file_is_named() {
    let [one, ..] = bodies();
    let bench = filled().await;
    let path = bench.target().join(FOLDER).join(&one.0);
    std::fs::create_dir_all(&path).unwrap();
    occupied(&bench, &bench.options(), &path, "folder").await;
    let bench = filled().await;
    let path = bench.target().join(FOLDER).join(&one.0);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    occupied(&bench, &bench.options(), &path, "pipe").await;
}

#[tokio::test]
async fn a_file_in_the_place_of_a_folder_is_named() {
    let bench = filled().await;
    plant(&bench.target(), "mine");
    let refused = bench.retrieve(&bench.options()).await.unwrap_err();
    assert!(matches!(refused, Error::Occupied { .. }), "{refused}");
    for place in ["a", FOLDER] {
        let bench = filled().await;
        let path = bench.target().join(place);
        plant(&path, "mine");
        occupied(&bench, &bench.options(), &path, place).await;
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    }
}

#[tokio::test]
async fn two_at_once_into_one_target_agree() {
    let bench = Bench::new();
    for of_day in 0..8 {
        let bodies: Vec<_> = (0..20)
            .map(|minute| download("a", of_day, minute, &format!("{of_day} {minute}")))
            .collect();
        bench.upload("a", of_day, &bodies).await;
    }
    let options = bench.options();
    let (one, two) = tokio::join!(bench.retrieve(&options), bench.retrieve(&options));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.files + two.files, 160);
    assert_eq!(one.present + two.present, 160);
    assert_eq!(bench.tree().len(), 160);
}
