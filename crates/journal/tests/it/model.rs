//! Random histories: every engine against the model, the model against the oracle, and the invariants of the
//! specification on each of them.

use cannery_journal::{Declaration, Memory};
use cannery_runtime::Rng;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestRunner};

use crate::subject::Subject;
use oracle::Oracle;
use pair::{Pair, Player};
use steps::Case;

mod invariants;
mod oracle;
mod pair;
mod steps;

pub(crate) use invariants::{next_wake_is_never_late, no_key_starves};

/// How many histories are tried.
#[derive(Clone, Copy)]
pub(crate) struct Cases {
    usual: u32,
    long: u32,
}

impl Cases {
    /// For an engine that answers in microseconds.
    pub(crate) const MANY: Self = Self {
        usual: 256,
        long: 5_000,
    };
    /// For an engine behind a server.
    #[allow(dead_code, reason = "the engine in memory is behind none")]
    pub(crate) const FEW: Self = Self {
        usual: 24,
        long: 500,
    };
}

/// The tests of an engine that [`crate::subject::Subject`] stands for.
macro_rules! suite {
    ($open:path, $cases:expr) => {
        #[test]
        fn equals_the_model() {
            $crate::model::equals_the_model($open, $cases);
        }

        #[test]
        fn keeps_the_invariants() {
            $crate::model::keeps_the_invariants($open, $cases);
        }

        #[test]
        fn next_wake_is_never_late() {
            $crate::model::next_wake_is_never_late($open, $cases);
        }

        #[test]
        fn no_key_starves() {
            $crate::model::no_key_starves($open, $cases);
        }
    };
}
pub(crate) use suite;

/// Plays every history on the engine and on the model.
pub(crate) fn equals_the_model(open: impl AsyncFn(Declaration) -> Subject, cases: Cases) {
    check(cases, &steps::case(), async |case: Case| {
        let subject = open(case.declaration()).await;
        let clock = subject.clock.clock();
        let model = Memory::new(case.declaration(), clock, Rng::seeded(8));
        let mut pair = Pair::new(&subject, Player::Engine(std::sync::Arc::new(model)));
        pair.play(&case).await;
    });
}

/// Plays every history on the model and on an implementation of the specification that shares nothing with it.
pub(crate) fn equals_the_oracle(open: impl AsyncFn(Declaration) -> Subject, cases: Cases) {
    let cases = Cases {
        usual: cases.usual * 8,
        long: cases.long * 8,
    };
    check(cases, &steps::case(), async |case: Case| {
        let subject = open(case.declaration()).await;
        let oracle = Box::new(Oracle::new(case.declaration()));
        let mut pair = Pair::new(&subject, Player::Oracle(oracle));
        pair.play(&case).await;
    });
}

/// Plays every history on the engine alone and looks at each answer.
pub(crate) fn keeps_the_invariants(open: impl AsyncFn(Declaration) -> Subject, cases: Cases) {
    check(cases, &steps::case(), async |case: Case| {
        let subject = open(case.declaration()).await;
        invariants::Watch::new(&subject).await.play(&case).await;
    });
}

/// Tries a property. What fails is made smaller, shown, and its seed kept in `proptest-regressions`.
fn check<S: Strategy>(cases: Cases, strategy: &S, property: impl AsyncFn(S::Value)) {
    let cases = if cannery_testkit::long_run() {
        cases.long
    } else {
        cases.usual
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let config = Config {
        cases,
        max_shrink_iters: 4_096,
        ..Config::with_source_file(file!())
    };
    let outcome = TestRunner::new(config).run(strategy, |value| {
        runtime.block_on(property(value));
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
