//! Reading the configuration again: on SIGHUP, and every minute when it comes from a URL.

use std::io;
use std::time::Duration;

use cannery_runtime::{Tasks, shutdown};
use cannery_serve::Notices;

use super::Context;
use crate::config::Config;
use crate::config::source::{LastGood, Loader, Source};
use crate::failure::{ExitCode, Failure};

const LOOK_EVERY: Duration = Duration::from_secs(60);

/// What the pages say while a configuration is not used.
const NOTICE: &str = "configuration";

/// Starts following the configuration, which was `config` before the command line had its say. What can change while
/// running is handed to `apply`; a change to anything else is reported and takes effect at the next start. A new
/// configuration that is wrong is not used, and the pages say so.
pub(super) fn follow(
    tasks: &Tasks,
    context: &Context,
    config: &Config,
    notices: &Notices,
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
    let (mut current, notices) = (config.clone(), notices.clone());
    tasks.spawn("config reload", async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = requests.recv() => {}
                () = clock.sleep(LOOK_EVERY), if from_url => {}
            }
            match loader.load().await {
                Ok((new, copy)) => {
                    report_fixed(&current, &new);
                    apply(&new);
                    tracing::info!(changed = current != new, "the configuration was read again");
                    current = new;
                    notices.clear(NOTICE);
                    if let Some(copy) = copy {
                        keep(&loader, copy).await;
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "the configuration is not reloaded; the old one stays in force");
                    notices.set(NOTICE, format!("the new configuration is not used: {error}"));
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
