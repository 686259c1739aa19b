//! Reading the configuration again: on SIGHUP, and every minute when it comes from a URL.

use std::io;
use std::time::Duration;

use cannery_runtime::{Tasks, shutdown};
use tokio::sync::watch;

use super::Context;
use crate::config::Config;
use crate::config::source::{LastGood, Loader, Source};
use crate::config::units::Span;

const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Starts following the configuration, which was `config` before the command line had its say. What can change while running is handed out as a channel; a change to anything else
/// is reported and takes effect at the next start.
pub(super) fn follow(
    tasks: &Tasks,
    context: &Context,
    config: &Config,
) -> io::Result<watch::Receiver<Span>> {
    let (flush_timeout, receiver) = watch::channel(config.flush_timeout);
    let mut requests = shutdown::reload_requests()?;
    let (loader, clock, stop) = (
        context.loader.clone(),
        context.clock.clone(),
        tasks.stopping(),
    );
    let from_url = matches!(loader.source, Source::Url(_));
    let mut current = config.clone();
    tasks.spawn("config reload", async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = requests.recv() => {}
                () = clock.sleep(LOOK_EVERY), if from_url => {}
            }
            match loader.load().await {
                Ok((new, copy)) => {
                    apply(&mut current, new, &flush_timeout);
                    if let Some(copy) = copy {
                        keep(&loader, copy).await;
                    }
                }
                Err(error) => tracing::error!(%error, "the configuration is not reloaded; the old one stays in force"),
            }
        }
    });
    Ok(receiver)
}

/// Keeps the copy where it holds up nobody else.
pub(super) async fn keep(loader: &Loader, copy: LastGood) {
    let loader = loader.clone();
    let kept = tokio::task::spawn_blocking(move || loader.keep(&copy)).await;
    if let Err(error) = kept {
        tracing::error!(%error, "cannot keep a copy of the configuration");
    }
}

fn apply(current: &mut Config, new: Config, flush_timeout: &watch::Sender<Span>) {
    let fixed = current.fixed_changes(&new);
    if !fixed.is_empty() {
        tracing::warn!(
            keys = fixed.join(", "),
            "changed in the configuration, but only a restart changes them"
        );
    }
    flush_timeout.send_replace(new.flush_timeout);
    let changed = *current != new;
    *current = new;
    tracing::info!(changed, "the configuration was read again");
}
