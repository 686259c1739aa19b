//! Every crate takes the workspace's lints; without the section cargo applies none of them.

use super::Finding;
use super::packages::Package;

pub(super) fn check(packages: &[Package]) -> Vec<Finding> {
    packages
        .iter()
        .filter(|package| !takes_workspace_lints(&package.manifest_text))
        .map(|package| Finding {
            file: package.manifest.clone(),
            line: 1,
            reason: format!(
                "`{}` does not take the workspace's lints; add `[lints]` with `workspace = true`",
                package.name
            ),
        })
        .collect()
}

fn takes_workspace_lints(manifest: &str) -> bool {
    let mut section = "";
    manifest.lines().map(str::trim).any(|line| {
        if line.starts_with('[') {
            section = line;
        }
        let setting: String = line.split_whitespace().collect();
        match section {
            "[lints]" => setting == "workspace=true",
            "" => setting == "lints.workspace=true",
            _ => false,
        }
    })
}
