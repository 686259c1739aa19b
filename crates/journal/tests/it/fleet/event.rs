//! What a worker tells the test, a line each, before and after everything that it asks of the journal.

use std::io::Write as _;

use cannery_journal::{Beat, Date, Fate, Token};
use serde::{Deserialize, Serialize};

/// Other lines are those of the test runner.
const MARK: &str = "event ";

/// What happened, and when. All processes and the server are on one machine and read the same clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(crate) at: Date,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum What {
    /// A claim is about to be made.
    Claiming { count: u32 },
    /// It was answered.
    Claimed { count: u32, leases: Vec<Held> },
    /// Heartbeats were answered.
    Beaten(Vec<(Token, Beat)>),
    /// Leases are about to be ended.
    Ending { end: End, tokens: Vec<Token> },
    /// The end was answered.
    Ended { end: End, fates: Vec<(Token, Fate)> },
    /// A request failed; it may or may not have been done.
    Failed(String),
    /// What must never happen.
    Wrong(String),
    /// The worker got in the way of the others.
    Disturbed(Nuisance),
}

/// A lease as it was handed out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    pub(crate) key: String,
    pub(crate) token: Token,
    pub(crate) deadline: Date,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum End {
    Done,
    Release,
    Fail,
}

/// How a worker gets in the way of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Nuisance {
    /// It holds locks on tables.
    Tables,
    /// It holds locks on rows.
    Rows,
    /// It cancels a statement, as the server does when its time is over.
    Cancel,
    /// It ends a connection.
    Terminate,
}

impl Event {
    /// Says it to the test; whole, or not at all when the process is killed meanwhile.
    pub(crate) fn tell(&self) {
        let event = serde_json::to_string(self).unwrap();
        let line = format!("{MARK}{event}\n");
        std::io::stdout().write_all(line.as_bytes()).unwrap();
    }

    /// Reads a line; one without its end was cut by the death of its writer.
    pub(crate) fn hear(line: &str) -> Option<Self> {
        let event = line.strip_prefix(MARK)?.strip_suffix('\n')?;
        Some(serde_json::from_str(event).unwrap())
    }
}

#[test]
fn a_line_that_was_cut_is_none() {
    let event = Event {
        at: Date::from_millis(7),
        what: What::Claiming { count: 3 },
    };
    let line = format!("{MARK}{}\n", serde_json::to_string(&event).unwrap());
    assert_eq!(Event::hear(&line), Some(event));
    assert_eq!(Event::hear(line.trim_end()), None);
    assert_eq!(Event::hear("running 1 test\n"), None);
}
