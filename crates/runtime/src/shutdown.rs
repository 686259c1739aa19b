//! SIGTERM and SIGINT as one cancellation, SIGHUP as a stream of reload requests.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancels `stop` at the first SIGTERM or SIGINT. Call it once, early: from then on the process no longer dies of them.
///
/// A second signal ends the process at once with the conventional code, for the person who does not want to wait.
///
/// # Errors
/// When the signal handlers cannot be installed.
pub fn cancel_on_signal(stop: CancellationToken) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        let name = next_of(&mut terminate, &mut interrupt).await;
        tracing::info!(signal = name, "stopping; once more to stop at once");
        stop.cancel();
        next_of(&mut terminate, &mut interrupt).await;
        #[allow(clippy::exit, reason = "the person asked twice")]
        std::process::exit(130);
    });
    Ok(())
}

async fn next_of(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}

/// Every SIGHUP from now on.
///
/// # Errors
/// When the signal handler cannot be installed.
pub fn reload_requests() -> io::Result<Signal> {
    signal(SignalKind::hangup())
}
