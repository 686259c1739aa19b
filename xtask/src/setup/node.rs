//! Node tools, in a prefix of their own.

use std::path::Path;

use super::stamp::Stamp;
use crate::failure::{Result, failed};
use crate::shell::{Cmd, retry, say};

/// A package and a program that it brings.
struct NodePackage {
    name: &'static str,
    program: &'static str,
    long_only: bool,
}

const PACKAGES: [NodePackage; 2] = [
    // The client whose judgement of the API of objects counts.
    NodePackage {
        name: "manta@5.4.2",
        program: "node_modules/manta/bin/mput",
        long_only: false,
    },
    NodePackage {
        name: "azurite",
        program: "node_modules/.bin/azurite-blob",
        long_only: true,
    },
];

/// Installs what stamp and folder do not show; says whether there was anything.
pub(super) fn install(tools: &Path, long: bool, stamp: &mut Stamp) -> Result<bool> {
    let prefix = tools.join("node");
    let mut changed = false;
    for package in PACKAGES.iter().filter(|package| long || !package.long_only) {
        if stamp.has(package.name) && prefix.join(package.program).exists() {
            continue;
        }
        add(&prefix, package)?;
        stamp.add(package.name)?;
        changed = true;
    }
    Ok(changed)
}

fn add(prefix: &Path, package: &NodePackage) -> Result<()> {
    let NodePackage { name, program, .. } = package;
    say(&format!("setup: installing the Node package {name}"));
    let folder = prefix.display().to_string();
    let options = [
        "install",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--prefix",
    ];
    let npm = Cmd::new("npm", options.into_iter().chain([folder.as_str(), name]));
    retry("Node package", || npm.run(Path::new("/")))?;
    if prefix.join(program).exists() {
        return Ok(());
    }
    failed(format!(
        "npm installed `{name}` without `{program}`; remove `{folder}` and run this again"
    ))
}
