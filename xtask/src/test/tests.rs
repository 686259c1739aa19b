use super::report::Facts;
use super::*;
use crate::shell::Cmd;

fn names(size: Size) -> Vec<&'static str> {
    let steps = steps::plan(size, None).unwrap();
    steps.iter().map(|step| step.name).collect()
}

#[test]
fn a_quick_run_installs_nothing_and_a_full_run_tests_nothing_twice() {
    assert_eq!(names(Size::Quick), ["fmt", "clippy", "tidy", "unit"]);
    let full = [
        "fmt", "clippy", "plain", "tidy", "setup", "audit", "servers", "docs",
    ];
    assert_eq!(names(Size::Full), full);
    assert_eq!(names(Size::Long), full);
}

#[test]
fn any_step_runs_alone_whatever_the_size() {
    for size in [Size::Quick, Size::Full, Size::Long] {
        let steps = steps::plan(size, Some("unit")).unwrap();
        assert_eq!(steps.len(), 1);
        assert_eq!(steps[0].command(), "cargo test --workspace");
    }
    assert!(steps::plan(Size::Full, Some("clipy")).is_err());
}

#[test]
fn only_the_long_run_has_the_full_counts_new_seeds_and_shows_output() {
    let servers = |size| steps::plan(size, Some("servers")).unwrap()[0].command();
    assert_eq!(servers(Size::Full), "cargo test --workspace --all-features");
    let long = servers(Size::Long);
    assert!(long.starts_with("CANNERY_TEST_LONG=1 CANNERY_TEST_SEED="));
    assert!(long.ends_with(" cargo test --workspace --all-features -- --show-output"));
    assert_ne!(long, servers(Size::Long), "each long run has new seeds");
}

#[test]
fn the_first_failure_stops_the_run_and_says_how_to_repeat_it() {
    let steps = steps::plan(Size::Long, None).unwrap();
    let mut report = Report::default();
    let mut ran = Vec::new();
    let error = run_steps(&steps, &mut report, |step, _| {
        ran.push(step.name);
        if step.name == "plain" {
            failed("two warnings")
        } else {
            Ok(())
        }
    })
    .unwrap_err();
    assert_eq!(ran, ["fmt", "clippy", "plain"]);
    assert_eq!(
        error.to_string(),
        "step `plain` failed: two warnings\n  \
         command: cargo clippy --workspace -- -D warnings\n  \
         alone:   cargo xtask test --long --only plain"
    );
    let verdicts: Vec<_> = report.outcomes.iter().map(|o| o.verdict).collect();
    assert_eq!(verdicts[..2], [Verdict::Passed; 2]);
    assert_eq!(verdicts[2], Verdict::Failed);
    assert_eq!(verdicts[3..], [Verdict::NotRun; 5]);
}

#[test]
fn the_result_file_holds_steps_counts_and_results() {
    let mut report = Report::default();
    report.outcomes.push(Outcome {
        step: "servers",
        verdict: Verdict::Passed,
        seconds: 61.26,
    });
    report.outcomes.push(Outcome::not_run("docs"));
    // Not printed: a long run shows the output of its tests and would take these for its own.
    for line in [
        "test a ... ok",
        "result: 8-way race: 1 winner",
        "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured",
        "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured",
        "  result: indented lines are not results",
    ] {
        report.take(line);
    }
    let facts = Facts {
        date: "2026-01-02 03:04 UTC".to_owned(),
        commit: "abc1234".to_owned(),
        cores: 2,
        memory_kib: 4096 * 1024,
    };
    assert_eq!(
        report.markdown(&facts),
        "# Long test run\n\n\
         Written by `cargo xtask test --long`.\n\n\
         - date: 2026-01-02 03:04 UTC\n- commit: abc1234\n- machine: 2 cores, 4096 MiB memory\n- tests: 15 passed, 2 failed\n\n\
         | step | result | seconds |\n|---|---|---:|\n\
         | servers | passed | 61.3 |\n| docs | not run | 0.0 |\n\n\
         ## Results\n\n- 8-way race: 1 winner\n"
    );
}

#[test]
fn the_lines_of_a_step_reach_the_report() {
    let mut report = Report::default();
    let cmd = Cmd::new("printf", ["re%s\n", "sult: collected"]);
    run_collecting(&cmd, Path::new("."), &mut report).unwrap();
    let facts = Facts {
        date: String::new(),
        commit: String::new(),
        cores: 1,
        memory_kib: 1,
    };
    assert!(report.markdown(&facts).contains("- collected"));
}

#[test]
fn quick_and_long_exclude_each_other() {
    assert!(size(true, true).is_err());
    assert_eq!(size(false, true).unwrap(), Size::Long);
}
