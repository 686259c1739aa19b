//! `cannery stor ls` and `cannery stor find`

use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use super::{Context, DIRECTORY_TYPE};
use crate::api_client::{ApiClient, RemotePath, unreachable};
use crate::cli::stor::EntryKind;
use crate::failure::{ExitCode, Failure};

/// Entries of a request.
const PAGE: usize = 1_024;

/// A page of a listing is not longer than this, whatever the server says.
const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A line of a listing.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct RemoteEntry {
    pub(super) name: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    etag: Option<String>,
    mtime: String,
}

impl RemoteEntry {
    pub(super) fn is_directory(&self) -> bool {
        self.kind == "directory"
    }
}

/// A page of a directory, and where the next one begins.
pub(super) struct RemotePage {
    pub(super) entries: Vec<RemoteEntry>,
    pub(super) next: Option<String>,
}

/// Asks for a page of a directory.
pub(super) async fn page(
    client: &ApiClient,
    directory: &RemotePath,
    marker: Option<&str>,
) -> Result<RemotePage, Failure> {
    let limit = PAGE.to_string();
    let mut query = vec![("limit", limit.as_str())];
    query.extend(marker.map(|marker| ("marker", marker)));
    let request = client.query(Method::GET, directory, &query);
    let mut response = client.send(request).await?;
    let text = |name: &str| {
        let value = response.headers().get(name)?.to_str().ok()?;
        Some(value.to_owned())
    };
    let is_listing = text("content-type").is_some_and(|kind| kind == DIRECTORY_TYPE);
    if !is_listing {
        let message = format!("`{directory}` is an object, not a directory");
        let next = "print it with `cannery stor get`";
        return Err(Failure::new(ExitCode::Usage, "object", message, next));
    }
    let next = text("page-token");
    let mut lines = Vec::new();
    loop {
        let piece = response.chunk().await;
        let piece = piece.map_err(|error| unreachable(&client.address(directory), &error))?;
        match piece {
            None => break,
            Some(piece) if lines.len() + piece.len() <= PAGE_BYTES_MAX => {
                lines.extend_from_slice(&piece);
            }
            Some(_) => return Err(unreadable(directory, "it is too long")),
        }
    }
    let lines = lines.split(|byte| *byte == b'\n');
    let entries = lines
        .filter(|line| !line.is_empty())
        .map(serde_json::from_slice)
        .collect::<Result<_, _>>()
        .map_err(|error| unreadable(directory, &error.to_string()))?;
    Ok(RemotePage { entries, next })
}

fn unreadable(directory: &RemotePath, why: &str) -> Failure {
    let message = format!("cannot read the listing of `{directory}`: {why}");
    let next = "check that `--url` is a server of this program";
    Failure::new(ExitCode::Error, "unreadable", message, next)
}

pub(super) async fn list(
    client: &ApiClient,
    directory: &RemotePath,
    long: bool,
    context: &Context,
) -> Result<(), Failure> {
    let (mut marker, mut given) = (None, 0);
    loop {
        let page = page(client, directory, marker.as_deref()).await;
        let page = page.map_err(|failure| failure.after_partial_output(given))?;
        for entry in &page.entries {
            let slash = if entry.is_directory() { "/" } else { "" };
            let text = match long {
                true => format!("{:>12}  {}  {}{slash}", entry.size, entry.mtime, entry.name),
                false => format!("{}{slash}", entry.name),
            };
            show(&directory.child(&entry.name)?, entry, text, context);
            given += 1;
        }
        marker = page.next;
        if marker.is_none() {
            return Ok(());
        }
    }
}

fn show(path: &RemotePath, entry: &RemoteEntry, text: String, context: &Context) {
    let mut value = json!({ "path": path.to_string(), "type": entry.kind, "mtime": entry.mtime });
    if !entry.is_directory() {
        value["size"] = entry.size.into();
        value["etag"] = entry.etag.clone().into();
    }
    context.output.event("entry", text, &value);
}

/// Which entries are asked for.
pub(super) struct EntryFilter<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) kind: Option<EntryKind>,
}

impl EntryFilter<'_> {
    fn includes(&self, entry: &RemoteEntry) -> bool {
        let kind = match self.kind {
            None => true,
            Some(EntryKind::Directory) => entry.is_directory(),
            Some(EntryKind::Object) => !entry.is_directory(),
        };
        kind && self
            .name
            .is_none_or(|pattern| matches(pattern, &entry.name))
    }
}

/// Goes down into one directory after the other; what waits is one page of each level.
pub(super) async fn find(
    client: &ApiClient,
    top: &RemotePath,
    wanted: &EntryFilter<'_>,
    context: &Context,
) -> Result<(), Failure> {
    struct Level {
        directory: RemotePath,
        entries: std::vec::IntoIter<RemoteEntry>,
        next: Option<String>,
    }
    let mut given = 0;
    let open = async |directory: RemotePath, marker: Option<&str>| {
        let page = page(client, &directory, marker).await?;
        Ok::<_, Failure>(Level {
            directory,
            entries: page.entries.into_iter(),
            next: page.next,
        })
    };
    let mut levels = vec![open(top.clone(), None).await?];
    while let Some(level) = levels.last_mut() {
        let deeper = match (level.entries.next(), level.next.take()) {
            (Some(entry), next) => {
                level.next = next;
                let path = level.directory.child(&entry.name)?;
                if wanted.includes(&entry) {
                    show(&path, &entry, path.to_string(), context);
                    given += 1;
                }
                entry.is_directory().then_some((path, None))
            }
            (None, Some(next)) => {
                let directory = level.directory.clone();
                levels.pop();
                Some((directory, Some(next)))
            }
            (None, None) => {
                levels.pop();
                None
            }
        };
        if let Some((directory, marker)) = deeper {
            match open(directory, marker.as_deref()).await {
                Ok(level) => levels.push(level),
                // Somebody has deleted it meanwhile.
                Err(failure) if failure.code == ExitCode::Absent => {}
                Err(failure) => return Err(failure.after_partial_output(given)),
            }
        }
    }
    Ok(())
}

/// Whether a name is like a pattern with `*` and `?`. Our own, since nothing else of globs makes sense for one name.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut tried) = ((0, 0), None);
    while at.1 < name.len() {
        match pattern.get(at.0) {
            Some('*') => {
                tried = Some(at);
                at.0 += 1;
            }
            Some(&wanted) if wanted == '?' || wanted == name[at.1] => at = (at.0 + 1, at.1 + 1),
            _ => match tried {
                None => return false,
                Some((star, taken)) => {
                    tried = Some((star, taken + 1));
                    at = (star + 1, taken + 1);
                }
            },
        }
    }
    pattern[at.0..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_stand_for_characters() {
        for (pattern, name) in [
            ("*", ""),
            ("*.txt", "a.txt"),
            ("a*b*c", "axxbyybc"),
            ("?", "ä"),
            ("a", "a"),
            ("**", "x"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "a"),
            ("?", ""),
            ("*.txt", "a.txt2"),
            ("a*b", "ac"),
            ("a", "ab"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
