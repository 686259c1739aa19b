//! This machine's name in object names.

use std::path::Path;

use cannery_runtime::RealDisk;
use cannery_runtime::disk::{Disk as _, Kind, read};

use super::ConfigError;

/// Where a name comes from that nobody gave.
pub(super) const DEFAULT_NODE: &str = "@/etc/hostname";

const NODE_BYTES_MAX: u64 = 253;

/// Whether it names a file other than the one that is read anyway.
pub(super) fn names_file(text: &str) -> bool {
    text.starts_with('@') && text != DEFAULT_NODE
}

/// A node's name becomes a part of object names and of log lines.
pub(super) fn check_node(text: &str) -> Result<String, ConfigError> {
    let wrong = |reason: String| ConfigError::new(0, format!("`node`: {reason}"));
    let name = match text.strip_prefix('@') {
        None => text.to_owned(),
        Some(file) => match read_name(Path::new(file)) {
            Ok(content) => String::from_utf8_lossy(&content).into_owned(),
            // A machine without the file still has to run out of the box.
            Err(_) if text == DEFAULT_NODE => "localhost".to_owned(),
            Err(error) => return Err(wrong(format!("cannot read `{file}`: {error}"))),
        },
    };
    let name = name.trim();
    let sound = !name.is_empty()
        && name.len() as u64 <= NODE_BYTES_MAX
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    match (sound, text.strip_prefix('@')) {
        (true, _) => Ok(name.to_owned()),
        (false, Some(file)) => Err(wrong(format!("`{file}` does not hold a host name"))),
        (false, None) => Err(wrong(format!(
            "`{}` is not a host name",
            name.escape_debug()
        ))),
    }
}

/// Follows links, as `/etc/hostname` may be one, but waits for no pipe.
fn read_name(file: &Path) -> std::io::Result<Vec<u8>> {
    let path = std::fs::canonicalize(file)?;
    if RealDisk.metadata(&path)?.kind != Kind::File {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    read(&RealDisk, &path, NODE_BYTES_MAX)
}
