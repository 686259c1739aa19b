//! Whether replicas can keep each other busy for ever. The checker cannot tell a loop from a join, so this looks itself.
//!
//! Without faults, and with every upload heard once, a run that never ends passes through some loop of states again and
//! again. Looking for ever is what replicas are for; writing for ever is work that never comes to an end. So: no loop
//! contains a request.

use std::collections::HashMap;

use stateright::Model;

use crate::algorithm::{Algorithm, Move};
use crate::check::Bounds;
use crate::store::Bucket;
use crate::world::{Action, Hour};

/// The states of an hour by number, and where each leads, with whether a replica sends a request on the way.
struct Graph {
    edges: Vec<Vec<(usize, bool)>>,
}

impl Graph {
    fn of<A: Algorithm>(hour: &Hour<A>) -> Self {
        let mut states = hour.init_states();
        let mut numbers: HashMap<_, usize> = states.iter().cloned().zip(0..).collect();
        let mut edges = Vec::new();
        while edges.len() < states.len() {
            let state = states[edges.len()].clone();
            let mut actions = Vec::new();
            hour.actions(&state, &mut actions);
            let mut leads = Vec::new();
            for action in actions {
                let Some(next) = hour.next_state(&state, action) else {
                    continue;
                };
                let number = *numbers.entry(next).or_insert_with_key(|next| {
                    states.push(next.clone());
                    states.len() - 1
                });
                leads.push((number, matches!(action, Action::Move(_, Move::Send(_)))));
            }
            edges.push(leads);
        }
        Self { edges }
    }

    /// States in the order in which a depth-first walk leaves them.
    fn left_in_order(&self) -> Vec<usize> {
        let mut order = Vec::new();
        let mut seen = vec![false; self.edges.len()];
        let mut path = vec![(0, 0)];
        seen[0] = true;
        while let Some((state, edge)) = path.last_mut() {
            if let Some((next, _)) = self.edges[*state].get(*edge) {
                *edge += 1;
                if !seen[*next] {
                    seen[*next] = true;
                    path.push((*next, 0));
                }
            } else {
                order.push(*state);
                path.pop();
            }
        }
        order
    }

    fn reversed(&self) -> Vec<Vec<usize>> {
        let mut back = vec![Vec::new(); self.edges.len()];
        for (from, leads) in self.edges.iter().enumerate() {
            for (to, _) in leads {
                back[*to].push(from);
            }
        }
        back
    }

    /// For each state the number of its component: states that lead to each other share one (Kosaraju).
    fn components(&self) -> Vec<Option<usize>> {
        let back = self.reversed();
        let mut component = vec![None; self.edges.len()];
        for (number, root) in self.left_in_order().into_iter().rev().enumerate() {
            let mut reached = vec![root];
            while let Some(state) = reached.pop() {
                if component[state].is_none() {
                    component[state] = Some(number);
                    let unplaced = back[state]
                        .iter()
                        .filter(|from| component[**from].is_none());
                    reached.extend(unplaced);
                }
            }
        }
        component
    }

    fn writes_for_ever(&self) -> bool {
        let component = self.components();
        self.edges.iter().enumerate().any(|(from, leads)| {
            let in_a_loop =
                |(to, writes): &(usize, bool)| *writes && component[from] == component[*to];
            leads.iter().any(in_a_loop)
        })
    }
}

fn writes_for_ever<A: Algorithm<Store = Bucket>>(algorithm: A) -> bool {
    let bounds = Bounds {
        crashes: false,
        ..Bounds::three_replicas(&["a", "b", "ab"], 0, None)
    };
    Graph::of(&bounds.hour(algorithm)).writes_for_ever()
}

#[cfg(test)]
mod tests {
    use super::writes_for_ever;
    use crate::hashed::Hashed;
    use crate::merge::Deletes;
    use crate::primary_cas::{PrimaryCas, Put};
    use crate::projection::{Keeps, Projection};

    fn hashed(deletes: Deletes) -> bool {
        writes_for_ever(Hashed { deletes })
    }

    #[test]
    fn no_replicas_keep_each_other_busy() {
        assert!(!hashed(Deletes::StrictlyHeld), "hashed");
        let put = Put::OnVersion;
        assert!(!writes_for_ever(PrimaryCas { put }), "primary");
        let keeps = Keeps::ForGood;
        assert!(!writes_for_ever(Projection { keeps }), "projection");
    }

    #[test]
    fn a_replica_that_deletes_nothing_merges_for_ever() {
        assert!(hashed(Deletes::Nothing));
    }
}
