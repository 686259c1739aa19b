//! Node tools, in a prefix of their own.

use std::path::Path;

use super::stamp::Stamp;
use crate::failure::{Result, failed};
use crate::shell::{Cmd, retry, say};

const PACKAGE: &str = "azurite";
const PROGRAM: &str = "node_modules/.bin/azurite-blob";

/// Installs the Azure emulator unless stamp and folder show it; says whether it did.
pub(super) fn install(tools: &Path, stamp: &mut Stamp) -> Result<bool> {
    let prefix = tools.join("node");
    if stamp.has(PACKAGE) && prefix.join(PROGRAM).exists() {
        return Ok(false);
    }
    say(&format!("setup: installing the Node package {PACKAGE}"));
    let folder = prefix.display().to_string();
    let npm = Cmd::new(
        "npm",
        [
            "install",
            "--no-audit",
            "--no-fund",
            "--prefix",
            &folder,
            PACKAGE,
        ],
    );
    retry("Node package", || npm.run(Path::new("/")))?;
    if !prefix.join(PROGRAM).exists() {
        return failed(format!(
            "npm installed `{PACKAGE}` without `{PROGRAM}`; remove `{folder}` and run this again"
        ));
    }
    stamp.add(PACKAGE)?;
    Ok(true)
}
