//! A trace as a reader wants it: what each did, in order, and what the store held afterwards.

use std::fmt::Write;

use stateright::Path;

use crate::algorithm::{Algorithm, Move, RequestOf};
use crate::world::{Action, Hour, WorldOf};

/// One line of a trace.
pub(crate) struct Step {
    who: Who,
    kind: Kind,
    text: String,
    /// Afterwards.
    store: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Who {
    Replica(usize),
    /// A request on its way, which nobody waits for.
    Network,
    Outside,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Read,
    Write,
    /// The store has no part in it.
    Apart,
}

pub(crate) fn steps<A: Algorithm>(
    hour: &Hour<A>,
    trace: Path<WorldOf<A>, Action<RequestOf<A>>>,
) -> Vec<Step> {
    let worlds = trace.into_vec();
    let pairs = worlds.iter().zip(worlds.iter().skip(1));
    let told = pairs.filter_map(|((before, action), (after, _))| {
        let (who, kind, text) = tell(hour, before, action.as_ref()?, after);
        let store = after.store.to_string();
        Some(Step {
            who,
            kind,
            text,
            store,
        })
    });
    told.collect()
}

fn tell<A: Algorithm>(
    hour: &Hour<A>,
    before: &WorldOf<A>,
    action: &Action<RequestOf<A>>,
    after: &WorldOf<A>,
) -> (Who, Kind, String) {
    let upload = |upload: usize| (Who::Replica(hour.uploads[upload].0), hour.uploads[upload].1);
    match action {
        Action::Upload(number) => {
            let (who, request) = upload(*number);
            (who, Kind::Write, format!("upload: {request}"))
        }
        Action::UploadUnheard(number) => {
            let (who, request) = upload(*number);
            (who, Kind::Apart, format!("upload, no answer: {request}"))
        }
        Action::Move(replica, Move::Look(choice)) => {
            let place = before.places[*replica];
            let next = hour.algorithm.look(place, *choice, &before.store);
            let text = hour.algorithm.tell(place, next);
            (Who::Replica(*replica), Kind::Read, text)
        }
        Action::Move(replica, Move::Send(request)) => {
            let refused = if before.store == after.store {
                " (no change)"
            } else {
                ""
            };
            let text = format!("{request}{refused}");
            (Who::Replica(*replica), Kind::Write, text)
        }
        Action::Unheard(replica, request) => {
            let text = format!("{request}: no answer");
            (Who::Replica(*replica), Kind::Apart, text)
        }
        Action::Crash(replica) => (Who::Replica(*replica), Kind::Apart, "crash".into()),
        Action::Land(request) => (Who::Network, Kind::Write, format!("late: {request}")),
        Action::Outside(request) => (Who::Outside, Kind::Write, request.to_string()),
    }
}

/// One line a step.
pub(crate) fn list(steps: &[Step]) -> String {
    let mut all = String::new();
    for (number, step) in steps.iter().enumerate() {
        let who = match step.who {
            Who::Replica(replica) => format!("replica {replica}"),
            Who::Network => "network".into(),
            Who::Outside => "outside".into(),
        };
        let Step { text, store, .. } = step;
        writeln!(all, "{:3}  {who}: {text}  =>  {store}", number + 1)
            .expect("writing to a string does not fail");
    }
    all
}

const SIDE: usize = 24;
const MIDDLE: usize = 17;

/// A sequence diagram: the first replica on the left, everybody else on the right, the store in the middle. An arrow
/// to the store changes it, an arrow from it is a look.
pub(crate) fn diagram(sides: [&str; 2], steps: &[Step]) -> String {
    let mut all = line("", sides[0], "", "store", "", sides[1]);
    all += &line("", "", "|", "P=-", "|", "");
    for (number, step) in steps.iter().enumerate() {
        let number = (number + 1).to_string();
        let Step { text, store, .. } = step;
        let left = step.who == Who::Replica(0);
        all += &match (left, step.kind) {
            (true, Kind::Write) => line(&number, text, "-->|", store, "|", ""),
            (true, Kind::Read) => line(&number, text, "<--|", store, "|", ""),
            (true, Kind::Apart) => line(&number, text, "--?|", store, "|", ""),
            (false, Kind::Write) => line(&number, "", "|", store, "|<--", text),
            (false, Kind::Read) => line(&number, "", "|", store, "|-->", text),
            (false, Kind::Apart) => line(&number, "", "|", store, "|?--", text),
        };
    }
    all
}

fn line(number: &str, left: &str, to: &str, store: &str, from: &str, right: &str) -> String {
    let line = format!("{number:>2}  {left:<SIDE$} {to:>4} {store:<MIDDLE$} {from:<4} {right}");
    format!("{}\n", line.trim_end())
}
