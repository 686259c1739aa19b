//! `cargo xtask setup`: installs what the tests need, and only what is missing.

mod node;
mod packages;
mod python;
mod stamp;

use crate::args::Args;
use crate::failure::{Result, failed};
use crate::places::Places;
use crate::shell::{Cmd, say};
use stamp::Stamp;

const HELP: &str = "\
Installs what the tests need. May be run any number of times; the second run does nothing.

System packages come from apt-get when run as root; otherwise the command says which ones to
install. Everything else goes to the folder `tools` in cargo's output folder.

Usage: cargo xtask setup [OPTIONS]

Options:
  --long   also what `cargo xtask test --long` and `cargo xtask bench` need: Ceph, the Azure emulator,
           beanstalkd, ratarmount

Examples:
  cargo xtask setup
  sudo apt-get install postgresql chromium && cargo xtask setup
";

pub(crate) fn run(mut args: Args) -> Result<()> {
    if args.help() {
        print!("{HELP}");
        return Ok(());
    }
    let long = args.flag("--long");
    args.finish()?;
    install(&Places::find()?, long)
}

/// The Python of the tests, called with these words.
pub(crate) fn python(places: &Places, words: &[&str]) -> Result<Cmd> {
    let interpreter = python::interpreter(&places.tools());
    if !interpreter.exists() {
        return failed("the Python of the tests is not there; run `cargo xtask setup`");
    }
    Ok(Cmd::new(
        interpreter.display().to_string(),
        words.iter().copied(),
    ))
}

/// Makes everything present that the tests of this size use. May be called twice.
pub(crate) fn install(places: &Places, long: bool) -> Result<()> {
    let tools = places.tools();
    let mut stamp = Stamp::load(&tools);
    let mut changed = packages::install(&tools, long)?;
    changed |= python::install(&tools, long, &mut stamp)?;
    changed |= node::install(&tools, long, &mut stamp)?;
    say(if changed {
        "setup: ready"
    } else {
        "setup: everything is there already"
    });
    Ok(())
}
