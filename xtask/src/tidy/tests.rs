//! Tidy on small workspaces, one broken in each way that tidy knows.

use super::*;
use crate::scratch::Scratch;

/// A workspace with crates of our names and nothing to find.
struct Workspace(Scratch);

impl Workspace {
    fn clean() -> Self {
        let workspace = Self(Scratch::new());
        workspace.write(
            "Cargo.toml",
            "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n[workspace.lints.rust]\nunsafe_code = \"deny\"\n",
        );
        workspace.write(".gitignore", "/target\n");
        workspace.member("formats", "", "");
        workspace.member("runtime", "", "");
        workspace.member(
            "testkit",
            "cannery-runtime = { path = \"../runtime\" }\n",
            "",
        );
        workspace.member(
            "lake",
            "cannery-formats = { path = \"../formats\" }\n",
            "cannery-testkit = { path = \"../testkit\" }\ncannery-lake = { path = \".\" }\n",
        );
        workspace.member("journal", "", "");
        workspace.member("serve", "cannery-lake = { path = \"../lake\" }\n", "");
        workspace.git(&["init", "--quiet"]);
        workspace
    }

    fn member(&self, name: &str, dependencies: &str, dev_dependencies: &str) {
        let manifest = format!(
            "[package]\nname = \"cannery-{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
             [lints]\nworkspace = true\n\n[dependencies]\n{dependencies}\n[dev-dependencies]\n{dev_dependencies}"
        );
        self.write(&format!("crates/{name}/Cargo.toml"), &manifest);
        self.write(&format!("crates/{name}/src/lib.rs"), "pub fn one() {}\n");
    }

    fn write(&self, file: &str, text: &str) {
        self.0.write(file, text);
    }

    fn git(&self, words: &[&str]) {
        let who = ["-c", "user.name=tidy", "-c", "user.email=tidy@example.org"];
        let words: Vec<&str> = who.iter().chain(words).copied().collect();
        files::git(self.0.path(), &words).unwrap();
    }

    fn findings(&self) -> Vec<String> {
        let files = files::read(self.0.path()).unwrap();
        let findings = check(self.0.path(), &files).unwrap();
        findings.iter().map(Finding::to_string).collect()
    }

    /// Asserts that there is one finding and that the command fails with it.
    fn finds_only(&self, finding: &str) {
        assert_eq!(self.findings(), [finding]);
        assert!(check_and_tell(self.0.path()).is_err());
    }
}

#[test]
fn a_clean_workspace_passes() {
    let workspace = Workspace::clean();
    assert_eq!(workspace.findings(), [""; 0]);
    assert!(check_and_tell(workspace.0.path()).is_ok());
}

#[test]
fn importing_upward_fails() {
    let workspace = Workspace::clean();
    workspace.member("formats", "cannery-lake = { path = \"../lake\" }\n", "");
    workspace.finds_only(
        "crates/formats/Cargo.toml:10: `cannery-formats` must not depend on `cannery-lake`: \
         that is upward, and crates import only downward",
    );
}

#[test]
fn importing_upward_in_tests_only_is_no_finding() {
    let workspace = Workspace::clean();
    workspace.member("formats", "", "cannery-lake = { path = \"../lake\" }\n");
    assert_eq!(workspace.findings(), [""; 0]);
}

#[test]
fn crates_of_one_layer_do_not_know_each_other() {
    let workspace = Workspace::clean();
    workspace.member("journal", "cannery-lake = { path = \"../lake\" }\n", "");
    workspace.finds_only(
        "crates/journal/Cargo.toml:10: `cannery-journal` must not depend on `cannery-lake`: \
         crates of one layer do not know each other",
    );
}

#[test]
fn the_test_kit_is_not_shipped() {
    let workspace = Workspace::clean();
    workspace.member("serve", "cannery-testkit = { path = \"../testkit\" }\n", "");
    workspace.finds_only(
        "crates/serve/Cargo.toml:10: `cannery-serve` must not ship `cannery-testkit`: \
         make it a dev-dependency",
    );
}

#[test]
fn the_test_kit_knows_only_the_lowest_layer() {
    let workspace = Workspace::clean();
    workspace.member("testkit", "cannery-lake = { path = \"../lake\" }\n", "");
    workspace.finds_only(
        "crates/testkit/Cargo.toml:10: `cannery-testkit` must not depend on `cannery-lake`: \
         it knows only formats and runtime, so that every crate can test with it",
    );
}

#[test]
fn a_crate_without_a_layer_is_found() {
    let workspace = Workspace::clean();
    workspace.member("extra", "", "");
    workspace.finds_only(
        "crates/extra/Cargo.toml:1: `cannery-extra` has no layer; give it one in xtask/src/tidy/layers.rs",
    );
}

