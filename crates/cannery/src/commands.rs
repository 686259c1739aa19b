//! One file a command: each takes its arguments and what it needs, and returns an exit code or a failure.

pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod lake;
pub(crate) mod manual;
pub(crate) mod up;

use cannery_lake::{LakeMetrics, RetryPolicy};
use cannery_runtime::{Clock, Rng};

use crate::cli::Global;
use crate::config::Config;
use crate::config::environment::Environment;
use crate::config::source::{Loader, Source};
use crate::failure::Failure;
use crate::lakes::Tools;
use crate::output::Output;

/// What every command gets.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) output: Output,
    pub(crate) clock: Clock,
    pub(crate) rng: Rng,
    pub(crate) loader: Loader,
    pub(crate) variables: Vec<(String, String)>,
}

impl Context {
    pub(crate) fn new(global: &Global, clock: Clock, variables: Vec<(String, String)>) -> Self {
        let environment = Environment::all(variables.clone());
        let (source, environment) = match (&global.config_url, &global.config_file) {
            (Some(url), _) => {
                let url = cannery_runtime::PrivateUrl::new(url);
                (
                    Source::Url(url),
                    environment.only(global.config_env.clone()),
                )
            }
            (None, Some(file)) => (Source::File(file.clone()), environment),
            (None, None) => (Source::Embedded, environment),
        };
        let loader = Loader {
            source,
            environment,
            workspace: global.workspace.clone(),
            allow_http: global.config_insecure,
        };
        Self {
            output: Output { json: global.json },
            clock,
            rng: Rng::from_os(),
            loader,
            variables,
        }
    }

    pub(crate) async fn config(&self) -> Result<Config, Failure> {
        Ok(self.loader.load().await?)
    }

    /// What lakes are made with. A person at a terminal is not kept waiting as long as a daemon waits.
    pub(crate) fn tools(&self, patience: Patience) -> Tools {
        let deadline = match patience {
            Patience::Person => std::time::Duration::from_secs(10),
            Patience::Daemon => RetryPolicy::default().deadline,
        };
        Tools {
            clock: self.clock.clone(),
            rng: self.rng.clone(),
            metrics: LakeMetrics::default(),
            retry: RetryPolicy {
                deadline,
                ..RetryPolicy::default()
            },
            variables: self.variables.clone(),
        }
    }
}

/// Who waits for the lake.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    Person,
    Daemon,
}
