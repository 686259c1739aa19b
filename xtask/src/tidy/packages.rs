//! The workspace's packages, as cargo sees them.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::failure::{Failure, Result};
use crate::shell::Cmd;

pub(super) struct Package {
    pub(super) name: String,
    /// The path of its Cargo.toml from the root.
    pub(super) manifest: String,
    pub(super) manifest_text: String,
    pub(super) dependencies: Vec<Dependency>,
}

pub(super) struct Dependency {
    pub(super) name: String,
    pub(super) dev: bool,
}

impl Package {
    /// The line of the manifest that names `dependency`; 1 if it is not spelled out there.
    pub(super) fn line_of(&self, dependency: &Dependency) -> usize {
        let mut section = "";
        for (index, line) in self.manifest_text.lines().enumerate() {
            if line.starts_with('[') {
                section = line;
            }
            let right_section =
                section.contains("dependencies") && section.contains("dev-") == dependency.dev;
            if right_section && names(line, &dependency.name) {
                return index + 1;
            }
        }
        1
    }
}

/// Whether `line` has `name` not as a part of a longer one: `cannery` is not `cannery-lake`.
fn names(line: &str, name: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    line.match_indices(name)
        .any(|(at, _)| !line[..at].ends_with(part) && !line[at + name.len()..].starts_with(part))
}

/// Asks cargo for the packages of the workspace in `root`. Nothing is resolved or downloaded.
pub(super) fn read(root: &Path) -> Result<Vec<Package>> {
    let manifest = root.join("Cargo.toml").display().to_string();
    let cargo = Cmd::new(
        "cargo",
        [
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--manifest-path",
            &manifest,
        ],
    );
    // In this folder, not in `root`, which may be relative to it.
    let text = cargo.capture(Path::new("."))?;
    parse(&text).ok_or_else(|| {
        Failure::Failed(
            "cannot read the answer of `cargo metadata`; is this cargo newer than tidy knows?"
                .to_owned(),
        )
    })
}

fn parse(text: &str) -> Option<Vec<Package>> {
    let metadata: Value = serde_json::from_str(text).ok()?;
    let root = Path::new(metadata["workspace_root"].as_str()?);
    let packages = metadata["packages"].as_array()?.iter();
    packages
        .map(|package| parse_package(package, root))
        .collect()
}

fn parse_package(package: &Value, root: &Path) -> Option<Package> {
    let manifest = Path::new(package["manifest_path"].as_str()?);
    let dependencies = package["dependencies"].as_array()?.iter();
    Some(Package {
        name: package["name"].as_str()?.to_owned(),
        manifest: manifest
            .strip_prefix(root)
            .unwrap_or(manifest)
            .display()
            .to_string(),
        manifest_text: fs::read_to_string(manifest).ok()?,
        dependencies: dependencies
            .map(|dependency| {
                Some(Dependency {
                    name: dependency["name"].as_str()?.to_owned(),
                    dev: dependency["kind"] == "dev",
                })
            })
            .collect::<Option<_>>()?,
    })
}
