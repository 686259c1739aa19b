//! The consolidation algorithms as a model, searched exhaustively by stateright. `docs/consolidation.md` explains what
//! was found.
//!
//! | file | idea |
//! |---|---|
//! | `sets.rs` | content sets, and the content-named objects of a folder |
//! | `store.rs` | the state of the store: the objects of an hour, and what a request does to them |
//! | `world.rs` | replica steps and faults: crashes, stalls, lost answers, late requests, repeated uploads |
//! | `algorithm.rs` | what an algorithm is to the model |
//! | `timed.rs`, `hashed.rs`, `primary_cas.rs`, `projection.rs`, `mirrors.rs` | an algorithm each, and its tests |
//! | `mixed.rs` | two of them in one store, which must not be |
//! | `merge.rs` | the merge that most of them share |
//! | `rest.rs` | what becomes of an hour when the faults end |
//! | `ends.rs` | whether replicas can keep each other busy for ever |
//! | `check.rs` | how much is tried, and how a search is read |
//! | `draw.rs` | a trace as steps or as a diagram |
//!
//! Three properties, in every reachable state: nothing that was durable is lost; where nobody finds anything to do, one
//! archive holds everything; and any one replica that starts afresh and is left alone brings the hour there.
//!
//! Each safe algorithm is also broken on purpose, and the search must find it: that is how we know that it can.

mod algorithm;
mod check;
mod draw;
mod ends;
mod hashed;
mod merge;
mod mirrors;
mod mixed;
mod primary_cas;
mod projection;
mod rest;
mod sets;
mod store;
mod timed;
mod world;
