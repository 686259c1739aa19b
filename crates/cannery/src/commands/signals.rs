//! Requests to stop a command that would go on by itself.

use cannery_runtime::shutdown::StopRequests;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::failure::{ExitCode, Failure};

/// The first request cancels `stop`; the second ends the process at once, for the person who does not want to wait.
pub(super) fn follow(stop: CancellationToken) -> Result<AbortOnDropHandle<()>, Failure> {
    follow_with(stop, || {})
}

/// The same, with what must be done even when the process ends at once.
pub(super) fn follow_with(
    stop: CancellationToken,
    at_last: impl FnOnce() + Send + 'static,
) -> Result<AbortOnDropHandle<()>, Failure> {
    let mut requests = StopRequests::listen().map_err(|error| {
        Failure::new(
            ExitCode::Error,
            "signals",
            format!("cannot listen for signals: {error}"),
            "check the limits of this process",
        )
    })?;
    Ok(AbortOnDropHandle::new(tokio::spawn(async move {
        let signal = requests.next().await;
        tracing::info!(signal, "stopping; once more to stop at once");
        stop.cancel();
        requests.next().await;
        at_last();
        #[allow(clippy::exit, reason = "the person asked twice")]
        std::process::exit(130);
    })))
}
