//! `cargo xtask test`: every check, in order, stopping at the first that fails.

mod report;
mod steps;
#[cfg(test)]
mod tests;

use std::path::Path;

use crate::args::Args;
use crate::failure::{Failure, Result, failed};
use crate::places::Places;
use crate::shell::{Stopwatch, say};
use crate::{setup, tidy};
use report::{Outcome, Report, Verdict};
use steps::{Size, Step, Work};

const HELP: &str = "\
Checks everything, in this order, and stops at the first failure:

  fmt      rustfmt has nothing to change
  clippy   no warning, in all targets with all features
  plain    no warning with default features, as a user builds it (not with --quick)
  tidy     the rules that the compiler does not know
  unit     tests without servers (only with --quick; `servers` includes them)
  setup    install what the tests need (not with --quick)
  audit    who judges what the tests made is tested too (not with --quick)
  servers  all tests, with real servers and a real browser (not with --quick)
  docs     no warning in the documentation (not with --quick)

Usage: cargo xtask test [OPTIONS]

Options:
  --quick       what needs no server
  --long        the full counts, new seeds, and the servers that take long to
                install; writes docs/results/long.md; what a property test finds
                is saved below proptest-regressions/: commit it
  --only STEP   one step alone

Examples:
  cargo xtask test --quick
  cargo xtask test --only clippy
  cargo xtask test --long
";

pub(crate) fn run(mut args: Args) -> Result<()> {
    if args.help() {
        print!("{HELP}");
        return Ok(());
    }
    let size = size(args.flag("--quick"), args.flag("--long"))?;
    let only = args.option("--only")?;
    args.finish()?;
    let steps = steps::plan(size, only.as_deref())?;
    let places = Places::find()?;

    let mut report = Report::default();
    let outcome = run_steps(&steps, &mut report, |step, report| {
        do_step(step, &places, report)
    });
    say(&report.table());
    // A step alone is not the long run, and must not replace the record of one.
    if size == Size::Long && only.is_none() {
        let file = places.root.join("docs/results/long.md");
        report.write(&file, &places.root)?;
        say(&format!("results: {}", places.shown(&file)));
    }
    outcome
}

fn size(quick: bool, long: bool) -> Result<Size> {
    match (quick, long) {
        (false, false) => Ok(Size::Full),
        (true, false) => Ok(Size::Quick),
        (false, true) => Ok(Size::Long),
        (true, true) => Err(Failure::Usage(
            "`--quick` and `--long` exclude each other; give one".to_owned(),
        )),
    }
}

/// Runs the steps up to the first failure; `report` then holds an outcome for every step.
fn run_steps(
    steps: &[Step],
    report: &mut Report,
    mut work: impl FnMut(&Step, &mut Report) -> Result<()>,
) -> Result<()> {
    let mut failure = None;
    for step in steps {
        if failure.is_some() {
            report.outcomes.push(Outcome::not_run(step.name));
            continue;
        }
        say(&format!("\n== {}: {}", step.name, step.command()));
        let watch = Stopwatch::start();
        let result = work(step, report);
        let seconds = watch.seconds();
        let verdict = if result.is_ok() {
            Verdict::Passed
        } else {
            Verdict::Failed
        };
        say(&format!("== {}: {verdict} in {seconds:.1} s", step.name));
        report.outcomes.push(Outcome {
            step: step.name,
            verdict,
            seconds,
        });
        failure = result.err().map(|cause| (step, cause));
    }
    match failure {
        None => Ok(()),
        Some((step, cause)) => failed(format!(
            "step `{}` failed: {cause}\n  command: {}\n  alone:   {}",
            step.name,
            step.command(),
            step.alone()
        )),
    }
}

fn do_step(step: &Step, places: &Places, report: &mut Report) -> Result<()> {
    match &step.work {
        Work::Cargo(cmd) => cmd.run(&places.root),
        Work::Python(words) => setup::python(places, words)?.run(&places.root),
        Work::CargoWithResults(cmd) => run_collecting(cmd, &places.root, report),
        Work::Setup { long } => setup::install(places, *long),
        Work::Tidy => tidy::check_and_tell(&places.root),
    }
}

fn run_collecting(cmd: &crate::shell::Cmd, root: &Path, report: &mut Report) -> Result<()> {
    cmd.run_lines(root, |line| {
        say(line);
        report.take(line);
    })
}