#[test]
fn a_crate_without_the_lints_is_found() {
    let workspace = Workspace::clean();
    workspace.write(
        "crates/journal/Cargo.toml",
        "[package]\nname = \"cannery-journal\"\nversion = \"0.1.0\"\n",
    );
    workspace.finds_only(
        "crates/journal/Cargo.toml:1: `cannery-journal` does not take the workspace's lints; \
         add `[lints]` with `workspace = true`",
    );
}

#[test]
fn a_path_of_a_build_machine_is_found_unless_git_ignores_the_file() {
    let workspace = Workspace::clean();
    let path = concat!("/ro", "ot/");
    workspace.write("target/log.txt", &format!("{path}x\n"));
    assert_eq!(workspace.findings(), [""; 0]);
    workspace.write("docs/a.md", &format!("fine\nsee {path}x\n"));
    workspace.finds_only(&format!(
        "docs/a.md:2: `{path}` is a path of a build machine; use a relative path or a placeholder"
    ));
    workspace.git(&["add", "--all"]);
    assert_eq!(workspace.findings().len(), 1);
}

#[test]
fn a_registry_host_is_found() {
    let workspace = Workspace::clean();
    let host = concat!(":/", "/registry.");
    workspace.write(
        "setup.sh",
        &format!("pip install --from https{host}example moto\n"),
    );
    workspace.finds_only(&format!(
        "setup.sh:1: `{host}` fixes where packages come from; name the package only"
    ));
}

#[test]
fn an_object_key_spelled_outside_formats_is_found() {
    let workspace = Workspace::clean();
    let key = concat!("canned", "/");
    let code = format!(
        "// {key} in a comment is fine\npub fn key(day: &str) -> String {{\n    format!(\"{key}{{day}}\")\n}}\n\
         pub const OTHER: &str = \"un{key}\";\n#[cfg(test)]\nmod tests {{\n    const K: &str = \"{key}\";\n}}\n"
    );
    for fine in [
        "crates/formats/src/key.rs",
        "crates/lake/tests/it/main.rs",
        "crates/lake/src/put/tests.rs",
        "crates/testkit/src/reports.rs",
    ] {
        workspace.write(fine, &code);
    }
    assert_eq!(workspace.findings(), [""; 0]);
    workspace.write("crates/lake/src/put.rs", &code);
    workspace.finds_only(&format!(
        "crates/lake/src/put.rs:3: the object key `{key}` is spelled outside crates/formats; use `cannery_formats::key`"
    ));
}

#[test]
fn ignored_tests_and_unfinished_code_are_found() {
    let ignored = "an ignored test tests nothing; run it, gate it by a feature, or remove it";
    let sometimes = "a test that is ignored on some machines passes unseen; gate it by a feature";
    let unfinished = "unfinished code; write it or leave the item out";
    for (code, reason) in [
        ("#[ignore]", ignored),
        ("#[ignore = \"slow\"]", ignored),
        ("#[cfg_attr(not(unix), ignore)]", sometimes),
        ("fn f() { todo!() }", unfinished),
        ("fn f() { unimplemented!(\"later\") }", unfinished),
    ] {
        let workspace = Workspace::clean();
        workspace.write("crates/lake/tests/it/main.rs", &format!("\n{code}\n"));
        workspace.finds_only(&format!("crates/lake/tests/it/main.rs:2: {reason}"));
    }
}

#[test]
fn words_about_unfinished_code_are_no_finding() {
    let workspace = Workspace::clean();
    workspace.write(
        "crates/lake/src/lib.rs",
        "// todo!() is refused\nfn f() { let todo = \"todo!() #[ignore]\"; my_todo!(); }\n",
    );
    assert_eq!(workspace.findings(), [""; 0]);
}

#[test]
fn growth_is_measured_against_the_main_branch() {
    let workspace = Workspace::clean();
    let describe = || {
        let files = files::read(workspace.0.path()).unwrap();
        growth::describe(workspace.0.path(), &files)
    };
    assert!(describe().ends_with("grown most: no history to compare with\n"));

    workspace.git(&["add", "--all"]);
    workspace.git(&["commit", "--quiet", "--message", "one"]);
    workspace.git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
    let body = "    work();\n".repeat(70);
    workspace.write(
        "crates/lake/src/lib.rs",
        &format!("pub fn one() {{\n{body}}}\n"),
    );
    workspace.write("crates/lake/src/new.rs", "fn new() {}\n");
    workspace.git(&["add", "--all"]);
    workspace.git(&["commit", "--quiet", "--message", "two"]);

    let text = describe();
    for expected in [
        "longest files:\n    72  crates/lake/src/lib.rs\n",
        "functions above 60 lines:\n    72  one (crates/lake/src/lib.rs:1)\n",
        "files grown most since origin/main:\n    71  crates/lake/src/lib.rs (72)\n",
        "functions grown most since origin/main:\n    71  one (crates/lake/src/lib.rs:1)\n",
    ] {
        assert!(text.contains(expected), "{expected} not in {text}");
    }
    assert!(
        !text.contains("new.rs ("),
        "a new file did not grow: {text}"
    );
}
