//! The line: a journal's worker hands it the keys of stages, it runs them, and adds the work that follows.
//!
//! | file | what it holds |
//! |---|---|
//! | `line/stages.rs` | what each stage does with its key, and what follows |
//! | `line/follow.rs` | the entries that follow |
//! | `line/backfill.rs` | the entries of a range of dates, because somebody asks for them |
//! | `line/catch_up.rs` | the entries that should have followed: what the lake and the catalog lack of each other |
//! | `line/generation.rs` | the archives of newer rules take over |
//! | `line/expire.rs` | what is kept no longer |
//! | `line/refusals.rs` | inputs that cannot be used are not read every minute |
//! | `line/timing.rs` | when work is due |
//! | `line/trouble.rs` | what an error means for the work |
//! | `line/wait.rs` | why work is not due yet |
//! | `line/history.rs` | what is told of every execution |
//!
//! Stages run when the memory that they take fits beside that of the others. Whatever ends a stage half-way, its work stays in
//! the journal until it was done, or cannot be done: then it is on the dead list, with the reason, and nothing waits for it.

mod backfill;
mod catch_up;
mod expire;
mod follow;
mod generation;
mod history;
mod refusals;
mod stages;
mod timing;
mod trouble;
mod wait;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cannery_catalog::Catalog;
use cannery_journal::worker::{Handler, Outcome, Work};
use cannery_journal::{Date, Declaration, Journal, Priority};
use cannery_runtime::{RealDisk, Rng};
use cannery_sanitise::Rules;

use crate::admission::Admission;
use crate::autoclave::Autoclave;
use crate::canning::Canner;
use crate::cans::Indexes;
use crate::centrifuge::Centrifuge;
use crate::clear::Clearer;
use crate::cover::Coverer;
use crate::error::Error;
use crate::expire::Expirer;
use crate::features::Features;
use crate::generation::claim;
use crate::inputs::Inputs;
use crate::keep::Keep;
use crate::seal::Sealer;
use crate::stage::{Plant, Stage, StageKey};
use crate::sweep::Sweeper;
use crate::verify::Verifier;
use cannery_formats::archive::{Edition, Generation};

pub use backfill::{Backfill, Planned};
pub use catch_up::CaughtUp;
pub use follow::ToCentrifuge;
pub use history::{Ended, Execution, History};
pub use refusals::Refusals;
pub use timing::{DEBOUNCE, DEBOUNCE_MIN, GRACE, MAX_DELAY, Timing};
pub use wait::Wait;

use history::Telling;
use trouble::Trouble;

const PAUSE_FIRST: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(15 * 60);
/// The keys of so many inputs are enough for a can.
const GATHERED_BYTES: usize = 100 << 10;

/// What a line is made of.
#[derive(Clone)]
pub struct Parts {
    /// The lakes, and what every stage needs.
    pub plant: Plant,
    /// Where reports come from.
    pub inputs: Inputs,
    /// Where work comes from, and what follows goes to. It should have the [`declaration`] of a line.
    pub journal: Journal,
    /// The catalog.
    pub catalog: Catalog,
    /// The rules of this line; see [`crate::generation`].
    pub rules: Arc<Rules>,
    /// What is taken out of measurements.
    pub features: Arc<Features>,
    /// The memory that stages share.
    pub admission: Admission,
    /// Hears of every execution.
    pub history: Arc<dyn History>,
    /// Spreads what is put off.
    pub rng: Rng,
    /// When the work that follows is due.
    pub timing: Timing,
    /// Whether report files are removed once they are in verified cans.
    pub reports_remove: bool,
    /// How long cans and archives are kept.
    pub keep: Arc<Keep>,
}

/// Runs stages. Clones are the same.
#[derive(Clone)]
pub struct Line(Arc<Inner>);

