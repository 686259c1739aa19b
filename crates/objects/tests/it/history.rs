//! Whether a history of requests to one object could have happened one after the other: the search of Wing and Gong, which
//! remembers where it has been.

use std::collections::{BTreeSet, HashSet};

/// What is at the path: the number of the put that wrote it.
pub(crate) type Content = Option<u64>;

/// A request, with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// This was found.
    Get(Content),
    /// This was put.
    Put(u64),
    /// This was put because that was there; or was not, because that was not there.
    PutIf {
        expected: Content,
        new: u64,
        is_done: bool,
    },
    /// It was deleted; or not, because nothing was there.
    Delete { is_done: bool },
}

impl Operation {
    /// What is there afterwards, if it could have been answered like this.
    fn apply(self, there: Content) -> Option<Content> {
        match self {
            Self::Get(found) => (found == there).then_some(there),
            Self::Put(new) => Some(Some(new)),
            Self::PutIf {
                expected,
                new,
                is_done,
            } => {
                let holds = expected == there;
                (holds == is_done).then_some(if is_done { Some(new) } else { there })
            }
            Self::Delete { is_done } => {
                (there.is_some() == is_done).then_some(if is_done { None } else { there })
            }
        }
    }
}

/// A request, from when to when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) operation: Operation,
    pub(crate) asked: u64,
    /// Nothing when it was not answered: it may have been done at any time since it was asked, or never, as if it had succeeded.
    pub(crate) answered: Option<u64>,
}

/// Whether there is an order of the events, within their times, in which every answer is right. Nothing is there at first.
pub(crate) fn is_linearizable(events: &[Event]) -> bool {
    let mut open: BTreeSet<usize> = (0..events.len()).collect();
    let mut visited = HashSet::new();
    search(events, &mut open, None, &mut visited)
}

fn search(
    events: &[Event],
    open: &mut BTreeSet<usize>,
    there: Content,
    visited: &mut HashSet<(Vec<usize>, Content)>,
) -> bool {
    let answers = open.iter().filter_map(|at| events[*at].answered);
    let Some(first_answer) = answers.min() else {
        return true;
    };
    let state: Vec<usize> = open.iter().copied().collect();
    if !visited.insert((state.clone(), there)) {
        return false;
    }
    // Whatever is next was asked before the first of the answers that are still to come.
    for at in state {
        if events[at].asked > first_answer {
            continue;
        }
        if let Some(after) = events[at].operation.apply(there) {
            open.remove(&at);
            if search(events, open, after, visited) {
                return true;
            }
            open.insert(at);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(operation: Operation, asked: u64, answered: u64) -> Event {
        Event {
            operation,
            asked,
            answered: (answered > 0).then_some(answered),
        }
    }

    #[test]
    fn what_cannot_have_happened_is_found() {
        use Operation::{Delete, Get, Put, PutIf};
        let put_if = |expected, new, is_done| PutIf {
            expected,
            new,
            is_done,
        };
        for (events, is_good) in [
            (vec![event(Put(1), 1, 2), event(Get(Some(1)), 3, 4)], true),
            // A stale read, a lost update, a put that came back.
            (vec![event(Put(1), 1, 2), event(Get(None), 3, 4)], false),
            (vec![event(Put(1), 1, 4), event(Get(None), 2, 3)], true),
            (
                vec![
                    event(Put(1), 1, 2),
                    event(put_if(Some(1), 2, true), 3, 5),
                    event(put_if(Some(1), 3, true), 4, 6),
                ],
                false,
            ),
            (
                vec![
                    event(Put(1), 1, 0),
                    event(Get(Some(1)), 2, 3),
                    event(Delete { is_done: true }, 4, 5),
                    event(Get(Some(1)), 6, 7),
                ],
                false,
            ),
            // What was not answered may have happened late, or never.
            (
                vec![
                    event(Put(1), 1, 0),
                    event(Get(None), 2, 3),
                    event(Get(Some(1)), 4, 5),
                ],
                true,
            ),
            (vec![event(Put(1), 1, 0), event(Get(None), 2, 3)], true),
            (
                vec![
                    event(Put(1), 1, 0),
                    event(Get(Some(1)), 2, 3),
                    event(Get(None), 4, 5),
                ],
                false,
            ),
            (
                vec![
                    event(Delete { is_done: false }, 1, 2),
                    event(put_if(None, 1, true), 3, 4),
                    event(put_if(None, 2, false), 5, 6),
                ],
                true,
            ),
        ] {
            assert_eq!(is_linearizable(&events), is_good, "{events:?}");
        }
    }
}
