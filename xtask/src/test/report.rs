//! What a run found out: a table for the terminal, a file for the repository.

use std::fmt;
use std::fs;
use std::path::Path;

use crate::failure::Result;
use crate::shell::{Cmd, write_text};

#[derive(Default)]
pub(super) struct Report {
    pub(super) outcomes: Vec<Outcome>,
    /// What tests printed after `result: `.
    results: Vec<String>,
    tests_passed: u64,
    tests_failed: u64,
}

pub(super) struct Outcome {
    pub(super) step: &'static str,
    pub(super) verdict: Verdict,
    pub(super) seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    Passed,
    Failed,
    NotRun,
}

/// The run and the machine it ran on.
pub(super) struct Facts {
    pub(super) date: String,
    pub(super) commit: String,
    pub(super) cores: usize,
    pub(super) memory_kib: u64,
}

impl Outcome {
    pub(super) fn not_run(step: &'static str) -> Self {
        Self {
            step,
            verdict: Verdict::NotRun,
            seconds: 0.0,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::NotRun => "not run",
        })
    }
}

impl Report {
    /// Keeps what a line of test output says: a result, or the count of a test binary.
    pub(super) fn take(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("result: ") {
            self.results.push(result.to_owned());
        } else if let Some(counts) = line.strip_prefix("test result: ") {
            self.tests_passed += count(counts, "passed");
            self.tests_failed += count(counts, "failed");
        }
    }

    /// The steps in columns.
    pub(super) fn table(&self) -> String {
        let mut text = format!("\n{:<8} {:<8} {:>8}\n", "step", "result", "seconds");
        for Outcome {
            step,
            verdict,
            seconds,
        } in &self.outcomes
        {
            text += &format!("{step:<8} {verdict:<8} {seconds:>8.1}\n");
        }
        text
    }

    /// Writes the result file of a long run.
    pub(super) fn write(&self, file: &Path, root: &Path) -> Result<()> {
        write_text(file, &self.markdown(&Facts::gather(root)?))
    }

    pub(super) fn markdown(&self, facts: &Facts) -> String {
        let mut text = format!(
            "# Long test run\n\n\
             Written by `cargo xtask test --long`.\n\n\
             - date: {}\n- commit: {}\n- machine: {} cores, {} MiB memory\n- tests: {} passed, {} failed\n\n\
             | step | result | seconds |\n|---|---|---:|\n",
            facts.date,
            facts.commit,
            facts.cores,
            facts.memory_kib / 1024,
            self.tests_passed,
            self.tests_failed
        );
        for Outcome {
            step,
            verdict,
            seconds,
        } in &self.outcomes
        {
            text += &format!("| {step} | {verdict} | {seconds:.1} |\n");
        }
        if !self.results.is_empty() {
            text += "\n## Results\n\n";
        }
        for result in &self.results {
            text += &format!("- {result}\n");
        }
        text
    }
}

impl Facts {
    fn gather(root: &Path) -> Result<Self> {
        let date = Cmd::new("date", ["-u", "+%Y-%m-%d %H:%M UTC"]).capture(root)?;
        Ok(Self {
            date: date.trim().to_owned(),
            commit: commit(root),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_kib: memory_kib(),
        })
    }
}

fn commit(root: &Path) -> String {
    let git = |words: &[&str]| Cmd::new("git", words.iter().copied()).capture(root);
    let Ok(commit) = git(&["rev-parse", "--short", "HEAD"]) else {
        return "none".to_owned();
    };
    let changed = git(&["status", "--porcelain"]).is_ok_and(|status| !status.is_empty());
    let note = if changed { " with changes" } else { "" };
    format!("{}{note}", commit.trim())
}

fn memory_kib() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

/// The number before `word` in `ok. 12 passed; 0 failed; …`.
fn count(counts: &str, word: &str) -> u64 {
    let words: Vec<&str> = counts.split([' ', ';']).collect();
    words
        .windows(2)
        .find(|pair| pair[1] == word)
        .and_then(|pair| pair[0].parse().ok())
        .unwrap_or(0)
}
