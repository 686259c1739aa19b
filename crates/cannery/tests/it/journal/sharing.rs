//! Several processes on one embedded journal.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use cannery_runtime::Clock;
use serde_json::Value;

use super::{add, claim, count, journal, journal_fed, lines};
use crate::program::{Place, pause};

/// A command that goes on; killed when dropped.
pub(super) struct Going {
    pub(super) child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Going {
    pub(super) fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut command = place.command(&[&["journal"], arguments, &["--json"]].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line that it prints; waits for it.
    pub(super) fn next(&mut self) -> Option<Value> {
        let line = self.lines.next()?.unwrap();
        Some(serde_json::from_str(&line).unwrap())
    }

    pub(super) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub(super) fn end(mut self) -> i32 {
        while self.next().is_some() {}
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Waits until the owner of the journal lets others in.
pub(super) fn wait_for_socket(place: &Place) {
    for _ in 0..600 {
        if place.path("cannery-data/journals/default/socket").exists() {
            return;
        }
        pause();
    }
    panic!("nobody serves the journal");
}

#[test]
fn what_becomes_due_is_heard_at_once_and_commands_work_beside() {
    let place = Place::new();
    let mut watch = Going::start(&place, &["watch", "default"]);
    wait_for_socket(&place);
    add(&place, "a");
    let due = watch.next().unwrap();
    assert_eq!(
        (&due["event"], &due["became_due"]),
        (&"due".into(), &1.into())
    );
    let token = claim(&place);
    assert_eq!(lines(&place, &["ls", "default"])[0]["status"], "processing");
    assert_eq!(
        journal(
            &place,
            &["fail", "default", &token, "--reason", "why", "--dead"]
        )
        .code,
        0
    );
    let dead = watch.next().unwrap();
    assert_eq!(
        (&dead["event"], &dead["key"], &dead["reason"]),
        (&"dead".into(), &"a".into(), &"why".into())
    );
    watch.signal(rustix::process::Signal::INT);
    assert_eq!(watch.end(), 0);
    assert!(!place.path("cannery-data/journals/default/socket").exists());
    assert_eq!(lines(&place, &["dead", "ls", "default"]).len(), 1);
}

/// One entry is due at once and one at its date: nobody touches the journal then.
#[test]
fn a_watch_hears_of_dates_and_ends_after_its_count() {
    let place = Place::new();
    let mut watch = Going::start(&place, &["watch", "default", "--count", "2"]);
    wait_for_socket(&place);
    let soon = Clock::real().now() + jiff::SignedDuration::from_secs(3);
    let entries = format!("{{\"key\":\"a\"}}\n{{\"key\":\"b\",\"process_date\":\"{soon}\"}}\n");
    assert_eq!(
        journal_fed(&place, &["add", "default"], entries.as_bytes()).code,
        0
    );
    assert_eq!(watch.next().unwrap()["due"], 1);
    assert_eq!(watch.next().unwrap()["due"], 2);
    assert_eq!(watch.end(), 0);
    let at_once = journal(&place, &["watch", "default", "--count", "1"]);
    assert_eq!(
        (at_once.code, at_once.stdout.as_str()),
        (0, "2 became due, 2 due in all\n")
    );
}

#[test]
fn an_owner_that_was_killed_leaves_nothing_in_the_way() {
    let place = Place::new();
    let mut watch = Going::start(&place, &["watch", "default"]);
    wait_for_socket(&place);
    add(&place, "a");
    watch.child.kill().unwrap();
    watch.child.wait().unwrap();
    add(&place, "b");
    assert_eq!(lines(&place, &["ls", "default"]).len(), 2);
    let second = Going::start(&place, &["watch", "default"]);
    wait_for_socket(&place);
    add(&place, "c");
    second.signal(rustix::process::Signal::TERM);
    assert_eq!(second.end(), 0);
    assert_eq!(count(&place, "adds"), 3);
}

/// Who goes through the owner takes its place when it ends, however it ends, and lets the others in.
#[test]
fn a_guest_takes_over_when_the_owner_ends() {
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::KILL] {
        let place = Place::new();
        let mut owner = Going::start(&place, &["watch", "default"]);
        wait_for_socket(&place);
        let mut guests = [(); 2].map(|()| Going::start(&place, &["watch", "default"]));
        add(&place, "a");
        for guest in guests.iter_mut().chain([&mut owner]) {
            assert_eq!(guest.next().unwrap()["due"], 1);
        }
        owner.signal(signal);
        owner.child.wait().unwrap();
        // One of the two owns the files; the other, and this command, go through it.
        add(&place, "b");
        for guest in &mut guests {
            assert_eq!(guest.next().unwrap()["due"], 2, "{signal:?}");
        }
        wait_for_socket(&place);
        for guest in guests {
            guest.signal(rustix::process::Signal::INT);
            assert_eq!(guest.end(), 0, "{signal:?}");
        }
        assert_eq!(count(&place, "adds"), 2);
    }
}

/// Each owns the files for a moment; none may fail because of another.
#[test]
fn brief_commands_wait_for_each_other() {
    let place = Place::new();
    add(&place, "first");
    std::thread::scope(|scope| {
        for worker in 0..6 {
            let place = &place;
            scope.spawn(move || {
                for number in 0..5 {
                    add(place, &format!("{worker}/{number}"));
                }
            });
        }
    });
    assert_eq!(lines(&place, &["ls", "default"]).len(), 31);
}
