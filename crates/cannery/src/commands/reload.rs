//! Reading the configuration again: on SIGHUP, and every minute when it comes from a URL.

use std::io;
use std::time::Duration;

use cannery_runtime::{Clock, Tasks, shutdown};
use cannery_serve::Notices;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::Context;
use crate::config::Config;
use crate::config::source::{LastGood, LoadError, Loader, Source};
use crate::failure::{ExitCode, Failure};

const LOOK_EVERY: Duration = Duration::from_secs(60);

/// What the pages say while a configuration is not used.
const NOTICE: &str = "configuration";

/// The text of it: somebody has to mend a mistake, while what cannot be read may come back by itself.
fn notice(error: &LoadError) -> String {
    match error {
        LoadError::Invalid { .. } => format!("the new configuration is not used: {error}"),
        LoadError::Unreadable { .. } => {
            format!("the configuration in force may be an old one: {error}")
        }
    }
}

/// How often the configuration was read again, as metrics; clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Reloads {
    reloads: Family<[(&'static str, &'static str); 1], Counter>,
    last_good: Gauge,
}

impl Reloads {
    /// The configuration that the process started with is good.
    pub(super) fn new(clock: &Clock) -> Self {
        let reloads = Self {
            reloads: Family::default(),
            last_good: Gauge::default(),
        };
        for outcome in ["ok", "failed"] {
            // That there was none is worth showing too.
            let none = reloads.reloads.get_or_create(&[("outcome", outcome)]);
            none.inc_by(0);
        }
        reloads.last_good.set(clock.now().as_second());
        reloads
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("cannery_config");
        registry.register(
            "reloads",
            "How often the configuration was read again while running",
            self.reloads.clone(),
        );
        registry.register_with_unit(
            "last_good_timestamp",
            "When the configuration was last read and found good, since 1970",
            Unit::Seconds,
            self.last_good.clone(),
        );
    }

    fn succeeded(&self, clock: &Clock) {
        self.count("ok");
        self.last_good.set(clock.now().as_second());
    }

    fn failed(&self) {
        self.count("failed");
    }

    fn count(&self, outcome: &'static str) {
        self.reloads.get_or_create(&[("outcome", outcome)]).inc();
    }
}

/// Starts following the configuration, which was `config` before the command line had its say. What can change while
/// running is handed to `apply`; a change to anything else is reported and takes effect at the next start. A new
/// configuration that is wrong is not used, one that cannot be read changes nothing, and the pages say so.
pub(super) fn follow(
    tasks: &Tasks,
    context: &Context,
    config: &Config,
    (notices, reloads): (&Notices, &Reloads),
    apply: impl Fn(&Config) + Send + 'static,
) -> Result<(), Failure> {
    let requests = shutdown::reload_requests();
    let mut requests = requests.map_err(|error| no_signals(&error))?;
    let (loader, clock, stop) = (
        context.loader.clone(),
        context.clock.clone(),
        tasks.stopping(),
    );
    let from_url = matches!(loader.source, Source::Url(_));
    let (mut in_force, notices, reloads) = (config.clone(), notices.clone(), reloads.clone());
    let mut last_read = config.clone();
    tasks.spawn("config reload", async move {
        loop {
            let is_asked = tokio::select! {
                () = stop.cancelled() => return,
                _ = requests.recv() => true,
                () = clock.sleep(LOOK_EVERY), if from_url => false,
            };
            match loader.load_again().await {
                Ok((new, copy)) => {
                    // A URL is looked at every minute: the same is not said each time.
                    if is_asked || last_read != new {
                        report_fixed(&in_force, &new);
                    }
                    apply(&new);
                    let changed = in_force.take_over(&new);
                    tracing::info!(changed, "the configuration was read again");
                    last_read = new;
                    notices.clear(NOTICE);
                    reloads.succeeded(&clock);
                    if let Some(copy) = copy {
                        keep(&loader, copy).await;
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "the configuration is not reloaded; the old one stays in force");
                    reloads.failed();
                    notices.set(NOTICE, notice(&error));
                }
            }
        }
    });
    Ok(())
}

fn no_signals(error: &io::Error) -> Failure {
    let message = format!("cannot listen for signals: {error}");
    let next = "check the limits of this process";
    Failure::new(ExitCode::Error, "signals", message, next)
}

/// Keeps the copy where it holds up nobody else.
pub(super) async fn keep(loader: &Loader, copy: LastGood) {
    let loader = loader.clone();
    let kept = tokio::task::spawn_blocking(move || loader.keep(&copy)).await;
    if let Err(error) = kept {
        tracing::error!(%error, "cannot keep a copy of the configuration");
    }
}

fn report_fixed(current: &Config, new: &Config) {
    let fixed = current.fixed_changes(new);
    if !fixed.is_empty() {
        tracing::warn!(
            keys = fixed.join(", "),
            "changed in the configuration, but only a restart changes them"
        );
    }
}

#[cfg(test)]
mod tests {
    use cannery_runtime::clock::SimulatedClock;
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[tokio::test]
    async fn a_reload_that_failed_does_not_move_the_time_of_the_good_one() {
        let time = SimulatedClock::starting_at("2026-11-15T18:00:00Z".parse().unwrap());
        let (clock, mut registry) = (time.clock(), Registry::default());
        let start = clock.now().as_second();
        let reloads = Reloads::new(&clock);
        reloads.register(&mut registry);
        let shown = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            let value = |series: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(series));
                line.unwrap().trim().parse::<i64>().unwrap()
            };
            [
                value(r#"cannery_config_reloads_total{outcome="ok"}"#),
                value(r#"cannery_config_reloads_total{outcome="failed"}"#),
                value("cannery_config_last_good_timestamp_seconds "),
            ]
        };
        assert_eq!(shown(), [0, 0, start]);
        time.advance(Duration::from_secs(60)).await;
        reloads.failed();
        assert_eq!(shown(), [0, 1, start]);
        reloads.succeeded(&clock);
        assert_eq!(shown(), [1, 1, start + 60]);
    }
}
