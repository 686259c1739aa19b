//! What is long and what grew: information for a reader, no finding.

use std::collections::BTreeMap;
use std::path::Path;

use super::files::{TextFile, git};
use super::functions::{Function, functions};
use super::source::RustSource;

const SHOWN: usize = 10;
const LONG_FUNCTION_LINES: usize = 60;

/// A size and what has it, to be sorted by size.
struct Measured {
    lines: usize,
    what: String,
}

/// The lists, as text.
pub(super) fn describe(root: &Path, files: &[TextFile]) -> String {
    let rust: Vec<&TextFile> = files.iter().filter(|file| file.is_rust()).collect();
    let mut text = list("longest files", longest_files(&rust), SHOWN);
    let long = long_functions(&rust);
    text += &list(
        &format!("functions above {LONG_FUNCTION_LINES} lines"),
        long,
        usize::MAX,
    );
    let Some((base, name)) = base(root) else {
        return text + "grown most: no history to compare with\n";
    };
    let (grown_files, grown_functions) = grown(root, &base, &rust);
    text += &list(
        &format!("files grown most since {name}"),
        grown_files,
        SHOWN,
    );
    text + &list(
        &format!("functions grown most since {name}"),
        grown_functions,
        SHOWN,
    )
}

fn list(title: &str, mut items: Vec<Measured>, shown: usize) -> String {
    if items.is_empty() {
        return format!("{title}: none\n");
    }
    items.sort_by(|a, b| b.lines.cmp(&a.lines).then_with(|| a.what.cmp(&b.what)));
    let lines = items
        .iter()
        .take(shown)
        .map(|item| format!("{:>6}  {}\n", item.lines, item.what));
    format!("{title}:\n{}", lines.collect::<String>())
}

fn longest_files(files: &[&TextFile]) -> Vec<Measured> {
    let measured = files.iter().map(|file| Measured {
        lines: file.text.lines().count(),
        what: file.path.clone(),
    });
    measured.collect()
}

fn long_functions(files: &[&TextFile]) -> Vec<Measured> {
    let mut long = Vec::new();
    for file in files {
        let found = functions(&RustSource::read(&file.text));
        let found = found
            .into_iter()
            .filter(|function| function.lines > LONG_FUNCTION_LINES);
        long.extend(found.map(|function| measured(file, &function, function.lines)));
    }
    long
}

fn measured(file: &TextFile, function: &Function, lines: usize) -> Measured {
    Measured {
        lines,
        what: format!("{} ({}:{})", function.name, file.path, function.line),
    }
}

/// The commit to compare with, and its name for people: where this branch left the main one, or on
/// the main one, twenty commits ago.
fn base(root: &Path) -> Option<(String, &'static str)> {
    let commit = |words: &[&str]| {
        let hash = git(root, words).ok()?;
        Some(hash.trim().to_owned())
    };
    let head = commit(&["rev-parse", "--verify", "HEAD"])?;
    let fork = commit(&["merge-base", "HEAD", "origin/main"]).filter(|fork| *fork != head);
    fork.map(|fork| (fork, "origin/main")).or_else(|| {
        let earlier = commit(&["rev-parse", "--verify", "HEAD~20"])?;
        Some((earlier, "HEAD~20"))
    })
}

/// Files and functions that are longer now. What did not exist at `base` is new, not grown.
fn grown(root: &Path, base: &str, files: &[&TextFile]) -> (Vec<Measured>, Vec<Measured>) {
    let changed = git(root, &["diff", "--name-only", "--no-renames", "-z", base]);
    let changed = changed.unwrap_or_default();
    let (mut grown_files, mut grown_functions) = (Vec::new(), Vec::new());
    for path in changed.split('\0') {
        let Some(file) = files.iter().find(|file| file.path == path) else {
            continue;
        };
        let Ok(before) = git(root, &["show", &format!("{base}:{path}")]) else {
            continue;
        };
        let (old, new) = (before.lines().count(), file.text.lines().count());
        if new > old {
            grown_files.push(Measured {
                lines: new - old,
                what: format!("{path} ({new})"),
            });
        }
        grown_functions.extend(functions_grown(file, &before));
    }
    (grown_files, grown_functions)
}

fn functions_grown(file: &TextFile, before: &str) -> Vec<Measured> {
    let old = numbered(functions(&RustSource::read(before)));
    let new = numbered(functions(&RustSource::read(&file.text)));
    let grown = new.iter().filter_map(|(key, function)| {
        let more = function.lines.checked_sub(old.get(key)?.lines)?;
        (more > 0).then(|| measured(file, function, more))
    });
    grown.collect()
}

/// By name and by which of that name it is: a file may have several called `new`.
fn numbered(functions: Vec<Function>) -> BTreeMap<(String, usize), Function> {
    let mut numbered = BTreeMap::new();
    for function in functions {
        let count = |number: &usize| numbered.contains_key(&(function.name.clone(), *number));
        let number = (0..).take_while(count).count();
        numbered.insert((function.name.clone(), number), function);
    }
    numbered
}
