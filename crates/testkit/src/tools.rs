//! Finds the programs that `cargo xtask setup` installed.
//!
//! Python tools stand in a venv at `<target dir>/tools/python`, Node tools below `<target dir>/tools/node`, and Debian's
//! packages where Debian puts them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Where Debian keeps programs that may not be on PATH.
const SYSTEM_FOLDERS: [&str; 4] = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"];

/// A program of the Python venv, such as `moto_server`.
///
/// # Errors
/// [`Error::MissingTool`] when it is not there.
pub fn python(tool: &str) -> Result<PathBuf> {
    first_file(tool, [tools_dir().join("python/bin")])
}

/// A program of the Node folder, such as `azurite-blob`.
///
/// # Errors
/// [`Error::MissingTool`] when it is not there.
pub fn node(tool: &str) -> Result<PathBuf> {
    first_file(tool, [tools_dir().join("node/node_modules/.bin")])
}

/// A script of a Node package, such as `bin/mput` of `manta`, to be run with `node`.
///
/// # Errors
/// [`Error::MissingTool`] when it is not there.
pub fn node_script(package: &str, script: &str) -> Result<PathBuf> {
    first_file(
        script,
        [tools_dir().join("node/node_modules").join(package)],
    )
}

/// A program of the system, on PATH or in a well-known folder.
///
/// # Errors
/// [`Error::MissingTool`] when it is not there.
pub fn system(tool: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
    first_file(tool, folders)
}

/// A program of PostgreSQL, of the newest version installed.
///
/// # Errors
/// [`Error::MissingTool`] when there is none.
pub fn postgres(tool: &str) -> Result<PathBuf> {
    first_file(tool, postgres_folders(Path::new("/usr/lib/postgresql"))).or_else(|_| system(tool))
}

fn postgres_folders(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(root) else {
        return Vec::new();
    };
    let version = |folder: &PathBuf| -> u32 {
        let name = folder.file_name().and_then(OsStr::to_str);
        name.and_then(|name| name.parse().ok()).unwrap_or(0)
    };
    let mut versions: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    versions.sort_by_key(version);
    versions
        .iter()
        .rev()
        .map(|folder| folder.join("bin"))
        .collect()
}

fn first_file(tool: &str, folders: impl IntoIterator<Item = PathBuf>) -> Result<PathBuf> {
    folders
        .into_iter()
        .map(|folder| folder.join(tool))
        .find(|path| path.is_file())
        .ok_or_else(|| Error::MissingTool(tool.to_owned()))
}

fn tools_dir() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("this crate lies two folders below the workspace");
    // Joining an absolute path replaces what stands before it.
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    workspace.join(target).join("tools")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_says_what_to_do() {
        let error = python("no_such_tool").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`no_such_tool` is not installed; run `cargo xtask setup`"
        );
        assert!(matches!(system("no_such_tool"), Err(Error::MissingTool(_))));
    }

    #[test]
    fn programs_of_the_system_are_found() {
        assert!(system("sh").unwrap().is_absolute());
    }

    #[test]
    fn the_newest_postgres_comes_first() {
        let root = tempfile::tempdir().unwrap();
        for version in ["9", "15", "16", "notes"] {
            std::fs::create_dir_all(root.path().join(version)).unwrap();
        }
        let folders = postgres_folders(root.path());
        assert_eq!(folders[0], root.path().join("16/bin"));
        assert_eq!(folders[2], root.path().join("9/bin"));
    }
}
