//! No ignored test and no unfinished code: both look like work that is done.

use super::Finding;
use super::files::TextFile;
use super::source::{RustSource, has_word, line_of, words};

pub(super) fn check(file: &TextFile, source: &RustSource) -> Vec<Finding> {
    let ignored = source.attributes("#[ignore").map(|attribute| {
        let reason = "an ignored test tests nothing; run it, gate it by a feature, or remove it";
        (attribute.start, reason)
    });
    let sometimes_ignored = source
        .attributes("#[cfg_attr(")
        .filter(|attribute| has_word(&source.code[attribute.clone()], "ignore"))
        .map(|attribute| {
            let reason =
                "a test that is ignored on some machines passes unseen; gate it by a feature";
            (attribute.start, reason)
        });
    let unfinished = ["todo", "unimplemented"].into_iter().flat_map(|name| {
        words(&source.code, name)
            .filter(move |at| source.code[at + name.len()..].starts_with('!'))
            .map(|at| (at, "unfinished code; write it or leave the item out"))
    });
    ignored
        .chain(sometimes_ignored)
        .chain(unfinished)
        .map(|(at, reason)| Finding {
            file: file.path.clone(),
            line: line_of(&file.text, at),
            reason: reason.to_owned(),
        })
        .collect()
}
