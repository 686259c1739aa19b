//! `cargo xtask bench`: runs benchmarks, shows their tables and keeps their numbers.

use crate::args::Args;
use crate::failure::{Failure, Result, failed};
use crate::places::Places;
use crate::shell::{Cmd, say, write_text};

const HELP: &str = "\
Runs benchmarks. Each prints a table of ours, the reference and the ratio, measured in the same run;
its numbers go to `bench/<name>.jsonl` in cargo's output folder, one JSON object a line.

Usage: cargo xtask bench [OPTIONS] [NAME]...

Names: archive, catalog, feeds, journal, lake, sanitise, serve, spool (default: all). `archive`, `journal` and `serve`
need what `cargo xtask setup --long` brings.

Options:
  --quick   small counts: shows that the benchmark works, not how fast anything is

CANNERY_BENCH_GB=10 takes 10 GB of text through the stages of `archive`, after 0.1 and 1.
CANNERY_BENCH_SECONDS=600 asks the feeds of `feeds` for so long, and lets slow clients at `serve` for so long.
CANNERY_BENCH_FILES=1000000 drains so many files by `spool` alone, for its memory.
CANNERY_BENCH_ONLY=<part>,... measures parts of `journal` only: embedded, postgres, sqlite, beanstalkd, pgbench (the sides of
its comparisons), wake, space, held.

Examples:
  cargo xtask bench
  cargo xtask bench --quick lake
  CANNERY_BENCH_ONLY=embedded,sqlite cargo xtask bench journal
";

/// Bench targets of one name, each with its own `main`, which prints its table and lines of JSON.
struct Bench {
    name: &'static str,
    packages: &'static [&'static str],
}

const BENCHES: &[Bench] = &[
    Bench {
        name: "archive",
        packages: &["cannery-pipeline"],
    },
    Bench {
        name: "catalog",
        packages: &["cannery-catalog"],
    },
    Bench {
        name: "feeds",
        packages: &["cannery-collect", "cannery-pipeline"],
    },
    Bench {
        name: "journal",
        packages: &["cannery-journal"],
    },
    Bench {
        name: "lake",
        packages: &["cannery-lake"],
    },
    Bench {
        name: "sanitise",
        packages: &["cannery-sanitise"],
    },
    Bench {
        name: "serve",
        packages: &["cannery"],
    },
    Bench {
        name: "spool",
        packages: &["cannery-collect"],
    },
];

pub(crate) fn run(mut args: Args) -> Result<()> {
    if args.help() {
        print!("{HELP}");
        return Ok(());
    }
    let quick = args.flag("--quick");
    let benches = chosen(&args.names()?)?;
    let places = Places::find()?;
    for bench in benches {
        measure(bench, quick, &places)?;
    }
    Ok(())
}

fn chosen(names: &[String]) -> Result<Vec<&'static Bench>> {
    if names.is_empty() {
        return Ok(BENCHES.iter().collect());
    }
    names.iter().map(|name| named(name)).collect()
}

fn named(name: &str) -> Result<&'static Bench> {
    BENCHES
        .iter()
        .find(|bench| bench.name == name)
        .ok_or_else(|| {
            let known: Vec<_> = BENCHES.iter().map(|bench| bench.name).collect();
            Failure::Usage(format!(
                "no benchmark `{name}`; there are: {}",
                known.join(", ")
            ))
        })
}

fn measure(bench: &Bench, quick: bool, places: &Places) -> Result<()> {
    say(&format!("== bench {}", bench.name));
    let mut output = Output::default();
    for package in bench.packages {
        let mut cargo = Cmd::new("cargo", ["bench", "-p", package, "--bench", bench.name]);
        if quick {
            cargo = cargo.env("CANNERY_BENCH_QUICK", "1");
        }
        cargo.run_lines(&places.root, |line| {
            if let Some(shown) = output.take(line) {
                say(shown);
            }
        })?;
    }
    let file = places.target.join(format!("bench/{}.jsonl", bench.name));
    let text = output.numbers(bench.name)?;
    write_text(&file, &text)?;
    say(&format!("numbers: {}", places.shown(&file)));
    Ok(())
}

/// The lines of a benchmark, sorted into what people read and what programs read.
#[derive(Default)]
struct Output {
    json: Vec<String>,
    broken: Option<String>,
}

impl Output {
    /// Keeps a line of JSON; gives back any other, to be shown.
    fn take<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        if !line.starts_with('{') {
            return Some(line);
        }
        if serde_json::from_str::<serde_json::Value>(line).is_err() {
            self.broken = Some(line.to_owned());
        }
        self.json.push(line.to_owned());
        None
    }

    /// The text of the file; an error if the benchmark gave no numbers or unreadable ones.
    fn numbers(&self, name: &str) -> Result<String> {
        if let Some(line) = &self.broken {
            return failed(format!(
                "benchmark `{name}` printed a line that is not JSON: {line}"
            ));
        }
        if self.json.is_empty() {
            return failed(format!(
                "benchmark `{name}` printed no line of JSON; print one object for each measurement"
            ));
        }
        Ok(self.json.join("\n") + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_kept_and_the_table_is_shown() {
        let mut output = Output::default();
        assert_eq!(output.take("put   12 ms"), Some("put   12 ms"));
        assert_eq!(output.take(r#"{"name":"put","ratio":1.5}"#), None);
        assert_eq!(output.take(r#"{"name":"get","ratio":0.9}"#), None);
        assert_eq!(
            output.numbers("lake").unwrap(),
            "{\"name\":\"put\",\"ratio\":1.5}\n{\"name\":\"get\",\"ratio\":0.9}\n"
        );
    }

    #[test]
    fn a_benchmark_without_readable_numbers_fails() {
        let mut output = Output::default();
        assert!(output.numbers("lake").is_err());
        output.take("{broken");
        assert!(output.numbers("lake").is_err());
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let Err(error) = chosen(&["lke".to_owned()]) else {
            panic!("`lke` is no benchmark");
        };
        assert_eq!(
            error.to_string(),
            "no benchmark `lke`; there are: archive, catalog, feeds, journal, lake, sanitise, serve, spool"
        );
        assert_eq!(chosen(&[]).ok().map(|all| all.len()), Some(BENCHES.len()));
    }
}
