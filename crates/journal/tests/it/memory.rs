//! The engine in memory, which is the model of the others. What it is itself compared with is the oracle.

use std::sync::Arc;

use cannery_journal::{Declaration, Memory};
use cannery_runtime::Rng;

use crate::model::{self, Cases};
use crate::subject::{Subject, simulated};

pub(crate) async fn open(declaration: Declaration) -> Subject {
    let simulated = simulated();
    let memory = Memory::new(declaration, simulated.clock(), Rng::seeded(7));
    Subject::new(Arc::new(memory), simulated)
}

crate::suites!(open, Cases::MANY);

/// What an engine with a timer is compared by: time passes from one event to the next.
#[test]
fn equals_the_model_event_by_event() {
    let open = async |declaration| open(declaration).await.sweeping_itself();
    model::equals_the_model(open, Cases::MANY);
}

#[test]
fn equals_the_oracle() {
    model::equals_the_oracle(open, Cases::MANY);
}
