//! The tutorial in `docs/journal.md` runs exactly as it is printed.

use std::process::{Command, Stdio};

use crate::program::Place;

const GUIDE: &str = include_str!("../../../../../docs/journal.md");

/// The fenced blocks of a guide: their language and their text.
fn blocks(guide: &str) -> Vec<(String, String)> {
    let mut blocks: Vec<(String, String)> = Vec::new();
    let mut open = false;
    for line in guide.lines() {
        match line.strip_prefix("```") {
            Some(language) if !open => {
                blocks.push((language.to_owned(), String::new()));
                open = true;
            }
            Some(_) => open = false,
            None if open => {
                let (_, text) = blocks.last_mut().unwrap();
                text.push_str(line);
                text.push('\n');
            }
            None => {}
        }
    }
    blocks
}

/// Dates differ from run to run.
fn without_digits(text: &str) -> String {
    text.lines()
        .map(|line| match line.split_once("T") {
            Some((day, _)) if day.len() > 20 => {
                line.replace(|c: char| c.is_ascii_digit(), "0") + "\n"
            }
            _ => format!("{line}\n"),
        })
        .collect()
}

#[test]
fn the_tutorial_runs_as_it_is_printed() {
    let place = Place::new();
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_cannery"));
    let path = format!("{}:/usr/bin:/bin", binary.parent().unwrap().display());
    let blocks = blocks(GUIDE);
    let mut ran = 0;
    for (at, (language, script)) in blocks.iter().enumerate() {
        if language != "sh" {
            continue;
        }
        let output = Command::new("sh")
            .args(["-e", "-c", script])
            .current_dir(place.path(""))
            .env_clear()
            .env("PATH", &path)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}\n{printed}\n{errors}");
        let (kind, expected) = &blocks[at + 1];
        assert_eq!(
            kind, "text",
            "every command of the tutorial shows what it prints:\n{script}"
        );
        assert_eq!(
            without_digits(&printed),
            without_digits(expected),
            "{script}\n{errors}"
        );
        ran += 1;
    }
    assert!(ran >= 5, "the tutorial is gone");
}
