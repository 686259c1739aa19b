//! What a consolidation algorithm is to the model: a program that looks at the store, decides, and sends requests.

use std::fmt::Debug;
use std::hash::Hash;

use crate::store::{Answer, Store};

/// The request type of an algorithm's store.
pub(crate) type RequestOf<A> = <<A as Algorithm>::Store as Store>::Request;

/// One thing a replica may do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Move<Request> {
    /// A list, a get, or both. The number tells several possible ones apart.
    Look(u8),
    /// A request with an effect.
    Send(Request),
}

pub(crate) trait Algorithm: Send + Sync + 'static {
    type Store: Store;
    /// Where a replica stands in its program and what it remembers. The default is the start, where it remembers
    /// nothing; a crash leads there from everywhere.
    type Place: Copy + Default + Eq + Ord + Hash + Debug + Send + Sync;

    /// Everything a replica may do next; several moves are a choice that the checker makes in every way.
    fn moves(&self, place: Self::Place, moves: &mut Vec<Move<RequestOf<Self>>>);

    /// Where a look leads.
    fn look(&self, place: Self::Place, choice: u8, store: &Self::Store) -> Self::Place;

    /// Where the answer to a request leads.
    fn answered(&self, place: Self::Place, request: RequestOf<Self>, answer: Answer)
    -> Self::Place;

    /// An entry that was durable is gone.
    fn lost(&self, store: &Self::Store) -> bool;

    /// This is how an hour should be once nobody finds anything to do.
    fn right(&self, store: &Self::Store) -> bool;

    /// What users and power cuts may do now.
    fn outside(&self, _store: &Self::Store, _requests: &mut Vec<RequestOf<Self>>) {}

    /// Ends what only outsiders can end: every store is reachable again.
    fn calm(&self, _store: &mut Self::Store) {}

    /// A look, in a few words for a reader of a trace.
    fn tell(&self, _before: Self::Place, after: Self::Place) -> String {
        format!("look: {after:?}")
    }
}
