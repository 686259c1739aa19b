//! Cans in a private object storage and archives in a public one: the public one gets nothing else, whatever is done.

use std::collections::BTreeSet;
use std::path::Path;

use cannery_testkit::reports::{Options, write_bucket};

use crate::collect::node::Node;

const DATE: &str = "2017-01-02";
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/ooni/rules.yml");
const FEATURES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/ooni/features.yml"
);

fn node() -> Node {
    let keys = format!(
        "rules: '{RULES}', features: '{FEATURES}', can_bytes: 1MiB, reports_remove: true, storage: {{autoclaved: public}}"
    );
    Node::with(
        &format!(
            "object_storage: [{{id: private, url: 'file:private'}}, {{id: copy, url: 'file:copy'}}, {{id: public, url: 'file:public'}}]\npipeline: {{{keys}}}\n"
        ),
        "",
    )
}

/// The names of all files below a folder. `.store` is the folder's own: locks, and what is being written.
fn names(root: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let name = path.strip_prefix(root).unwrap();
                    names.insert(name.display().to_string());
                }
            }
        }
    }
    names
}

fn tops(root: &Path) -> BTreeSet<String> {
    let tops = names(root).into_iter();
    tops.map(|name| name.split('/').next().unwrap().to_owned())
        .collect()
}

#[test]
fn the_public_store_has_archives_and_nothing_else_and_all_can_be_read() {
    let node = node();
    let folder = node.place.path("work/reports-raw");
    std::fs::create_dir_all(&folder).unwrap();
    let expected = write_bucket(&folder, DATE, Options::default()).unwrap();
    node.produce_some("2026/11/15", "a", 6);
    node.run_well(&["collect", "--once"]);
    node.place.write("note", "of a person");
    node.run_well(&["lake", "put", "notes/note", "note"]);
    node.run_well(&["work", "--once"]);

    let public = tops(&node.place.path("public"));
    let allowed = [".store", "autoclaved", "cannery.json"].map(str::to_owned);
    assert_eq!(public, allowed.into());
    for own in names(&node.place.path("public/.store")) {
        let path = node.place.path("public/.store").join(&own);
        assert_eq!(std::fs::metadata(path).unwrap().len(), 0, "{own}");
    }
    let private = names(&node.place.path("private"));
    let has = |begin: &str| private.iter().any(|name| name.starts_with(begin));
    assert!(has("canned/") && has(".cannery/lake-key") && has("autoload/"));
    assert!(has("notes/note") && !has("autoclaved/"), "{private:?}");
    let copy = tops(&node.place.path("copy"));
    assert!(
        copy.contains("autoload") && copy.contains("notes"),
        "{copy:?}"
    );

    let listed = node.run_well(&["ls", "--bucket", DATE, "--json"]).json();
    assert_eq!(listed.len(), expected.measurements - expected.duplicates);
    for line in listed.iter().step_by(23) {
        let uid = line["uid"].as_str().unwrap();
        let text = node.run_well(&["get", uid]).stdout;
        assert!(text.contains(uid), "{text}");
        let traced = node.run_well(&["trace", uid, "--json"]).json();
        assert_eq!(traced[0]["source"]["is_there"], false, "it was removed");
        assert_eq!(traced[0]["can"]["is_there"], true);
    }
    node.run_well(&["check", "--read-data-subset", "100%"]);
    node.run_well(&["rebuild", "--verify"]);
    node.run_well(&["audit"]);
    let views = node.run_well(&["export", "duckdb", "--no-catalog"]).stdout;
    let lines = |word: &str| views.lines().filter(|line| line.contains(word)).count();
    assert!(lines("/private/autoload/") > 0, "{views}");
    assert!(lines("/public/autoclaved/") > 0, "{views}");
    assert_eq!(
        lines("/private/autoclaved/") + lines("/public/autoload/"),
        0
    );
    let left = std::fs::read_dir(folder.join(DATE)).unwrap().count();
    assert_eq!(left, 0, "the reports are in verified cans");
}

#[test]
fn an_object_storage_that_is_not_there_is_named_with_the_likely_one() {
    let node = node();
    let config = std::fs::read_to_string(node.place.path("cannery.yml")).unwrap();
    for (id, says) in [
        ("pubic", "did you mean `public`?"),
        ("private", "`private` is the first object storage"),
    ] {
        let changed = format!("{{canned: copy, autoclaved: {id}}}");
        let text = config.replace("{autoclaved: public}", &changed);
        node.place.write("cannery.yml", text);
        let ran = node.run(&["config", "check"]);
        assert_eq!(ran.code, 2, "{}", ran.all());
        assert!(ran.stderr.contains(says), "{}", ran.all());
    }
    let bare = config.replace(&format!("rules: '{RULES}', "), "");
    node.place.write("cannery.yml", bare);
    let ran = node.run_well(&["config", "check"]);
    assert!(
        ran.all().contains("there are no `pipeline.rules`"),
        "{}",
        ran.all()
    );
}
