//! Executions of stages, told to the state. What goes wrong with it is logged, and is never the trouble of a stage.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cannery_pipeline::line::{Ended, Execution, History};
use cannery_pipeline::stage::{Stage, StageKey};
use cannery_runtime::Clock;
use cannery_state::{Begin, End, Outcome, Recorder, RecorderOptions, State, Ticket};
use jiff::Timestamp;
use serde::Serialize;

use crate::commands::Context;
use crate::config::Config;
use crate::failure::Failure;
use crate::plant;

/// How long the end of a process waits for what is not written yet.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// Tells the state of every execution of this process.
pub(crate) struct StateHistory {
    state: State,
    recorder: Recorder,
    /// What has begun, by its key and the moment; twice the same are two tickets.
    begun: Mutex<HashMap<(String, Timestamp), Vec<Ticket>>>,
}

impl StateHistory {
    /// Opens the state; a new one where there is none.
    pub(crate) async fn open(config: &Config, context: &Context) -> Result<Arc<Self>, Failure> {
        let state = plant::state(config, context).await?;
        let options = RecorderOptions::of(&config.node);
        let recorder = Recorder::start(&state, &options, &context.rng);
        Ok(Arc::new(Self {
            state,
            recorder,
            begun: Mutex::default(),
        }))
    }

    /// The same for whoever runs without it, too.
    pub(crate) async fn open_or_warn(config: &Config, context: &Context) -> Option<Arc<Self>> {
        let opened = Self::open(config, context).await;
        let opened = opened.inspect_err(|failure| {
            let (message, next) = (failure.message.as_str(), failure.next.as_str());
            tracing::warn!(next, "this will not be in the history: {message}");
        });
        opened.ok()
    }

    /// Writes what waits, for a bounded time, and closes the state.
    pub(crate) async fn close(&self) {
        self.recorder.close(CLOSE_LIMIT).await;
        self.state.close().await;
    }

    fn begun(&self) -> MutexGuard<'_, HashMap<(String, Timestamp), Vec<Ticket>>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, key: &str, start: Timestamp) -> Option<Ticket> {
        let mut begun = self.begun();
        let place = (key.to_owned(), start);
        let tickets = begun.get_mut(&place)?;
        let ticket = tickets.pop();
        if tickets.is_empty() {
            begun.remove(&place);
        }
        ticket
    }
}

impl History for StateHistory {
    fn began(&self, stage: Stage, key: &str, attempt: u32, start: Timestamp) {
        let ticket = self.recorder.begin(begin(stage, key, attempt, start));
        let mut begun = self.begun();
        let place = (key.to_owned(), start);
        begun.entry(place).or_default().push(ticket);
    }

    fn executed(&self, execution: &Execution) {
        let Execution {
            stage,
            key,
            attempt,
            start,
            ..
        } = execution;
        let end = end(execution);
        match self.take(key, *start) {
            Some(ticket) => self.recorder.end(ticket, &end),
            None => {
                let begin = begin(*stage, key, *attempt, *start);
                self.recorder.record(begin, &end);
            }
        }
    }
}

fn begin(stage: Stage, key: &str, attempt: u32, started: Timestamp) -> Begin {
    let parts = key.parse::<StageKey>().ok();
    let (bucket, kind, slice) = match parts {
        Some(parts) => (Some(parts.bucket), parts.kind, parts.slice),
        None => (None, None, None),
    };
    Begin {
        stage: stage.name().to_owned(),
        key: key.to_owned(),
        bucket: bucket.map(|bucket| bucket.to_string()),
        kind: kind.map(|kind| kind.to_string()),
        slice,
        attempt,
        started,
    }
}

fn end(execution: &Execution) -> End {
    let (outcome, reason) = match &execution.ended {
        Ended::Done => (Outcome::Done, None),
        Ended::PutOff(reason) => (Outcome::PutOff, Some(reason.clone())),
        Ended::Retried(reason) => (Outcome::Retried, Some(reason.clone())),
        Ended::Failed(reason) => (Outcome::Failed, Some(reason.clone())),
        Ended::Lost => {
            let reason = "its lease was lost: somebody else does it";
            (Outcome::Lost, Some(reason.to_owned()))
        }
        Ended::CutOff => (Outcome::CutOff, None),
    };
    End {
        ended: execution.end,
        bytes_in: execution.bytes_in,
        bytes_out: execution.bytes_out,
        outcome,
        reason,
        report: execution.report.clone(),
    }
}

