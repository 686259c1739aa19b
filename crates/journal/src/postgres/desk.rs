//! Small requests of many callers, made together: one statement and one commit for all that arrive while others are
//! under way. A caller that is alone does not wait.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many statements are under way at once; with more, those that claim walk over what the others have locked.
const CLERKS_MAX: usize = 2;

/// Where requests lie until a clerk takes them along.
#[derive(Debug)]
pub(super) struct Desk<T> {
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    waiting: VecDeque<T>,
    clerks: usize,
}

impl<T> Default for Desk<T> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                clerks: 0,
            }),
        }
    }
}

impl<T> Desk<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lays a request down. True when the caller has to start a clerk, who works until [`Desk::take`] gives nothing.
    pub(super) fn bring(&self, request: T) -> bool {
        let mut state = self.state();
        state.waiting.push_back(request);
        let start = state.clerks < CLERKS_MAX;
        state.clerks += usize::from(start);
        start
    }

    /// The next requests for a clerk, the oldest first, as long as their sizes fit; nothing ends the clerk.
    pub(super) fn take(&self, size: impl Fn(&T) -> usize, room: usize) -> Vec<T> {
        let mut state = self.state();
        let mut taken = Vec::new();
        let mut used = 0;
        while let Some(next) = state.waiting.front() {
            used += size(next);
            if used > room && !taken.is_empty() {
                break;
            }
            taken.extend(state.waiting.pop_front());
        }
        if taken.is_empty() {
            state.clerks -= 1;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_stays_on_the_desk_without_a_clerk() {
        let desk = Desk::default();
        assert!(desk.bring(3) && desk.bring(4));
        assert!(!desk.bring(90), "two clerks are enough");
        assert_eq!(desk.take(|size| *size, 10), [3, 4]);
        assert_eq!(desk.take(|size| *size, 10), [90], "a large one goes alone");
        assert_eq!(desk.take(|size| *size, 10), [0; 0]);
        assert!(desk.bring(1), "a clerk has gone home");
        assert!(!desk.bring(2));
        assert_eq!(desk.take(|size| *size, 10), [1, 2]);
    }
}
