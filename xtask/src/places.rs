//! Where things are: the repository and cargo's output folder.

use std::env;
use std::path::{Path, PathBuf};

use crate::failure::{Result, failed};

#[derive(Clone)]
pub(crate) struct Places {
    /// The folder of the workspace's Cargo.toml.
    pub(crate) root: PathBuf,
    /// Cargo's output folder, absolute.
    pub(crate) target: PathBuf,
}

impl Places {
    /// Asks the environment that `cargo run` made.
    pub(crate) fn find() -> Result<Self> {
        let Some(manifest) = env::var_os("CARGO_MANIFEST_DIR") else {
            return failed("cannot find the repository; run this as `cargo xtask`");
        };
        let root = Path::new(&manifest)
            .parent()
            .expect("xtask lies one folder below the root")
            .to_owned();
        let target = match env::var_os("CARGO_TARGET_DIR") {
            // A relative one counts from the current folder, as it does for cargo.
            Some(folder) => std::path::absolute(folder).or_else(|error| {
                failed(format!("cannot use CARGO_TARGET_DIR: {error}; correct it"))
            })?,
            None => root.join("target"),
        };
        Ok(Self { root, target })
    }

    /// Where `setup` installs what is not a system package.
    pub(crate) fn tools(&self) -> PathBuf {
        self.target.join("tools")
    }

    /// `path` as a reader would type it from the root.
    pub(crate) fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root)
            .unwrap_or(path)
            .display()
            .to_string()
    }
}
