//! The text files of a repository: what git tracks, and what it would track after `git add`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::source::RustSource;
use crate::failure::Result;
use crate::shell::Cmd;

pub(super) struct TextFile {
    /// From the root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
}

impl TextFile {
    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The file taken apart, if it is Rust.
    pub(super) fn rust(&self) -> Option<RustSource> {
        self.is_rust().then(|| RustSource::read(&self.text))
    }

    /// Whether the whole file is test, bench or example.
    pub(super) fn is_test(&self) -> bool {
        self.path.starts_with("crates/testkit/")
            || self
                .path
                .split('/')
                .any(|part| matches!(part, "tests" | "tests.rs" | "benches" | "examples"))
    }
}

/// All text files, sorted by path. Files deleted but not yet committed, links and binary files are
/// left out.
pub(super) fn read(root: &Path) -> Result<Vec<TextFile>> {
    let listed = git(
        root,
        &[
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ],
    )?;
    let paths: BTreeSet<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
    let files = paths.into_iter().filter_map(|path| {
        let full = root.join(path);
        if !fs::symlink_metadata(&full).is_ok_and(|data| data.is_file()) {
            return None;
        }
        let text = fs::read_to_string(full).ok()?;
        (!text.contains('\0')).then(|| TextFile {
            path: path.to_owned(),
            text,
        })
    });
    Ok(files.collect())
}

/// Runs git on the repository in `root`, even from a git hook, which names another in the environment.
pub(super) fn git(root: &Path, words: &[&str]) -> Result<String> {
    let unset = [
        "-u",
        "GIT_DIR",
        "-u",
        "GIT_WORK_TREE",
        "-u",
        "GIT_INDEX_FILE",
        "git",
    ];
    Cmd::new("env", unset.iter().chain(words).copied()).capture(root)
}
