//! Crates import only downward.

use super::Finding;
use super::packages::{Dependency, Package};

/// The layers, lowest first. A crate may import any crate of a lower layer and none of its own.
const LAYERS: &[&[&str]] = &[
    &["cannery-formats", "cannery-runtime"],
    &["cannery-database"],
    &[
        "cannery-lake",
        "cannery-journal",
        "cannery-catalog",
        "cannery-state",
        "cannery-sanitise",
    ],
    &["cannery-objects"],
    &["cannery-collect", "cannery-pipeline", "cannery-jobs"],
    &["cannery-serve"],
    &["cannery"],
];

/// Outside the layers: every crate may use it in tests, so it may know only the lowest.
const TESTKIT: &str = "cannery-testkit";

/// Outside the layers: runs when the product does not compile.
const XTASK: &str = "xtask";

pub(super) fn check(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        if !is_placed(&package.name) {
            findings.push(Finding {
                file: package.manifest.clone(),
                line: 1,
                reason: format!(
                    "`{}` has no layer; give it one in xtask/src/tidy/layers.rs",
                    package.name
                ),
            });
            continue;
        }
        let own = package
            .dependencies
            .iter()
            .filter(|dependency| packages.iter().any(|other| other.name == dependency.name));
        for dependency in own {
            if let Some(reason) = refusal(&package.name, dependency) {
                findings.push(Finding {
                    file: package.manifest.clone(),
                    line: package.line_of(dependency),
                    reason,
                });
            }
        }
    }
    findings
}

fn is_placed(name: &str) -> bool {
    layer(name).is_some() || name == TESTKIT || name == XTASK
}

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

/// Why `package` must not have this dependency.
fn refusal(package: &str, dependency: &Dependency) -> Option<String> {
    let on = &dependency.name;
    if package == XTASK {
        return Some(format!(
            "`xtask` must not depend on `{on}`: it runs when the product does not compile"
        ));
    }
    if dependency.dev {
        return None;
    }
    if on == TESTKIT {
        return Some(format!(
            "`{package}` must not ship `{TESTKIT}`: make it a dev-dependency"
        ));
    }
    let above = layer(on)?;
    if package == TESTKIT {
        return (above > 0).then(|| {
            format!("`{TESTKIT}` must not depend on `{on}`: it knows only formats and runtime, so that every crate can test with it")
        });
    }
    let mine = layer(package)?;
    if above > mine {
        Some(format!(
            "`{package}` must not depend on `{on}`: that is upward, and crates import only downward"
        ))
    } else if above == mine {
        Some(format!(
            "`{package}` must not depend on `{on}`: crates of one layer do not know each other"
        ))
    } else {
        None
    }
}
