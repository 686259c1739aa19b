//! Reserved object keys are spelled in crates/formats only, so that a format has one home.

use super::Finding;
use super::files::TextFile;
use super::source::{RustSource, line_of};

/// In two halves, because this file is read too.
const PREFIXES: &[&str] = &[
    concat!("autoload", "/"),
    concat!("reports-raw", "/"),
    concat!("canned", "/"),
    concat!("autoclaved", "/"),
    concat!(".cannery", "/"),
];

pub(super) fn check(file: &TextFile, source: &RustSource) -> Vec<Finding> {
    if file.path.starts_with("crates/formats/") || file.is_test() {
        return Vec::new();
    }
    let test_items = source.test_items();
    let mut findings = Vec::new();
    for prefix in PREFIXES {
        for (at, _) in source.literals.match_indices(prefix) {
            let in_longer_name =
                source.literals[..at].ends_with(|c: char| c.is_alphanumeric() || "_-.".contains(c));
            if in_longer_name || test_items.iter().any(|item| item.contains(&at)) {
                continue;
            }
            findings.push(Finding {
                file: file.path.clone(),
                line: line_of(&file.text, at),
                reason: format!(
                    "the object key `{prefix}` is spelled outside crates/formats; use `cannery_formats::key`"
                ),
            });
        }
    }
    findings
}
