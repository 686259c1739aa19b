//! One file a command: each takes its arguments and what it needs, and returns an exit code or a failure.

pub(crate) mod archive;
pub(crate) mod archive_list;
mod archive_watch;
pub(crate) mod backfill;
pub(crate) mod check;
pub(crate) mod collect;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod feed;
mod feed_watch;
pub(crate) mod gaps;
pub(crate) mod history;
pub(crate) mod hours;
pub(crate) mod journal;
pub(crate) mod lake;
mod lake_watch;
mod line_watch;
pub(crate) mod manual;
pub(crate) mod rebuild;
pub(crate) mod records;
pub(crate) mod redact;
mod reload;
pub(crate) mod retrieve;
pub(crate) mod schema;
mod signals;
mod site;
pub(crate) mod spool;
mod spool_watch;
pub(crate) mod stor;
pub(crate) mod token;
pub(crate) mod trace;
pub(crate) mod up;
pub(crate) mod user;
pub(crate) mod work;

use std::path::PathBuf;
use std::sync::Arc;

use cannery_lake::{LakeMetrics, RetryPolicy};
use cannery_runtime::disk::Disk;
use cannery_runtime::{Clock, PrivateUrl, Rng, Secret};

use crate::cli::Global;
use crate::config::Config;
use crate::config::environment::Environment;
use crate::config::source::{Loader, Source};
use crate::failure::Failure;
use crate::lakes::Tools;
use crate::output::Output;

/// What every command gets.
pub(crate) struct Context {
    pub(crate) output: Output,
    pub(crate) clock: Clock,
    pub(crate) rng: Rng,
    disk: Arc<dyn Disk>,
    pub(crate) loader: Loader,
    /// What the stores may know of the environment.
    pub(crate) variables: Vec<(String, String)>,
    /// The credential for a server, which no configuration gets to know.
    pub(crate) api_token: Option<Secret>,
    /// Where programs are looked for.
    pub(crate) program_folders: String,
    /// Where files may lie for a while.
    pub(crate) temporary: PathBuf,
    /// The arguments that lead another command to the same place.
    pub(crate) same_place: String,
}

impl Context {
    pub(crate) fn new(
        global: &Global,
        clock: Clock,
        disk: Arc<dyn Disk>,
        variables: Vec<(String, String)>,
    ) -> Self {
        let environment = Environment::all(variables.clone());
        let variable = |wanted: &str| {
            let mut found = variables.iter().filter(|(name, _)| name == wanted);
            found.next().map(|(_, value)| value.clone())
        };
        let program_folders = variable("PATH").unwrap_or_default();
        let api_token = variable("CANNERY_TOKEN").filter(|token| !token.is_empty());
        let temporary = variable("TMPDIR").filter(|folder| !folder.is_empty());
        let temporary = temporary.map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
        let (source, environment, variables) = match (&global.config_url, &global.config_file) {
            (Some(url), _) => {
                // Its author chooses where requests go, so they carry only what was allowed.
                let allowed = |name: &String| global.config_env.contains(name);
                let variables = variables
                    .into_iter()
                    .filter(|(name, _)| allowed(name))
                    .collect();
                (
                    Source::Url(PrivateUrl::new(url)),
                    environment.only(global.config_env.clone()),
                    variables,
                )
            }
            (None, Some(file)) => (Source::File(file.clone()), environment, variables),
            (None, None) => (Source::Embedded, environment, variables),
        };
        Self {
            output: Output::new(global.json),
            clock,
            rng: Rng::from_os(),
            disk,
            loader: Loader {
                source,
                environment,
                workspace: global.workspace.clone(),
                allowed: global.config_allow.clone(),
                allow_http: global.config_insecure,
            },
            variables,
            api_token: api_token.map(Secret::new),
            program_folders,
            temporary,
            same_place: same_place(global),
        }
    }

    /// The disk that is written to.
    pub(crate) fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk)
    }

    pub(crate) async fn config(&self) -> Result<Config, Failure> {
        Ok(self.loader.load().await?.0)
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
            disk: self.disk(),
            metrics: LakeMetrics::default(),
            retry: RetryPolicy {
                deadline,
                ..RetryPolicy::default()
            },
            variables: self.variables.clone(),
        }
    }
}

fn same_place(global: &Global) -> String {
    let mut arguments = String::new();
    if let Some(workspace) = &global.workspace {
        arguments += &format!(" --workspace {}", workspace.display());
    }
    match (&global.config_url, &global.config_file) {
        (Some(url), _) => {
            arguments += &format!(" --config-url {}", PrivateUrl::new(url));
            arguments += &permissions(global);
        }
        (None, Some(file)) => arguments += &format!(" --config-file {}", file.display()),
        (None, None) => {}
    }
    arguments
}

/// What a configuration from a URL may do.
fn permissions(global: &Global) -> String {
    let allowed = global.config_allow.iter().map(|it| it.word().to_owned());
    let lists = [
        ("--config-env", global.config_env.clone()),
        ("--config-allow", allowed.collect()),
    ];
    let mut arguments = String::new();
    for (flag, words) in lists.iter().filter(|(_, words)| !words.is_empty()) {
        arguments += &format!(" {flag} {}", words.join(","));
    }
    if global.config_insecure {
        arguments += " --config-insecure";
    }
    arguments
}

/// Who waits for the lake.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    Person,
    Daemon,
}

#[cfg(test)]
mod tests {
    use super::*;
    use cannery_runtime::RealDisk;
    use clap::Parser as _;

    fn context(arguments: &[&str]) -> Context {
        let cli = crate::cli::Cli::parse_from(arguments.iter().copied().chain(["doctor"]));
        let variables =
            ["AWS_SESSION_TOKEN", "AWS_REGION"].map(|name| (name.to_owned(), "value".to_owned()));
        Context::new(
            &cli.global,
            Clock::real(),
            Arc::new(RealDisk),
            variables.to_vec(),
        )
    }

    #[test]
    fn the_author_of_a_remote_configuration_gets_no_variable_that_was_not_allowed() {
        let names = |context: &Context| {
            context
                .variables
                .iter()
                .map(|(name, _)| name.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&context(&["cannery"])).len(), 2);
        assert_eq!(
            names(&context(&["cannery", "--config-url", "https://h/c.yml"])),
            Vec::<String>::new()
        );
        let allowed = [
            "cannery",
            "--config-url",
            "https://h/c.yml",
            "--config-env",
            "AWS_REGION",
        ];
        assert_eq!(names(&context(&allowed)), ["AWS_REGION"]);
    }

    #[test]
    fn the_next_steps_lead_to_the_same_place() {
        let context = context(&["cannery", "--workspace", "/srv/x", "--config-file", "c.yml"]);
        assert_eq!(
            context.same_place,
            " --workspace /srv/x --config-file c.yml"
        );
        let said = "--config-url https://h/c.yml --config-env A,B --config-allow private --config-insecure";
        let arguments: Vec<&str> = ["cannery"].into_iter().chain(said.split(' ')).collect();
        assert_eq!(self::context(&arguments).same_place, format!(" {said}"));
    }
}
