//! Which steps there are and which of them a run of each size has.

use std::hash::{BuildHasher as _, RandomState};

use crate::failure::{Failure, Result};
use crate::shell::Cmd;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Size {
    Quick,
    Full,
    Long,
}

pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) work: Work,
    size: Size,
}

pub(super) enum Work {
    Cargo(Cmd),
    /// The output also holds lines for the result file.
    CargoWithResults(Cmd),
    /// The Python that `setup` has made, with the packages in it.
    Python(Vec<&'static str>),
    Setup {
        long: bool,
    },
    Tidy,
}

impl Step {
    /// What the step runs, as one would type it.
    pub(super) fn command(&self) -> String {
        match &self.work {
            Work::Cargo(cmd) | Work::CargoWithResults(cmd) => cmd.to_string(),
            Work::Python(words) => format!("target/tools/python/bin/python {}", words.join(" ")),
            Work::Setup { long: false } => "cargo xtask setup".to_owned(),
            Work::Setup { long: true } => "cargo xtask setup --long".to_owned(),
            Work::Tidy => "cargo xtask tidy".to_owned(),
        }
    }

    /// How to run this step and no other.
    pub(super) fn alone(&self) -> String {
        let size = match self.size {
            Size::Long => " --long",
            Size::Quick | Size::Full => "",
        };
        format!("cargo xtask test{size} --only {}", self.name)
    }
}

/// Every step, in the order of a run.
const NAMES: &[&str] = &[
    "fmt", "clippy", "plain", "tidy", "unit", "setup", "audit", "servers", "docs",
];

/// The steps of a run, or the one that was asked for.
pub(super) fn plan(size: Size, only: Option<&str>) -> Result<Vec<Step>> {
    if let Some(only) = only {
        let Some(name) = NAMES.iter().find(|name| **name == only) else {
            return Err(Failure::Usage(format!(
                "no step `{only}`; there are: {}",
                NAMES.join(", ")
            )));
        };
        return Ok(vec![step(name, size)]);
    }
    let names = NAMES.iter().filter(|name| belongs(name, size));
    Ok(names.map(|name| step(name, size)).collect())
}

/// `servers` runs the unit tests too, with the same features as everything else in that run, so that
/// nothing is compiled or tested twice; `unit` is what a quick run has in its place.
fn belongs(name: &str, size: Size) -> bool {
    match name {
        "fmt" | "clippy" | "tidy" => true,
        "unit" => size == Size::Quick,
        _ => size != Size::Quick,
    }
}

fn step(name: &'static str, size: Size) -> Step {
    let work = match name {
        "fmt" => cargo("fmt --all --check"),
        "clippy" => cargo("clippy --workspace --all-targets --all-features -- -D warnings"),
        // Nothing else in a full run compiles what users compile.
        "plain" => cargo("clippy --workspace -- -D warnings"),
        "tidy" => Work::Tidy,
        // Who judges the others is tested too.
        "audit" => Work::Python(vec![
            "-m",
            "unittest",
            "-q",
            "tests/audit/test_spool_audit.py",
            "tests/audit/test_feed_audit.py",
            "tests/audit/test_archive_audit.py",
        ]),
        "unit" => cargo("test --workspace"),
        "setup" => Work::Setup {
            long: size == Size::Long,
        },
        "servers" => servers(size),
        "docs" => {
            Work::Cargo(words("doc --workspace --no-deps").env("RUSTDOCFLAGS", "-D warnings"))
        }
        other => unreachable!("`{other}` is not in NAMES"),
    };
    Step { name, work, size }
}

fn servers(size: Size) -> Work {
    match size {
        Size::Quick | Size::Full => cargo("test --workspace --all-features"),
        // Without `--show-output` cargo hides what a passing test prints, and the results with it.
        Size::Long => {
            let seed = new_seed().to_string();
            Work::CargoWithResults(
                words("test --workspace --all-features -- --show-output")
                    .env("CANNERY_TEST_LONG", "1")
                    .env("CANNERY_TEST_SEED", &seed)
                    .env("PROPTEST_RNG_SEED", &seed),
            )
        }
    }
}

/// New for each long run, and shown with its command, so that what it finds can be found again. What a property test finds is
/// also saved as a regression beside its code, to be committed.
fn new_seed() -> u64 {
    // Its keys come from the operating system.
    RandomState::new().hash_one(())
}

fn cargo(line: &str) -> Work {
    Work::Cargo(words(line))
}

fn words(line: &str) -> Cmd {
    Cmd::new("cargo", line.split(' '))
}