struct Inner {
    parts: Parts,
    /// What the rules call themselves.
    edition: Edition,
    indexes: Indexes,
    canner: Canner,
    sealer: Sealer,
    autoclave: Autoclave,
    centrifuge: Centrifuge,
    coverer: Coverer,
    verifier: Verifier,
    clearer: Clearer,
    sweeper: Sweeper,
    expirer: Expirer,
    refusals: Refusals,
}

/// How a journal of stages behaves: adds of the same key put it off, but a steady stream of them for [`MAX_DELAY`] at most.
#[must_use]
pub fn declaration() -> Declaration {
    Declaration {
        max_delay: Some(MAX_DELAY),
        ..Declaration::default()
    }
}

/// How a stage ended that did not fail.
struct Finished {
    bytes: (u64, u64),
    report: serde_json::Value,
    /// What is left for a person to look at.
    complaint: Option<String>,
    /// There is more to do, after this time.
    again: Option<Duration>,
}

impl Line {
    /// A line of these parts. [`Line::prepare`] is to be called before the first work.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let (plant, inputs) = (parts.plant.clone(), parts.inputs.clone());
        let journal = Some(parts.journal.clone());
        let autoclave = Autoclave {
            plant: plant.clone(),
            rules: Arc::clone(&parts.rules),
        };
        let centrifuge = Centrifuge {
            plant: plant.clone(),
            catalog: parts.catalog.clone(),
            features: Arc::clone(&parts.features),
        };
        let indexes = Indexes::new(plant.raw.clone());
        let coverer = Coverer::new(plant.clone(), indexes.clone(), parts.catalog.clone());
        let clearer = Clearer {
            plant: plant.clone(),
            inputs: inputs.clone(),
            disk: Arc::new(RealDisk),
        };
        Self(Arc::new(Inner {
            edition: parts.rules.edition(),
            indexes,
            coverer,
            canner: Canner::new(plant.clone(), inputs.clone(), journal.clone()),
            sealer: Sealer::new(plant.clone(), inputs, journal),
            expirer: Expirer {
                plant: plant.clone(),
                catalog: parts.catalog.clone(),
                keep: Arc::clone(&parts.keep),
                clearer: parts.reports_remove.then(|| clearer.clone()),
            },
            clearer,
            verifier: Verifier {
                plant: plant.clone(),
            },
            sweeper: Sweeper {
                plant,
                catalog: parts.catalog.clone(),
                grace: parts.timing.sweep_grace,
            },
            autoclave,
            centrifuge,
            refusals: Refusals::default(),
            parts,
        }))
    }

    /// Makes features known to the catalog, and the rules those by which archives are made. Gives the generation in force,
    /// which is that of the rules or will be. It may be called again.
    ///
    /// # Errors
    /// [`Error::Outdated`] when the lake has newer rules, or others that are called the same; those of the catalog and of
    /// the lake.
    pub async fn prepare(&self) -> Result<Generation, Error> {
        self.0.centrifuge.declare().await?;
        let current = claim(&self.0.parts.plant, &self.0.edition).await?;
        Ok(current.in_force.generation)
    }

    /// The inputs that this line could not use; see [`crate::discover::Discoverer::heeding`].
    #[must_use]
    pub fn refusals(&self) -> Refusals {
        self.0.refusals.clone()
    }

    /// Until when reports are gathered before they are canned. It counts from the first of them, so a steady stream does
    /// not put it off. What somebody wants now is not gathered, whoever has claimed it.
    async fn gathers_until(&self, key: &StageKey, work: &Work) -> Option<Date> {
        let (entry, timing) = (&work.entry, &self.0.parts.timing);
        let is_enough = entry.data.as_bytes().len() > GATHERED_BYTES;
        if key.stage != Stage::Can || is_enough || entry.meta.priority == Priority::NOW {
            return None;
        }
        let now = Date::from(self.0.parts.plant.clock.now());
        let is_early = |wait| now < entry.meta.arrived.plus(wait);
        if !is_early(timing.gather) {
            return None;
        }
        let wait = match timing.is_growing() {
            true => timing.gather_after(self.cans_so_far(key).await),
            false => timing.gather,
        };
        is_early(wait).then(|| entry.meta.arrived.plus(wait))
    }

    /// How many open cans of its kind the bucket has. A lake that cannot be listed is for the stage itself to complain of.
    async fn cans_so_far(&self, key: &StageKey) -> u32 {
        let state = self.0.indexes.state(key.bucket).await;
        match (state, &key.kind) {
            (Ok(state), Some(kind)) => state.next_number(kind),
            (Err(_), _) | (_, None) => 0,
        }
    }

    /// As long again as it waits already: trouble of others is not made worse, and is over sooner or later.
    fn pause(&self, work: &Work) -> Duration {
        let now = Date::from(self.0.parts.plant.clock.now());
        let ceiling = now
            .since(work.entry.meta.arrived)
            .clamp(PAUSE_FIRST, PAUSE_MAX);
        ceiling / 2 + self.0.parts.rng.jitter(ceiling / 2)
    }

    /// Runs a stage that was let in, and tells of it.
    async fn execute(&self, key: &StageKey, work: &Work) -> Outcome {
        let parts = &self.0.parts;
        let telling = Telling::begin(
            Arc::clone(&parts.history),
            parts.plant.clock.clone(),
            key.stage,
            work.entry.key.as_str(),
            u32::from(work.entry.meta.strikes) + 1,
        );
        let ran = tokio::select! {
            ran = self.run(key, work) => ran,
            // Both at once would be safe, but in vain.
            () = work.lost.cancelled() => {
                telling.end(Ended::Lost);
                return Outcome::Release { at: None };
            }
        };
        match ran {
            Ok(Finished {
                bytes,
                report,
                complaint: None,
                again,
            }) => {
                telling.end_well(bytes, report);
                let now = Date::from(parts.plant.clock.now());
                match again {
                    None => Outcome::Done,
                    Some(pause) => Outcome::Release {
                        at: Some(now.plus(pause)),
                    },
                }
            }
            Ok(Finished {
                complaint: Some(reason),
                ..
            }) => {
                telling.end(Ended::Failed(reason.clone()));
                Outcome::Dead { reason }
            }
            Err(error) => self.failed(&error, work, telling),
        }
    }

    fn failed(&self, error: &Error, work: &Work, telling: Telling) -> Outcome {
        let (key, reason) = (work.entry.key.as_str(), error.to_string());
        match Trouble::of(error) {
            Trouble::Others => {
                let pause = self.pause(work);
                tracing::warn!(key, %error, ?pause, "not done yet; trying on");
                telling.end(Ended::PutOff(reason));
                let at = Date::from(self.0.parts.plant.clock.now()).plus(pause);
                Outcome::Release { at: Some(at) }
            }
            Trouble::Doubtful => {
                tracing::warn!(key, %error, "failed; trying again");
                telling.end(Ended::Retried(reason.clone()));
                Outcome::Retry {
                    reason,
                    after: None,
                }
            }
            Trouble::Unusable => {
                tracing::error!(key, %error, "failed for good; see the dead list");
                telling.end(Ended::Failed(reason.clone()));
                Outcome::Dead { reason }
            }
        }
    }
}

#[async_trait]
impl Handler for Line {
    async fn handle(&self, work: Work) -> Outcome {
        let key = match work.entry.key.as_str().parse::<StageKey>() {
            Ok(key) => key,
            Err(error) => {
                let reason = error.to_string();
                return Outcome::Dead { reason };
            }
        };
        if let Some(at) = self.gathers_until(&key, &work).await {
            return Outcome::Release { at: Some(at) };
        }
        let admitted = tokio::select! {
            admitted = self.0.parts.admission.admit(self.need_bytes(&key)) => admitted,
            () = work.stop.cancelled() => return Outcome::Release { at: None },
            () = work.lost.cancelled() => return Outcome::Release { at: None },
        };
        let outcome = self.execute(&key, &work).await;
        drop(admitted);
        outcome
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").finish_non_exhaustive()
    }
}