/// The history of a command that runs stages by hand. Without a state the command runs all the same.
pub(crate) struct ByHand {
    history: Option<Arc<StateHistory>>,
    clock: Clock,
}

impl ByHand {
    pub(crate) async fn open(config: &Config, context: &Context) -> Self {
        Self {
            history: StateHistory::open_or_warn(config, context).await,
            clock: context.clock.clone(),
        }
    }

    /// Runs a stage and tells of it. `bytes` is what it read and wrote.
    pub(crate) async fn run<T: Serialize, E: Display>(
        &self,
        key: &StageKey,
        bytes: impl Fn(&T) -> (u64, u64),
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let Some(history) = &self.history else {
            return work.await;
        };
        let start = self.clock.now();
        let mut execution = Execution {
            stage: key.stage,
            key: key.to_string(),
            attempt: 1,
            start,
            end: start,
            bytes_in: 0,
            bytes_out: 0,
            ended: Ended::Done,
            report: serde_json::Value::Null,
        };
        history.began(key.stage, &execution.key, 1, start);
        let done = work.await;
        execution.end = self.clock.now();
        match &done {
            Ok(report) => {
                (execution.bytes_in, execution.bytes_out) = bytes(report);
                execution.report = serde_json::to_value(report).unwrap_or_default();
            }
            Err(error) => execution.ended = Ended::Failed(error.to_string()),
        }
        history.executed(&execution);
        done
    }

    pub(crate) async fn close(&self) {
        if let Some(history) = &self.history {
            history.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use cannery_runtime::Rng;
    use cannery_state::Filter;

    use super::*;

    const KEY: &str = "autoclave/2026-11-15/ndt/ndt.0.tar.lz4";

    fn execution(key: &str, start: Timestamp, ended: Ended) -> Execution {
        Execution {
            stage: Stage::Autoclave,
            key: key.to_owned(),
            attempt: 2,
            start,
            end: start + jiff::SignedDuration::from_secs(3),
            bytes_in: 20,
            bytes_out: 10,
            ended,
            report: serde_json::json!({"a": 1}),
        }
    }

    #[tokio::test]
    async fn what_the_line_tells_is_in_the_state() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.sqlite");
        let state = State::open(path.to_str().unwrap(), Clock::real()).await;
        let state = state.unwrap();
        let options = RecorderOptions::of("node-1");
        let history = StateHistory {
            recorder: Recorder::start(&state, &options, &Rng::seeded(1)),
            state: state.clone(),
            begun: Mutex::default(),
        };
        let now = Clock::real().now();
        // The same work twice in the same moment.
        history.began(Stage::Autoclave, KEY, 2, now);
        history.began(Stage::Autoclave, KEY, 2, now);
        assert!(history.recorder.flush().await);
        assert_eq!(state.running().await.unwrap().len(), 2);
        history.executed(&execution(KEY, now, Ended::Done));
        assert!(history.recorder.flush().await);
        assert_eq!(state.running().await.unwrap().len(), 1);
        history.executed(&execution(KEY, now, Ended::Lost));
        assert!(history.begun().is_empty());
        let all = [
            (Ended::PutOff("a".to_owned()), Outcome::PutOff),
            (Ended::Retried("b".to_owned()), Outcome::Retried),
            (Ended::Failed("c".to_owned()), Outcome::Failed),
            (Ended::CutOff, Outcome::CutOff),
        ];
        for (ended, _) in &all {
            history.executed(&execution("odd", now, ended.clone()));
        }
        assert!(history.recorder.flush().await);
        let page = state.executions(&Filter::default(), None, 100).await;
        let mut found = page.unwrap().items;
        found.reverse();
        assert_eq!(found.len(), 6);
        assert!(
            found
                .iter()
                .all(|one| one.ended == Some(found[0].ended.unwrap()))
        );
        let parts = [&found[0].bucket, &found[0].kind, &found[0].slice];
        let parts = parts.map(|part| part.as_deref().unwrap());
        assert_eq!(parts, ["2026-11-15", "ndt", "ndt.0.tar.lz4"]);
        let mut first = [found[0].result, found[1].result];
        first.sort_unstable();
        assert_eq!(first, [Outcome::Done, Outcome::Lost]);
        for (one, (ended, outcome)) in found[2..].iter().zip(&all) {
            assert_eq!((one.result, &one.bucket, one.attempt), (*outcome, &None, 2));
            let told = serde_json::to_value(ended).unwrap();
            assert_eq!(one.reason.as_deref(), told["reason"].as_str(), "{ended:?}");
        }
        history.close().await;
    }
}
