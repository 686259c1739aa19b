//! The namespace as a model, searched exhaustively by stateright: two servers put, overwrite, link, delete, flush, sweep and take
//! snapshots; they are killed anywhere, and the database is lost once and rebuilt.
//!
//! | file | idea |
//! |---|---|
//! | `world.rs` | the database, the lake, and what they say |
//! | `steps.rs` | what a server does, step by step, and what may go wrong |
//!
//! Three properties, in every reachable state: what was acknowledged is in the log, or in a snapshot that stands for it; bytes
//! that a row names, or that whoever reads the lake finds named, are there; and what the lake says of a path is what was
//! acknowledged last, or something later.
//!
//! Each rule is also broken on purpose, and the search must find it: that is how we know that it can.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod steps;
mod world;

use stateright::{Checker as _, HasDiscoveries, Model as _};

use steps::{BYTES_ARE_THERE, LAKE_IS_RIGHT, LOG_IS_COMPLETE, Mistake, Namespace};

#[allow(
    clippy::print_stdout,
    reason = "whoever reads the output of a test should know how much was searched"
)]
fn always_holds(model: Namespace) {
    let checker = model.checker().spawn_bfs().join();
    println!(
        "{} states, {} steps, up to {} deep",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth()
    );
    if let Some((property, trace)) = checker.discoveries().into_iter().next() {
        panic!("not so: {property}\n{:#?}", trace.into_actions());
    }
    assert!(checker.is_done(), "the search was not exhaustive");
}

fn finds(mistake: Mistake, property: &'static str, model: Namespace) {
    let model = Namespace {
        mistake: Some(mistake),
        ..model
    };
    let checker = model
        .checker()
        .finish_when(HasDiscoveries::AnyOf([property].into()))
        .spawn_bfs()
        .join();
    assert!(
        checker.discovery(property).is_some(),
        "{mistake:?} was not found in {} states",
        checker.unique_state_count()
    );
}

#[test]
fn nothing_that_has_a_name_is_swept() {
    always_holds(Namespace::with_sweeps());
}

#[test]
fn nothing_that_was_acknowledged_is_lost_by_snapshots() {
    always_holds(Namespace::with_snapshots());
}

#[test]
fn nothing_is_lost_with_everything_at_once_either() {
    if cannery_testkit::long_run() {
        always_holds(Namespace {
            snapshots: true,
            ..Namespace::with_sweeps()
        });
        always_holds(Namespace {
            changes_max: 3,
            uploads_max: 2,
            ..Namespace::with_sweeps()
        });
    }
}

#[test]
fn every_mistake_is_found() {
    for (mistake, property, model) in [
        (
            Mistake::AnswerBeforeLog,
            LOG_IS_COMPLETE,
            Namespace::with_snapshots(),
        ),
        (
            Mistake::DoomWithoutLook,
            BYTES_ARE_THERE,
            Namespace::with_sweeps(),
        ),
        (
            Mistake::DoomWithoutFlush,
            BYTES_ARE_THERE,
            Namespace::with_sweeps(),
        ),
        (
            Mistake::YoungOrphans,
            BYTES_ARE_THERE,
            Namespace::with_sweeps(),
        ),
        (
            Mistake::DeleteBeforeSnapshot,
            LOG_IS_COMPLETE,
            Namespace::with_snapshots(),
        ),
        (
            Mistake::SnapshotBeforeLog,
            LAKE_IS_RIGHT,
            Namespace::with_snapshots(),
        ),
        (
            Mistake::ServeOldDatabase,
            BYTES_ARE_THERE,
            Namespace::with_sweeps(),
        ),
    ] {
        // One change more, so that a link can keep what is deleted elsewhere.
        let changes_max = 3;
        finds(
            mistake,
            property,
            Namespace {
                changes_max,
                ..model
            },
        );
    }
}
