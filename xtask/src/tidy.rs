//! `cargo xtask tidy`: the rules that the compiler does not know.

mod files;
mod functions;
mod growth;
mod keys;
mod layers;
mod lints;
mod machine;
mod marks;
mod packages;
mod source;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::args::Args;
use crate::failure::{Result, failed};
use crate::places::Places;
use crate::shell::say;

const HELP: &str = "\
Checks the rules that the compiler does not know, and prints each finding with file, line and reason:

  layers   crates import only downward; the test kit is a dev-dependency only
  machine  no path of a build machine and no package registry host in a text file
  keys     reserved object keys are spelled in crates/formats only
  marks    no ignored test, no unfinished code
  lints    every crate takes the workspace's lints

Then prints the longest files and functions and which grew most; those are no findings.

Usage: cargo xtask tidy [OPTIONS]

Options:
  --root DIR   check the workspace in DIR (default: this repository)

Examples:
  cargo xtask tidy
  cargo xtask tidy --root ../another-clone
";

/// A broken rule, at the place where to mend it.
#[derive(Debug, PartialEq)]
struct Finding {
    file: String,
    line: usize,
    reason: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.reason)
    }
}

pub(crate) fn run(mut args: Args) -> Result<()> {
    if args.help() {
        print!("{HELP}");
        return Ok(());
    }
    let root = args.option("--root")?.map(PathBuf::from);
    args.finish()?;
    match root {
        Some(root) => check_and_tell(&root),
        None => check_and_tell(&Places::find()?.root),
    }
}

/// Prints findings and sizes; an error if there is a finding.
pub(crate) fn check_and_tell(root: &Path) -> Result<()> {
    let files = files::read(root)?;
    say(&growth::describe(root, &files));
    let findings = check(root, &files)?;
    for finding in &findings {
        say(&finding.to_string());
    }
    match findings.len() {
        0 => {
            say(&format!("tidy: {} files, nothing to mend", files.len()));
            Ok(())
        }
        1 => failed("tidy: 1 finding, printed above"),
        count => failed(format!("tidy: {count} findings, printed above")),
    }
}

fn check(root: &Path, files: &[files::TextFile]) -> Result<Vec<Finding>> {
    let packages = packages::read(root)?;
    let mut findings = layers::check(&packages);
    findings.extend(lints::check(&packages));
    for file in files {
        findings.extend(machine::check(file));
        if let Some(source) = file.rust() {
            findings.extend(keys::check(file, &source));
            findings.extend(marks::check(file, &source));
        }
    }
    Ok(findings)
}
