//! `cargo xtask`: the project's own commands for developers and CI.
//!
//! Depends on the standard library and `serde_json` only, so that it builds in seconds on a fresh
//! clone, and on no crate of the product, so that it still runs when the product does not compile.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command for developers talks to the terminal"
)]

mod args;
mod bench;
mod failure;
mod places;
#[cfg(test)]
mod scratch;
mod setup;
mod shell;
mod test;
mod tidy;

use std::process::ExitCode;

use args::Args;
use failure::{Failure, Result};

const HELP: &str = "\
The project's own commands.

Usage: cargo xtask <COMMAND> [OPTIONS]

Commands:
  test    check everything: format, lints, tidy, tests on real servers, docs
  setup   install what the tests need
  bench   run benchmarks and keep their numbers
  tidy    check the rules that the compiler does not know

Examples:
  cargo xtask test --quick     before a commit
  cargo xtask test             what CI runs
  cargo xtask tidy --help      more about one command
";

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            failure.exit_code()
        }
    }
}

fn run(arguments: Vec<String>) -> Result<()> {
    let mut args = Args::new(arguments);
    let Some(command) = args.command() else {
        print!("{HELP}");
        return Ok(());
    };
    match command.as_str() {
        "test" => test::run(args),
        "setup" => setup::run(args),
        "bench" => bench::run(args),
        "tidy" => tidy::run(args),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(Failure::Usage(format!(
            "no command `{other}`; run `cargo xtask help` for the list"
        ))),
    }
}
